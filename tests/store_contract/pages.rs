//! The contract of page blobs.

use std::ops::Range;
use std::sync::Arc;

use leasefs::share::lease::LeaseRefusal;
use leasefs::store::{
    BlobKind, BlobProperties, ByteRange, DeleteSnapshots, NewContent, Preconditions, PropertiesChange,
    Result, SequenceConditions, SequenceUpdate, SnapshotId, StoreError,
};

use crate::support::*;

const ANY: SequenceConditions = SequenceConditions { at_most: None, below: None, equal: None };

async fn create(bench: &Bench, name: &str, size: u64) -> Arc<BlobProperties> {
    bench.store.create_page_blob(&at(name), size, 0, NewContent::default(), &ALWAYS).await.unwrap()
}

async fn write(bench: &Bench, name: &str, offset: u64, body: &[u8]) -> Result<Arc<BlobProperties>> {
    bench.store.put_pages(&at(name), offset, body.to_vec().into(), ANY, &ALWAYS).await
}

async fn clear(bench: &Bench, name: &str, range: Range<u64>) -> Result<Arc<BlobProperties>> {
    bench.store.clear_pages(&at(name), range, ANY, &ALWAYS).await
}

async fn ranges(bench: &Bench, name: &str, since: Option<SnapshotId>) -> Vec<(u64, u64, bool)> {
    let found = bench.store.page_ranges(&at(name), None, since, None, &ALWAYS).await.unwrap();
    found.ranges.into_iter().map(|one| (one.range.start, one.range.end, one.cleared)).collect()
}

async fn change(bench: &Bench, name: &str, change: PropertiesChange) -> Result<Arc<BlobProperties>> {
    bench.store.set_blob_properties(&at(name), change, &ALWAYS).await
}

pub(crate) async fn a_new_page_blob_is_zeros(bench: &Bench) {
    let made = create(bench, "disk", 4096).await;
    assert_eq!((made.kind, made.size, made.sequence_number), (BlobKind::Page, 4096, 0));
    assert_eq!(bench.get("disk").await, vec![0; 4096]);
    assert!(ranges(bench, "disk", None).await.is_empty());
    let odd = bench.store.create_page_blob(&at("odd"), 1000, 0, NewContent::default(), &ALWAYS).await;
    assert!(matches!(odd, Err(StoreError::InvalidPageRange)));
    create(bench, "nothing", 0).await;
    assert!(bench.get("nothing").await.is_empty());
    create(bench, "huge", 8 << 40).await;
    let end = (8 << 40) - 512;
    write(bench, "huge", end, &[7; 512]).await.unwrap();
    let part = ByteRange { start: end - 1, length: Some(2) };
    let read = bench.store.get_blob(&at("huge"), None, Some(part), &ALWAYS).await.unwrap();
    assert_eq!(read.body, [0, 7].as_slice());
}

pub(crate) async fn pages_are_written_and_cleared(bench: &Bench) {
    let size = 3 << 20;
    let made = create(bench, "disk", size as u64).await;
    let mut expected = vec![0; size];
    let mut last = made.etag;
    let writes = [(0, 512), (1024, 1024), (1 << 20, 4096), ((1 << 20) - 512, 1024), (2_000_384, 1_000_448)];
    for (index, (offset, length)) in writes.into_iter().enumerate() {
        let body = pattern(index as u8, length);
        let done = write(bench, "disk", offset as u64, &body).await.unwrap();
        assert!(done.etag != last, "every page write is a change");
        last = done.etag;
        expected[offset..offset + length].copy_from_slice(&body);
        assert!(bench.get("disk").await == expected, "write {index}");
    }
    clear(bench, "disk", 1536..(1 << 20)).await.unwrap();
    expected[1536..1 << 20].fill(0);
    assert!(bench.get("disk").await == expected);
    let expected_ranges = [
        (0, 512, false),
        (1024, 1536, false),
        (1 << 20, (1 << 20) + 4096, false),
        (2_000_384, 3_000_832, false),
    ];
    assert_eq!(ranges(bench, "disk", None).await, expected_ranges);
    let part = Some(ByteRange { start: 1024, length: Some(1 << 20) });
    let some = bench.store.page_ranges(&at("disk"), None, None, part, &ALWAYS).await.unwrap();
    assert_eq!(
        some.ranges.iter().map(|one| one.range.clone()).collect::<Vec<_>>(),
        [1024..1536, 1 << 20..(1 << 20) + 1024]
    );
    clear(bench, "disk", 0..size as u64).await.unwrap();
    assert!(ranges(bench, "disk", None).await.is_empty());
}

pub(crate) async fn bad_ranges_are_refused(bench: &Bench) {
    create(bench, "disk", 4096).await;
    for (offset, length) in [(1, 512), (0, 100), (0, 0), (4096, 512), (3584, 1024)] {
        let refused = write(bench, "disk", offset, &vec![1; length]).await;
        assert!(matches!(refused, Err(StoreError::InvalidPageRange)), "{offset} {length}");
    }
    for range in [0..100, 100..512, 512..512, 0..8192] {
        let refused = clear(bench, "disk", range.clone()).await;
        assert!(matches!(refused, Err(StoreError::InvalidPageRange)), "{range:?}");
    }
    bench.put("block", &pattern(1, 1024)).await;
    let refused = write(bench, "block", 0, &[1; 512]).await;
    assert!(matches!(refused, Err(StoreError::InvalidBlobType(_))));
    let refused = bench.store.page_ranges(&at("block"), None, None, None, &ALWAYS).await;
    assert!(matches!(refused, Err(StoreError::InvalidBlobType(_))));
    assert!(not_found(&write(bench, "nothing", 0, &[1; 512]).await));
}

pub(crate) async fn sequence_numbers(bench: &Bench) {
    create(bench, "disk", 1024).await;
    let set = async |update| {
        let wanted = PropertiesChange { sequence: Some(update), ..PropertiesChange::default() };
        change(bench, "disk", wanted).await.unwrap().sequence_number
    };
    assert_eq!(set(SequenceUpdate::Update(10)).await, 10);
    assert_eq!(set(SequenceUpdate::Max(7)).await, 10);
    assert_eq!(set(SequenceUpdate::Max(12)).await, 12);
    assert_eq!(set(SequenceUpdate::Increment).await, 13);
    assert_eq!(set(SequenceUpdate::Update(5)).await, 5);
    let put =
        async |sequence| bench.store.put_pages(&at("disk"), 0, vec![1; 512].into(), sequence, &ALWAYS).await;
    let not_met = |result: Result<_>| matches!(result, Err(StoreError::SequenceNumberNotMet));
    assert!(not_met(put(SequenceConditions { at_most: Some(4), ..ANY }).await));
    assert!(not_met(put(SequenceConditions { below: Some(5), ..ANY }).await));
    assert!(not_met(put(SequenceConditions { equal: Some(6), ..ANY }).await));
    put(SequenceConditions { at_most: Some(5), below: Some(6), equal: Some(5) }).await.unwrap();
    let cleared = SequenceConditions { equal: Some(6), ..ANY };
    assert!(not_met(bench.store.clear_pages(&at("disk"), 0..512, cleared, &ALWAYS).await));
    bench.put("block", b"x").await;
    let wanted =
        PropertiesChange { sequence: Some(SequenceUpdate::Increment), ..PropertiesChange::default() };
    assert!(matches!(change(bench, "block", wanted).await, Err(StoreError::InvalidBlobType(_))));
}

pub(crate) async fn page_conditions(bench: &Bench) {
    let made = create(bench, "disk", 1024).await;
    write(bench, "disk", 0, &[1; 512]).await.unwrap();
    let stale = Preconditions::if_version(made.etag);
    let refused = bench.store.put_pages(&at("disk"), 0, vec![2; 512].into(), ANY, &stale).await;
    assert!(matches!(refused, Err(StoreError::ConditionNotMet)));
    bench.acquire("disk", A, None).await;
    let refused = write(bench, "disk", 0, &[2; 512]).await;
    assert!(matches!(refused, Err(StoreError::Lease(LeaseRefusal::IdMissing))));
    let refused = clear(bench, "disk", 0..512).await;
    assert!(matches!(refused, Err(StoreError::Lease(LeaseRefusal::IdMissing))));
    bench.store.put_pages(&at("disk"), 0, vec![3; 512].into(), ANY, &with_lease(A)).await.unwrap();
    assert_eq!(bench.get("disk").await[..512], [3; 512]);
}

pub(crate) async fn resizing(bench: &Bench) {
    create(bench, "disk", 2 << 20).await;
    write(bench, "disk", 0, &pattern(1, 2 << 20)).await.unwrap();
    let resize = async |size| {
        let wanted = PropertiesChange { size: Some(size), ..PropertiesChange::default() };
        change(bench, "disk", wanted).await
    };
    assert!(matches!(resize(100).await, Err(StoreError::InvalidPageRange)));
    resize(1536).await.unwrap();
    assert_eq!(bench.get("disk").await, pattern(1, 2 << 20)[..1536]);
    resize(4 << 20).await.unwrap();
    let body = bench.get("disk").await;
    assert_eq!(body[..1536], pattern(1, 2 << 20)[..1536]);
    assert!(body.len() == 4 << 20 && body[1536..].iter().all(|byte| *byte == 0), "what was cut off is zeros");
    assert_eq!(ranges(bench, "disk", None).await, [(0, 1536, false)]);
    bench.put("block", b"x").await;
    let wanted = PropertiesChange { size: Some(512), ..PropertiesChange::default() };
    assert!(matches!(change(bench, "block", wanted).await, Err(StoreError::InvalidBlobType(_))));
}

pub(crate) async fn snapshots_and_differences(bench: &Bench) {
    create(bench, "disk", 3 << 20).await;
    write(bench, "disk", 0, &pattern(1, 2048)).await.unwrap();
    let (first, _) = bench.store.snapshot_blob(&at("disk"), None, &ALWAYS).await.unwrap();
    bench.wait(1);
    write(bench, "disk", 512, &pattern(2, 512)).await.unwrap();
    write(bench, "disk", 2 << 20, &pattern(3, 100 * 512)).await.unwrap();
    clear(bench, "disk", 1536..2048).await.unwrap();
    let (second, _) = bench.store.snapshot_blob(&at("disk"), None, &ALWAYS).await.unwrap();
    bench.wait(1);
    write(bench, "disk", 0, &pattern(4, 512)).await.unwrap();
    let old = bench.store.get_blob(&at("disk"), Some(first), None, &ALWAYS).await.unwrap().body;
    assert_eq!(old[..2048], pattern(1, 2048));
    assert!(old[2048..].iter().all(|byte| *byte == 0));
    let (a, b) = (2 << 20, (2 << 20) + 100 * 512);
    assert_eq!(
        ranges(bench, "disk", Some(first)).await,
        [(0, 1024, false), (1536, 2048, true), (a, b, false)]
    );
    assert_eq!(ranges(bench, "disk", Some(second)).await, [(0, 512, false)]);
    let between =
        bench.store.page_ranges(&at("disk"), Some(second), Some(first), None, &ALWAYS).await.unwrap();
    let between: Vec<_> = between.ranges.into_iter().map(|one| (one.range.start, one.cleared)).collect();
    assert_eq!(between, [(512, false), (1536, true), (a, false)]);
    let backwards = bench.store.page_ranges(&at("disk"), Some(first), Some(second), None, &ALWAYS).await;
    assert!(matches!(backwards, Err(StoreError::PreviousSnapshotNewer)));
    let unknown = Some(SnapshotId(leasefs::share::Moment(5)));
    let missing = bench.store.page_ranges(&at("disk"), None, unknown, None, &ALWAYS).await;
    assert!(matches!(missing, Err(StoreError::PreviousSnapshotNotFound)));
    bench.store.delete_blob(&at("disk"), DeleteSnapshots::Include, &ALWAYS).await.unwrap();
}

pub(crate) async fn copies_of_page_blobs(bench: &Bench) {
    let made =
        bench.store.create_page_blob(&at("disk"), 4096, 9, NewContent::default(), &ALWAYS).await.unwrap();
    assert_eq!(made.sequence_number, 9);
    write(bench, "disk", 512, &pattern(1, 1024)).await.unwrap();
    let before = bench.get("disk").await;
    let copied = bench.copy("disk", "d/copy").await.unwrap();
    assert_eq!((copied.kind, copied.size, copied.sequence_number), (BlobKind::Page, 4096, 9));
    write(bench, "disk", 0, &pattern(2, 4096)).await.unwrap();
    assert_eq!(bench.get("d/copy").await, before);
    write(bench, "d/copy", 0, &pattern(3, 512)).await.unwrap();
    assert_eq!(bench.get("disk").await, pattern(2, 4096));
    bench.copy("disk", "disk").await.unwrap();
    assert_eq!(bench.get("disk").await, pattern(2, 4096));
    bench.store.delete_blob(&at("disk"), DeleteSnapshots::Refuse, &ALWAYS).await.unwrap();
    assert_eq!(bench.get("d/copy").await[..512], pattern(3, 512));
}

pub(crate) async fn many_small_writes(bench: &Bench) {
    create(bench, "disk", 1 << 20).await;
    let mut expected = vec![0; 1 << 20];
    for index in 0..300usize {
        let offset = (index * 7919 % 2048) * 512;
        let body = pattern(index as u8, 512);
        write(bench, "disk", offset as u64, &body).await.unwrap();
        expected[offset..offset + 512].copy_from_slice(&body);
    }
    assert!(bench.get("disk").await == expected);
    write(bench, "disk", 0, &expected).await.unwrap();
    assert!(bench.get("disk").await == expected);
    assert_eq!(ranges(bench, "disk", None).await, [(0, 1 << 20, false)]);
}
