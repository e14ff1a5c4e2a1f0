//! The short open that every call is.
//!
//! ```text
//!   look at the path ── judge the lease ── pass the gate ── look again ── act ── close ── tell the kernel
//!          ^                                                    |
//!          +------------- something else is there now ----------+
//! ```
//!
//! The lease is judged before the gate: a program's open that is going to be refused for the lease is in the gate for
//! a moment, and the lease's holder must not be refused for it.
//!
//! On a share elsewhere the first look asks the service, and what was changed is pushed before the close (`elsewhere`).

use std::sync::Arc;
use std::time::Duration;

use crate::share::Access;
use crate::share::lease::{Lease, LeaseDuration, LeaseId, LeaseRefusal};
use crate::store::{BlobPath, BlobProperties, Found};

use super::super::attributes::{Attributes, Kind};
use super::super::error::{FsError, Result};
use super::super::file::{OpenFile, Showing};
use super::super::gate::{Claim, OpenPermit};
use super::super::guards::Turn;
use super::super::holders::Holder;
use super::super::names::Segment;
use super::super::nodes::{Ino, ROOT};
use super::super::open::{Attached, TakeLease};
use super::super::watch::Outdated;
use super::super::{Engine, now};
use super::Requests;
use super::entry::Entry;
use super::failure::{Answer, Failure};
use super::path::{FilePath, joined};

/// How often a call looks again when something else is there each time.
pub(super) const LOOKS_MAX: usize = 8;

/// How often, and how far apart, the holder of a lease tries again while a program's open is just being refused for it.
const REFUSED_SOON_TRIES: usize = 50;
const REFUSED_SOON_WAIT: Duration = Duration::from_millis(2);

/// What a call must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A regular file.
    File,
    /// Anything but a directory.
    NoDirectory,
    /// A directory.
    Directory,
}

/// What a call does, as the lease sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseRule {
    /// It reads: an id that is given must be right.
    Read(Option<LeaseId>),
    /// It changes something: the id must be given.
    Write(Option<LeaseId>),
}

impl LeaseRule {
    /// The id that was given.
    fn shown(self) -> Option<LeaseId> {
        match self {
            LeaseRule::Read(id) | LeaseRule::Write(id) => id,
        }
    }
}

/// What a path names.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) at: BlobPath,
    pub(super) ino: Ino,
    /// The directory it is in.
    pub(super) parent: Ino,
    pub(super) found: Found,
    pub(super) attributes: Attributes,
    /// The lease that the service has on it, if the blobs are elsewhere.
    pub(super) asked: Option<Lease>,
}

impl Target {
    /// The same with the lease that the service has on it.
    pub(super) fn with_lease(mut self, asked: Option<Lease>) -> Self {
        self.asked = asked;
        if let (Some(lease), Some(blob)) = (asked, &mut self.found.blob)
            && blob.lease != lease
        {
            *blob = Arc::new(BlobProperties { lease, ..BlobProperties::clone(blob) });
        }
        self
    }

    /// Whether it is a directory.
    pub(super) fn is_directory(&self) -> bool {
        self.attributes.kind == Kind::Directory
    }
}

/// A file that a call has open: its bytes, the permit, and the numbers that lead to it.
pub(super) struct Brief<'a> {
    pub(super) target: Target,
    pub(super) file: Arc<OpenFile>,
    /// The id of the lease that the caller showed.
    pub(super) shown: Option<LeaseId>,
    permit: OpenPermit,
    _showing: Option<Showing>,
    _way: Way<'a>,
    _turn: Option<Turn<'a>>,
}

/// The numbers on the way to something, known for as long as this lives.
pub(super) struct Way<'a> {
    engine: &'a Engine,
    numbers: Vec<Ino>,
}

impl Drop for Way<'_> {
    fn drop(&mut self) {
        for ino in self.numbers.iter().rev() {
            self.engine.nodes.forget(*ino, 1);
        }
    }
}

impl Requests {
    /// Looks at what the path names, for somebody who shows the id of its lease. Not for the root.
    pub(super) async fn look(&self, path: &FilePath, shown: Option<LeaseId>) -> Result<Target> {
        let asked = self.ask(path, shown).await?;
        Ok(self.look_here(path)?.with_lease(asked))
    }

    /// Looks at what the path names here, whatever the service has by now.
    pub(super) fn look_here(&self, path: &FilePath) -> Result<Target> {
        let engine = &self.engine;
        let Some((above, _)) = path.split() else {
            return Err(FsError::Invalid("not for the share's own directory"));
        };
        let at = engine.at(path.blob_name()?.ok_or(FsError::NotFound)?);
        let found = if path.is_reserved() { Found::default() } else { engine.local()?.find(&at)? };
        let parent = self.look_above(above)?;
        let id = found.id().ok_or(FsError::NotFound)?;
        let ino = Ino::of(id);
        let attributes = engine.stat_found(ino, &found)?.attributes;
        Ok(Target { at, ino, parent, found, attributes, asked: None })
    }

    /// The number of the directory that these names lead to.
    fn look_above(&self, names: &[Segment]) -> Result<Ino> {
        let engine = &self.engine;
        let Some(name) = joined(names)? else { return Ok(ROOT) };
        let found = engine.local()?.find(&engine.at(name))?;
        let id = found.id().ok_or(FsError::NoParent)?;
        match engine.stat_found(Ino::of(id), &found)?.attributes.kind {
            Kind::Directory => Ok(Ino::of(id)),
            Kind::File | Kind::Symlink | Kind::Fifo | Kind::Socket => Err(FsError::NoParent),
        }
    }

    /// Notes the numbers on the way to `path`, so that the engine finds its names. For callers without guards: it
    /// relies on each directory on the way in turn, and what is renamed behind it is followed by its number.
    pub(super) async fn go(&self, path: &FilePath) -> Result<(Ino, Way<'_>)> {
        let engine = &*self.engine;
        let mut way = Way { engine, numbers: Vec::with_capacity(path.segments().len()) };
        let mut parent = ROOT;
        for segment in path.segments() {
            let _entry = engine.entry_stays(parent, segment).await;
            let (ino, _) = engine.find_child(parent, segment)?;
            engine.nodes.remember(ino, parent, segment);
            way.numbers.push(ino);
            parent = ino;
        }
        Ok((parent, way))
    }

    /// Passes the gate with this access. Answers what is there then, whose lease allows the call.
    pub(super) async fn pass(
        &self,
        path: &FilePath,
        wanted: Wanted,
        claim: Claim,
        lease: LeaseRule,
    ) -> Answer<(Target, OpenPermit)> {
        for _ in 0..LOOKS_MAX {
            let before = self.look(path, lease.shown()).await?;
            fits(&before, wanted)?;
            self.judge(&before, lease)?;
            let permit = self.pass_gate(before.ino, claim, lease).await?;
            match self.look_here(path) {
                Ok(target) if target.ino == before.ino => {
                    let target = target.with_lease(before.asked);
                    let judged = fits(&target, wanted).and_then(|()| self.judge(&target, lease));
                    if let Err(error) = judged {
                        self.engine.leave(target.ino, &permit).await;
                        return Err(error.into());
                    }
                    return Ok((target, permit));
                }
                // Renamed, replaced or removed meanwhile.
                Ok(_) | Err(FsError::NotFound | FsError::NoParent) => {
                    self.engine.leave(before.ino, &permit).await;
                }
                Err(error) => {
                    self.engine.leave(before.ino, &permit).await;
                    return Err(error.into());
                }
            }
        }
        Err(FsError::Stale.into())
    }

    async fn pass_gate(&self, ino: Ino, claim: Claim, lease: LeaseRule) -> Answer<OpenPermit> {
        let gate = &self.engine.gate;
        let holder = Holder::rest(self.client, now());
        let shows_lease = matches!(lease, LeaseRule::Write(Some(_)));
        let mut tries = 0;
        loop {
            let error = match gate.open_briefly(ino, claim, holder).await {
                Ok(permit) => return Ok(permit),
                Err(error) => error,
            };
            let holders = match error {
                FsError::SharingViolation => gate.blockers(ino, claim),
                FsError::DeletePending => gate.opens_of(ino),
                _ => Vec::new(),
            };
            // Nobody can have write or delete access beside the lease: such an open is going to be refused for it.
            let refused_soon = shows_lease
                && matches!(error, FsError::SharingViolation)
                && holders
                    .iter()
                    .all(|open| open.access.contains(Access::WRITE) || open.access.contains(Access::DELETE));
            if !refused_soon || tries == REFUSED_SOON_TRIES {
                return Err(Failure { error, holders });
            }
            tries += 1;
            tokio::time::sleep(REFUSED_SOON_WAIT).await;
        }
    }

    /// Opens a file that the gate was passed for, to change its bytes.
    pub(super) async fn attach(
        &self,
        path: &FilePath,
        target: Target,
        permit: OpenPermit,
        shown: Option<LeaseId>,
    ) -> Result<Brief<'_>> {
        let attached = async {
            let (_, way) = self.go(path).await?;
            let turn = self.turn(target.ino).await;
            let Attached { file, .. } =
                self.engine.attach(target.ino, None, &permit, TakeLease::Judged).await?;
            Ok((file, way, turn))
        };
        match attached.await {
            Ok((file, way, turn)) => {
                let showing = shown.map(|id| file.show(id));
                Ok(Brief { target, file, shown, permit, _showing: showing, _way: way, _turn: turn })
            }
            Err(error) => {
                self.engine.leave(target.ino, &permit).await;
                Err(error)
            }
        }
    }

    /// Makes what was changed the blob's content, and durable.
    pub(super) async fn commit(&self, open: &Brief<'_>) -> Result<()> {
        self.commit_content(open).await?;
        Ok(self.engine.local()?.sync().await?)
    }

    /// Makes what was changed the blob's content; durable with the next sync. If the blob is elsewhere, it is there.
    pub(super) async fn commit_content(&self, open: &Brief<'_>) -> Result<()> {
        let (engine, file) = (&self.engine, &open.file);
        engine.sync_content(file).await?;
        let committed = engine.commit_shown(file, open.shown).await;
        if committed.is_err() {
            engine.call_off(file.ino()).await;
        }
        committed?;
        self.push(open).await
    }

    /// What the file is now.
    pub(super) fn now_entry(&self, open: &Brief<'_>) -> Result<Entry> {
        let found = self.engine.local()?.find(&open.target.at)?;
        self.engine.entry(open.target.ino, open.target.parent, &found)
    }

    /// Ends the open of a file that was changed.
    pub(super) async fn close(&self, open: Brief<'_>) {
        let Brief { target, file, permit, _showing, _way, _turn, .. } = open;
        drop(_showing);
        self.engine.detach_brief(file, &permit).await;
        drop((_way, _turn));
        self.engine.announce(vec![Outdated::File(target.ino)]).await;
    }
}

impl Engine {
    /// Commits for a caller that showed the id of the lease. The last writer wins, unless a program has the file open:
    /// then what it began with counts.
    async fn commit_shown(&self, file: &OpenFile, shown: Option<LeaseId>) -> Result<()> {
        if file.fenced().is_some() {
            return self.commit(file).await;
        }
        let Some(guarded) = &self.guard_name(file.ino()).await? else { return Ok(()) };
        if !file.needs_commit()? {
            return Ok(());
        }
        match self.commit_with(file, &guarded.at, shown) {
            // Elsewhere the call begins again, with the bytes that are there now.
            Err(FsError::Stale) if !self.gate.is_living(file.ino()) && self.upstream().is_none() => {
                let current = self.local()?.find(&guarded.at)?.blob.ok_or(FsError::NotFound)?;
                file.rebase(file.base().etag, &current);
                self.commit_with(file, &guarded.at, shown)
            }
            other => other,
        }
    }
}

fn fits(target: &Target, wanted: Wanted) -> Result<()> {
    match (wanted, target.attributes.kind) {
        (Wanted::File, Kind::File)
        | (Wanted::Directory, Kind::Directory)
        | (Wanted::NoDirectory, Kind::File | Kind::Symlink | Kind::Fifo | Kind::Socket) => Ok(()),
        (Wanted::File | Wanted::NoDirectory, Kind::Directory) => Err(FsError::IsADirectory),
        (Wanted::File, Kind::Symlink | Kind::Fifo | Kind::Socket) => {
            Err(FsError::NotSupported("not a regular file"))
        }
        (Wanted::Directory, _) => Err(FsError::NotADirectory),
    }
}

impl Requests {
    /// Judges the lease on what a call is about. Leases that opens and range locks of this share hold do not count
    /// here: the gate knows better what they stand for.
    pub(super) fn judge(&self, target: &Target, rule: LeaseRule) -> Result<()> {
        let Some(blob) = &target.found.blob else { return Ok(()) };
        let now = now();
        let elsewhere = target.asked.is_some();
        if elsewhere && rule.shown().is_some() {
            // The service has judged it, which alone knows the id.
            return Ok(());
        }
        let own = match blob.lease.holder(now) {
            Some(_) if elsewhere => self.engine.leases.id(target.ino).is_some(),
            Some(id) => self.engine.is_own_lease(target.ino, id),
            None => false,
        };
        let lease = if own { Lease::default() } else { blob.lease };
        let judged = match rule {
            LeaseRule::Read(id) => lease.check_read(now, id),
            LeaseRule::Write(id) => lease.check_write(now, id),
        };
        match judged {
            // Files have endless leases only: somebody leased the blob itself.
            Err(LeaseRefusal::IdMissing) if !lease.duration(now).is_some_and(LeaseDuration::is_infinite) => {
                Err(FsError::SharingViolation)
            }
            other => other.map_err(FsError::Lease),
        }
    }
}
