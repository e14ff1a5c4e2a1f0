//! Versions whose bytes are elsewhere: a mirror knows a blob's size and properties before it has its content.
//!
//! ```text
//!                 fill                          hollow_out
//!   hollow ----------------> filled (a file, or ---------------> hollow
//!   (adopt)                  bytes in the index)
//! ```
//!
//! Filling and hollowing out change neither the version nor its ETag, and nobody is told: whoever looks from outside
//! sees no difference, except that a hollow version reads as zeros. So only the owner of a mirror, who knows which
//! bytes are here, may hand such a version out. A version that is not the one named is never touched.

use std::fs::OpenOptions;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::store::{BlobPath, Change, ETag, NewContent, Preconditions, Result, Scratch, StoreError};

use super::blobs::{Body, NewVersion, whole};
use super::record::{Content, Entry, Extent, Source};
use super::tx::points;
use super::{EmbeddedStore, Growth, extents};

/// Where a version's bytes are from now on.
#[derive(Clone, Copy, Debug)]
pub enum Filling<'a> {
    /// All in this file, which may still be written. It must have the version's length.
    Scratch(&'a Scratch),
    /// These ranges, sorted and apart from each other, in this file at the same places; the others as they are.
    Ranges(&'a Scratch, &'a [Range<u64>]),
    /// Here; at most [`inline_max`](crate::store::LocalStore::inline_max) of them.
    Bytes(&'a Bytes),
}

impl EmbeddedStore {
    /// Gives a version its bytes. [`ConditionNotMet`](StoreError::ConditionNotMet) if the blob has another by now.
    pub fn fill(&self, at: &BlobPath, version: ETag, filling: Filling<'_>) -> Result<()> {
        if let Filling::Scratch(scratch) | Filling::Ranges(scratch, _) = filling {
            self.files.mark_live(scratch.id());
        }
        self.swap_content(at, version, Growth::Adds, |tx, entry| match filling {
            Filling::Scratch(scratch) => Ok(Content::Extents(whole(scratch, entry.properties.size))),
            Filling::Ranges(scratch, ranges) => {
                let changes: Vec<Change> = ranges.iter().cloned().map(Change::in_place).collect();
                let now = entry.content.extents();
                Ok(Content::Extents(extents::replace(now, &changes, scratch.id(), entry.properties.size)))
            }
            Filling::Bytes(bytes) if bytes.len() as u64 == entry.properties.size => tx.store_inline(bytes),
            Filling::Bytes(_) => Err(StoreError::Damaged(format!("{at} was to be filled with another size"))),
        })
    }

    /// A small note that is written before room is made by what it says: it may use the room that is kept for deletes.
    pub fn put_before_freeing(&self, at: &BlobPath, bytes: Bytes) -> Result<()> {
        let size = bytes.len() as u64;
        let version = NewVersion::local(Body::Bytes(bytes), size, NewContent::default());
        let (growth, always) = (Growth::Frees, Preconditions::default());
        self.make_version_in(growth, at, version, &always, points!("publish")).map(|_| ())
    }

    /// How many bytes can be added before changes are refused for want of room.
    pub fn room_left(&self) -> Result<u64> {
        self.space.left()
    }

    /// Takes a version's bytes away. Readers that have them keep them. [`ConditionNotMet`](StoreError::ConditionNotMet)
    /// if the blob has another version by now.
    pub fn hollow_out(&self, at: &BlobPath, version: ETag) -> Result<()> {
        self.swap_content(at, version, Growth::Frees, |_, entry| match entry.properties.size {
            0 => Ok(Content::Empty),
            size => Ok(Content::Extents(nothing(size))),
        })
    }

    /// The one file that is the content of this version, to go on filling it; nothing if the content is not one file
    /// of its own or somebody else writes it.
    pub fn hold_filling(&self, at: &BlobPath, version: ETag) -> Result<Option<Scratch>> {
        let Some(entry) = self.current(at)?.filter(|entry| entry.properties.etag == version) else {
            return Err(StoreError::ConditionNotMet);
        };
        let [Extent { source: Some(Source { file: number, offset: 0 }), .. }] = *entry.content.extents()
        else {
            return Ok(None);
        };
        if self.reference_count(number)? != 1 || self.files.is_held(number) {
            return Ok(None);
        }
        let path = self.files.path(number);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|error| StoreError::io(format!("open {}", path.display()), error))?;
        let scratch = self.files.hold(number, Arc::new(file));
        self.files.settle(&[(number, 1)]);
        self.files.mark_live(number);
        Ok(Some(scratch))
    }

    /// Whether the content of this version is, in part or as a whole, in that file.
    pub fn is_filled_from(&self, at: &BlobPath, version: ETag, scratch: &Scratch) -> Result<bool> {
        let current = self.current(at)?.filter(|entry| entry.properties.etag == version);
        Ok(current.is_some_and(|entry| entry.content.files().contains(&scratch.id())))
    }

    /// Bytes were written into a file that a version was filled with: they reach the disk with the next checkpoint.
    pub fn note_written(&self, scratch: &Scratch, size: u64) {
        self.files.unsynced().file(scratch.id(), size);
    }

    /// Whether somebody reads or writes the files of this version.
    pub fn is_in_use(&self, at: &BlobPath, version: ETag) -> Result<bool> {
        let current = self.current(at)?.filter(|entry| entry.properties.etag == version);
        let busy = |number: &u64| self.files.is_held(*number) || !self.files.readers(*number).is_empty();
        Ok(current.is_some_and(|entry| entry.content.files().iter().any(busy)))
    }

    fn swap_content(
        &self,
        at: &BlobPath,
        version: ETag,
        growth: Growth,
        make: impl FnOnce(&mut super::Tx<'_>, &Entry) -> Result<Content>,
    ) -> Result<()> {
        self.write(growth, points!("fill"), |tx| {
            let (spot, entry) = tx.existing(at)?;
            if entry.properties.etag != version {
                return Err(StoreError::ConditionNotMet);
            }
            let content = make(tx, &entry)?;
            if content == entry.content {
                return Ok(());
            }
            tx.refer(&content);
            tx.drop_content(&entry.content)?;
            tx.put_blob(&spot, Arc::new(Entry { content, ..Entry::clone(&entry) }));
            Ok(())
        })
    }
}

/// Content without bytes.
fn nothing(size: u64) -> Vec<Extent> {
    vec![Extent { len: size, source: None }]
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use crate::store::embedded::Adopted;
    use crate::store::embedded::EmbeddedOptions;
    use crate::store::{
        BlobName, BlobStore, ContainerName, LocalStore, Metadata, NewContent, Preconditions, PublicAccess,
    };

    use super::*;

    const SIZE: u64 = 200_000;

    fn at() -> BlobPath {
        BlobPath::new(ContainerName::new("share").unwrap(), BlobName::new("a/b").unwrap())
    }

    async fn store(folder: &std::path::Path) -> Arc<EmbeddedStore> {
        let store = EmbeddedStore::open(folder, EmbeddedOptions::default()).unwrap();
        if store.container_properties(&at().container, None).await.is_err() {
            store.create_container(&at().container, Metadata::new(), PublicAccess::None).await.unwrap();
        }
        store
    }

    fn hollow(store: &EmbeddedStore, size: u64) -> ETag {
        let adopted = Adopted { size, ..Adopted::default() };
        let made = store.adopt(vec![(at(), adopted, Preconditions::default())]).unwrap();
        made[0].as_ref().unwrap().etag
    }

    #[tokio::test]
    async fn content_comes_and_goes_under_one_etag_and_nobody_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path()).await;
        let version = hollow(&store, SIZE);
        let mut feed = store.durable_user().changes();
        let scratch = store.scratch().unwrap();
        scratch.file().set_len(SIZE).unwrap();
        store.fill(&at(), version, Filling::Scratch(&scratch)).unwrap();
        scratch.file().write_all_at(&[7; 10], 100_000).unwrap();
        let reader = store.reader(&at()).unwrap();
        assert_eq!((reader.size(), reader.properties().etag), (SIZE, version));
        assert!(reader.as_file().is_some(), "filled content is one local file");
        assert!(store.is_in_use(&at(), version).unwrap());
        drop(scratch);
        store.hollow_out(&at(), version).unwrap();
        let mut bytes = [0; 10];
        reader.read_at(&mut bytes, 100_000).unwrap();
        assert_eq!(bytes, [7; 10], "a reader keeps what it has");
        let empty = store.reader(&at()).unwrap();
        assert!(empty.as_file().is_none() && empty.size() == SIZE);
        assert!(feed.next(std::time::Duration::ZERO).unwrap().is_empty());
        drop((reader, empty));
        assert!(store.check().unwrap().is_clean());
    }

    #[tokio::test]
    async fn a_part_can_be_filled_from_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path()).await;
        let always = Preconditions::default();
        let old = vec![1; SIZE as usize];
        let version = store.put_blob(&at(), old.into(), NewContent::default(), &always).await.unwrap().etag;
        let scratch = store.scratch().unwrap();
        scratch.file().set_len(SIZE).unwrap();
        store.fill(&at(), version, Filling::Ranges(&scratch, &[10..20, 100_000..SIZE])).unwrap();
        scratch.file().write_all_at(&[2; 10], 10).unwrap();
        assert!(store.is_filled_from(&at(), version, &scratch).unwrap());
        let mut bytes = [9; 30];
        let reader = store.reader(&at()).unwrap();
        reader.read_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [[1; 10], [2; 10], [1; 10]].concat()[..]);
        reader.read_at(&mut bytes, 99_990).unwrap();
        assert_eq!(bytes, [[1; 10], [0; 10], [0; 10]].concat()[..]);
        drop((reader, scratch));
        assert!(store.check().unwrap().is_clean());
    }

    #[tokio::test]
    async fn another_version_is_never_touched() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path()).await;
        let old = hollow(&store, 3);
        store.put_blob(&at(), "new".into(), NewContent::default(), &Preconditions::default()).await.unwrap();
        let bytes = Bytes::from_static(b"old");
        for refused in [store.fill(&at(), old, Filling::Bytes(&bytes)), store.hollow_out(&at(), old)] {
            assert!(matches!(refused, Err(StoreError::ConditionNotMet)), "{refused:?}");
        }
        assert_eq!(store.reader(&at()).unwrap().as_bytes().unwrap(), "new");
        let next = hollow(&store, 3);
        assert!(store.fill(&at(), next, Filling::Bytes(&Bytes::from_static(b"long"))).is_err());
        store.fill(&at(), next, Filling::Bytes(&bytes)).unwrap();
        assert_eq!(store.reader(&at()).unwrap().as_bytes().unwrap(), "old");
    }

    #[tokio::test]
    async fn filling_goes_on_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let version = {
            let store = store(folder.path()).await;
            let version = hollow(&store, SIZE);
            assert!(store.hold_filling(&at(), version).unwrap().is_none());
            let scratch = store.scratch().unwrap();
            scratch.file().set_len(SIZE).unwrap();
            store.fill(&at(), version, Filling::Scratch(&scratch)).unwrap();
            assert!(store.hold_filling(&at(), version).unwrap().is_none(), "it has a writer");
            scratch.file().write_all_at(b"one", 0).unwrap();
            version
        };
        let store = store(folder.path()).await;
        let scratch = store.hold_filling(&at(), version).unwrap().unwrap();
        scratch.file().write_all_at(b"two", 3).unwrap();
        store.note_written(&scratch, SIZE);
        drop(scratch);
        let mut bytes = [0; 6];
        store.reader(&at()).unwrap().read_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"onetwo");
        assert!(store.check().unwrap().is_clean());
    }
}
