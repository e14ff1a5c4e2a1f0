//! What was changed here becomes the service's.
//!
//! An unpushed entry is written before the change it stands for, and dropped after the service has the change and the
//! sidecar says so. In between everything may end at any point: what is pushed again finds its own mark in the version
//! that is in its way, and takes it for its own.
//!
//! A push must never go over a version that somebody else made, unless its caller says so.

use super::blocks::{BLOCK, merged};
use super::refresh::{is_away, now};
use super::state::{Layout, Presence, Sidecar, Unpushed, new_token};
use super::upload::Sent;
use super::{Mirror, PUSH_TOKEN};
use crate::store::upstream::{Changed, Changing, Fence, Upstream};
use crate::store::{
    BlobName, BlobPath, ContentReader, ETag, LocalStore, NewContent, Preconditions, Result, StoreError,
    crash_point,
};

/// Ranges of one entry; more are joined to whole blocks.
const RANGES_MAX: usize = 1024;
/// How often a push is tried that meets a version of its own, or blocks that are gone.
const ATTEMPTS: usize = 3;

/// One push under way.
pub(super) struct Push<'p> {
    pub(super) name: &'p BlobName,
    /// Where to.
    pub(super) at: BlobPath,
    /// What.
    pub(super) reader: &'p ContentReader,
    pub(super) entry: &'p Unpushed,
    /// The version that it began with, and its length.
    pub(super) base: Option<(ETag, u64)>,
    pub(super) fence: Fence,
    /// Whether the blocks that are known of the version it began with can be relied on.
    pub(super) trust_blocks: bool,
}

impl Push<'_> {
    /// The conditions under which it may be done.
    pub(super) fn conditions(&self) -> Preconditions {
        let conditions = match (self.fence.check_version, self.base) {
            (false, _) => Preconditions::default(),
            (true, Some((etag, _))) => Preconditions::if_version(etag),
            (true, None) => Preconditions::if_absent(),
        };
        Preconditions { lease: self.fence.lease, ..conditions }
    }

    /// Everything besides the content.
    pub(super) fn new_content(&self) -> NewContent {
        let blob = self.reader.properties();
        let mut metadata = blob.metadata.clone();
        metadata.set(PUSH_TOKEN, &self.entry.token);
        let tier = blob.tier.map(|tier| tier.tier);
        NewContent {
            metadata,
            headers: blob.headers.clone(),
            content_md5: None,
            tags: blob.tags.clone(),
            tier,
            copy: None,
        }
    }

    /// Whether only metadata changed.
    pub(super) fn is_properties_only(&self) -> bool {
        let size = self.reader.size();
        self.entry.ranges.as_ref().is_some_and(Vec::is_empty)
            && self.entry.shortest >= size
            && self.base.is_some_and(|(_, old)| old == size)
    }

    /// Whether every byte is here, whatever the sidecar says: all of it was written here.
    pub(super) fn is_all_here(&self) -> bool {
        self.base.is_none() || self.entry.ranges.is_none()
    }
}

impl Mirror {
    /// [`Upstream::will_change`].
    pub(super) fn note_change(&self, name: &BlobName, what: Changed<'_>) -> Result<Changing> {
        self.there(name)?;
        let length = self.store.find(&self.here(name))?.blob.map_or(0, |blob| blob.size);
        let announced = self.sidecars.announce(name);
        self.sidecars.note(name, length, |old| {
            let old = old.unwrap_or_else(|| Unpushed {
                ranges: Some(Vec::new()),
                shortest: length,
                token: new_token(),
                unchecked: false,
                leaving: false,
            });
            let ranges = match (old.ranges, what) {
                (None, _) | (_, Changed::Everything) => None,
                (known, Changed::Properties) => known,
                (Some(mut known), Changed::Ranges(more)) => {
                    known.extend_from_slice(more);
                    Some(compact(known))
                }
            };
            Unpushed { ranges, shortest: old.shortest.min(length), leaving: false, ..old }
        })?;
        Ok(Changing::until_dropped(announced))
    }

    /// [`Upstream::push`].
    pub(super) async fn push_one(&self, name: &BlobName, fence: Fence) -> Result<()> {
        if !self.sidecars.is_unpushed(name) {
            return Ok(());
        }
        // Who holds a lease gives it back after the close, so this cannot wait.
        if self.options.write_back && fence.lease.is_none() {
            return self.push_later(name, fence).await;
        }
        let pushed = self.push_now(name, fence).await;
        if pushed.as_ref().is_err_and(|error| !is_refusal(error)) {
            self.queue.retry(name);
        }
        pushed
    }

    /// Pushes a name in its turn.
    pub(super) async fn push_now(&self, name: &BlobName, fence: Fence) -> Result<()> {
        let _turn = self.turn_on_name(name).await?;
        self.push_in_turn(name, fence).await
    }

    /// Pushes a name whose turn the caller has.
    pub(super) async fn push_in_turn(&self, name: &BlobName, fence: Fence) -> Result<()> {
        let mut trust_blocks = true;
        for _ in 0..ATTEMPTS {
            let Some((entry, number)) = self.sidecars.unpushed(name)? else { return Ok(()) };
            let Some((reader, sidecar)) = self.look_at(name)? else {
                // It was removed meanwhile, or never made.
                self.sidecars.set_in_place(name, false);
                return self.sidecars.settle(name, number).map(|_| ());
            };
            if sidecar.as_ref().is_some_and(|sidecar| self.is_unchanged(name, &reader, sidecar)) {
                return self.sidecars.settle(name, number).map(|_| ());
            }
            let base = sidecar.as_ref().and_then(|sidecar| Some((sidecar.there?, sidecar.size)));
            let at = self.there(name)?;
            let push = Push { name, at, reader: &reader, entry: &entry, base, fence, trust_blocks };
            match self.send(&push).await {
                Ok(sent) => {
                    crash_point("push_after_commit");
                    self.note_sent(&push, sent)?;
                    crash_point("push_after_note");
                    self.sidecars.settle(name, number)?;
                    self.queue.note_pushed(name);
                    return Ok(());
                }
                Err(StoreError::InvalidBlockList | StoreError::InvalidBlockId) if trust_blocks => {
                    trust_blocks = false;
                    self.still_there(&push).await?;
                }
                Err(error) if is_refusal(&error) => self.own_version(&push, error).await?,
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::ConditionNotMet)
    }

    /// What the mirror has under a name, and what is known of it.
    fn look_at(&self, name: &BlobName) -> Result<Option<(ContentReader, Option<Sidecar>)>> {
        let _tied = self.sidecars.tied();
        match self.store.reader(&self.here(name)) {
            Ok(reader) => Ok(Some((reader, self.sidecars.get(name)?))),
            Err(StoreError::BlobNotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a change was announced and not made. What an earlier mount left may have been written in place, under the
    /// version that was there; but then all of its bytes are here.
    fn is_unchanged(&self, name: &BlobName, reader: &ContentReader, sidecar: &Sidecar) -> bool {
        sidecar.here == reader.properties().etag
            && (sidecar.content != Presence::All || !self.queue.was_found(name))
    }

    /// Sends a change in the way that costs least.
    async fn send(&self, push: &Push<'_>) -> Result<Sent> {
        if push.is_properties_only() {
            self.send_properties(push).await
        } else if push.reader.size() <= super::blocks::WHOLE {
            self.send_whole(push).await
        } else {
            self.send_blocks(push).await
        }
    }

    /// Notes what the service has now.
    fn note_sent(&self, push: &Push<'_>, sent: Sent) -> Result<()> {
        let Sent { etag, blocks } = sent;
        if let Some(blocks) = blocks {
            self.sidecars.set_layout(push.name, &Layout { there: etag, blocks })?;
        }
        let all_here = push.is_all_here();
        let (here, size) = (push.reader.properties().etag, push.reader.size());
        self.sidecars.update(push.name, |old| {
            let content = match old {
                Some(old) if !all_here => old.content,
                _ => Presence::All,
            };
            Some(Sidecar { there: Some(etag), here, size, content, used: now() })
        })?;
        Ok(())
    }

    /// Whether the version that a push began with is still there.
    async fn still_there(&self, push: &Push<'_>) -> Result<()> {
        let found = match self.service.blob_properties(&push.at, None, &Preconditions::default()).await {
            // Only blocks that were sent early are gone.
            Err(StoreError::BlobNotFound(_)) if push.base.is_none() => return Ok(()),
            other => other?,
        };
        match push.base {
            Some((etag, _)) if push.fence.check_version && etag != found.etag => {
                Err(StoreError::ConditionNotMet)
            }
            _ => Ok(()),
        }
    }

    /// A push was refused. If the version in its way is its own, of an attempt that was never answered, it goes on from
    /// that one; if not, the refusal stands.
    async fn own_version(&self, push: &Push<'_>, refusal: StoreError) -> Result<()> {
        let Ok(found) = self.service.blob_properties(&push.at, None, &Preconditions::default()).await else {
            return Err(refusal);
        };
        let ours = found.metadata.get(PUSH_TOKEN).is_some_and(|token| token == push.entry.token);
        if !ours || push.base.is_some_and(|(etag, _)| etag == found.etag) {
            return Err(refusal);
        }
        // What the mirror has may be newer than what was sent, so that it stays unpushed.
        self.sidecars.update(push.name, |old| {
            let content = old.map_or(Presence::All, |old| old.content);
            let here = ETag(0);
            Some(Sidecar { there: Some(found.etag), here, size: found.size, content, used: now() })
        })?;
        Ok(())
    }

    /// [`Upstream::give_up`].
    pub(super) async fn forget_changes(&self, name: &BlobName, version: ETag) -> Result<()> {
        let _turn = self.turn_on_name(name).await?;
        if self.store.find(&self.here(name))?.blob.is_none_or(|blob| blob.etag != version) {
            // Whoever made another version since pushes that one, and hears of it.
            return Ok(());
        }
        self.let_go(name, version).await
    }

    /// The service's version takes the place of this one, whose changes are not pushed. For whoever has the turn.
    pub(super) async fn let_go(&self, name: &BlobName, version: ETag) -> Result<()> {
        self.sidecars.forget(name)?;
        self.sidecars.drop_unpushed(name)?;
        self.queue.forget(name);
        self.known.lock().forget(name.as_str());
        // From here on a refresh would do the same, some time.
        let still = Preconditions::if_version(version);
        match self.service.blob_properties(&self.there(name)?, None, &Preconditions::default()).await {
            Ok(blob) => self.replace_here(name, &blob, still),
            Err(StoreError::BlobNotFound(_)) => match self.store.discard(&self.here(name), &still) {
                Err(StoreError::ConditionNotMet) => Ok(()),
                other => other,
            },
            Err(error) if is_away(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Whether the service has judged a push and does not take it.
pub(super) fn is_refusal(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::ConditionNotMet
            | StoreError::BlobExists(_)
            | StoreError::BlobNotFound(_)
            | StoreError::Lease(_)
            | StoreError::InvalidBlobType(_)
    )
}

/// Not too many ranges: what is close together becomes one.
fn compact(ranges: Vec<std::ops::Range<u64>>) -> Vec<std::ops::Range<u64>> {
    let ranges = merged(ranges);
    if ranges.len() <= RANGES_MAX {
        return ranges;
    }
    let widest = ranges.last().map_or(0, |last| last.end).div_ceil(RANGES_MAX as u64);
    let grain = widest.next_multiple_of(BLOCK);
    let whole = |range: std::ops::Range<u64>| range.start / grain * grain..range.end.next_multiple_of(grain);
    merged(ranges.into_iter().map(whole).collect())
}
