//! Taking a content file away from its blob, for a writer that joins readers who have the file itself.

use std::fs::OpenOptions;
use std::sync::Arc;

use crate::store::{BlobPath, ContentReader, Result, Scratch, StoreError, crash_point};

use super::blobs::{whole, write_all};
use super::committer::persist;
use super::reading::ReaderPin;
use super::record::{Content, Entry, Extent, Source};
use super::tx::points;
use super::{EmbeddedStore, Growth};

/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;

impl EmbeddedStore {
    pub(super) fn blob_take_over(&self, at: Option<&BlobPath>, reader: &ContentReader) -> Result<Scratch> {
        let number = only_file(reader)?;
        let path = self.files.path(number);
        // While the blob still refers to the file its name is there; the reader's pin keeps it after that.
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|error| StoreError::io(format!("open {}", path.display()), error))?;
        if let Some(at) = at {
            self.move_version(at, reader)?;
        }
        Ok(self.files.hold(number, Arc::new(file)))
    }

    /// Gives the current version a copy of its bytes, and makes that durable: the original is overwritten next.
    fn move_version(&self, at: &BlobPath, reader: &ContentReader) -> Result<()> {
        let copy = self.copy_of(reader)?;
        copy.file().sync_data().map_err(|error| StoreError::io("sync content", error))?;
        crash_point("take_over_after_copy");
        self.write(Growth::Adds, points!("take_over"), |tx| {
            let (spot, entry) = tx.existing(at)?;
            if entry.properties.etag != reader.properties().etag {
                return Err(StoreError::ConditionNotMet);
            }
            // A copy or snapshot that shares the file must not see the writer.
            if self.reference_count(only_file(reader)?)? > 1 {
                return Err(StoreError::io("take over", std::io::Error::other("the content is shared")));
            }
            let content = Content::Extents(whole(&copy, reader.size()));
            tx.refer(&content);
            tx.drop_content(&entry.content)?;
            tx.put_blob(&spot, Arc::new(Entry { content, ..(*entry).clone() }));
            Ok(())
        })?;
        persist(&self.kv, &self.files)
    }

    fn copy_of(&self, reader: &ContentReader) -> Result<Scratch> {
        let copy = self.files.scratch()?;
        let mut buffer = vec![0; CHUNK];
        let mut done = 0;
        while done < reader.size() {
            let count = reader.read_at(&mut buffer, done).map_err(|error| StoreError::io("copy", error))?;
            write_all(&copy, &buffer[..count], done)?;
            done += count as u64;
        }
        Ok(copy)
    }
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
}
