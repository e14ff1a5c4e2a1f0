//! Blocks that are sent while their file is still being written, so that its commit has less to wait for.
//!
//! ```text
//!   written so far   |###block###|###block###|###block###|####     the last ones may still be worked on
//!   sent early       |     x     |     x     |
//!   at the push      same digest: the block is named in the list; another: it is sent again
//! ```
//!
//! Must never decide what a version is made of: a push takes a block from here only if it is, by its digest, what the push
//! has to send, and sends everything itself if the service has dropped the blocks meanwhile. Between two pushes a place is
//! sent early once at most, so a program that writes everything twice costs the bytes twice, not more.

use std::collections::BTreeMap;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use super::Mirror;
use super::blocks::BLOCK;
use super::state::Block;
use super::upload::{ID_BYTES, digested, summed, uuid_bytes};
use crate::share::lease::LeaseId;
use crate::store::upstream::Upstream;
use crate::store::{BlobName, BlockId, Result, StoreError};

/// Files whose early blocks are remembered.
const FILES_MAX: NonZeroUsize = NonZeroUsize::new(256).expect("it is not zero");

/// The blocks of one file by where they begin; nothing where the committed version has that very block.
pub(super) type EarlyBlocks = BTreeMap<u64, Option<Block>>;

/// What was sent early, by file.
pub(super) struct Early(Mutex<LruCache<BlobName, Arc<tokio::sync::Mutex<EarlyBlocks>>>>);

impl Default for Early {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(FILES_MAX)))
    }
}

impl Early {
    /// The blocks of a file, for one at a time: nothing is sent early while a push is under way, because the service
    /// drops what a commit does not name.
    pub(super) async fn of(&self, name: &BlobName) -> OwnedMutexGuard<EarlyBlocks> {
        let blocks = Arc::clone(self.0.lock().get_or_insert(name.clone(), Arc::default));
        blocks.lock_owned().await
    }

    /// The service is going to drop what was sent of this file.
    pub(super) fn forget(&self, name: &BlobName) {
        drop(self.0.lock().pop(name));
    }
}

impl Mirror {
    /// [`Upstream::send_early`](crate::store::Upstream::send_early).
    pub(super) async fn send_blocks_early(
        &self,
        name: &BlobName,
        content: &Arc<File>,
        written: u64,
        lease: Option<LeaseId>,
    ) -> Result<()> {
        let whole = written.saturating_sub(BLOCK) / BLOCK;
        if whole == 0 {
            return Ok(());
        }
        let mut sent = self.early.of(name).await;
        let missing: Vec<u64> = (0..whole)
            .map(|index| index * BLOCK)
            .filter(|start| !sent.contains_key(start))
            .take(self.options.parallel)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let Some(committed) = self.committed_digests(name)? else { return Ok(()) };
        let send = |start: u64| {
            let known = committed.get(&start);
            async move { Ok::<_, StoreError>((start, self.send_block(name, content, start, known, lease).await?)) }
        };
        let mut done = futures_util::stream::iter(missing).map(send).buffer_unordered(self.options.parallel);
        while let Some((start, block)) = done.try_next().await? {
            sent.insert(start, block);
        }
        Ok(())
    }

    /// Digests of the committed version's blocks of the usual length, by where they begin. Nothing if new blocks may not
    /// fit to what is there.
    fn committed_digests(&self, name: &BlobName) -> Result<Option<BTreeMap<u64, [u8; 16]>>> {
        let mut digests = BTreeMap::new();
        let Some(sidecar) = self.sidecars.get(name)?.filter(|sidecar| sidecar.size > 0) else {
            return Ok(Some(digests));
        };
        let Some(there) = sidecar.there else { return Ok(Some(digests)) };
        let Some(layout) = self.sidecars.layout(name, there)? else { return Ok(None) };
        let mut start = 0;
        for block in layout.blocks {
            if block.id.len() != ID_BYTES {
                return Ok(None);
            }
            if let (BLOCK, Some(digest)) = (block.len, block.digest) {
                digests.insert(start, digest);
            }
            start += block.len;
        }
        Ok(Some(digests))
    }

    /// Sends one block, unless it is the committed one.
    async fn send_block(
        &self,
        name: &BlobName,
        content: &Arc<File>,
        start: u64,
        committed: Option<&[u8; 16]>,
        lease: Option<LeaseId>,
    ) -> Result<Option<Block>> {
        let _room = self.room(BLOCK).await?;
        let (bytes, digest) = digested(read_block(Arc::clone(content), start).await?).await?;
        if committed == Some(&digest) {
            return Ok(None);
        }
        let id = BlockId(uuid_bytes(ID_BYTES));
        self.service.put_block(&self.there(name)?, &id, summed(bytes).await?, lease).await?;
        Ok(Some(Block { id: id.0, len: BLOCK, digest: Some(digest) }))
    }
}

async fn read_block(content: Arc<File>, start: u64) -> Result<Bytes> {
    let work = move || {
        let mut buffer = vec![0; usize::try_from(BLOCK).unwrap_or(usize::MAX)];
        let read = content.read_exact_at(&mut buffer, start);
        read.map_err(|error| StoreError::io("read what is written", error))?;
        Ok(Bytes::from(buffer))
    };
    let joined = tokio::task::spawn_blocking(work).await;
    joined.map_err(|error| StoreError::io("read what is written", std::io::Error::other(error)))?
}
