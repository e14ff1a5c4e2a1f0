//! Taking a content file away from its blob, for a writer that joins readers who have the file itself.

use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::store::{BlobKind, BlobPath, ContentReader, Result, Scratch, StoreError, crash_point, sparse};

use super::blobs::write_all;
use super::committer::persist;
use super::kv::Space;
use super::reading::ReaderPin;
use super::record::{Content, Entry, Extent, Source};
use super::tx::{Tx, points};
use super::{EmbeddedStore, Growth};

/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;

impl EmbeddedStore {
    pub(super) fn blob_take_over(&self, at: Option<&BlobPath>, reader: &ContentReader) -> Result<Scratch> {
        let number = only_file(reader)?;
        // Appends go into the same file, pages are found by a map, and a copy may need the file after the blob is gone.
        let other_kind = reader.properties().kind != BlobKind::Block;
        if other_kind || (at.is_none() && self.reference_count(number)? > 0) {
            return self.copy_of(reader);
        }
        let path = self.files.path(number);
        // While the blob still refers to the file its name is there; the reader's pin keeps it after that.
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|error| StoreError::io(format!("open {}", path.display()), error))?;
        if let Some(at) = at
            && let Some(copy) = self.move_version(at, reader)?
        {
            return Ok(copy);
        }
        Ok(self.files.hold(number, Arc::new(file)))
    }

    /// Gives the current version, and snapshots that share its file, a copy of the bytes, and makes that durable: the
    /// original is overwritten next. If another blob shares the file it must stay as it is: the copy is answered
    /// instead, for the writer.
    fn move_version(&self, at: &BlobPath, reader: &ContentReader) -> Result<Option<Scratch>> {
        let copy = self.copy_of(reader)?;
        copy.file().sync_data().map_err(|error| StoreError::io("sync content", error))?;
        crash_point("take_over_after_copy");
        let number = only_file(reader)?;
        let moved = self.write(Growth::Adds, points!("take_over"), |tx| {
            let (spot, entry) = tx.existing(at)?;
            if !is_content_of(reader, &entry) {
                return Err(StoreError::ConditionNotMet);
            }
            let snapshots =
                if entry.snapshots > 0 { tx.snapshots_on(entry.properties.id, number)? } else { Vec::new() };
            let reach = |extent: &Extent| extent.source.map_or(0, |source| source.offset + extent.len);
            let inside =
                |taken: &Entry| taken.content.extents().iter().map(reach).max() <= Some(reader.size());
            if self.reference_count(number)? != 1 + snapshots.len() as u64
                || !snapshots.iter().all(|(_, taken)| inside(taken))
            {
                return Ok(false);
            }
            for (key, taken) in snapshots {
                let moved = tx.moved(&taken, number, copy.id())?;
                tx.batch.put(Space::Misc, key, moved.encode()?);
            }
            let moved = tx.moved(&entry, number, copy.id())?;
            tx.put_blob(&spot, Arc::new(moved));
            Ok(true)
        })?;
        if !moved {
            return Ok(Some(copy));
        }
        persist(&self.kv, &self.files).map(|()| None)
    }

    /// A copy of the content, which is one file. Holes stay holes.
    fn copy_of(&self, reader: &ContentReader) -> Result<Scratch> {
        let failed = |error| StoreError::io("copy", error);
        let copy = self.files.scratch()?;
        let mut buffer = vec![0; CHUNK];
        let mut done = 0;
        while let Some(run) = next_run(reader, done).map_err(failed)? {
            let length = usize::try_from(run.end - run.start).unwrap_or(CHUNK).min(CHUNK);
            let count = reader.read_at(&mut buffer[..length], run.start).map_err(failed)?;
            write_all(&copy, &buffer[..count], run.start)?;
            done = run.start + count as u64;
        }
        copy.file().set_len(reader.size()).map_err(failed)?;
        Ok(copy)
    }
}

impl Tx<'_> {
    /// A version whose content is in another file at the same places.
    fn moved(&mut self, entry: &Entry, from: u64, to: u64) -> Result<Entry> {
        let place =
            |source: Source| Source { file: if source.file == from { to } else { source.file }, ..source };
        let piece = |extent: &Extent| Extent { source: extent.source.map(place), ..*extent };
        let content = Content::Extents(entry.content.extents().iter().map(piece).collect());
        self.refer(&content);
        self.drop_content(&entry.content)?;
        Ok(Entry { content, ..entry.clone() })
    }
}

/// The next bytes at or behind `from` that are not a hole.
fn next_run(reader: &ContentReader, from: u64) -> io::Result<Option<Range<u64>>> {
    match reader.as_file() {
        Some(file) => sparse::next_run(file, from, reader.size()),
        None => Ok(Some(from..reader.size()).filter(|rest| !rest.is_empty())),
    }
}

/// Whether what is read is still the blob's content. Attributes may be others by now: that is a new ETag, but the same
/// bytes in the same place.
fn is_content_of(reader: &ContentReader, entry: &Entry) -> bool {
    let (read, stored) = (reader.properties(), &entry.properties);
    let same_bytes = || {
        let pieces = reader.pin::<ReaderPin>().map(ReaderPin::extents);
        read.id == stored.id && read.size == stored.size && pieces == Some(entry.content.extents())
    };
    read.etag == stored.etag || same_bytes()
}

/// The number of the one file that is all of the reader's content.
fn only_file(reader: &ContentReader) -> Result<u64> {
    match reader.pin::<ReaderPin>().map(ReaderPin::extents) {
        Some([Extent { source: Some(Source { file, offset: 0 }), .. }]) => Ok(*file),
        _ => Err(StoreError::Damaged("content to take over is not one file".into())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use crate::store::embedded::EmbeddedOptions;
    use crate::store::{BlobName, BlobStore, ContainerName, LocalStore, Metadata, NewContent, Preconditions};

    use super::*;

    #[tokio::test]
    async fn the_blob_keeps_its_version_and_the_writer_gets_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let share = ContainerName::new("share").unwrap();
        store.create_container(&share, Metadata::new(), crate::store::PublicAccess::None).await.unwrap();
        let at = BlobPath::new(share, BlobName::new("a").unwrap());
        let always = Preconditions::default();
        let old = vec![1; 200_000];
        let first = store.put_blob(&at, old.clone().into(), NewContent::default(), &always).await.unwrap();
        let reader = store.reader(&at).unwrap();
        let taken = store.take_over(Some(&at), &reader).unwrap();
        taken.file().write_all_at(&[2; 10], 0).unwrap();
        let mut byte = [0];
        reader.as_file().unwrap().read_exact_at(&mut byte, 0).unwrap();
        assert_eq!(byte, [2], "whoever has the file itself sees the writer");
        let now = store.get_blob(&at, None, None, &always).await.unwrap();
        assert_eq!(now.properties.etag, first.etag);
        assert!(now.body == old, "the blob is as it was");
        store.publish(&at, &taken, 200_000, NewContent::default(), &always).unwrap();
        drop((taken, reader));
        let mut new = old;
        new[..10].fill(2);
        assert!(store.get_blob(&at, None, None, &always).await.unwrap().body == new);
    }

    #[tokio::test]
    async fn other_attributes_are_no_other_content_and_holes_stay_holes() {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let share = ContainerName::new("share").unwrap();
        store.create_container(&share, Metadata::new(), crate::store::PublicAccess::None).await.unwrap();
        let at = BlobPath::new(share, BlobName::new("a").unwrap());
        let (size, always) = (64 << 20, Preconditions::default());
        let scratch = LocalStore::scratch(&*store).unwrap();
        scratch.file().write_all_at(&[1; 100], 5 << 20).unwrap();
        scratch.file().set_len(size).unwrap();
        store.publish(&at, &scratch, size, NewContent::default(), &always).unwrap();
        drop(scratch);
        let reader = store.reader(&at).unwrap();
        let changed = store.set_metadata(&at, [("a", "b")].into_iter().collect(), &always).unwrap();
        let taken = store.take_over(Some(&at), &reader).unwrap();
        taken.file().write_all_at(&[2; 100], 0).unwrap();
        let now = store.reader(&at).unwrap();
        assert_eq!(now.properties().etag, changed.etag);
        let blocks = std::os::unix::fs::MetadataExt::blocks(&now.as_file().unwrap().metadata().unwrap());
        assert!(blocks * 512 < 1 << 20, "{blocks} blocks for 100 bytes");
        let mut bytes = vec![9; 6 << 20];
        now.read_at(&mut bytes, 0).unwrap();
        let mut expected = vec![0; 6 << 20];
        expected[5 << 20..][..100].fill(1);
        assert!(bytes == expected);
        store.put_blob(&at, vec![3; 200_000].into(), NewContent::default(), &always).await.unwrap();
        assert!(matches!(store.take_over(Some(&at), &reader), Err(StoreError::ConditionNotMet)));
    }

    #[tokio::test]
    async fn content_that_others_share_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let share = ContainerName::new("share").unwrap();
        store.create_container(&share, Metadata::new(), crate::store::PublicAccess::None).await.unwrap();
        let path = |name: &str| BlobPath::new(share.clone(), BlobName::new(name).unwrap());
        let always = Preconditions::default();
        let old = vec![1; 200_000];
        for (name, copied) in [("snapshot", false), ("copy", true)] {
            let at = path(name);
            store.put_blob(&at, old.clone().into(), NewContent::default(), &always).await.unwrap();
            let (taken, _) = store.snapshot_blob(&at, None, &always).await.unwrap();
            let other = path("other");
            if copied {
                let source = crate::store::CopySource::of(&at);
                store.copy_blob(&source, &other, Default::default(), &always).await.unwrap();
            }
            let reader = store.reader(&at).unwrap();
            let scratch = store.take_over(Some(&at), &reader).unwrap();
            scratch.file().write_all_at(&[2; 10], 0).unwrap();
            let mut byte = [0];
            reader.as_file().unwrap().read_exact_at(&mut byte, 0).unwrap();
            assert_eq!(
                byte,
                [if copied { 1 } else { 2 }],
                "a file that another blob needs is not the writer's"
            );
            store.publish(&at, &scratch, 200_000, NewContent::default(), &always).unwrap();
            assert_eq!(store.get_blob(&at, None, None, &always).await.unwrap().body[..10], [2; 10]);
            assert!(store.get_blob(&at, Some(taken), None, &always).await.unwrap().body == old);
            if copied {
                assert!(store.get_blob(&other, None, None, &always).await.unwrap().body == old);
            }
        }
        let report = store.check().unwrap();
        assert!(report.is_clean(), "{:#?}", report.problems);
    }
}
