//! Moving single blobs at the service: copy under conditions, then delete under conditions.
//!
//! Copies carry the rename's mark and the version they were made of in their metadata, so that a copy whose answer was
//! lost, or that an earlier attempt made, is known as the rename's own, and is not taken for a copy of a later version. A
//! copy of a copy that the same rename made tells of the version that was there before the first.

use std::sync::Arc;

use super::{Mirror, PUSH_TOKEN};
use crate::share::lease::{LeaseId, LeaseRefusal};
use crate::store::mirror::refresh::{is_away, now};
use crate::store::{
    BlobPath, BlobProperties, CopyRequest, CopySource, DeleteSnapshots, ETag, Preconditions, Result,
    StoreError, crash_point,
};

/// What stands between the token and the version in a mark.
const BETWEEN: char = '.';
/// How often a move is tried whose source changes meanwhile.
const ATTEMPTS: usize = 4;

/// Stands for the version of a copy that was gone before anybody could ask for it. No version is called that.
const OVERWRITTEN: ETag = ETag(0);

/// A blob that was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    /// The version that was there before the rename touched it.
    pub(super) was: ETag,
    /// The version it has become.
    pub(super) is: ETag,
}

/// One move.
pub(super) struct Move<'m> {
    pub(super) from: &'m BlobPath,
    pub(super) to: &'m BlobPath,
    /// What must hold of the target.
    pub(super) target: Preconditions,
    /// The lease that is held on the source.
    pub(super) lease: Option<LeaseId>,
    /// The rename's.
    pub(super) token: &'m str,
    /// Tells the copies of one leg of a rename from those of its others; nothing if it has only one.
    pub(super) leg: &'m str,
}

impl Move<'_> {
    /// What the copy of `found` is known by.
    fn mark(&self, found: &BlobProperties) -> String {
        let was = origin_of(found, self.token);
        format!("{}{}{BETWEEN}{:X}", self.token, self.leg, was.0)
    }
}

impl Mirror {
    /// Moves a blob, of which `known` is the version last seen. Nothing if it is not there (any more).
    pub(super) async fn move_blob(
        &self,
        one: &Move<'_>,
        known: Option<Arc<BlobProperties>>,
    ) -> Result<Option<Moved>> {
        let mut source = known;
        for _ in 0..ATTEMPTS {
            let found = match source.take() {
                Some(found) => found,
                None => match self.version(one.from).await? {
                    Some(found) => found,
                    None => return Ok(None),
                },
            };
            if one.lease.is_none() && found.lease.is_locked(now()) {
                return Err(StoreError::Lease(LeaseRefusal::IdMissing));
            }
            let is = match self.copy_marked(&found, one).await {
                Ok(is) => is,
                Err(StoreError::SourceConditionNotMet) => continue,
                Err(StoreError::BlobNotFound(_)) if self.version(one.from).await?.is_none() => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            crash_point("rename_after_copy");
            self.delete_moved(one, found.etag, is).await?;
            return Ok(Some(Moved { was: origin_of(&found, one.token), is }));
        }
        Err(StoreError::SourceConditionNotMet)
    }

    /// Copies a version, or finds the copy that was made already; tells its version.
    pub(super) async fn copy_marked(&self, found: &BlobProperties, one: &Move<'_>) -> Result<ETag> {
        let mark = one.mark(found);
        let mut metadata = found.metadata.clone();
        metadata.set(PUSH_TOKEN, &mark);
        let source =
            CopySource { conditions: Preconditions::if_version(found.etag), ..CopySource::of(one.from) };
        let tier = found.tier.map(|tier| tier.tier);
        let request = CopyRequest {
            metadata: Some(metadata),
            tags: found.tags.clone(),
            tier,
            ..CopyRequest::default()
        };
        let is_it = |copy: &BlobProperties| copy.metadata.get(PUSH_TOKEN) == Some(&*mark);
        let refusal = match self.service.copy_blob(&source, one.to, request.clone(), &one.target).await {
            Ok(copy) if is_it(&copy) => return Ok(copy.etag),
            // Made, and somebody else wrote right over it: what is told is that.
            Ok(_) => return Ok(OVERWRITTEN),
            Err(error) => error,
        };
        let in_doubt = is_away(&refusal)
            || matches!(
                refusal,
                StoreError::ConditionNotMet | StoreError::BlobExists(_) | StoreError::BlobNotFound(_)
            );
        match self.version(one.to).await {
            Ok(Some(copy)) if in_doubt && is_it(&copy) => Ok(copy.etag),
            // The rename's own, but of an earlier version: it gives way.
            Ok(Some(copy)) if in_doubt && !is_away(&refusal) && is_marked(&copy, one.token, one.leg) => {
                let ours = Preconditions::if_version(copy.etag);
                let copy = self.service.copy_blob(&source, one.to, request, &ours).await?;
                Ok(if is_it(&copy) { copy.etag } else { OVERWRITTEN })
            }
            Ok(_) | Err(_) => Err(refusal),
        }
    }

    /// Deletes the source of a copy, unless it has changed since: then it is somebody else's.
    async fn delete_moved(&self, one: &Move<'_>, was: ETag, is: ETag) -> Result<()> {
        let condition = Preconditions { lease: one.lease, ..Preconditions::if_version(was) };
        match self.service.delete_blob(one.from, DeleteSnapshots::Include, &condition).await {
            Ok(()) | Err(StoreError::BlobNotFound(_) | StoreError::ConditionNotMet) => Ok(()),
            Err(error) => {
                // Not to leave two names where one was refused to go. What was replaced is not known any more.
                if one.target == Preconditions::if_absent() && !is_away(&error) {
                    let ours = Preconditions::if_version(is);
                    let _ = self.service.delete_blob(one.to, DeleteSnapshots::Include, &ours).await;
                }
                Err(error)
            }
        }
    }

    /// A blob of the service as it is now, if it is there.
    pub(super) async fn version(&self, at: &BlobPath) -> Result<Option<Arc<BlobProperties>>> {
        match self.service.blob_properties(at, None, &Preconditions::default()).await {
            Ok(found) => Ok(Some(found)),
            Err(StoreError::BlobNotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a version was made by this leg of the rename with this token, of whatever version.
pub(super) fn is_marked(blob: &BlobProperties, token: &str, leg: &str) -> bool {
    mark(blob, token).is_some_and(|(of, _)| of == leg)
}

/// Whether a version was made by the rename with this token, on whatever leg.
pub(super) fn is_own(blob: &BlobProperties, token: &str) -> bool {
    mark(blob, token).is_some()
}

/// Which version a copy of the rename with this token was made of.
pub(super) fn marked_version(copy: &BlobProperties, token: &str) -> Option<ETag> {
    mark(copy, token).map(|(_, was)| was)
}

/// The version that was there before the rename with this token touched it.
pub(super) fn origin_of(blob: &BlobProperties, token: &str) -> ETag {
    marked_version(blob, token).unwrap_or(blob.etag)
}

/// Whether a version is a copy that some rename made of the version `was`.
pub(super) fn is_copy_of(copy: &BlobProperties, was: ETag) -> bool {
    let mark = copy.metadata.get(PUSH_TOKEN).and_then(|mark| mark.rsplit_once(BETWEEN));
    mark.is_some_and(|(_, version)| u64::from_str_radix(version, 16) == Ok(was.0))
}

/// What the mark of a rename says after its token: the leg, and the version.
fn mark<'b>(blob: &'b BlobProperties, token: &str) -> Option<(&'b str, ETag)> {
    let (leg, version) = blob.metadata.get(PUSH_TOKEN)?.strip_prefix(token)?.split_once(BETWEEN)?;
    Some((leg, ETag(u64::from_str_radix(version, 16).ok()?)))
}
