//! Opening data directories: foreign, of another version, in use, torn, damaged.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore, OpenError, check};
use leasefs::store::{
    BlobName, BlobPath, BlobStore, ContainerName, LocalStore, Metadata, NewContent, Preconditions,
    PublicAccess,
};

fn open(folder: &Path) -> Result<Arc<EmbeddedStore>, OpenError> {
    EmbeddedStore::open(folder, EmbeddedOptions::default())
}

fn at(name: &str) -> BlobPath {
    BlobPath::new(ContainerName::new("share").unwrap(), BlobName::new(name).unwrap())
}

async fn put(store: &EmbeddedStore, name: &str, size: usize) {
    let new = NewContent::default();
    store.put_blob(&at(name), vec![b'x'; size].into(), new, &Preconditions::default()).await.unwrap();
}

/// A store with 200 blobs, left as a crash leaves it.
async fn filled(folder: &Path) {
    let store = open(folder).unwrap();
    store.create_container(&at("x").container, Metadata::new(), PublicAccess::None).await.unwrap();
    for index in 0..200 {
        put(&store, &format!("f{index:03}"), if index % 10 == 0 { 50_000 } else { 300 }).await;
    }
    store.close().unwrap();
    drop(store);
    fs::remove_file(folder.join("clean")).unwrap();
}

fn newest_journal(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder.join("kv")).unwrap().map(|entry| entry.unwrap().path());
    let journals = entries.filter(|path| path.extension().is_some_and(|end| end == "jnl"));
    journals.max_by_key(|path| path.file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap()).unwrap()
}

/// Where the written part of a journal ends; the rest is zeros laid out ahead.
fn data_end(journal: &Path) -> u64 {
    let bytes = fs::read(journal).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1
}

#[test]
fn a_directory_of_somebody_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("content")).unwrap();
    fs::write(folder.path().join("content/photo"), b"precious").unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert!(error.to_string().contains(folder.path().to_str().unwrap()), "{error}");
    assert_eq!(fs::read(folder.path().join("content/photo")).unwrap(), b"precious");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was added");
    fs::write(folder.path().join("FORMAT"), b"some other program\n").unwrap();
    assert!(matches!(open(folder.path()), Err(OpenError::Foreign { .. })));
}

#[test]
fn a_file_in_place_of_the_directory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, b"").unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
}

#[tokio::test]
async fn another_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path()).await;
    let path = folder.path().join("FORMAT");
    assert_eq!(fs::read_to_string(&path).unwrap(), "leasefs embedded store, format 2\n");
    fs::write(&path, "leasefs embedded store, format 7\n").unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(&error, OpenError::Version { found, .. } if found == "7"), "{error}");
}

#[test]
fn an_interrupted_making_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("FORMAT.new"), "leasefs embedded store, format 2\n").unwrap();
    fs::write(folder.path().join("owner"), "1").unwrap();
    fs::create_dir(folder.path().join("content")).unwrap();
    drop(open(folder.path()).unwrap());
    assert!(check(folder.path()).unwrap().is_clean());
}

#[tokio::test]
async fn a_missing_database_is_damage_not_an_empty_store() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path()).await;
    fs::remove_dir_all(folder.path().join("kv")).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

/// Not a test: tries to open a directory and says how that went.
#[test]
fn child() {
    let Some(folder) = std::env::var_os("LEASEFS_OPEN_CHILD") else { return };
    let answer = match open(Path::new(&folder)) {
        Ok(_) => "opened".to_owned(),
        Err(error) => format!("refused: {error}"),
    };
    fs::File::create(std::env::var_os("LEASEFS_OPEN_ANSWER").unwrap())
        .unwrap()
        .write_all(answer.as_bytes())
        .unwrap();
}

fn open_in_another_process(folder: &Path) -> String {
    let answer = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child"]).env("LEASEFS_OPEN_CHILD", folder);
    command.env("LEASEFS_OPEN_ANSWER", answer.path()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().unwrap().success());
    fs::read_to_string(answer.path()).unwrap()
}

#[test]
fn two_processes_cannot_have_one_directory() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let answer = open_in_another_process(folder.path());
    let expected = format!("is in use by process {}", std::process::id());
    assert!(answer.contains(&expected), "{answer}");
    assert!(matches!(open(folder.path()), Err(OpenError::InUse { .. })), "nor one process twice");
    store.close().unwrap();
    assert_eq!(open_in_another_process(folder.path()), "opened");
}

#[tokio::test]
async fn a_torn_tail_costs_the_last_change_only() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path()).await;
    {
        let store = open(folder.path()).unwrap();
        put(&store, "last", 50_000).await;
        store.close().unwrap();
        // Not there if closing came before the cleaning was done.
        let _ = fs::remove_file(folder.path().join("clean"));
    }
    let journal = newest_journal(folder.path());
    let file = fs::OpenOptions::new().write(true).open(&journal).unwrap();
    file.set_len(data_end(&journal) - 7).unwrap();
    drop(file);
    let store = open(folder.path()).unwrap();
    assert!(store.find(&at("last")).unwrap().blob.is_none());
    for index in 0..200 {
        assert!(store.find(&at(&format!("f{index:03}"))).unwrap().blob.is_some(), "{index}");
    }
    let report = store.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
    put(&store, "last", 10).await;
}

#[tokio::test]
async fn a_flipped_byte_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path()).await;
    let journal = newest_journal(folder.path());
    let bytes = fs::read(&journal).unwrap();
    // In the middle of somebody's content.
    let middle = bytes.len().min(data_end(&journal) as usize) / 2;
    let place =
        (middle..).find(|place| bytes[place - 20..place + 20].iter().all(|byte| *byte == b'x')).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&journal).unwrap();
    file.write_all_at(b"y", place as u64).unwrap();
    drop(file);
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("is damaged"), "{error}");
}

#[tokio::test]
async fn the_check_names_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path()).await;
    drop(open(folder.path()).unwrap());
    assert!(check(folder.path()).unwrap().is_clean());
    let mut contents = Vec::new();
    for entry in fs::read_dir(folder.path().join("content/00")).unwrap() {
        contents.push(entry.unwrap().path());
    }
    contents.sort();
    assert_eq!(contents.len(), 20);
    fs::remove_file(&contents[0]).unwrap();
    fs::OpenOptions::new().write(true).open(&contents[1]).unwrap().set_len(10).unwrap();
    fs::write(folder.path().join("content/00/00000000deadbeef"), b"").unwrap();
    let report = check(folder.path()).unwrap();
    let all = report.problems.join("\n");
    assert_eq!(report.problems.len(), 3, "{all}");
    assert!(all.contains("share/f000") && all.contains("share/f010"), "{all}");
    assert!(all.contains("10 bytes instead of 50000"), "{all}");
    assert!(all.contains("deadbeef belongs to no blob"), "{all}");
    assert_eq!((report.containers, report.blobs), (1, 200));
}

#[tokio::test]
async fn content_that_is_too_short_is_an_error_not_zeros() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path()).await;
    let store = open(folder.path()).unwrap();
    let reader = store.reader(&at("f000")).unwrap();
    reader.as_file().unwrap().metadata().unwrap();
    for entry in fs::read_dir(folder.path().join("content/00")).unwrap() {
        let path = entry.unwrap().path();
        fs::OpenOptions::new().write(true).open(path).unwrap().set_len(10).unwrap();
    }
    let mut buffer = vec![0; 50_000];
    assert!(reader.read_at(&mut buffer, 0).is_err());
    let mut start = [0; 10];
    reader.as_file().unwrap().read_exact_at(&mut start, 0).unwrap();
    let mut text = String::new();
    (&start[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, "xxxxxxxxxx");
}
