//! The engines of a process, by share.

use std::sync::Arc;

use leasefs::fs::requests::NewFile;
use leasefs::fs::shares::{ShareSettings, Shares};
use leasefs::fs::{Engine, FsError};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::{ContainerName, DeleteSnapshots, Metadata};

use super::world::{config, path, share};

#[tokio::test]
async fn shares_have_one_engine_each_and_mounted_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let mounted = Engine::start(Arc::<EmbeddedStore>::clone(&store), share(), config()).await.unwrap();
    let shares = Shares::new(store, config());
    shares.adopt(Arc::clone(&mounted));
    assert!(Arc::ptr_eq(shares.open(&share()).await.unwrap().engine(), &mounted));
    let deleted = shares.delete(&share(), DeleteSnapshots::Include, None).await;
    assert!(matches!(deleted.unwrap_err(), FsError::ShareInUse(_)));
    let other = ContainerName::new("other").unwrap();
    assert!(matches!(shares.open(&other).await.unwrap_err(), FsError::NoShare));
    let metadata: Metadata = [("color".to_owned(), "red".to_owned())].into();
    let settings: ShareSettings = [("quota".to_owned(), "7".to_owned())].into();
    let made = shares.create(&other, &metadata, &settings).await.unwrap();
    assert_eq!((&made.metadata, &made.settings), (&metadata, &settings));
    let (one, two) = tokio::join!(shares.open(&other), shares.open(&other));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(Arc::ptr_eq(one.engine(), two.engine()));
    let new = NewFile { size: 10, ..NewFile::default() };
    one.create_file(&path("a"), new, None).await.unwrap();
    assert_eq!(shares.usage(&other).await.unwrap(), 10);
    // What a program changes about the root and what a caller keeps there do not touch each other.
    shares.set_metadata(&other, &Metadata::new(), None).await.unwrap();
    let info = shares.properties(&other, None).await.unwrap();
    assert_eq!((info.metadata.len(), &info.settings), (0, &settings));
}
