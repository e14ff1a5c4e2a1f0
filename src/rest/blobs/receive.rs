//! Taking a request's body in: piece by piece into the store's private place, with its checksums.
//!
//! A short body never leaves memory. A long one is written by a thread that may block while the next pieces arrive,
//! so a body of any length costs the memory of two batches. A body that ends early or does not fit its checksum is
//! dropped, and nothing of it stays.

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::failure::{Failure, Result};
use crate::rest::server::{BodyError, RequestBody};
use crate::store::{BlobBody, StoreError, Upload};
use crate::wire::checksum::{Declared, Summing, Sums, Wanted};

/// Bodies up to this length are written without another thread's help.
const IN_PLACE_MAX: u64 = 64 * 1024;
/// Pieces are gathered to so many bytes before they are handed to the writing thread.
const BATCH: usize = 1024 * 1024;

/// A body that arrived whole.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) body: BlobBody,
    pub(super) sums: Sums,
}

/// A body and its sums while it is written.
struct Sink {
    upload: Upload,
    summing: Summing,
}

impl Sink {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.summing.update(piece);
        Ok(self.upload.write(piece)?)
    }

    fn finish(self, declared: &Declared) -> Result<Received> {
        let sums = self.summing.finish();
        sums.check(declared)?;
        Ok(Received { body: self.upload.finish(), sums })
    }
}

/// Receives a body of at most `max` bytes into `upload`. `wanted` and what is declared decide which sums are made.
pub(super) async fn receive(
    body: &mut RequestBody,
    upload: Upload,
    max: u64,
    declared: Declared,
    wanted: Wanted,
) -> Result<Received> {
    if body.length() > max {
        return Err(BodyError::TooLong { max }.into());
    }
    let wanted = if declared.md5.is_some() { Wanted::Md5AndCrc64 } else { wanted };
    // The sums are made here, once.
    let mut sink = Sink { upload: upload.without_md5(), summing: Summing::new(wanted) };
    if body.length() <= IN_PLACE_MAX {
        while let Some(piece) = body.next().await? {
            sink.write(&piece)?;
        }
        return sink.finish(&declared);
    }
    let mut writing: Option<JoinHandle<Result<Sink>>> = None;
    let mut resting = Some(sink);
    let mut batch: Vec<Bytes> = Vec::new();
    let mut gathered = 0;
    loop {
        let piece = body.next().await?;
        let ended = piece.is_none();
        gathered += piece.as_ref().map_or(0, Bytes::len);
        batch.extend(piece);
        if gathered < BATCH && !ended {
            continue;
        }
        let mut sink = match (resting.take(), writing.take()) {
            (Some(sink), _) => sink,
            (None, Some(writing)) => joined(writing).await?,
            (None, None) => return Err(lost()),
        };
        let pieces = std::mem::take(&mut batch);
        gathered = 0;
        let work = tokio::task::spawn_blocking(move || {
            pieces.iter().try_for_each(|piece| sink.write(piece))?;
            Ok(sink)
        });
        if ended {
            return joined(work).await?.finish(&declared);
        }
        writing = Some(work);
    }
}

async fn joined(writing: JoinHandle<Result<Sink>>) -> Result<Sink> {
    writing.await.unwrap_or_else(|_| Err(lost()))
}

fn lost() -> Failure {
    StoreError::Damaged("a thread that wrote a body ended early".into()).into()
}
