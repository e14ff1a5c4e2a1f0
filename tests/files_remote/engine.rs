//! Calls by path on an engine whose blobs are elsewhere.

use bytes::Bytes;
use leasefs::fs::FsError;
use leasefs::fs::nodes::ROOT;
use leasefs::fs::requests::{CopyFile, FileChange, LastWrite, NewFile, RenameRequest, SmbChange};
use leasefs::fs::shares::{ShareSettings, Shares};
use leasefs::store::{
    ContainerAcl, ContainerName, DeleteSnapshots, HttpHeaders, LeaseRequest, Metadata, SnapshotId,
};

use crate::world::{READ, There, WRITE, docs, noise, path, refusal, segment};

#[tokio::test(flavor = "multi_thread")]
async fn what_a_call_changed_is_at_the_service_when_it_answers() {
    let there = There::start().await;
    let here = there.mirrored().await;
    let (rest, sdk) = (&here.rest, &there.sdk);
    here.put("a", b"0123456789").await;
    assert_eq!(sdk.get("a").await.as_deref(), Some(&b"0123456789"[..]));
    here.write("a", 2, b"AB").await.unwrap();
    assert_eq!(sdk.get("a").await.as_deref(), Some(&b"01AB456789"[..]));
    rest.clear_range(&path("a"), 8..10, LastWrite::Now, None).await.unwrap();
    assert_eq!(sdk.get("a").await.as_deref(), Some(&b"01AB4567\0\0"[..]));
    let size = FileChange { size: Some(4), ..FileChange::default() };
    rest.set_file_properties(&path("a"), size, None).await.unwrap();
    assert_eq!(sdk.get("a").await.as_deref(), Some(&b"01AB"[..]));
    // In place of what is there.
    here.put("a", b"again").await;
    assert_eq!(sdk.get("a").await.as_deref(), Some(&b"again"[..]));
    // What is beside the bytes.
    let color = Metadata::from([("color".to_owned(), "red".to_owned())]);
    rest.set_file_metadata(&path("a"), color, None).await.unwrap();
    assert_eq!(there.properties("a").await.metadata.get("color"), Some("red"));
    let headers = HttpHeaders { content_type: Some("text/plain".to_owned()), ..HttpHeaders::default() };
    let change = FileChange { headers: Some((headers, Some([7; 16]))), ..FileChange::default() };
    rest.set_file_properties(&path("a"), change, None).await.unwrap();
    let blob = there.properties("a").await;
    assert_eq!(blob.headers.content_type.as_deref(), Some("text/plain"));
    assert_eq!(blob.content_md5, Some([7; 16]));
    assert_eq!(blob.metadata.get("color"), Some("red"));
    assert_eq!(sdk.get("a").await.as_deref(), Some(&b"again"[..]));
    // Names.
    rest.create_directory(&path("d"), SmbChange::default(), Metadata::new()).await.unwrap();
    assert_eq!(there.properties("d").await.metadata.get("hdi_isfolder"), Some("true"));
    let source = rest.read(&path("a"), None).await.unwrap();
    rest.copy(&source, &path("d/copy"), CopyFile::default(), None).await.unwrap();
    assert_eq!(sdk.get("d/copy").await.as_deref(), Some(&b"again"[..]));
    rest.rename(&path("a"), &path("d/b"), RenameRequest::default()).await.unwrap();
    let whole = RenameRequest { directory: true, ..RenameRequest::default() };
    rest.rename(&path("d"), &path("e"), whole).await.unwrap();
    assert_eq!(sdk.names().await, ["e", "e/b", "e/copy"]);
    let over = RenameRequest { replace: true, ..RenameRequest::default() };
    rest.rename(&path("e/b"), &path("e/copy"), over).await.unwrap();
    assert!(matches!(refusal(rest.delete_directory(&path("e")).await), FsError::NotEmpty));
    rest.delete_file(&path("e/copy"), None).await.unwrap();
    rest.delete_directory(&path("e")).await.unwrap();
    assert_eq!(sdk.names().await, [""; 0]);
    // A permission is there, for every mount.
    let key = rest.put_permission("O:BA").await.unwrap();
    assert_eq!(there.mirrored().await.rest.permission(&key).await.unwrap(), "O:BA");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_strangers_change_is_what_the_next_call_sees() {
    let there = There::start().await;
    let here = there.mirrored().await;
    assert!(matches!(refusal(here.rest.file_properties(&path("in/a"), None).await), FsError::NoParent));
    there.sdk.put("in/a", b"one").await.unwrap();
    assert_eq!(here.get("in/a").await, b"one");
    assert_eq!(here.names("").await, ["in"]);
    there.sdk.put("in/a", b"other").await.unwrap();
    there.sdk.put("in/b", b"").await.unwrap();
    assert_eq!(here.rest.file_properties(&path("in/a"), None).await.unwrap().size, 5);
    assert_eq!(here.names("in").await, ["a", "b"]);
    here.write("in/a", 0, b"OT").await.unwrap();
    assert_eq!(there.sdk.get("in/a").await.as_deref(), Some(&b"OTher"[..]));
    // A name that must be new is decided there.
    there.sdk.put("new", b"theirs").await.unwrap();
    let mine = NewFile { create_only: true, ..NewFile::default() };
    assert!(matches!(refusal(here.rest.create_file(&path("new"), mine, None).await), FsError::Exists));
    assert_eq!(there.sdk.get("new").await.as_deref(), Some(&b"theirs"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn big_files_are_read_and_changed_in_parts() {
    let there = There::start().await;
    let here = there.mirrored().await;
    let mut big = noise(9_000_000);
    there.sdk.put("big", &big).await.unwrap();
    // A change in the middle of what was never read.
    here.write("big", 7_000_000, b"changed").await.unwrap();
    big[7_000_000..7_000_007].copy_from_slice(b"changed");
    assert!(there.sdk.get("big").await.unwrap() == big);
    let other = there.mirrored().await;
    let reading = other.rest.read(&path("big"), None).await.unwrap();
    let all = std::iter::once(0..big.len() as u64).collect::<Vec<_>>();
    assert_eq!(reading.ranges(None).unwrap(), all, "what is not here yet is data, too");
    let mut part = vec![0; 5000];
    assert!(matches!(reading.read_at(&mut part, 4_999_000), Err(FsError::NotHere(_))));
    reading.bring(4_999_000..5_004_000).await.unwrap();
    assert_eq!(reading.read_at(&mut part, 4_999_000).unwrap(), 5000);
    assert!(part == big[4_999_000..5_004_000]);
    // A copy has all of it.
    other.rest.copy(&reading, &path("copy"), CopyFile::default(), None).await.unwrap();
    assert!(there.sdk.get("copy").await.unwrap() == big);
    assert!(here.get("copy").await == big);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_programs_work_on_one_file() {
    let there = There::start().await;
    let here = there.mirrored().await;
    there.sdk.put("f", b"0123456789").await.unwrap();
    let program = here.open("f", WRITE).await.unwrap();
    here.engine.write(program, 0, b"PP").await.unwrap();
    assert_eq!(here.get("f").await, b"PP23456789", "a call sees what a program wrote");
    here.write("f", 8, b"RR").await.unwrap();
    assert_eq!(there.sdk.get("f").await.as_deref(), Some(&b"PP234567RR"[..]));
    here.engine.write(program, 4, b"pp").await.unwrap();
    here.close(program).await.unwrap();
    assert_eq!(there.sdk.get("f").await.as_deref(), Some(&b"PP23pp67RR"[..]));
    // Removed and still open: nobody gets at it, and it is there until the last close.
    let program = here.open("f", READ).await.unwrap();
    assert!(matches!(refusal(here.rest.delete_file(&path("f"), None).await), FsError::SharingViolation));
    here.engine.unlink(ROOT, &segment("f")).await.unwrap();
    assert!(matches!(refusal(here.rest.file_properties(&path("f"), None).await), FsError::DeletePending));
    assert!(matches!(refusal(here.write("f", 0, b"x").await), FsError::DeletePending));
    assert_eq!(here.names("").await, [""; 0]);
    assert!(there.sdk.get("f").await.is_some());
    here.close(program).await.unwrap();
    assert_eq!(there.sdk.get("f").await, None);
    assert!(matches!(refusal(here.rest.file_properties(&path("f"), None).await), FsError::NotFound));
}

/// Calls that come too late begin again with what is there: no acknowledged range is lost, and nothing is kept beside.
#[tokio::test(flavor = "multi_thread")]
async fn two_machines_write_ranges_of_one_file() {
    const ROUNDS: u64 = 25;
    let there = There::start().await;
    for size in [1000, 2_000_000_u64] {
        let (one, two) = (there.mirrored().await, there.mirrored().await);
        let new = NewFile { size, ..NewFile::default() };
        one.rest.create_file(&path("f"), new, None).await.unwrap();
        let write = |rest: leasefs::fs::requests::Requests, first: u64| async move {
            for round in 0..ROUNDS {
                let at = (round * 2 + first) * 10;
                let data = Bytes::from(format!("{at:010}"));
                // Who is refused as busy tries again.
                while let Err(failure) =
                    rest.put_range(&path("f"), at, data.clone(), LastWrite::Now, None).await
                {
                    assert!(matches!(failure.error, FsError::Stale), "{failure}");
                }
            }
        };
        let writers = [(&one, 0), (&one, 50), (&two, 1)];
        for writer in writers.map(|(here, first)| tokio::spawn(write(here.rest.clone(), first))) {
            writer.await.unwrap();
        }
        let mut expected = vec![0; usize::try_from(size).unwrap()];
        for number in (0..2 * ROUNDS).chain((0..ROUNDS).map(|round| 50 + round * 2)) {
            let at = usize::try_from(number * 10).unwrap();
            expected[at..at + 10].copy_from_slice(format!("{at:010}").as_bytes());
        }
        let got = there.sdk.get("f").await.unwrap();
        let wrong = (0..got.len()).find(|at| got[*at] != expected[*at]);
        assert!(got == expected, "{size}: first at {wrong:?}");
        assert_eq!(there.sdk.names().await, ["f"], "nothing is kept beside");
        assert_eq!((one.engine.conflicts(), two.engine.conflicts()), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_share_itself_is_changed_elsewhere() {
    let there = There::start().await;
    let here = there.mirrored().await;
    there.sdk.put("a", b"12345").await.unwrap();
    there.sdk.put("d/b", b"678").await.unwrap();
    let shares = Shares::of_remote(here.engine.clone(), docs());
    let other = ContainerName::new("other").unwrap();
    let nothing = (Metadata::new(), ShareSettings::new());
    // What can be asked.
    let (listed, next) = shares.list("", None, 10, true).await.unwrap();
    assert_eq!((listed.len(), listed[0].name.as_str(), next), (1, "docs", None));
    assert_eq!(shares.list("x", None, 10, true).await.unwrap().0.len(), 0);
    assert_eq!(shares.properties(&docs(), None).await.unwrap().name.as_str(), "docs");
    assert_eq!(shares.usage(&docs()).await.unwrap(), 8);
    let requests = shares.open(&docs()).await.unwrap();
    assert_eq!(requests.file_properties(&path("a"), None).await.unwrap().size, 5);
    for absent in [&other, &ContainerName::new("share").unwrap()] {
        assert!(matches!(shares.open(absent).await, Err(FsError::NoShare)));
        assert!(matches!(shares.properties(absent, None).await, Err(FsError::NoShare)));
    }
    // What cannot be changed here.
    assert!(matches!(shares.create(&docs(), &nothing.0, &nothing.1).await, Err(FsError::Exists)));
    assert!(matches!(shares.create(&other, &nothing.0, &nothing.1).await, Err(FsError::NotSupported(_))));
    let deleted = shares.delete(&docs(), DeleteSnapshots::Include, None).await;
    assert!(matches!(deleted, Err(FsError::ShareInUse(_))), "{deleted:?}");
    assert!(matches!(shares.delete(&other, DeleteSnapshots::Include, None).await, Err(FsError::NoShare)));
    let id = SnapshotId(leasefs::share::Moment(5));
    for refused in [
        shares.set_metadata(&docs(), &nothing.0, None).await.map(drop),
        shares.set_settings(&docs(), &nothing.1, None).await.map(drop),
        shares.set_acl(&docs(), ContainerAcl::default(), None).await.map(drop),
        shares.lease(&docs(), LeaseRequest::Break { period: None }).await.map(drop),
        shares.snapshot(&docs(), None).await.map(drop),
    ] {
        assert!(matches!(refused, Err(FsError::NotSupported(_))), "{refused:?}");
    }
    assert!(matches!(shares.frozen(&docs(), id).await, Err(FsError::NoSnapshot)));
    assert!(matches!(shares.delete_snapshot(&docs(), id).await, Err(FsError::NoSnapshot)));
    assert_eq!(there.sdk.names().await, ["a", "d/b"]);
}
