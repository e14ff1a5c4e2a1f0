//! The opens that programs have, by path; and closing them from outside.

use crate::share::{Access, Moment, OpenId};

use super::super::error::FsError;
use super::super::gate::OpenInfo;
use super::super::holders::{FrontEnd, Holder};
use super::super::nodes::{Ino, ROOT};
use super::Requests;
use super::failure::Answer;
use super::path::FilePath;

/// Handles of one page at most.
const PAGE_MAX: usize = 5000;

/// An open of a program.
#[derive(Clone, Debug)]
pub struct HandleInfo {
    /// Its number.
    pub id: u64,
    /// Where the file is in the share; empty if no name leads to it any more.
    pub path: String,
    /// The file.
    pub ino: Ino,
    /// The directory it is in.
    pub parent: Ino,
    /// What it may do.
    pub access: Access,
    /// Who has it: `holder.process()` looks it up.
    pub holder: Holder,
    /// Since when.
    pub since: Moment,
}

/// A page of handles.
#[derive(Clone, Debug)]
pub struct HandlePage {
    /// The handles, oldest first.
    pub handles: Vec<HandleInfo>,
    /// The last one, if there are more.
    pub next: Option<u64>,
}

/// Which handles to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one with this number.
    One(u64),
    /// All of them.
    All,
}

/// What closing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandlesClosed {
    /// So many are closed.
    pub closed: usize,
    /// So many could not be.
    pub failed: usize,
}

impl Requests {
    /// The handles that programs have on a file or directory; with `recursive`, also on everything below it.
    pub async fn handles(
        &self,
        path: &FilePath,
        recursive: bool,
        after: Option<u64>,
        max: usize,
    ) -> Answer<HandlePage> {
        let mut opens = self.opens(path, recursive).await?;
        opens.retain(|open| open.id.0 > after.unwrap_or(0));
        let max = if max == 0 { PAGE_MAX } else { max.min(PAGE_MAX) };
        let more = opens.len() > max;
        opens.truncate(max);
        let handles: Vec<HandleInfo> = opens.iter().map(|open| self.handle(open)).collect();
        let next = handles.last().filter(|_| more).map(|handle| handle.id);
        Ok(HandlePage { handles, next })
    }

    /// Closes handles from outside, as the person in charge may: what was written through them is committed, and their
    /// programs get errors from then on.
    pub async fn close_handles(
        &self,
        path: &FilePath,
        which: Which,
        recursive: bool,
    ) -> Answer<HandlesClosed> {
        let mut opens = self.opens(path, recursive).await?;
        if let Which::One(id) = which {
            opens.retain(|open| open.id == OpenId(id));
        }
        let mut report = HandlesClosed::default();
        for open in opens {
            match self.engine.close_handle(open.id).await {
                Ok(()) => report.closed += 1,
                // Gone by itself meanwhile.
                Err(FsError::BadHandle | FsError::Revoked) => {}
                Err(error) => {
                    tracing::warn!(open = open.id.0, %error, "what a handle wrote could not be committed");
                    report.failed += 1;
                }
            }
        }
        self.engine.local()?.sync().await?;
        Ok(report)
    }

    /// The opens of programs, oldest first.
    async fn opens(&self, path: &FilePath, recursive: bool) -> Answer<Vec<OpenInfo>> {
        let engine = &self.engine;
        let (ino, directory) = self.number(path).await?;
        let mut opens = if recursive && directory { engine.gate.opens() } else { engine.gate.opens_of(ino) };
        opens.retain(|open| {
            open.holder.front_end == FrontEnd::Mount
                && (open.ino == ino || engine.nodes.is_within(open.ino, ino))
        });
        opens.sort_unstable_by_key(|open| open.id);
        Ok(opens)
    }

    async fn number(&self, path: &FilePath) -> Answer<(Ino, bool)> {
        if path.is_root() {
            return Ok((ROOT, true));
        }
        let target = self.look(path, None).await?;
        if target.is_directory() {
            return Ok((target.ino, true));
        }
        self.file_properties(path, None).await?;
        Ok((target.ino, false))
    }

    fn handle(&self, open: &OpenInfo) -> HandleInfo {
        let engine = &self.engine;
        let path = engine.path_of(open.ino).unwrap_or_default();
        HandleInfo {
            id: open.id.0,
            path: path.trim_start_matches('/').to_owned(),
            ino: open.ino,
            parent: engine.nodes.place(open.ino).map_or(Ino(0), |(parent, _)| parent),
            access: open.access,
            holder: open.holder,
            since: open.holder.since,
        }
    }
}
