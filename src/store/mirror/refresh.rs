//! Names and properties on their way into the mirror.
//!
//! One listing of a directory (metadata included) answers for all its names, so an unknown directory is listed even when
//! only one name is asked for. Single names are asked for by HEAD where a directory does not fit on one page, and when a
//! file is opened.
//!
//! Directories of other tools: a blob with `hdi_isfolder` is a directory by itself; a prefix without one gets a marker in
//! the mirror only (its sidecar names no version there); a marker `d/` with a slash shows as the prefix `d/`.
//!
//! What an answer says of a name is not believed if the name was worked on meanwhile ([`turns`](super::turns)), and never
//! touches what is not pushed.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::known::{Directory, parent_prefix};
use super::state::{Presence, Sidecar};
use super::{Mirror, OWN_FOLDER, PUSH_TOKEN};
use crate::share::Moment;
use crate::store::embedded::Adopted;
use crate::store::upstream::Standing;
use crate::store::{
    BlobName, BlobProperties, BlobStore, ETag, ListItem, ListQuery, LocalStore, Metadata, NewContent,
    Preconditions, Result, StoreError,
};

/// Names asked for with one request: as many as the service answers.
const PAGE: usize = 5000;
/// Names taken over in one batch.
const BATCH: usize = 64;
/// What marks a directory.
pub(super) const IS_FOLDER: &str = "hdi_isfolder";

/// What a question to the service came to.
enum Heard<T> {
    Answer(T),
    /// It does not answer; what is known has to do.
    Silence(StoreError),
}

/// One listing under way.
struct Listing {
    prefix: String,
    /// The moment it began, on the mirror's clock of turns.
    since: u64,
    hasher: RandomState,
    /// Hashes of the names seen, of blobs and of prefixes (with their slash).
    seen: HashSet<u64>,
    slash_marker: bool,
}

impl Listing {
    fn see(&mut self, name: &str) {
        self.seen.insert(self.hasher.hash_one(name));
    }

    fn has_seen(&self, name: &str) -> bool {
        self.seen.contains(&self.hasher.hash_one(name))
    }
}

impl Mirror {
    /// [`Upstream::refresh_directory`].
    pub(super) async fn refresh_names_in(&self, directory: Option<&BlobName>) -> Result<()> {
        let prefix = directory.map_or_else(String::new, |name| format!("{name}/"));
        if is_own(&prefix) {
            return Ok(());
        }
        let fresh = self.known.lock().directory_is_fresh(&prefix, Instant::now(), self.options.attr_ttl);
        self.follow_walk(&prefix, !fresh).await;
        if fresh { Ok(()) } else { self.list(&prefix, Extent::Whole).await }
    }

    /// Lists a directory for whoever comes next.
    pub(super) async fn list_ahead(&self, prefix: &str) -> Result<()> {
        self.list(prefix, Extent::OnePage).await
    }

    /// [`Upstream::refresh_name`].
    pub(super) async fn refresh_one(&self, name: &BlobName) -> Result<()> {
        let (text, ttl) = (name.as_str(), self.options.attr_ttl);
        let parent = parent_prefix(text);
        if is_own(text) {
            return Ok(());
        }
        if self.known.lock().name_is_fresh(text, Instant::now(), ttl) {
            let expected = self.walks.lock().expects(parent);
            if expected {
                self.follow_walk(parent, false).await;
            }
            return Ok(());
        }
        if self.sidecars.is_unpushed(name) {
            return Ok(());
        }
        if !self.known.lock().directory(parent).big {
            self.follow_walk(parent, true).await;
            self.list(parent, Extent::OnePage).await?;
            if self.known.lock().name_is_fresh(text, Instant::now(), ttl) {
                return Ok(());
            }
        }
        self.ask_for(name).await.map(|_| ())
    }

    /// [`Upstream::revalidate`].
    pub(super) async fn ask_for(&self, name: &BlobName) -> Result<Standing> {
        let asked = Instant::now();
        let since = self.turns.now();
        let found = match self.hear(self.contents.ask(name)).await? {
            Heard::Answer(found) => found,
            Heard::Silence(_) if self.store.find(&self.here(name))?.blob.is_some() => {
                return Ok(Standing { stale: true, ..Standing::default() });
            }
            Heard::Silence(error) => return Err(error),
        };
        let mut standing = Standing::default();
        match found {
            Some((blob, first)) => {
                (standing.leased, standing.lease) = (blob.lease.is_locked(now()), blob.lease);
                let there = blob.etag;
                self.take_over(since, vec![(name.clone(), blob)])?;
                self.contents.offer(name, there, first).await;
            }
            None if self.has_names_below(name).await? => self.take_prefix(since, name, false)?,
            None => self.take_absence(since, name)?,
        }
        self.known.lock().note_name(name.as_str(), asked);
        Ok(standing)
    }

    /// Whether the service has anything below a name.
    async fn has_names_below(&self, name: &BlobName) -> Result<bool> {
        let prefix = format!("{}{name}/", self.place.prefix);
        let query = ListQuery { prefix, max: 1, ..ListQuery::default() };
        match self.hear(self.service.list_blobs(&self.place.container, &query)).await? {
            Heard::Answer(page) => Ok(page.is_some_and(|page| !page.items.is_empty())),
            Heard::Silence(error) => Err(error),
        }
    }

    /// Lists a directory, unless somebody else just did.
    async fn list(&self, prefix: &str, extent: Extent) -> Result<()> {
        let _one_at_a_time = self.listings.take_name(prefix).await;
        let before = {
            let mut known = self.known.lock();
            if known.directory_is_fresh(prefix, Instant::now(), self.options.attr_ttl) {
                return Ok(());
            }
            known.directory(prefix)
        };
        match self.list_pages(prefix, extent, before).await? {
            Heard::Answer(()) => Ok(()),
            // What was known goes on being served.
            Heard::Silence(_) if before.listed.is_some() || before.big => Ok(()),
            Heard::Silence(error) => Err(error),
        }
    }

    async fn list_pages(&self, prefix: &str, extent: Extent, before: Directory) -> Result<Heard<()>> {
        let began = Instant::now();
        let mut listing = Listing {
            prefix: prefix.to_owned(),
            since: self.turns.now(),
            hasher: RandomState::new(),
            seen: HashSet::new(),
            slash_marker: false,
        };
        let mut query = ListQuery {
            prefix: format!("{}{prefix}", self.place.prefix),
            delimiter: Some("/".to_owned()),
            max: PAGE,
            ..ListQuery::default()
        };
        let mut pages = 0;
        loop {
            let page = match self.hear(self.service.list_blobs(&self.place.container, &query)).await? {
                Heard::Answer(page) => page,
                Heard::Silence(error) => return Ok(Heard::Silence(error)),
            };
            let Some(page) = page else {
                return Err(StoreError::ContainerNotFound(self.place.container.to_string()));
            };
            pages += 1;
            self.take_page(&mut listing, page.items).await?;
            query.marker = page.next;
            let (big, slash_marker) = (pages > 1 || query.marker.is_some(), listing.slash_marker);
            if query.marker.is_none() {
                self.take_absences(&listing).await?;
                let now = Directory { listed: Some(began), big, slash_marker };
                self.known.lock().note_directory(prefix, now);
                return Ok(Heard::Answer(()));
            }
            if extent == Extent::OnePage {
                let now = Directory { big, slash_marker, ..before };
                self.known.lock().note_directory(prefix, now);
                return Ok(Heard::Answer(()));
            }
        }
    }

    /// Takes one page of a listing over into the mirror.
    async fn take_page(&self, listing: &mut Listing, items: Vec<ListItem>) -> Result<()> {
        let mut blobs = Vec::with_capacity(BATCH);
        for item in items {
            match item {
                ListItem::Blob { name, properties } => {
                    let Some(own) = name.strip_prefix(&*self.place.prefix) else { continue };
                    if own == listing.prefix {
                        listing.slash_marker = true;
                        continue;
                    }
                    listing.see(own);
                    let Some(own) = usable(own) else { continue };
                    blobs.push((own, properties));
                }
                ListItem::Prefix { name, .. } => {
                    let own = name.strip_prefix(&*self.place.prefix).and_then(|own| own.strip_suffix('/'));
                    let Some(own) = own.and_then(usable) else { continue };
                    listing.see(&format!("{own}/"));
                    self.take_over(listing.since, std::mem::take(&mut blobs))?;
                    self.take_prefix(listing.since, &own, listing.has_seen(own.as_str()))?;
                }
                ListItem::Snapshot { .. } | ListItem::Uncommitted { .. } => {}
            }
            if blobs.len() == BATCH {
                self.take_over(listing.since, std::mem::take(&mut blobs))?;
                tokio::task::yield_now().await;
            }
        }
        self.take_over(listing.since, blobs)
    }

    /// Gives names of the mirror the versions that the service has, except where they are the same, changed here, or
    /// were worked on since.
    pub(super) fn take_over(&self, since: u64, blobs: Vec<(BlobName, Arc<BlobProperties>)>) -> Result<()> {
        if blobs.is_empty() {
            return Ok(());
        }
        let mut names = Vec::new();
        let mut versions = Vec::new();
        let _tying = self.sidecars.tying();
        for (name, blob) in blobs {
            let at = self.here(&name);
            // In this order: a change that begins after the look makes the version another one, and is then not gone
            // over; one that began before is known as unpushed, or as worked on.
            let local = self.store.find(&at)?.blob;
            let sidecar = self.sidecars.get(&name)?;
            if self.sidecars.is_unpushed(&name) || self.turns.disturbed(since).includes(name.as_str()) {
                continue;
            }
            let same = local.as_ref().zip(sidecar.as_ref()).is_some_and(|(local, sidecar)| {
                sidecar.here == local.etag && sidecar.there == Some(blob.etag)
            });
            if same {
                continue;
            }
            let still =
                local.map_or_else(Preconditions::if_absent, |local| Preconditions::if_version(local.etag));
            versions.push((at, adopted(&blob), still));
            names.push((name, blob));
        }
        if versions.is_empty() {
            return Ok(());
        }
        for ((name, blob), made) in names.into_iter().zip(self.store.adopt(versions)?) {
            if let Some(made) = made {
                self.tie(&name, &made, &blob)?;
            }
        }
        Ok(())
    }

    /// Gives a name of the mirror the version that the service has, whether or not what is there was pushed.
    pub(super) fn replace_here(
        &self,
        name: &BlobName,
        blob: &BlobProperties,
        still: Preconditions,
    ) -> Result<()> {
        let version = (self.here(name), adopted(blob), still);
        let _tying = self.sidecars.tying();
        match self.store.adopt(vec![version])?.pop() {
            Some(Some(made)) => self.tie(name, &made, blob),
            Some(None) | None => Ok(()),
        }
    }

    /// Notes that a version here is one there, whose content is not here yet. For whoever holds
    /// [`tying`](super::Sidecars::tying).
    fn tie(&self, name: &BlobName, here: &BlobProperties, there: &BlobProperties) -> Result<()> {
        let content = if there.size == 0 { Presence::All } else { Presence::Nothing };
        let (etag, size) = (Some(there.etag), there.size);
        let new = Sidecar { there: etag, here: here.etag, size, content, used: now() };
        self.sidecars.update(name, |_| Some(new)).map(|_| ())
    }

    /// A prefix `name/` is there; `marked` says whether a blob `name` is, too.
    fn take_prefix(&self, since: u64, name: &BlobName, marked: bool) -> Result<()> {
        let at = self.here(name);
        let implicit = |here| Sidecar { there: None, here, size: 0, content: Presence::All, used: now() };
        let _tying = self.sidecars.tying();
        // Before the question, as in `take_over`.
        let local = self.store.find(&at)?.blob;
        if marked || self.sidecars.is_unpushed(name) || self.turns.disturbed(since).includes(name.as_str()) {
            return Ok(());
        }
        if let Some(local) = &local
            && local.metadata.get(IS_FOLDER).is_some_and(|value| value == "true")
        {
            // The directory had a blob of its own, or has none still.
            let here = local.etag;
            self.sidecars.update(name, |old| match old {
                Some(old) if old.here == here && old.there.is_none() => Some(old),
                _ => Some(implicit(here)),
            })?;
            return Ok(());
        }
        let still =
            local.map_or_else(Preconditions::if_absent, |local| Preconditions::if_version(local.etag));
        let metadata = Metadata::from([(IS_FOLDER, "true")]);
        let new = NewContent { metadata, ..NewContent::default() };
        let marker = Adopted { size: 0, created: now(), modified: now(), new };
        if let Some(Some(made)) = self.store.adopt(vec![(at, marker, still)])?.pop() {
            self.sidecars.update(name, |_| Some(implicit(made.etag)))?;
        }
        Ok(())
    }

    /// Removes from the mirror what a complete listing did not show.
    async fn take_absences(&self, listing: &Listing) -> Result<()> {
        let mut query = ListQuery {
            prefix: listing.prefix.clone(),
            delimiter: Some("/".to_owned()),
            max: PAGE,
            ..ListQuery::default()
        };
        loop {
            let page = self.store.list_blobs(&self.home, &query).await?;
            for item in page.items {
                let is_prefix = matches!(item, ListItem::Prefix { .. });
                let (ListItem::Blob { name, .. } | ListItem::Prefix { name, .. }) = item else { continue };
                let plain = name.strip_suffix('/').unwrap_or(&name);
                if name == listing.prefix || is_own(plain) || listing.has_seen(&format!("{plain}/")) {
                    continue;
                }
                let Ok(own) = BlobName::new(plain) else { continue };
                if !listing.has_seen(plain) {
                    self.take_absence(listing.since, &own)?;
                } else if is_prefix && !self.is_folder(&own)? {
                    // A directory became a file.
                    self.take_absence_below(listing.since, &own)?;
                }
            }
            tokio::task::yield_now().await;
            query.marker = page.next;
            if query.marker.is_none() {
                return Ok(());
            }
        }
    }

    /// Removes a name, and everything below it, that the service does not have. What is not pushed stays.
    fn take_absence(&self, since: u64, name: &BlobName) -> Result<()> {
        // Before the question, as in `take_over`.
        let mut mirrored = self.mirrored_below(name)?;
        mirrored.extend(self.store.find(&self.here(name))?.blob.map(|blob| (name.clone(), blob.etag)));
        self.take_away(since, name, mirrored)
    }

    /// The same for what is below a name that is there.
    fn take_absence_below(&self, since: u64, name: &BlobName) -> Result<()> {
        let mirrored = self.mirrored_below(name)?;
        if mirrored.is_empty() { Ok(()) } else { self.take_away(since, name, mirrored) }
    }

    fn take_away(&self, since: u64, name: &BlobName, mirrored: Vec<(BlobName, ETag)>) -> Result<()> {
        let unpushed = self.sidecars.is_unpushed_below(name.as_str());
        if unpushed || self.turns.disturbed(since).includes_below(name.as_str()) {
            return Ok(());
        }
        if mirrored.is_empty() {
            self.sidecars.forget(name)?;
        }
        for (name, etag) in mirrored {
            match self.store.discard(&self.here(&name), &Preconditions::if_version(etag)) {
                Ok(()) => self.sidecars.forget(&name)?,
                // Somebody made a version here since: it stays.
                Err(error) => changed(error)?,
            }
        }
        self.known.lock().forget(name.as_str());
        Ok(())
    }

    /// Whether the mirror's blob of that name stands for a directory.
    pub(super) fn is_folder(&self, name: &BlobName) -> Result<bool> {
        let blob = self.store.find(&self.here(name))?.blob;
        Ok(blob.is_some_and(|blob| blob.metadata.contains(IS_FOLDER)))
    }

    /// Waits for an answer of the service, not longer than the patience. A blob or container that is not there is the
    /// answer `None`.
    async fn hear<T>(&self, question: impl Future<Output = Result<T>> + Send) -> Result<Heard<Option<T>>> {
        if self.known.lock().is_away(Instant::now()) {
            return Ok(Heard::Silence(silence()));
        }
        let answer = match tokio::time::timeout(self.options.patience, question).await {
            Ok(answer) => answer,
            Err(_) => Err(silence()),
        };
        match answer {
            Ok(answer) => {
                self.known.lock().note_back();
                Ok(Heard::Answer(Some(answer)))
            }
            Err(StoreError::BlobNotFound(_) | StoreError::ContainerNotFound(_)) => {
                self.known.lock().note_back();
                Ok(Heard::Answer(None))
            }
            Err(error) if is_away(&error) => {
                if self.known.lock().note_away(Instant::now()) {
                    tracing::warn!(%error, "the blob service does not answer");
                }
                Ok(Heard::Silence(error))
            }
            Err(error) => Err(error),
        }
    }
}

/// How much of a directory is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    OnePage,
    Whole,
}

/// Whether the failure says that the service cannot be reached, rather than that it refuses.
pub(super) fn is_away(error: &StoreError) -> bool {
    use std::io::ErrorKind;
    match error {
        StoreError::Io { source, .. } => {
            !matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput)
        }
        _ => false,
    }
}

fn silence() -> StoreError {
    let source = std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer");
    StoreError::Io { context: "the blob service".to_owned(), source }
}

/// A version that was changed meanwhile is left as it is.
fn changed(error: StoreError) -> Result<()> {
    match error {
        StoreError::ConditionNotMet => Ok(()),
        other => Err(other),
    }
}

/// Whether a name is in the folder that mounts keep for themselves.
pub(super) fn is_own(name: &str) -> bool {
    name.strip_prefix(OWN_FOLDER).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A name of the service that can be one of the mirror's.
fn usable(name: &str) -> Option<BlobName> {
    if is_own(name) || name.ends_with('/') {
        return None;
    }
    BlobName::new(name).inspect_err(|error| tracing::debug!(%error, "a blob that has no file name")).ok()
}

/// What the mirror has of a version before its content.
fn adopted(blob: &BlobProperties) -> Adopted {
    let mut metadata = blob.metadata.clone();
    metadata.remove(PUSH_TOKEN);
    let new = NewContent {
        metadata,
        headers: blob.headers.clone(),
        content_md5: blob.content_md5,
        tags: blob.tags.clone(),
        tier: blob.tier.map(|tier| tier.tier),
        copy: None,
    };
    Adopted { size: blob.size, created: blob.created, modified: blob.modified, new }
}

pub(super) fn now() -> Moment {
    SystemTime::now().into()
}
