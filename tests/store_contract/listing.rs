//! The contract of listings: order, prefix, delimiter, marker.

use leasefs::store::{ListItem, ListQuery};

use crate::support::*;

fn query(prefix: &str, delimiter: Option<&str>, marker: Option<&str>, max: usize) -> ListQuery {
    ListQuery {
        prefix: prefix.into(),
        delimiter: delimiter.map(str::to_owned),
        marker: marker.map(str::to_owned),
        max,
        ..ListQuery::default()
    }
}

/// Blobs by name, folded prefixes with a star behind.
async fn list(bench: &Bench, query: &ListQuery) -> (Vec<String>, Option<String>) {
    let page = bench.store.list_blobs(&share(), query).await.unwrap();
    let text = |item| match item {
        ListItem::Blob { name, .. } => name,
        ListItem::Prefix { name, .. } => name + "*",
        ListItem::Snapshot { name, .. } => name + "@",
        ListItem::Uncommitted { name, .. } => name + "?",
    };
    (page.items.into_iter().map(text).collect(), page.next)
}

async fn fill(bench: &Bench, names: &[&str]) {
    for name in names {
        bench.put(name, name.as_bytes()).await;
    }
}

pub(crate) async fn flat_order_and_pages(bench: &Bench) {
    let names = ["a", "a!", "a-b", "a/b", "a/b/c", "a/c", "a0", "b", "ä"];
    let mut shuffled = names;
    shuffled.reverse();
    fill(bench, &shuffled).await;
    assert_eq!(list(bench, &query("", None, None, 100)).await, (names.map(str::to_owned).to_vec(), None));
    let mut got = Vec::new();
    let mut marker = None;
    loop {
        let (page, next) = list(bench, &query("", None, marker.as_deref(), 2)).await;
        assert!(page.len() <= 2);
        got.extend(page);
        match next {
            Some(next) => marker = Some(next),
            None => break,
        }
    }
    assert_eq!(got, names);
    let page = bench.store.list_blobs(&share(), &query("a/c", None, None, 1)).await.unwrap();
    let ListItem::Blob { properties, .. } = &page.items[0] else { panic!("a blob is listed as one") };
    assert_eq!(*properties, bench.properties("a/c").await.unwrap());
}

pub(crate) async fn folded_at_slashes(bench: &Bench) {
    fill(bench, &["d", "d/1", "d/2", "d/e/3", "f", "g/h/i"]).await;
    assert_eq!(list(bench, &query("", Some("/"), None, 100)).await.0, ["d", "d/*", "f", "g/*"]);
    assert_eq!(list(bench, &query("d/", Some("/"), None, 100)).await.0, ["d/1", "d/2", "d/e/*"]);
    assert_eq!(list(bench, &query("d", Some("/"), None, 100)).await.0, ["d", "d/*"]);
    assert_eq!(list(bench, &query("g/h", Some("/"), None, 100)).await.0, ["g/h/*"]);
    let (first, next) = list(bench, &query("", Some("/"), None, 2)).await;
    assert_eq!(first, ["d", "d/*"]);
    assert_eq!(list(bench, &query("", Some("/"), next.as_deref(), 2)).await.0, ["f", "g/*"]);
    assert_eq!(list(bench, &query("", Some("/"), Some("d/"), 2)).await.0, ["d/*", "f"]);
    assert_eq!(list(bench, &query("", Some("/"), Some("d/2"), 9)).await.0, ["d/*", "f", "g/*"]);
    assert_eq!(list(bench, &query("", Some("/"), Some("d/zzz"), 9)).await.0, ["f", "g/*"]);
}

pub(crate) async fn folded_at_other_text(bench: &Bench) {
    fill(bench, &["a-1", "a-2", "b", "c--d", "c--e/f", "c-x"]).await;
    assert_eq!(list(bench, &query("", Some("-"), None, 100)).await.0, ["a-*", "b", "c-*"]);
    assert_eq!(list(bench, &query("", Some("--"), None, 100)).await.0, ["a-1", "a-2", "b", "c--*", "c-x"]);
    let (first, next) = list(bench, &query("c-", Some("-"), None, 1)).await;
    assert_eq!(first, ["c--*"]);
    assert_eq!(
        list(bench, &query("c-", Some("-"), next.as_deref(), 1)).await,
        (vec!["c-x".to_owned()], None)
    );
}

pub(crate) async fn prefixes_and_markers(bench: &Bench) {
    fill(bench, &["a/1", "a/2", "b/1", "c"]).await;
    assert_eq!(list(bench, &query("a", None, None, 100)).await.0, ["a/1", "a/2"]);
    assert_eq!(list(bench, &query("a/", None, Some("a/2"), 100)).await.0, ["a/2"]);
    assert_eq!(list(bench, &query("b", None, Some("a/2"), 100)).await.0, ["b/1"]);
    assert!(list(bench, &query("a/", None, Some("b"), 100)).await.0.is_empty());
    assert!(list(bench, &query("a/", Some("/"), Some("b"), 100)).await.0.is_empty());
    assert!(list(bench, &query("nothing/", Some("/"), None, 100)).await.0.is_empty());
}

pub(crate) async fn names_with_trailing_slash(bench: &Bench) {
    fill(bench, &["d/", "d/x", "e/"]).await;
    assert_eq!(list(bench, &query("", None, None, 100)).await.0, ["d/", "d/x", "e/"]);
    assert_eq!(list(bench, &query("", Some("/"), None, 100)).await.0, ["d/*", "e/*"]);
    assert_eq!(list(bench, &query("d/", Some("/"), None, 100)).await.0, ["d/", "d/x"]);
    assert_eq!(bench.get("d/").await, "d/");
}

pub(crate) async fn snapshots_before_their_blob(bench: &Bench) {
    fill(bench, &["a", "b", "d/c"]).await;
    let mut expected = vec!["a".to_owned()];
    for name in ["b", "d/c"] {
        for _ in 0..3 {
            bench.store.snapshot_blob(&at(name), None, &ALWAYS).await.unwrap();
            bench.wait(1);
            expected.push(format!("{name}@"));
        }
        expected.push(name.to_owned());
    }
    for max in [1, 2, 3, 100] {
        let (mut names, mut marker) = (Vec::new(), None);
        loop {
            let query = ListQuery { snapshots: true, ..query("", None, marker.as_deref(), max) };
            let (page, next) = list(bench, &query).await;
            assert!(page.len() <= max);
            names.extend(page);
            marker = next;
            if marker.is_none() {
                break;
            }
        }
        assert_eq!(names, expected, "{max}");
    }
    let query = ListQuery { snapshots: true, ..query("b", None, None, 9) };
    let items = bench.store.list_blobs(&share(), &query).await.unwrap().items;
    let moments: Vec<_> = items
        .iter()
        .filter_map(|item| match item {
            ListItem::Snapshot { snapshot, .. } => Some(*snapshot),
            ListItem::Blob { .. } | ListItem::Prefix { .. } | ListItem::Uncommitted { .. } => None,
        })
        .collect();
    assert!(moments.len() == 3 && moments.is_sorted());
}

pub(crate) async fn uncommitted_names(bench: &Bench) {
    fill(bench, &["a", "c", "d/e"]).await;
    for name in ["a", "b", "d/a", "d/f", "x/y"] {
        let id = leasefs::store::BlockId(b"b1".to_vec());
        bench.store.put_block(&at(name), &id, "x".into(), None).await.unwrap();
    }
    assert_eq!(list(bench, &query("", None, None, 100)).await.0, ["a", "c", "d/e"]);
    let with =
        |prefix, delimiter, max| ListQuery { uncommitted: true, ..query(prefix, delimiter, None, max) };
    assert_eq!(list(bench, &with("", None, 100)).await.0, ["a", "b?", "c", "d/a?", "d/e", "d/f?", "x/y?"]);
    assert_eq!(list(bench, &with("", Some("/"), 100)).await.0, ["a", "b?", "c", "d/*", "x/*"]);
    assert_eq!(list(bench, &with("d/", Some("/"), 100)).await.0, ["d/a?", "d/e", "d/f?"]);
    let (first, next) = list(bench, &with("", None, 2)).await;
    assert_eq!(first, ["a", "b?"]);
    let rest = ListQuery { marker: next, ..with("", None, 2) };
    assert_eq!(list(bench, &rest).await.0, ["c", "d/a?"]);
}
