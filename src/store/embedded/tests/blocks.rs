//! Tests of block lists whose small blocks are put together.

use std::time::Duration;

use super::super::kv::Space;
use super::*;
use crate::store::conditions::EtagMatch;
use crate::store::embedded::Adopted;
use crate::store::{BlockId, BlockKind, BlockListEntry, StoreError};

fn stage(bench: &Bench, id: &str, body: &[u8]) {
    let id = BlockId(id.into());
    block_on(bench.store.put_block(&at("f"), &id, body.to_vec().into(), None)).unwrap();
}

fn list(ids: &[&str]) -> Vec<BlockListEntry> {
    let entry = |id: &&str| BlockListEntry { id: BlockId((*id).into()), kind: BlockKind::Latest };
    ids.iter().map(entry).collect()
}

fn commit(bench: &Bench, ids: &[&str]) -> Result<Arc<BlobProperties>, StoreError> {
    let (new, always) = (NewContent::default(), Preconditions::default());
    block_on(bench.store.put_block_list(&at("f"), &list(ids), new, &always))
}

#[test]
fn small_blocks_are_put_together_without_the_writer() {
    let bench = Bench::new(small());
    stage(&bench, "a", &[1; 10]);
    stage(&bench, "b", &[2; 16]);
    let store = Arc::clone(&bench.store);
    let (tell, told) = std::sync::mpsc::channel();
    // As if somebody else changed something all the time.
    let writer = bench.store.writer.lock();
    let other = std::thread::spawn(move || {
        let joined = store.join_ahead(&at("f"), &list(&["a", "b"]), &Preconditions::default());
        tell.send(joined.unwrap().is_some()).unwrap();
    });
    let joined = told.recv_timeout(Duration::from_secs(30)).expect("it waits for the writer");
    drop(writer);
    other.join().unwrap();
    assert!(joined);
    commit(&bench, &["a", "b"]).unwrap();
    assert_eq!(bench.read("f"), [&[1; 10][..], &[2; 16]].concat());
    bench.assert_clean();
}

#[test]
fn blocks_replaced_while_they_are_put_together_are_not_committed() {
    let bench = Bench::new(small());
    stage(&bench, "a", &[1; 10]);
    stage(&bench, "b", &[2; 16]);
    let always = Preconditions::default();
    let joined = bench.store.join_ahead(&at("f"), &list(&["a", "b"]), &always).unwrap().unwrap();
    stage(&bench, "b", &[3; 16]);
    let new = NewContent::default;
    let answer =
        bench.store.commit_list(&at("f"), &list(&["a", "b"]), new(), &always, Some(&joined)).unwrap();
    assert!(answer.is_none(), "an old block was committed");
    drop(joined);
    commit(&bench, &["a", "b"]).unwrap();
    assert_eq!(bench.read("f"), [&[1; 10][..], &[3; 16]].concat());
    bench.assert_clean();
}

#[test]
fn old_and_new_blocks_of_all_sizes_make_one_content() {
    let bench = Bench::new(small());
    for (id, length) in [("a", 5), ("b", 40), ("c", 0), ("d", 16)] {
        stage(&bench, id, &vec![id.as_bytes()[0]; length]);
    }
    commit(&bench, &["a", "c"]).unwrap();
    assert_eq!(bench.read("f"), b"aaaaa");
    for (id, length) in [("b", 40), ("d", 16)] {
        stage(&bench, id, &vec![id.as_bytes()[0]; length]);
    }
    commit(&bench, &["b", "a", "c", "d"]).unwrap();
    assert_eq!(bench.read("f"), [&[b'b'; 40][..], &[b'a'; 5], &[b'd'; 16]].concat());
    commit(&bench, &["d", "a"]).unwrap();
    assert_eq!(bench.read("f"), [&[b'd'; 16][..], &[b'a'; 5]].concat());
    assert!(matches!(commit(&bench, &["d", "x"]), Err(StoreError::InvalidBlockList)));
    bench.assert_clean();
}

#[test]
fn what_is_not_made_leaves_no_prefix() {
    let bench = Bench::new(small());
    let (new, always) = (NewContent::default, Preconditions::default());
    let below = at("dir/f");
    for (id, body) in [("a", [1; 10]), ("b", [2; 10])] {
        let id = BlockId(id.into());
        block_on(bench.store.put_block(&below, &id, body.to_vec().into(), None)).unwrap();
    }
    // Nobody put the blocks together ahead, so it is to be tried again.
    let answer = bench.store.commit_list(&below, &list(&["a", "b"]), new(), &always, None).unwrap();
    assert!(answer.is_none());
    let there = Preconditions { if_match: Some(EtagMatch::Any), ..Preconditions::default() };
    let made = bench.store.adopt(vec![(at("other/f"), Adopted::default(), there)]).unwrap();
    assert!(made[0].is_none());
    bench.assert_clean();
    assert_eq!(bench.store.kv.view().unwrap().range(Space::Names, &[], None).count(), 0);
}
