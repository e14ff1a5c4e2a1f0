//! Content of a remote mount: brought from a real service over HTTP into a mirror, and kept there.
//!
//! The service runs in this process behind a [`Line`](support::Line) that counts what is asked for and can be slow, busy
//! or break off. No test here knows a mount: what the engine does with the mirror is done by hand.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "mirror_content/support.rs"]
mod support;

use std::time::Duration;

use leasefs::store::mirror::MirrorOptions;
use leasefs::store::{LocalStore, StoreError, Upstream};
use support::{Fault, Rig, bytes, limit, name};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_small_file_takes_one_request_and_then_only_questions() {
    for size in [1, 5_000, 100 * KIB, 256 * KIB] {
        let rig = Rig::new(MirrorOptions::default()).await;
        let content = rig.put("small", size).await;
        rig.mirror.refresh_directory(None).await.unwrap();
        rig.line.forget();
        assert_eq!(rig.read("small").await, content);
        assert_eq!(rig.line.methods(), ["GET"], "{size} bytes, cold");
        rig.line.forget();
        assert_eq!(rig.read("small").await, content);
        assert_eq!(rig.line.methods(), ["HEAD"], "{size} bytes, warm");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_file_needs_no_content() {
    let rig = Rig::new(MirrorOptions::default()).await;
    rig.put("empty", 0).await;
    rig.mirror.refresh_directory(None).await.unwrap();
    rig.line.forget();
    assert!(rig.read("empty").await.is_empty());
    assert_eq!(rig.line.methods(), ["HEAD"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_big_file_read_from_start_to_end_comes_once_and_is_a_plain_file_then() {
    let rig = Rig::new(MirrorOptions::default()).await;
    let content = rig.put("big", 24 * MIB + 5).await;
    rig.mirror.refresh_directory(None).await.unwrap();
    rig.line.forget();
    assert_eq!(rig.read("big").await, content);
    assert_eq!(rig.line.ranges_bytes(), content.len() as u64, "no byte is asked for twice");
    let requests = rig.line.methods().len();
    assert!(requests < 40, "{requests} requests: they grow with the reader");
    let fetch = rig.open("big").await;
    assert!(fetch.is_here(&(0..content.len() as u64)));
    let reader = rig.local.reader(&rig.here("big")).unwrap();
    assert!(reader.as_file().is_some(), "one local file, fit for passthrough");
    rig.line.forget();
    assert_eq!(rig.read("big").await, content);
    assert_eq!(rig.line.methods(), ["HEAD"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_the_same_bytes_share_one_request() {
    let rig = Rig::new(MirrorOptions::default()).await;
    let content = rig.put("shared", 10 * MIB).await;
    rig.mirror.refresh_directory(None).await.unwrap();
    rig.line.forget();
    rig.line.delay(Duration::from_millis(5));
    let fetch = rig.open("shared").await;
    let readers: Vec<_> = (0..8)
        .map(|reader| {
            let (fetch, local, at) = (fetch.clone(), rig.local.clone(), rig.here("shared"));
            tokio::spawn(async move {
                // Some from the start, some from the middle.
                let from = if reader % 2 == 0 { 0 } else { 5 * MIB };
                support::read(&*fetch, &local, &at, from..10 * MIB).await.unwrap()
            })
        })
        .collect();
    for (index, reader) in readers.into_iter().enumerate() {
        let from = if index % 2 == 0 { 0 } else { 5 * MIB as usize };
        assert!(reader.await.unwrap() == content[from..], "reader {index}");
    }
    assert_eq!(rig.line.ranges_bytes(), 10 * MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_opens_of_a_cold_small_file_share_one_request() {
    let rig = Rig::new(MirrorOptions::default()).await;
    let content = rig.put("small", 9_000).await;
    rig.mirror.refresh_directory(None).await.unwrap();
    rig.line.forget();
    rig.line.delay(Duration::from_millis(20));
    let opens: Vec<_> = (0..10)
        .map(|_| {
            let mirror = rig.mirror.clone();
            tokio::spawn(async move { mirror.content(&name("small")).await.unwrap() })
        })
        .collect();
    for open in opens {
        open.await.unwrap();
    }
    assert_eq!(rig.line.methods(), ["GET"]);
    let mut got = vec![0; content.len()];
    rig.local.reader(&rig.here("small")).unwrap().read_at(&mut got, 0).unwrap();
    assert!(got == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_random_reads_bring_little() {
    let rig = Rig::new(MirrorOptions::default()).await;
    let content = rig.put("random", 192 * MIB).await;
    rig.mirror.refresh_directory(None).await.unwrap();
    rig.line.forget();
    let fetch = rig.open("random").await;
    for step in 1..=10_u64 {
        let at = step * 7_919 % 97 * 2 * MIB + 300 * KIB;
        let got = support::read(&*fetch, &rig.local, &rig.here("random"), at..at + 4096).await.unwrap();
        assert!(got == content[at as usize..at as usize + 4096]);
    }
    let brought = rig.line.ranges_bytes();
    assert!(brought <= 8 * MIB, "{brought} bytes for 10 reads of 4 KiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_random_reads_bring_the_file_once_if_the_cache_can_spare_the_room() {
    for (cache_size, all) in [(512 * MIB, true), (128 * MIB, false)] {
        let rig = Rig::new(MirrorOptions { cache_size, ..MirrorOptions::default() }).await;
        let content = rig.put("random", 64 * MIB).await;
        rig.mirror.refresh_directory(None).await.unwrap();
        rig.line.forget();
        rig.line.delay(Duration::from_millis(5));
        let fetch = rig.open("random").await;
        for step in 1..=40_u64 {
            let at = step * 7_919 % 61 * MIB + 300 * KIB;
            let got = support::read(&*fetch, &rig.local, &rig.here("random"), at..at + 4096).await.unwrap();
            assert!(got == content[at as usize..at as usize + 4096]);
        }
        if all {
            limit("everything is here", || fetch.is_here(&(0..64 * MIB))).await;
            assert_eq!(rig.line.ranges_bytes(), 64 * MIB, "no byte twice");
            let whole = support::read(&*fetch, &rig.local, &rig.here("random"), 0..64 * MIB).await.unwrap();
            assert!(whole == content);
        } else {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let brought = rig.line.ranges_bytes();
            assert!(brought <= 24 * MIB, "{brought} bytes, and the cache has room for four such files only");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_backwards_is_read_ahead_too() {
    let rig = Rig::new(MirrorOptions::default()).await;
    let content = rig.put("backwards", 16 * MIB).await;
    rig.mirror.refresh_directory(None).await.unwrap();
    rig.line.forget();
    let fetch = rig.open("backwards").await;
    let step = 128 * KIB;
    for index in (0..16 * MIB / step).rev() {
        let range = index * step..(index + 1) * step;
        let got = support::read(&*fetch, &rig.local, &rig.here("backwards"), range.clone()).await.unwrap();
        assert!(got == content[range.start as usize..range.end as usize]);
    }
    assert_eq!(rig.line.ranges_bytes(), 16 * MIB, "no byte twice");
    // How far ahead it gets is a matter of time: about forty, and more on a busy machine.
    let requests = rig.line.methods().len();
    assert!(requests < 96, "{requests} requests for 128 reads");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_keeps_its_version_and_the_next_one_gets_the_new() {
    let rig = Rig::new(MirrorOptions { ahead_bytes: 0, ..MirrorOptions::default() }).await;
    let old = rig.put("changing", 8 * MIB).await;
    rig.mirror.refresh_directory(None).await.unwrap();
    let fetch = rig.open("changing").await;
    let at = rig.here("changing");
    let pinned = rig.local.reader(&at).unwrap();
    let new = rig.put_other("changing", 8 * MIB).await;
    let stale = fetch.bring(6 * MIB..7 * MIB).await;
    assert!(matches!(stale, Err(StoreError::ConditionNotMet)), "{stale:?}");
    assert!(matches!(fetch.bring(6 * MIB..7 * MIB).await, Err(StoreError::ConditionNotMet)), "it stays so");
    let mut first = vec![0; 4096];
    pinned.read_at(&mut first, 0).unwrap();
    assert!(first == old[..4096], "what was here is still the old version");
    assert!(rig.read("changing").await == new);
    assert!(matches!(fetch.bring(6 * MIB..7 * MIB).await, Err(StoreError::ConditionNotMet)));
    assert!(rig.read("changing").await == new);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_break_off_and_busy_answers_cost_time_only() {
    let rig = Rig::new(MirrorOptions::default()).await;
    let content = rig.put("faulty", 12 * MIB).await;
    rig.mirror.refresh_directory(None).await.unwrap();
    rig.line.forget();
    for fault in [Fault::Truncated, Fault::Busy, Fault::Truncated, Fault::Truncated, Fault::Busy] {
        rig.line.fail(fault);
    }
    assert!(rig.read("faulty").await == content);
    assert_eq!(rig.line.faults_left(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_told_to_who_waits_and_not_remembered() {
    let rig = Rig::new(MirrorOptions { ahead_bytes: 0, ..MirrorOptions::default() }).await;
    let content = rig.put("failing", 4 * MIB).await;
    rig.mirror.refresh_directory(None).await.unwrap();
    let fetch = rig.open("failing").await;
    for _ in 0..100 {
        rig.line.fail(Fault::Busy);
    }
    let waits: Vec<_> = (0..4)
        .map(|_| {
            let fetch = fetch.clone();
            tokio::spawn(async move { fetch.bring(MIB..MIB + 4096).await })
        })
        .collect();
    for wait in waits {
        assert!(wait.await.unwrap().is_err());
    }
    rig.line.heal();
    fetch.bring(MIB..MIB + 4096).await.unwrap();
    assert!(rig.read("failing").await == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_brought_survives_a_restart() {
    let mut rig = Rig::new(MirrorOptions { ahead_bytes: 0, ..MirrorOptions::default() }).await;
    let content = rig.put("kept", 8 * MIB).await;
    let small = rig.put("small", 3_000).await;
    rig.mirror.refresh_directory(None).await.unwrap();
    rig.line.forget();
    assert!(rig.read("small").await == small);
    let fetch = rig.open("kept").await;
    let at = rig.here("kept");
    support::read(&*fetch, &rig.local, &at, 2 * MIB..5 * MIB).await.unwrap();
    drop(fetch);
    rig.restart().await;
    assert!(rig.read("kept").await == content);
    assert!(rig.read("small").await == small);
    assert_eq!(rig.line.ranges_bytes_of("kept"), 8 * MIB, "nothing twice, also over the restart");
    rig.restart().await;
    rig.line.forget();
    assert!(rig.read("kept").await == content);
    assert!(rig.local.reader(&at).unwrap().as_file().is_some());
    assert_eq!(rig.line.methods(), ["HEAD"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cache_keeps_its_limit_and_what_is_open() {
    let mut rig = Rig::new(MirrorOptions { cache_size: 4 * MIB, ..MirrorOptions::default() }).await;
    let names: Vec<String> = (0..12).map(|index| format!("f{index:02}")).collect();
    let mut contents = Vec::new();
    for name in &names {
        contents.push(rig.put(name, MIB).await);
    }
    rig.mirror.refresh_directory(None).await.unwrap();
    let held = rig.open("f00").await;
    support::read(&*held, &rig.local, &rig.here("f00"), 0..MIB).await.unwrap();
    for (name, content) in names.iter().zip(&contents) {
        assert!(rig.read(name).await == *content);
    }
    let cached = |rig: &Rig| -> Vec<String> {
        let is_here = |name: &&String| rig.local.reader(&rig.here(name)).unwrap().as_file().is_some();
        names.iter().filter(is_here).cloned().collect()
    };
    limit("the cache shrinks", || cached(&rig).len() <= 4).await;
    let left = cached(&rig);
    assert_eq!(left[0], "f00", "what is open stays: {left:?}");
    assert!(left.contains(&"f11".to_owned()), "what was used last stays: {left:?}");
    rig.mirror.refresh_directory(None).await.unwrap();
    assert_eq!(
        rig.local.find(&rig.here("f05")).unwrap().blob.unwrap().size,
        MIB,
        "names and attributes stay"
    );
    assert!(rig.read("f05").await == contents[5], "what was evicted comes again");
    drop(held);
    rig.restart().await;
    rig.line.forget();
    assert!(rig.read("f05").await == contents[5]);
    assert_eq!(rig.line.methods(), ["HEAD"], "the order survives a restart, and so does what is here");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_change_of_a_big_cold_file_brings_little_and_reads_right() {
    for restarted in [false, true] {
        let mut rig = Rig::new(MirrorOptions { ahead_bytes: 0, ..MirrorOptions::default() }).await;
        let mut content = rig.put("big", 16 * MIB).await;
        rig.mirror.refresh_directory(None).await.unwrap();
        rig.line.forget();
        let fetch = rig.open("big").await;
        let at = rig.here("big");
        let range = 5 * MIB + 100..5 * MIB + 4196;
        rig.change("big", range.clone(), 7).await;
        content[range.start as usize..range.end as usize].fill(7);
        let before_push = support::read(&*fetch, &rig.local, &at, 5 * MIB..6 * MIB).await.unwrap();
        assert!(before_push == content[5 * MIB as usize..6 * MIB as usize], "the old bytes under the change");
        rig.push("big").await.unwrap();
        assert!(rig.there("big").await == content);
        let brought = rig.line.ranges_bytes();
        assert!(brought < 6 * MIB, "{brought} bytes for a change of 4 KiB and a read of 1 MiB");
        drop(fetch);
        if restarted {
            rig.restart().await;
        }
        assert!(rig.read("big").await == content, "restarted: {restarted}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_cut_and_grown_again_has_no_old_bytes() {
    let rig = Rig::new(MirrorOptions { ahead_bytes: 0, ..MirrorOptions::default() }).await;
    let mut content = rig.put("cut", 8 * MIB).await;
    rig.mirror.refresh_directory(None).await.unwrap();
    let fetch = rig.open("cut").await;
    rig.resize("cut", 3 * MIB + 5).await;
    rig.resize("cut", 6 * MIB).await;
    content.truncate(3 * MIB as usize + 5);
    content.resize(6 * MIB as usize, 0);
    assert!(rig.read("cut").await == content, "before it is pushed");
    rig.push("cut").await.unwrap();
    assert!(rig.there("cut").await == content);
    drop(fetch);
    assert!(rig.read("cut").await == content, "after it is pushed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_pushed_is_never_evicted() {
    let rig = Rig::new(MirrorOptions { cache_size: MIB, ..MirrorOptions::default() }).await;
    let mut mine = rig.put("mine", 2 * MIB).await;
    rig.put("other", 4 * MIB).await;
    rig.mirror.refresh_directory(None).await.unwrap();
    assert!(rig.read("mine").await == mine);
    rig.change("mine", 0..4096, 9).await;
    mine[..4096].fill(9);
    rig.read("other").await;
    let is_here = |name: &str| rig.local.reader(&rig.here(name)).unwrap().pieces()[0].source.is_some();
    limit("the other is evicted", || !is_here("other")).await;
    let mut content = vec![0; mine.len()];
    rig.local.reader(&rig.here("mine")).unwrap().read_at(&mut content, 0).unwrap();
    assert!(content == mine);
    rig.push("mine").await.unwrap();
    assert!(rig.there("mine").await == mine);
    rig.put("third", MIB).await;
    rig.mirror.refresh_name(&name("third")).await.unwrap();
    rig.read("third").await;
    limit("what is pushed can go", || !is_here("mine")).await;
    assert!(rig.read("mine").await == mine);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_file_follows_its_rename() {
    let rig = Rig::new(MirrorOptions { ahead_bytes: 0, ..MirrorOptions::default() }).await;
    let content = rig.put("d/old", 8 * MIB).await;
    for directory in [None, Some(name("d"))] {
        rig.mirror.refresh_directory(directory.as_ref()).await.unwrap();
    }
    let fetch = rig.open("d/old").await;
    rig.rename("d", "e").await;
    let at = rig.here("e/old");
    let got = support::read(&*fetch, &rig.local, &at, 0..8 * MIB).await.unwrap();
    assert!(got == content, "through the open that was there before");
    drop(fetch);
    assert!(rig.read("e/old").await == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_shrinks_the_cache() {
    let Some(disk) = support::SmallDisk::new() else { return };
    let rig = Rig::on(disk.path(), MirrorOptions::default()).await;
    let names: Vec<String> = (0..12).map(|index| format!("f{index:02}")).collect();
    for name in &names {
        let content = bytes(name, 16 * MIB);
        rig.put(name, 16 * MIB).await;
        rig.mirror.refresh_name(&support::name(name)).await.unwrap();
        assert!(rig.read(name).await == content, "{name}");
    }
}
