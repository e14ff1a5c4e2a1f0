//! The contract of blobs: put, get, properties, metadata, delete.

use leasefs::store::{ByteRange, DeleteSnapshots, HttpHeaders, NewContent, PropertiesChange, StoreError};

use crate::support::*;

pub(crate) async fn small_and_big_come_back(bench: &Bench) {
    for size in [0, 1, 63, 64, 65, 1000, 300_000] {
        let name = format!("dir/f{size}");
        let body = pattern(7, size);
        let put = bench.put(&name, &body).await;
        assert_eq!(put.size, size as u64);
        let got = bench.store.get_blob(&at(&name), None, None, &ALWAYS).await.unwrap();
        assert_eq!(got.properties, put);
        assert_eq!((got.offset, &got.body[..]), (0, &body[..]));
    }
}

pub(crate) async fn ranges(bench: &Bench) {
    for size in [10usize, 500] {
        let body = pattern(1, size);
        bench.put("f", &body).await;
        let get = async |start, length| {
            let range = Some(ByteRange { start, length });
            bench.store.get_blob(&at("f"), None, range, &ALWAYS).await
        };
        assert_eq!(get(2, Some(3)).await.unwrap().body[..], body[2..5]);
        assert_eq!(get(4, None).await.unwrap().body[..], body[4..]);
        let tail = get(size as u64 - 1, Some(1000)).await.unwrap();
        assert_eq!((tail.offset, &tail.body[..]), (size as u64 - 1, &body[size - 1..]));
        let behind = get(size as u64, Some(1)).await;
        assert!(matches!(behind, Err(StoreError::InvalidRange { size: s }) if s == size as u64));
    }
}

pub(crate) async fn metadata_and_headers(bench: &Bench) {
    let headers = HttpHeaders { content_type: Some("text/plain".into()), ..HttpHeaders::default() };
    let new = NewContent {
        metadata: pairs(&[("a", "1"), ("B", "2")]),
        headers: headers.clone(),
        ..NewContent::default()
    };
    let put = bench.store.put_blob(&at("f"), "x".into(), new, &ALWAYS).await.unwrap();
    assert_eq!(
        (put.metadata.clone(), put.headers.clone()),
        (pairs(&[("a", "1"), ("B", "2")]), headers.clone())
    );
    bench.wait(3);
    let changed = bench.store.set_blob_metadata(&at("f"), pairs(&[("c", "3")]), &ALWAYS).await.unwrap();
    assert_eq!((&changed.metadata, &changed.headers), (&pairs(&[("c", "3")]), &headers));
    assert!(changed.etag != put.etag && changed.modified > put.modified);
    assert_eq!((changed.created, changed.id, changed.size), (put.created, put.id, put.size));
    let other = HttpHeaders { cache_control: Some("no-cache".into()), ..HttpHeaders::default() };
    let change = PropertiesChange { headers: Some((other.clone(), None)), ..PropertiesChange::default() };
    let again = bench.store.set_blob_properties(&at("f"), change, &ALWAYS).await.unwrap();
    assert_eq!((&again.metadata, &again.headers), (&pairs(&[("c", "3")]), &other));
    assert!(again.etag != changed.etag);
    assert_eq!(bench.get("f").await, "x");
}

pub(crate) async fn deletes_and_missing_blobs(bench: &Bench) {
    let store = &bench.store;
    let delete = async |name| store.delete_blob(&at(name), DeleteSnapshots::Refuse, &ALWAYS).await;
    assert!(not_found(&delete("f").await));
    assert!(not_found(&store.get_blob(&at("f"), None, None, &ALWAYS).await));
    assert!(not_found(&store.set_blob_metadata(&at("f"), pairs(&[]), &ALWAYS).await));
    for size in [10, 1000] {
        bench.put("d/f", &pattern(1, size)).await;
        delete("d/f").await.unwrap();
        assert!(not_found(&bench.properties("d/f").await));
        assert!(not_found(&delete("d/f").await));
    }
}

pub(crate) async fn put_replaces_everything(bench: &Bench) {
    let new = NewContent { metadata: pairs(&[("a", "1")]), ..NewContent::default() };
    let first = bench.store.put_blob(&at("f"), pattern(1, 500).into(), new, &ALWAYS).await.unwrap();
    bench.wait(1);
    let second = bench.put("f", b"short").await;
    assert_eq!(bench.get("f").await, "short");
    assert!(second.metadata.is_empty());
    assert_eq!((second.id, second.created), (first.id, first.created));
    assert!(second.modified > first.modified);
}

pub(crate) async fn tags_only_grow(bench: &Bench) {
    let mut last = bench.put("f", b"").await.etag;
    for round in 0..50u8 {
        let next = match round % 3 {
            0 => bench.put("f", &[round]).await.etag,
            1 => bench.store.set_blob_metadata(&at("f"), pairs(&[]), &ALWAYS).await.unwrap().etag,
            _ => bench.put(&format!("g{round}"), &[round]).await.etag,
        };
        assert!(next > last);
        last = next;
    }
}

pub(crate) async fn md5_is_kept(bench: &Bench) {
    let put = bench.put("f", b"").await;
    let empty =
        [0xd4, 0x1d, 0x8c, 0xd9, 0x8f, 0x00, 0xb2, 0x04, 0xe9, 0x80, 0x09, 0x98, 0xec, 0xf8, 0x42, 0x7e];
    assert_eq!(put.content_md5, Some(empty));
    let changed = bench.store.set_blob_metadata(&at("f"), pairs(&[]), &ALWAYS).await.unwrap();
    assert_eq!(changed.content_md5, Some(empty));
}
