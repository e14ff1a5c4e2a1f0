//! What calls do when nobody is in the way, and what programs see of it.

use bytes::Bytes;
use leasefs::fs::FsError;
use leasefs::fs::nodes::ROOT;
use leasefs::fs::requests::{LastWrite, ListRequest, NewFile, SmbChange};
use leasefs::store::Metadata;

use super::world::*;

#[tokio::test]
async fn a_file_is_made_read_changed_listed_and_removed() {
    let world = start().await;
    let made = world.put("a", b"hello").await;
    assert_eq!((made.size, made.parent), (5, ROOT));
    assert_eq!(world.get("a").await, b"hello");
    let changed = world.write("a", 1, b"EL").await.unwrap();
    assert_eq!(world.get("a").await, b"hELlo");
    assert!(changed.etag != made.etag && changed.ino == made.ino && changed.last_write >= made.last_write);
    world.rest.clear_range(&path("a"), 0..2, LastWrite::Now, None).await.unwrap();
    assert_eq!(world.get("a").await, b"\0\0Llo");
    assert!(matches!(refusal(world.write("a", 3, b"xyz").await), FsError::OutOfRange { size: 5 }));
    let listing = world.rest.list(&path(""), ListRequest::default()).await.unwrap();
    assert_eq!(listing.entries.iter().map(|listed| listed.name.as_str()).collect::<Vec<_>>(), ["a"]);
    world.rest.delete_file(&path("a"), None).await.unwrap();
    assert!(matches!(refusal(world.rest.file_properties(&path("a"), None).await), FsError::NotFound));
    assert!(world.rest.list(&path(""), ListRequest::default()).await.unwrap().entries.is_empty());
    assert_eq!(world.engine.usage(), (0, 0), "nothing is left behind");
}

#[tokio::test]
async fn big_files_are_sparse_until_they_are_written() {
    let world = start().await;
    let size = 3 << 30;
    let new = NewFile { size, ..NewFile::default() };
    assert_eq!(world.rest.create_file(&path("big"), new, None).await.unwrap().size, size);
    let data = Bytes::from(vec![7; 1 << 20]);
    world.rest.put_range(&path("big"), 2 << 30, data.clone(), LastWrite::Now, None).await.unwrap();
    let reading = world.rest.read(&path("big"), None).await.unwrap();
    let mut bytes = vec![0; 1 << 20];
    assert_eq!(reading.read_at(&mut bytes, 2 << 30).unwrap(), bytes.len());
    assert_eq!(bytes, data);
    let ranges = reading.ranges(None).unwrap();
    assert!(ranges.iter().any(|range| range.contains(&(2 << 30))), "{ranges:?}");
    assert_eq!(reading.ranges(Some(0..0)).unwrap(), []);
}

#[tokio::test]
async fn paths_lead_through_directories_that_exist() {
    let world = start().await;
    let new = NewFile::default();
    assert!(matches!(
        refusal(world.rest.create_file(&path("d/a"), new.clone(), None).await),
        FsError::NoParent
    ));
    let made = world.rest.create_directory(&path("d"), SmbChange::default(), Metadata::new()).await.unwrap();
    assert!(made.is_directory());
    let again = world.rest.create_directory(&path("d"), SmbChange::default(), Metadata::new()).await;
    assert!(matches!(refusal(again), FsError::Exists));
    assert_eq!(world.rest.create_file(&path("d/a"), new.clone(), None).await.unwrap().parent, made.ino);
    assert!(matches!(refusal(world.rest.create_file(&path("d/a/b"), new, None).await), FsError::NoParent));
    assert!(matches!(refusal(world.rest.read(&path("d"), None).await), FsError::IsADirectory));
    assert!(matches!(refusal(world.rest.delete_file(&path("d"), None).await), FsError::IsADirectory));
    assert!(matches!(refusal(world.rest.directory_properties(&path("d/a")).await), FsError::NotADirectory));
    assert!(matches!(refusal(world.rest.delete_directory(&path("d")).await), FsError::NotEmpty));
    world.rest.delete_file(&path("d/a"), None).await.unwrap();
    world.rest.delete_directory(&path("d")).await.unwrap();
    assert!(matches!(refusal(world.rest.directory_properties(&path("d")).await), FsError::NotFound));
}

#[tokio::test]
async fn a_program_and_a_call_have_one_file() {
    let world = start().await;
    world.put("a", &[b'-'; 100_000]).await;
    let handle = world.open("a", WRITE).await;
    world.engine.write(handle, 10, b"program").await.unwrap();
    assert_eq!(&world.get("a").await[10..17], b"program", "written and not committed yet");
    world.write("a", 20, b"call").await.unwrap();
    let mut seen = [0; 24];
    world.engine.read(handle, 0, &mut seen).unwrap();
    assert_eq!(&seen[10..], b"program---call");
    world.close(handle).await;
    assert_eq!(&world.get("a").await[10..24], b"program---call");
}

#[tokio::test]
async fn an_overwrite_keeps_the_file_and_replaces_everything_else() {
    let world = start().await;
    let metadata: Metadata = [("color".to_owned(), "red".to_owned())].into();
    let new = NewFile { metadata: metadata.clone(), ..NewFile::default() };
    let made = world.rest.create_file(&path("a"), new, None).await.unwrap();
    assert_eq!(made.metadata, metadata);
    let handle = world.open("a", READ).await;
    let over = world.put("a", b"second").await;
    assert_eq!((over.ino, over.metadata.len(), over.size), (made.ino, 0, 6));
    let mut seen = [0; 6];
    world.engine.read(handle, 0, &mut seen).unwrap();
    assert_eq!(&seen, b"second", "who has it open sees it");
    world.close(handle).await;
}
