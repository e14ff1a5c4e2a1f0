//! The service fails at every request of a day's work in turn, before or after it did what it was asked.
//!
//! Whoever is told that something failed does it again when the service is back. In the end the service has exactly what
//! was done, and so has the mirror.

use std::collections::BTreeMap;

use leasefs::store::mirror::MirrorOptions;
use leasefs::store::{RenameMode, Result, StoreError, Upstream};

use super::rig::{Rig, Service, noise};

/// Failures in a row: more than the client tries by itself.
const IN_A_ROW: usize = 4;
/// Times a program tries.
const TRIES: usize = 6;

#[derive(Clone, Copy, Debug)]
enum Deed {
    Write(&'static str, &'static str),
    WriteBig(&'static str, u8),
    Patch(&'static str),
    Rename(&'static str, &'static str),
    Remove(&'static str),
}

const DAY: &[Deed] = &[
    Deed::Write("d/one", "1"),
    Deed::Write("d/two", "22"),
    Deed::Write("d/one", "1 again"),
    Deed::WriteBig("big", 1),
    Deed::Patch("big"),
    Deed::Rename("d/two", "d/three"),
    Deed::Write("d/tmp", "new"),
    Deed::Rename("d/tmp", "d/three"),
    Deed::Rename("d", "e"),
    Deed::Remove("e/one"),
    Deed::Rename("big", "e/big"),
];

const BIG: usize = 5 << 20;

async fn attempt(rig: &Rig, deed: Deed) -> Result<()> {
    match deed {
        Deed::Write(name, text) => rig.write_and_push(name, text.as_bytes()).await,
        Deed::WriteBig(name, seed) => rig.write_and_push(name, &noise(BIG, seed)).await,
        Deed::Patch(name) => {
            rig.patch(name, 100, b"patched", BIG as u64);
            rig.push(name).await
        }
        Deed::Rename(from, to) => rig.rename(from, to, RenameMode::Replace).await,
        Deed::Remove(name) => rig.remove(name).await,
    }
}

fn expected() -> BTreeMap<String, Vec<u8>> {
    let mut big = noise(BIG, 1);
    big[100..107].copy_from_slice(b"patched");
    BTreeMap::from([("e/big".to_owned(), big), ("e/three".to_owned(), b"new".to_vec())])
}

/// One day with failures from some request on. Answers whether they all came.
async fn day(failing: Option<(usize, bool)>) -> bool {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let options = MirrorOptions { attr_ttl: std::time::Duration::ZERO, ..MirrorOptions::default() };
    let rig = Rig::with(&service, folder.path(), options).await;
    if let Some((after, done)) = failing {
        service.fail_after(after, IN_A_ROW, done);
    }
    for &deed in DAY {
        let mut tried = attempt(&rig, deed).await;
        for _ in 1..TRIES {
            match &tried {
                Ok(()) => break,
                // What failed may have been done.
                Err(StoreError::ConditionNotMet | StoreError::BlobExists(_)) => break,
                Err(_) => tried = attempt(&rig, deed).await,
            }
        }
        assert!(tried.is_ok(), "{deed:?} with {failing:?}: {tried:?}");
    }
    let all = service.faults_end();
    rig.mirror.drain(&|_| {}).await.unwrap();
    rig.mirror.finish_renames().await.unwrap();
    let mut there = BTreeMap::new();
    for name in service.names().await {
        let bytes = service.bytes(&name).await.unwrap().to_vec();
        // A directory may have got a blob of its own; a note of a rename that is done is deleted later.
        if !bytes.is_empty() && !name.starts_with(".leasefs") {
            there.insert(name, bytes);
        }
    }
    assert!(there == expected(), "{failing:?}: {:?}", there.keys());
    assert_eq!(rig.list("e").await, ["e/big", "e/three"], "{failing:?}");
    assert_eq!(rig.mirror.status().waiting_files, 0);
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_request_fails_nothing_is_lost_or_left_over() {
    day(None).await;
    for done in [false, true] {
        let mut after = 0;
        while day(Some((after, done))).await {
            after += 1;
            assert!(after < 200, "the day ends some time");
        }
        assert!(after > 15, "every request had its turn: {after}");
    }
}
