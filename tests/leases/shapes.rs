//! What files look like as blobs, and blobs as files.

use crate::rig::{ANYBODY, Rig, WRITE, at, segment};
use leasefs::fs::attributes::Kind;
use leasefs::fs::nodes::ROOT;
use leasefs::store::{AppendConditions, BlobKind, BlobStore, NewContent, Preconditions, SequenceConditions};

#[tokio::test]
async fn a_directory_is_a_marked_blob_or_just_a_prefix() {
    let rig = Rig::optimistic().await;
    rig.engine.make_directory(ROOT, &segment("made"), 0o755, ANYBODY).await.unwrap();
    let marker = rig.store.blob_properties(&at("made"), None, &Preconditions::default()).await.unwrap();
    assert_eq!((marker.size, marker.metadata.get("hdi_isfolder")), (0, Some("true")));
    rig.put("prefix/inner", b"x").await.unwrap();
    rig.put("both", b"").await.unwrap();
    rig.put("both/inner", b"x").await.unwrap();
    for name in ["made", "prefix", "both"] {
        let stat = rig.engine.lookup(ROOT, &segment(name)).await.unwrap();
        assert_eq!(stat.attributes.kind, Kind::Directory, "{name}");
    }
}

#[tokio::test]
async fn a_changed_append_or_page_blob_becomes_a_block_blob() {
    let rig = Rig::optimistic().await;
    let (store, always) = (&rig.store, Preconditions::default());
    let new = NewContent::default;
    store.create_append_blob(&at("log"), new(), &always).await.unwrap();
    let body = bytes::Bytes::from_static(b"line");
    store.append_block(&at("log"), body.into(), AppendConditions::default(), &always).await.unwrap();
    store.create_page_blob(&at("disk"), 512, 0, new(), &always).await.unwrap();
    let page = bytes::Bytes::from_static(&[7; 512]);
    store.put_pages(&at("disk"), 0, page.into(), SequenceConditions::default(), &always).await.unwrap();
    for (name, before) in [("log", b"line".to_vec()), ("disk", vec![7; 512])] {
        let ino = rig.engine.lookup(ROOT, &segment(name)).await.unwrap().ino;
        let handle = rig.open(ino, WRITE).await.unwrap();
        assert_eq!(rig.read(handle), before);
        rig.engine.write(handle, 1, b"!").await.unwrap();
        rig.close(handle).await.unwrap();
        let blob = store.blob_properties(&at(name), None, &always).await.unwrap();
        assert_eq!((blob.kind, blob.size), (BlobKind::Block, before.len() as u64), "{name}");
        assert_eq!(rig.content(name).await[..2], [before[0], b'!']);
    }
}
