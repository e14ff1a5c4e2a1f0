//! Renaming files and directories.

use crate::share::lease::LeaseId;
use crate::store::{HttpHeaders, Metadata};

use super::super::error::{FsError, Result};
use super::super::gate::Claim;
use super::super::names::Segment;
use super::super::nodes::Ino;
use super::super::now;
use super::super::rename::{RenameRule, Shown};
use super::super::watch::Outdated;
use super::Requests;
use super::brief::{LeaseRule, Target};
use super::entry::{Entry, SmbAttributes, SmbChange, replace_callers_metadata};
use super::failure::{Answer, Failure};
use super::path::FilePath;

/// How often a rename is tried again when somebody else renamed first.
const TRIES: usize = 8;

/// How to rename.
#[derive(Clone, Debug, Default)]
pub struct RenameRequest {
    /// What is renamed must be a directory; else it must not be one.
    pub directory: bool,
    /// A file of the new name is replaced.
    pub replace: bool,
    /// Also if it is read-only.
    pub ignore_read_only: bool,
    /// The lease of what is renamed.
    pub source_lease: Option<LeaseId>,
    /// The lease of what is replaced.
    pub target_lease: Option<LeaseId>,
    /// What SMB knows, to be changed with it.
    pub smb: SmbChange,
    /// The caller's metadata, to be replaced with it.
    pub metadata: Option<Metadata>,
    /// The stored content type, to be replaced with it.
    pub content_type: Option<String>,
}

impl RenameRequest {
    fn changes_nothing_else(&self) -> bool {
        self.smb == SmbChange::default() && self.metadata.is_none() && self.content_type.is_none()
    }
}

impl Requests {
    /// Renames a file or directory. Opens of what is renamed follow it. Durable when it answers.
    pub async fn rename(&self, from: &FilePath, to: &FilePath, request: RenameRequest) -> Answer<Entry> {
        for _ in 0..TRIES {
            match self.rename_once(from, to, &request).await {
                Err(failure) if matches!(failure.error, FsError::Stale) => {}
                other => return other,
            }
        }
        Err(FsError::Stale.into())
    }

    async fn rename_once(&self, from: &FilePath, to: &FilePath, request: &RenameRequest) -> Answer<Entry> {
        let source = self.look(from, request.source_lease).await?;
        match (request.directory, source.is_directory()) {
            (true, false) => return Err(FsError::NotADirectory.into()),
            (false, true) => return Err(FsError::IsADirectory.into()),
            (true, true) | (false, false) => {}
        }
        self.judge(&source, LeaseRule::Write(request.source_lease))?;
        let target = match self.look(to, request.target_lease).await {
            Ok(target) => Some(target),
            Err(FsError::NotFound) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(target) = &target {
            self.may_replace(target, request)?;
        }
        self.move_name(from, to, &source, target.as_ref(), request)
            .await
            .map_err(|error| self.in_the_way(error, source.ino, target.as_ref().map(|target| target.ino)))?;
        self.finish_rename(to, &source, request).await
    }

    fn may_replace(&self, target: &Target, request: &RenameRequest) -> Result<()> {
        if !request.replace || target.is_directory() {
            return Err(FsError::Exists);
        }
        self.judge(target, LeaseRule::Write(request.target_lease))?;
        let entry = self.engine.entry(target.ino, target.parent, &target.found)?;
        if entry.attributes.contains(SmbAttributes::READ_ONLY) && !request.ignore_read_only {
            return Err(FsError::ReadOnly);
        }
        Ok(())
    }

    async fn move_name(
        &self,
        from: &FilePath,
        to: &FilePath,
        source: &Target,
        target: Option<&Target>,
        request: &RenameRequest,
    ) -> Result<()> {
        let engine = &self.engine;
        let (_, from_name) = from.split().ok_or(FsError::NotFound)?;
        let (to_above, to_name) = to.split().ok_or(FsError::Exists)?;
        let (_, way_from) = self.go(from).await?;
        let (to_dir, way_to) = self.go(&FilePath::from_segments(to_above)).await?;
        let rule = if target.is_some() { RenameRule::Replace } else { RenameRule::NoReplace };
        let shown = Shown { source: request.source_lease, target: request.target_lease };
        let moved = engine.rename_for((source.parent, from_name), (to_dir, to_name), rule, shown).await;
        drop((way_from, way_to));
        moved?;
        engine.local()?.sync().await?;
        let name = |parent: Ino, segment: &Segment| Outdated::Name { parent, segment: segment.clone() };
        let mut outdated = vec![
            name(source.parent, from_name),
            name(to_dir, to_name),
            Outdated::File(source.ino),
            Outdated::File(source.parent),
            Outdated::File(to_dir),
        ];
        outdated.extend(target.map(|target| Outdated::File(target.ino)));
        engine.announce(outdated).await;
        Ok(())
    }

    fn in_the_way(&self, error: FsError, source: Ino, target: Option<Ino>) -> Failure {
        let gate = &self.engine.gate;
        let holders = match error {
            FsError::SharingViolation | FsError::DeletePending => {
                let mut holders = gate.blockers(source, Claim::DELETE);
                holders.extend(target.into_iter().flat_map(|target| gate.blockers(target, Claim::DELETE)));
                holders
            }
            _ => Vec::new(),
        };
        Failure { error, holders }
    }

    async fn finish_rename(&self, to: &FilePath, source: &Target, request: &RenameRequest) -> Answer<Entry> {
        let renamed = self.look(to, None).await?;
        if renamed.ino != source.ino {
            // Somebody else renamed again.
            return Err(FsError::Stale.into());
        }
        if request.changes_nothing_else() {
            return Ok(self.engine.entry(renamed.ino, renamed.parent, &renamed.found)?);
        }
        let headers = request.content_type.as_ref().map(|content_type| {
            let blob = renamed.found.blob.as_ref();
            let old = blob.map(|blob| blob.headers.clone()).unwrap_or_default();
            let headers = HttpHeaders { content_type: Some(content_type.clone()), ..old };
            (headers, blob.and_then(|blob| blob.content_md5))
        });
        let way = self.go(to).await?;
        let turn = self.turn(renamed.ino).await;
        self.change_beside(&renamed, request.source_lease, headers, |attributes, metadata| {
            request.smb.apply(attributes, metadata, now());
            if let Some(given) = &request.metadata {
                replace_callers_metadata(metadata, given);
            }
        })
        .await?;
        drop((way, turn));
        self.engine.local()?.sync().await?;
        self.engine.announce(vec![Outdated::File(renamed.ino)]).await;
        let renamed = self.look(to, None).await?;
        Ok(self.engine.entry(renamed.ino, renamed.parent, &renamed.found)?)
    }
}
