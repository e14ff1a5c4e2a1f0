//! Removing blobs at the service.
//!
//! A directory of POSIX stays when its last entry goes; a prefix does not. So a directory that has no blob of its own gets
//! one before its last entry is removed.

use super::known::parent_prefix;
use super::moving::is_copy_of;
use super::refresh::IS_FOLDER;
use super::state::{Sidecar, Unpushed};
use super::turns::Scope;
use super::{Mirror, OWN_FOLDER, PUSH_TOKEN};
use crate::store::upstream::{Fence, Settling, Upstream};
use crate::store::{
    BlobName, BlobPath, BlobProperties, BlobStore, DeleteSnapshots, ETag, ListItem, ListQuery, LocalStore,
    NewContent, Preconditions, Result, StoreError, crash_point,
};

impl Mirror {
    /// [`Upstream::remove`].
    pub(super) async fn remove_there(&self, name: &BlobName, fence: Fence) -> Result<Settling> {
        let turn = self.turn_on_name(name).await?;
        let maybe_sent = self.queue.holds(name);
        // It is dropped last: a mount that dies before must not be left with an older version that nobody removed.
        let entry = self.sidecars.note_leaving(name, true)?;
        if let Err(error) = self.delete_there(name, entry.as_ref(), maybe_sent, fence).await {
            self.sidecars.note_leaving(name, false)?;
            return Err(error);
        }
        crash_point("remove_there_after_delete");
        self.sidecars.drop_unpushed(name)?;
        self.queue.forget(name);
        self.sidecars.forget(name)?;
        self.known.lock().forget(name.as_str());
        Ok(Settling::until_dropped(turn))
    }

    /// [`Upstream::remove_moved`].
    pub(super) async fn remove_wherever(&self, name: &BlobName, perhaps_at: &[BlobName]) -> Result<Settling> {
        let others = || perhaps_at.iter().filter(|other| *other != name);
        let names = || std::iter::once(name).chain(others());
        // Not while the rename is being finished.
        let turn = self.turn_on(names().map(|name| Scope::Name(name.as_str().to_owned())).collect()).await?;
        // It is dropped last, as in `remove_there`.
        let token = self.sidecars.note_leaving(name, true)?.map(|entry| entry.token);
        let known_at = self.known_wherever(name, others().collect())?;
        let was = known_at.map(|(_, was)| was);
        for name in names() {
            let at = self.there(name)?;
            let Some(found) = self.version(&at).await? else { continue };
            let is_it = was.is_some_and(|was| found.etag == was || is_copy_of(&found, was));
            // Or made by a push whose answer nobody heard.
            if is_it || (token.is_some() && found.metadata.get(PUSH_TOKEN) == token.as_deref()) {
                self.keep_parent(name).await?;
                self.delete_version(&at, &found).await?;
            }
        }
        if let Some(was) = was
            && others().next().is_some()
        {
            self.remove_aside(name, was).await?;
        }
        self.sidecars.drop_unpushed(name)?;
        self.queue.forget(name);
        if let Some((known_at, _)) = known_at {
            self.sidecars.forget(known_at)?;
        }
        self.known.lock().forget(name.as_str());
        Ok(Settling::until_dropped(turn))
    }

    /// Under which name the service's version of a blob is known that the mirror has under `name`, and which it is. A
    /// rename that died before that went along has left it under one of the other names, and perhaps under `name` what is
    /// known of another.
    fn known_wherever<'n>(
        &self,
        name: &'n BlobName,
        others: Vec<&'n BlobName>,
    ) -> Result<Option<(&'n BlobName, ETag)>> {
        let version_here = |name: &BlobName| -> Result<Option<ETag>> {
            Ok(self.store.find(&self.here(name))?.blob.map(|blob| blob.etag))
        };
        let own = version_here(name)?;
        for name in std::iter::once(name).chain(others.iter().copied()) {
            if let Some(sidecar) = self.sidecars.get(name)?.filter(|sidecar| Some(sidecar.here) == own) {
                return Ok(sidecar.there.map(|there| (name, there)));
            }
        }
        // Changed here since it was pushed, unless it is another's.
        let Some(sidecar) = self.sidecars.get(name)? else { return Ok(None) };
        for other in others {
            if version_here(other)? == Some(sidecar.here) {
                return Ok(None);
            }
        }
        Ok(sidecar.there.map(|there| (name, there)))
    }

    /// Removes what an exchange that was interrupted has put aside of the version `was` of a name.
    async fn remove_aside(&self, name: &BlobName, was: ETag) -> Result<()> {
        let prefix = format!("{OWN_FOLDER}/aside/");
        let mut query = ListQuery { prefix, max: 1000, ..ListQuery::default() };
        loop {
            let page = self.service.list_blobs(&self.place.container, &query).await?;
            for item in page.items {
                let ListItem::Blob { name: aside, properties } = item else { continue };
                let below = aside.strip_prefix(&query.prefix).and_then(|rest| rest.split_once('/'));
                let is_its = below.is_some_and(|(_, rest)| name.as_str().ends_with(&format!("/{rest}")));
                if is_its && is_copy_of(&properties, was) {
                    self.delete_version(&self.in_container(&aside)?, &properties).await?;
                }
            }
            query.marker = page.next;
            if query.marker.is_none() {
                return Ok(());
            }
        }
    }

    /// Deletes this version, unless another has taken its place.
    pub(super) async fn delete_version(&self, at: &BlobPath, version: &BlobProperties) -> Result<()> {
        let condition = Preconditions::if_version(version.etag);
        match self.service.delete_blob(at, DeleteSnapshots::Include, &condition).await {
            Ok(()) | Err(StoreError::BlobNotFound(_) | StoreError::ConditionNotMet) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn delete_there(
        &self,
        name: &BlobName,
        entry: Option<&Unpushed>,
        maybe_sent: bool,
        fence: Fence,
    ) -> Result<()> {
        self.keep_parent(name).await?;
        let at = self.there(name)?;
        let sidecar = self.sidecars.get(name)?;
        let condition = match (sidecar, entry) {
            (Some(Sidecar { there: Some(etag), .. }), _) if fence.check_version => {
                Preconditions::if_version(etag)
            }
            (Some(Sidecar { there: Some(_), .. }), _) => Preconditions::default(),
            (Some(Sidecar { there: None, .. }), _) => return self.delete_slash_marker(name, &at).await,
            // It was never pushed, or nobody knows whether it was.
            (None, Some(entry)) if maybe_sent => match self.own_there(&at, entry).await? {
                Some(condition) => condition,
                None => return Ok(()),
            },
            (None, Some(_)) => return Ok(()),
            (None, None) => Preconditions::default(),
        };
        let condition = Preconditions { lease: fence.lease, ..condition };
        match self.service.delete_blob(&at, DeleteSnapshots::Include, &condition).await {
            Ok(()) | Err(StoreError::BlobNotFound(_)) => self.delete_slash_marker(name, &at).await,
            Err(error) => Err(error),
        }
    }

    /// The condition for deleting what a push without an answer may have made.
    async fn own_there(&self, at: &BlobPath, entry: &Unpushed) -> Result<Option<Preconditions>> {
        match self.service.blob_properties(at, None, &Preconditions::default()).await {
            Ok(found) if found.metadata.get(PUSH_TOKEN) == Some(&*entry.token) => {
                Ok(Some(Preconditions::if_version(found.etag)))
            }
            Ok(_) | Err(StoreError::BlobNotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the marker `name/` that other tools make for a directory, if there is one.
    async fn delete_slash_marker(&self, name: &BlobName, at: &BlobPath) -> Result<()> {
        if !self.known.lock().directory(&format!("{name}/")).slash_marker {
            return Ok(());
        }
        let marker = BlobPath::new(at.container.clone(), BlobName::new(format!("{}/", at.name))?);
        let always = Preconditions::default();
        match self.service.delete_blob(&marker, DeleteSnapshots::Include, &always).await {
            Ok(()) | Err(StoreError::BlobNotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives the directory of a name a blob of its own, if the name is the last thing that makes it one.
    pub(super) async fn keep_parent(&self, name: &BlobName) -> Result<()> {
        let prefix = parent_prefix(name.as_str());
        let Ok(parent) = BlobName::new(prefix.trim_end_matches('/')) else { return Ok(()) };
        let Some(sidecar) = self.sidecars.get(&parent)? else { return Ok(()) };
        if sidecar.there.is_some() || self.known.lock().directory(prefix).slash_marker {
            return Ok(());
        }
        let Some(blob) = self.store.find(&self.here(&parent))?.blob else { return Ok(()) };
        if self.has_other_entries(prefix, name).await? || !blob.metadata.contains(IS_FOLDER) {
            return Ok(());
        }
        let new = NewContent { metadata: blob.metadata.clone(), ..NewContent::default() };
        let absent = Preconditions::if_absent();
        match self.service.put_blob(&self.there(&parent)?, bytes::Bytes::new().into(), new, &absent).await {
            Ok(made) => {
                let tied = |old: Option<Sidecar>| Some(Sidecar { there: Some(made.etag), ..old? });
                self.sidecars.update(&parent, tied).map(|_| ())
            }
            Err(StoreError::BlobExists(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the mirror has anything in a directory besides this name.
    async fn has_other_entries(&self, prefix: &str, name: &BlobName) -> Result<bool> {
        let delimiter = Some("/".to_owned());
        // The name can show as a blob and as a prefix.
        let query = ListQuery { prefix: prefix.to_owned(), delimiter, max: 3, ..ListQuery::default() };
        let page = self.store.list_blobs(&self.home, &query).await?;
        Ok(page.items.iter().any(|item| match item {
            ListItem::Blob { name: other, .. } | ListItem::Prefix { name: other, .. } => {
                other.trim_end_matches('/') != name.as_str()
            }
            ListItem::Snapshot { .. } | ListItem::Uncommitted { .. } => false,
        }))
    }
}
