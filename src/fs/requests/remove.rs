//! Removing files and directories: at once or not at all.

use crate::share::lease::LeaseId;
use crate::store::{DeleteSnapshots, Preconditions};

use super::super::error::{FsError, Result};
use super::super::gate::Claim;
use super::super::names::Segment;
use super::super::watch::Outdated;
use super::Requests;
use super::brief::{LeaseRule, Target, Wanted};
use super::entry::SmbAttributes;
use super::failure::{Answer, Failure};
use super::path::FilePath;

impl Requests {
    /// Removes a file that nobody has open; refused otherwise. Never leaves it delete pending. Durable when it answers.
    pub async fn delete_file(&self, path: &FilePath, lease: Option<LeaseId>) -> Answer<()> {
        let (target, permit) =
            self.pass(path, Wanted::NoDirectory, Claim::DELETE, LeaseRule::Write(lease)).await?;
        // The open has shown that nobody keeps others from removing it. It must not stand in its own way.
        self.engine.leave(target.ino, &permit).await;
        let before = self.engine.entry(target.ino, target.parent, &target.found)?;
        if before.attributes.contains(SmbAttributes::READ_ONLY) {
            return Err(FsError::ReadOnly.into());
        }
        let gate = &self.engine.gate;
        let removal = match gate.remove_unused(target.ino).await {
            Ok(removal) => removal,
            Err(error) => return Err(Failure { error, holders: gate.opens_of(target.ino) }),
        };
        let way = self.go(path).await?;
        let (_, segment) = path.split().ok_or(FsError::NotFound)?;
        self.delete_now(&target, segment, lease).await?;
        removal.confirm();
        self.engine.touch_directory(target.parent).await;
        drop(way);
        self.engine.local()?.sync().await?;
        let name = Outdated::Name { parent: target.parent, segment: segment.clone() };
        self.engine.announce(vec![name, Outdated::File(target.ino), Outdated::File(target.parent)]).await;
        Ok(())
    }

    async fn delete_now(&self, target: &Target, segment: &Segment, lease: Option<LeaseId>) -> Result<()> {
        let engine = &self.engine;
        let _entry = engine.guard_entry(target.parent, segment).await;
        let (there, found) = engine.find_child(target.parent, segment)?;
        if there != target.ino {
            return Err(FsError::NotFound);
        }
        // Not where the look found it: a directory above may have been renamed since.
        let at = engine.at(engine.nodes.child_name(target.parent, segment)?);
        engine.keep_parent(&at).await?;
        let _settling = self.remove_there(target.ino, &at, lease).await?;
        let lease = self.lease_here(target.ino, lease);
        let conditions = Preconditions { lease, ..Preconditions::default() };
        engine.store.delete_blob(&at, DeleteSnapshots::Include, &conditions).await?;
        engine.lose_name(target.ino, &found);
        Ok(())
    }

    /// Removes an empty directory. Durable when it answers.
    pub async fn delete_directory(&self, path: &FilePath) -> Answer<()> {
        let (_, segment) = path.split().ok_or(FsError::NotPermitted("a share's own directory stays"))?;
        let target = self.look(path, None).await?;
        let way = self.go(path).await?;
        match self.engine.remove_directory(target.parent, segment).await {
            Ok(()) => {}
            Err(error @ FsError::SharingViolation) => {
                let holders = self.engine.gate.opens_of(target.ino);
                return Err(Failure { error, holders });
            }
            Err(error) => return Err(error.into()),
        }
        drop(way);
        self.engine.local()?.sync().await?;
        let name = Outdated::Name { parent: target.parent, segment: segment.clone() };
        self.engine.announce(vec![name, Outdated::File(target.parent)]).await;
        Ok(())
    }
}
