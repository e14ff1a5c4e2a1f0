//! The tree of names against a flat sorted map.

use std::collections::BTreeMap;

use super::block_on;
use proptest::prelude::*;

use super::*;
use crate::store::{DeleteSnapshots, RenameMode};

#[derive(Clone, Debug)]
enum Step {
    Put(String),
    Delete(String),
    Rename(String, String, RenameMode),
}

/// Few names with characters on both sides of the slash, so that order matters and steps meet.
fn name() -> impl Strategy<Value = String> {
    let segment = prop::sample::select(vec!["a", "a!", "a-b", "a0", "b", "ä"]);
    (prop::collection::vec(segment, 1..4), prop::bool::weighted(0.1))
        .prop_map(|(segments, slash)| segments.join("/") + if slash { "/" } else { "" })
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop::sample::select(vec![RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]);
    prop_oneof![
        4 => name().prop_map(Step::Put),
        2 => name().prop_map(Step::Delete),
        2 => (name(), name(), mode).prop_map(|(from, to, mode)| Step::Rename(from, to, mode)),
    ]
}

type Model = BTreeMap<String, String>;

fn below(model: &Model, name: &str) -> bool {
    model.keys().any(|key| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('/')))
}

/// Everything named `from` or below it, moved to `to`.
fn moved(model: &mut Model, from: &str, to: &str) -> Vec<(String, String)> {
    let keys: Vec<String> = model
        .keys()
        .filter(|key| key.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
        .cloned()
        .collect();
    let take = |key: String| {
        let value = model.remove(&key).unwrap();
        (format!("{to}{}", &key[from.len()..]), value)
    };
    keys.into_iter().map(take).collect()
}

fn rename(bench: &Bench, model: &mut Model, from: &str, to: &str, mode: RenameMode) {
    // Names with a trailing slash, and moves into oneself, are not for callers of rename.
    let inside = |a: &str, b: &str| b.strip_prefix(a).is_some_and(|rest| rest.starts_with('/'));
    if from.ends_with('/') || to.ends_with('/') || inside(from, to) || inside(to, from) {
        return;
    }
    let exists = |model: &Model, name: &str| model.contains_key(name) || below(model, name);
    let expected = exists(model, from)
        && match mode {
            RenameMode::Replace => from == to || !below(model, to),
            RenameMode::NoReplace => !exists(model, to),
            RenameMode::Exchange => exists(model, to),
        };
    let done = bench.store.rename(&at(from), &at(to), mode);
    assert_eq!(done.is_ok(), expected, "{from} -> {to} {mode:?}: {done:?}");
    if !expected || from == to {
        return;
    }
    let there = moved(model, from, to);
    let back = if mode == RenameMode::Exchange { moved(model, to, from) } else { Vec::new() };
    model.remove(to);
    model.extend(there.into_iter().chain(back));
}

fn folded(model: &Model, prefix: &str, delimiter: &str) -> Vec<String> {
    let mut out: Vec<String> = model
        .keys()
        .filter_map(|key| {
            let rest = key.strip_prefix(prefix)?;
            let end = rest.find(delimiter).map_or(rest.len(), |place| place + delimiter.len());
            Some(format!("{prefix}{}", &rest[..end]))
        })
        .collect();
    out.dedup();
    out
}

fn compare(bench: &Bench, model: &Model) {
    for prefix in ["", "a", "a/", "a/a", "a!", "b/", "ä/", "zz"] {
        let flat: Vec<String> = model.keys().filter(|key| key.starts_with(prefix)).cloned().collect();
        assert_eq!(bench.list(prefix, None), flat, "prefix {prefix:?}");
        for delimiter in ["/", "-", "a/"] {
            assert_eq!(
                bench.list(prefix, Some(delimiter)),
                folded(model, prefix, delimiter),
                "prefix {prefix:?} delimiter {delimiter:?}"
            );
        }
    }
    for (name, value) in model {
        assert_eq!(bench.read(name), value.as_bytes(), "{name}");
    }
}

fn compare_markers(bench: &Bench, model: &Model, marker: &str) {
    for delimiter in [None, Some("/".to_owned())] {
        let query = ListQuery {
            prefix: String::new(),
            delimiter: delimiter.clone(),
            marker: Some(marker.into()),
            max: 1000,
            ..ListQuery::default()
        };
        let page = block_on(bench.store.list_blobs(&share(), &query)).unwrap();
        let names: Vec<String> = page
            .items
            .into_iter()
            .map(|item| match item {
                ListItem::Blob { name, .. }
                | ListItem::Prefix { name, .. }
                | ListItem::Snapshot { name, .. }
                | ListItem::Uncommitted { name, .. } => name,
            })
            .collect();
        let behind: Model = model.range(marker.to_owned()..).map(|(k, v)| (k.clone(), v.clone())).collect();
        let expected = match &delimiter {
            None => behind.keys().cloned().collect(),
            Some(delimiter) => folded(&behind, "", delimiter),
        };
        assert_eq!(names, expected, "marker {marker:?} delimiter {delimiter:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_tree_is_a_sorted_map(steps in prop::collection::vec(step(), 1..40), marker in name()) {
        let bench = Bench::new(small());
        let mut model = Model::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Put(name) => {
                    let value = format!("{number}");
                    bench.put(&name, value.as_bytes());
                    model.insert(name, value);
                }
                Step::Delete(name) => {
                    let (place, none) = (at(&name), Preconditions::default());
                    let done = block_on(bench.store.delete_blob(&place, DeleteSnapshots::Refuse, &none));
                    prop_assert_eq!(done.is_ok(), model.remove(&name).is_some());
                }
                Step::Rename(from, to, mode) => rename(&bench, &mut model, &from, &to, mode),
            }
        }
        compare(&bench, &model);
        compare_markers(&bench, &model, &marker);
        bench.assert_clean();
        bench.store.slots.clear();
        compare(&bench, &model);
        let bench = bench.reopen(small());
        compare(&bench, &model);
    }
}
