//! Renaming.

use crate::share::lease::LeaseId;
use crate::store::{BlobPath, Fence, Found, RenameMode, crash_point};

use super::attributes::Kind;
use super::error::{FsError, Result};
use super::gate::{Claim, Removal};
use super::holders::Holder;
use super::names::Segment;
use super::nodes::Ino;
use super::{Engine, now};

/// What a rename does when the new name is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameRule {
    /// Replace what is there.
    Replace,
    /// Refuse.
    NoReplace,
    /// Swap the two.
    Exchange,
}

/// One side of a rename.
struct Side {
    ino: Ino,
    found: Found,
    kind: Kind,
}

/// The ids of leases that were shown for the two sides of a rename.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    pub(super) source: Option<LeaseId>,
    pub(super) target: Option<LeaseId>,
}

impl Engine {
    /// Renames `from` in `from_dir` to `to` in `to_dir`.
    ///
    /// Needs delete access to what is moved and to what is replaced, for a moment: an open that does not share
    /// delete refuses. Opens of what is moved follow it; opens of what is replaced keep it without a name.
    pub async fn rename(
        &self,
        (from_dir, from): (Ino, &Segment),
        (to_dir, to): (Ino, &Segment),
        rule: RenameRule,
    ) -> Result<()> {
        self.rename_for((from_dir, from), (to_dir, to), rule, Shown::default()).await
    }

    /// The same for somebody who showed ids of leases.
    pub(super) async fn rename_for(
        &self,
        (from_dir, from): (Ino, &Segment),
        (to_dir, to): (Ino, &Segment),
        rule: RenameRule,
        shown: Shown,
    ) -> Result<()> {
        self.not_pending(from_dir, from).await?;
        self.refresh_child(from_dir, from).await?;
        self.may_create(to_dir, to).await?;
        if (from_dir, from) == (to_dir, to) {
            let _entry = self.entry_stays(from_dir, from).await;
            self.find_child(from_dir, from)?;
            return match rule {
                RenameRule::NoReplace => Err(FsError::Exists),
                RenameRule::Replace | RenameRule::Exchange => Ok(()),
            };
        }
        let (source, target) = {
            let _entries = self.entries_stay((from_dir, from), (to_dir, to)).await;
            (self.side(from_dir, from)?, self.optional_side(to_dir, to)?)
        };
        // All of them may wait for a late close, so no guard is held.
        if let (Some(Side { ino, kind: Kind::Directory, .. }), Kind::Directory, RenameRule::Replace) =
            (&target, source.kind, rule)
        {
            self.empty_in_a_moment(*ino).await?;
        }
        let moving = self.gate.open(source.ino, Claim::DELETE, Holder::engine(now())).await?;
        let renamed =
            self.rename_passed((from_dir, from), (to_dir, to), (rule, shown), (&source, &target)).await;
        self.leave(source.ino, &moving).await;
        renamed?;
        self.after_rename(&source, target.as_ref(), rule).await;
        self.touch_directory(from_dir).await;
        if to_dir != from_dir {
            self.touch_directory(to_dir).await;
        }
        Ok(())
    }

    /// Renames what the gate was passed for; what is replaced or exchanged passes it here.
    async fn rename_passed(
        &self,
        (from_dir, from): (Ino, &Segment),
        (to_dir, to): (Ino, &Segment),
        (rule, shown): (RenameRule, Shown),
        (source, target): (&Side, &Option<Side>),
    ) -> Result<()> {
        let replacing = match (target, rule) {
            // Directories, too: somebody may have claimed one.
            (Some(target), RenameRule::Replace) => Some(self.gate.replace(target.ino).await?),
            (Some(target), RenameRule::Exchange) => {
                let permit = self.gate.open(target.ino, Claim::DELETE, Holder::engine(now())).await?;
                self.leave(target.ino, &permit).await;
                None
            }
            (Some(_), RenameRule::NoReplace) | (None, _) => None,
        };
        let directories = source.kind == Kind::Directory
            || target.as_ref().is_some_and(|side| side.kind == Kind::Directory);
        if directories {
            // What is replaced is a subject, too: nobody may make anything in it meanwhile.
            let subjects: Vec<Ino> =
                [Some(source), target.as_ref()].into_iter().flatten().map(|side| side.ino).collect();
            let _move = self.guard_move(&subjects, &[(from_dir, from), (to_dir, to)]).await;
            self.rename_guarded((from_dir, from), (to_dir, to), (rule, shown), (source, target), replacing)
                .await?;
            self.follow_move(source.ino).await?;
            if let (Some(target), RenameRule::Exchange) = (target, rule) {
                self.follow_move(target.ino).await?;
            }
            crash_point("rename_after_marks");
        } else {
            let _entries = self.guard_entries((from_dir, from), (to_dir, to)).await;
            self.rename_guarded((from_dir, from), (to_dir, to), (rule, shown), (source, target), replacing)
                .await?;
        }
        Ok(())
    }

    /// What waits for something below a directory that was just moved has to find it there.
    async fn follow_move(&self, directory: Ino) -> Result<()> {
        self.directory_times.follow_move(&self.nodes, directory);
        self.rewrite_marks(directory).await
    }

    fn side(&self, parent: Ino, segment: &Segment) -> Result<Side> {
        let (ino, found) = self.find_child(parent, segment)?;
        let kind = self.stat_found(ino, &found)?.attributes.kind;
        Ok(Side { ino, found, kind })
    }

    fn optional_side(&self, parent: Ino, segment: &Segment) -> Result<Option<Side>> {
        match self.side(parent, segment) {
            Ok(side) => Ok(Some(side)),
            Err(FsError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn rename_guarded(
        &self,
        (from_dir, from): (Ino, &Segment),
        (to_dir, to): (Ino, &Segment),
        (rule, shown): (RenameRule, Shown),
        (expected, expected_target): (&Side, &Option<Side>),
        replacing: Option<Removal>,
    ) -> Result<()> {
        if self.pending.get(from_dir, from).is_some() {
            // Removed since it was looked at.
            return Err(FsError::DeletePending);
        }
        let source = self.side(from_dir, from)?;
        let to_at = self.free_name(to_dir, to).await?.at;
        let target = self.optional_side(to_dir, to)?;
        let unchanged = source.ino == expected.ino
            && target.as_ref().map(|side| side.ino) == expected_target.as_ref().map(|side| side.ino);
        if !unchanged {
            // Somebody else renamed first; the kernel asks again with what is there now.
            return Err(FsError::Stale);
        }
        let target = match target {
            Some(side) if rule == RenameRule::Replace && source.kind == Kind::Directory => {
                Some(Side { found: self.without_slash_marker(&to_at, side.found).await?, ..side })
            }
            other => other,
        };
        check(&source, target.as_ref(), rule)?;
        if self.nodes.is_within(to_dir, source.ino)
            || (rule == RenameRule::Exchange
                && target.as_ref().is_some_and(|target| self.nodes.is_within(from_dir, target.ino)))
        {
            return Err(FsError::Invalid("a directory cannot be moved into itself"));
        }
        let from_at = self.at(self.nodes.child_name(from_dir, from)?);
        self.unless_leased(&source, shown.source)?;
        if let Some(target) = &target {
            self.unless_leased(target, shown.target)?;
        }
        self.keep_parent(&from_at).await?;
        if source.kind == Kind::Directory {
            self.announce_move(&from_at, &to_at).await?;
        }
        if rule == RenameRule::Exchange && target.as_ref().is_some_and(|side| side.kind == Kind::Directory) {
            self.announce_move(&to_at, &from_at).await?;
        }
        let mut leases = self.leave_leases(source.ino).await;
        if let Some(target) = &target {
            leases.extend(self.leave_leases(target.ino).await);
        }
        let farewell = match (&target, rule) {
            (Some(target), RenameRule::Replace) => self.farewell_to(target.ino, target.kind, &to_at),
            (Some(_), RenameRule::NoReplace | RenameRule::Exchange) | (None, _) => None,
        };
        if let Err(error) = self.move_blobs(&from_at, &to_at, target.as_ref(), (rule, shown)).await {
            self.follow_leases(leases).await;
            return Err(error);
        }
        crash_point("rename_after_move");
        self.nodes.moved(source.ino, to_dir, to);
        match (target, rule) {
            (Some(target), RenameRule::Exchange) => self.nodes.moved(target.ino, from_dir, from),
            (Some(target), RenameRule::Replace | RenameRule::NoReplace) => {
                if let Some(reader) = farewell {
                    self.keep_a_moment(target.ino, reader);
                }
                self.lose_name(target.ino, &target.found);
                self.directory_times.forget(&self.nodes, target.ino);
                if let Some(Removal::Now(permit)) = replacing {
                    permit.confirm();
                }
            }
            (None, _) => {}
        }
        self.follow_leases(leases).await;
        Ok(())
    }

    /// A stranger's lease keeps a name where it is, unless its id was shown.
    fn unless_leased(&self, side: &Side, shown: Option<LeaseId>) -> Result<()> {
        let holder = side.found.blob.as_ref().and_then(|blob| blob.lease.holder(now()));
        if holder.is_some() && holder == shown {
            return Ok(());
        }
        self.beside_leases(&side.found).map(drop)
    }

    async fn move_blobs(
        &self,
        from: &BlobPath,
        to: &BlobPath,
        target: Option<&Side>,
        (rule, shown): (RenameRule, Shown),
    ) -> Result<()> {
        let mode = match (rule, target) {
            (RenameRule::Exchange, _) => RenameMode::Exchange,
            (RenameRule::NoReplace, _) | (RenameRule::Replace, None) => RenameMode::NoReplace,
            (RenameRule::Replace, Some(_)) => RenameMode::Replace,
        };
        if let Some(upstream) = self.upstream() {
            // Our own leases were given up before. The fence is for what is not pushed yet; what is moved or replaced is
            // what is there.
            let check_version = self.config.fencing.concurrency.checks_version();
            let fence = Fence { lease: shown.source, check_version };
            // The service has decided by then.
            let mode_here = if mode == RenameMode::NoReplace { RenameMode::Replace } else { mode };
            let local = self.local()?;
            let here = || local.rename(from, to, mode_here);
            return Ok(upstream.rename(&from.name, &to.name, mode, fence, &here).await?);
        }
        Ok(self.local()?.rename(from, to, mode)?)
    }

    /// A rename changes the time of last change of what was moved.
    async fn after_rename(&self, source: &Side, target: Option<&Side>, rule: RenameRule) {
        if self.upstream().is_some() {
            // It would be a request more for each rename.
            return;
        }
        let exchanged = target.filter(|_| rule == RenameRule::Exchange).map(|target| target.ino);
        for ino in [Some(source.ino), exchanged].into_iter().flatten() {
            if let Err(error) = self.change_attributes(ino, |attributes, now| attributes.ctime = now).await {
                tracing::debug!(ino = ino.0, %error, "the time of a rename could not be noted");
            }
        }
    }
}

fn check(source: &Side, target: Option<&Side>, rule: RenameRule) -> Result<()> {
    let Some(target) = target else {
        return if rule == RenameRule::Exchange { Err(FsError::NotFound) } else { Ok(()) };
    };
    match rule {
        RenameRule::NoReplace => Err(FsError::Exists),
        RenameRule::Exchange => Ok(()),
        RenameRule::Replace => match (source.kind == Kind::Directory, target.kind == Kind::Directory) {
            (true, false) => Err(FsError::NotADirectory),
            (false, true) => Err(FsError::IsADirectory),
            (true, true) if target.found.prefix.is_some() => Err(FsError::NotEmpty),
            _ => Ok(()),
        },
    }
}
