//! Delete Blob and Snapshot Blob.

use super::BlobService;
use super::call::Call;
use super::failure::Result;
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::store::{BlobPath, DeleteSnapshots};
use crate::wire::{ErrorCode, Fault, date, headers};

impl BlobService {
    /// Delete Blob, or one of its snapshots.
    pub(super) async fn delete_blob(&self, call: &Call<'_>, at: &BlobPath) -> Result<Answer> {
        if headers::flag(call.headers(), headers::DELETE_TYPE_PERMANENT)?
            || call.query.filled("deletetype").is_some()
        {
            return Err(Fault::new(ErrorCode::UnsupportedQueryParameter)
                .with("QueryParameterName", "deletetype")
                .saying("Nothing is kept after a delete, so nothing can be deleted permanently.")
                .into());
        }
        let conditions = call.write_conditions()?;
        let option = call.header(headers::DELETE_SNAPSHOTS)?;
        match call.snapshot()? {
            Some(snapshot) => {
                if let Some(text) = option {
                    return Err(Fault::invalid_header(headers::DELETE_SNAPSHOTS, text).into());
                }
                self.store.delete_snapshot(at, snapshot, &conditions).await?;
            }
            None => {
                let snapshots = match option {
                    None => DeleteSnapshots::Refuse,
                    Some(text) if text.eq_ignore_ascii_case("include") => DeleteSnapshots::Include,
                    Some(text) if text.eq_ignore_ascii_case("only") => DeleteSnapshots::Only,
                    Some(text) => return Err(Fault::invalid_header(headers::DELETE_SNAPSHOTS, text).into()),
                };
                self.store.delete_blob(at, snapshots, &conditions).await?;
            }
        }
        Ok(Reply::accepted().fixed("x-ms-delete-type-permanent", "true").empty())
    }

    /// Snapshot Blob.
    pub(super) async fn snapshot_blob(&self, call: &Call<'_>, at: &BlobPath) -> Result<Answer> {
        call.refuse_snapshot()?;
        call.refuse_unsupported()?;
        let metadata = call.metadata_if_any()?;
        let (snapshot, blob) = self.store.snapshot_blob(at, metadata, &call.write_conditions()?).await?;
        let reply = Reply::created().version(blob.etag, blob.modified);
        let reply = reply.header(headers::SNAPSHOT, &date::iso_ticks(snapshot.0));
        Ok(reply.fixed(headers::REQUEST_SERVER_ENCRYPTED, "false").empty())
    }
}
