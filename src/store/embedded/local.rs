//! The local abilities, as the engine calls them.

use std::fs::File;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::store::{
    BlobBody, BlobPath, BlobProperties, ByteRange, Change, ChangeFeed, ContainerName, ContainerProperties,
    ContentReader, DeleteSnapshots, Found, LocalStore, Metadata, NewContent, Preconditions, Progress,
    RenameMode, Result, Scratch, SnapshotId, Space, Upload,
};

use super::committer::sync_files;
use super::reading::ReaderPin;
use super::{EmbeddedStore, Growth};

#[async_trait]
impl LocalStore for EmbeddedStore {
    fn find(&self, at: &BlobPath) -> Result<Found> {
        self.blob_find(at)
    }

    fn share_settings(&self) -> Result<Option<Bytes>> {
        self.shares_read()
    }

    fn set_share_settings(&self, document: Bytes) -> Result<()> {
        self.shares_set(&document)
    }

    fn scratch(&self) -> Result<Scratch> {
        self.space.check()?;
        self.files.scratch()
    }

    fn reader(&self, at: &BlobPath) -> Result<ContentReader> {
        self.blob_reader(at)
    }

    fn publish(
        &self,
        at: &BlobPath,
        scratch: &Scratch,
        size: u64,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.blob_publish(at, scratch, size, new, conditions)
    }

    fn put_small(
        &self,
        at: &BlobPath,
        bytes: Bytes,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.blob_put_small(at, bytes, new, conditions)
    }

    fn put_before_removal(
        &self,
        at: &BlobPath,
        bytes: Bytes,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.blob_put_in(Growth::Frees, at, bytes.into(), new, conditions)
    }

    fn patch(
        &self,
        at: &BlobPath,
        base: &ContentReader,
        scratch: &Scratch,
        changes: &[Change],
        size: u64,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.blob_patch(at, base, scratch, changes, size, new, conditions)
    }

    fn open_version(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        part: Option<ByteRange>,
        conditions: &Preconditions,
    ) -> Result<ContentReader> {
        self.open_judged(at, snapshot, part, conditions)
    }

    fn upload(&self) -> Upload {
        let files = Arc::clone(&self.files);
        Upload::new(self.inline_max, move || files.scratch())
    }

    async fn settle(&self, body: &BlobBody) -> Result<()> {
        match body.as_file() {
            Some(file) => sync_files(vec![Arc::clone(file)]).await,
            None => Ok(()),
        }
    }

    fn set_metadata(
        &self,
        at: &BlobPath,
        metadata: Metadata,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.blob_set_metadata(at, metadata, conditions)
    }

    fn rename(&self, from: &BlobPath, to: &BlobPath, mode: RenameMode) -> Result<()> {
        self.blob_rename(from, to, mode)
    }

    async fn snapshot_container(
        &self,
        name: &ContainerName,
        metadata: Option<Metadata>,
    ) -> Result<(SnapshotId, ContainerProperties)> {
        let name = name.clone();
        self.apart(move |store| store.share_snapshot(&name, metadata)).await
    }

    fn container_snapshots(&self, name: &ContainerName) -> Result<Vec<(SnapshotId, ContainerProperties)>> {
        self.share_snapshot_list(name)
    }

    async fn delete_container_snapshot(&self, name: &ContainerName, snapshot: SnapshotId) -> Result<()> {
        self.answer(self.share_snapshot_delete(name, snapshot)).await
    }

    async fn delete_container_with(
        &self,
        name: &ContainerName,
        snapshots: DeleteSnapshots,
        conditions: &Preconditions,
    ) -> Result<()> {
        self.answer(self.container_delete(name, snapshots, conditions)).await
    }

    fn tidy(&self, at: &BlobPath) -> Result<()> {
        self.blob_tidy(at)
    }

    fn take_over(&self, at: Option<&BlobPath>, reader: &ContentReader) -> Result<Scratch> {
        self.blob_take_over(at, reader)
    }

    fn inline_max(&self) -> u64 {
        self.inline_max
    }

    fn unsynced(&self, version: &ContentReader) -> Result<Vec<Arc<File>>> {
        let Some(pin) = version.pin::<ReaderPin>() else { return Ok(Vec::new()) };
        let unsynced = pin.numbers().iter().filter(|number| self.files.unsynced().has(**number));
        unsynced.map(|number| self.open_content(*number)).collect()
    }

    fn is_unsynced(&self, published: &Scratch) -> bool {
        self.files.unsynced().has(published.id())
    }

    async fn sync_data(&self, files: Vec<Arc<File>>) -> Result<()> {
        sync_files(files).await
    }

    async fn sync(&self) -> Result<()> {
        self.committer.sync().await
    }

    async fn checkpoint(&self, progress: &(dyn Fn(Progress) + Send + Sync)) -> Result<()> {
        self.checkpoint_with(progress).await
    }

    fn changes(&self) -> Box<dyn ChangeFeed> {
        Box::new(self.parts.changes.subscribe(self.user))
    }

    fn space(&self) -> Result<Space> {
        self.space.ask()
    }
}
