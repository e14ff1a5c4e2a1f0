//! Looking at the opens: for messages and for people, never for decisions.
//!
//! A mutex is held for one page of opens at a time, so that looking at very many of them delays nobody. What comes or
//! goes meanwhile may or may not be seen; what stays is seen exactly once.

use crate::share::{Access, OpenClaim, OpenId, ShareMode};

use super::super::holders::Holder;
use super::super::nodes::Ino;
use super::{Claim, Gate, Shard};

/// Opens looked at under one hold of a mutex.
const PAGE: usize = 1024;

/// An open as others may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenInfo {
    /// Its number.
    pub id: OpenId,
    /// The file.
    pub ino: Ino,
    /// What it may do.
    pub access: Access,
    /// What it lets others do.
    pub share: ShareMode,
    /// Who has it.
    pub holder: Holder,
    /// Its program seems to be done with it; the kernel has not said so yet.
    pub closing: bool,
}

impl Shard {
    fn info(&self, ino: Ino, id: OpenId, claim: OpenClaim) -> Option<OpenInfo> {
        let held = self.holders.get(&id)?;
        let OpenClaim { access, share, .. } = claim;
        Some(OpenInfo { id, ino, access, share, holder: held.holder, closing: held.ghost })
    }

    /// Adds the opens of `ino` behind `after`, at most a page; returns the last one if there may be more.
    fn page(&self, ino: Ino, after: OpenId, into: &mut Vec<OpenInfo>) -> Option<OpenId> {
        let mut taken = 0;
        for (id, claim) in self.files.get(&ino)?.state.opens_after(after) {
            into.extend(self.info(ino, id, claim));
            taken += 1;
            if taken == PAGE {
                return Some(id);
            }
        }
        None
    }
}

impl Gate {
    /// The opens of one file, oldest first.
    pub fn opens_of(&self, ino: Ino) -> Vec<OpenInfo> {
        let mut opens = Vec::new();
        self.add_opens_of(ino, &mut opens);
        opens
    }

    /// All opens, sorted by file and age.
    pub fn opens(&self) -> Vec<OpenInfo> {
        let mut opens = Vec::new();
        for shard in &self.shards {
            let files: Vec<Ino> = shard.lock().files.keys().copied().collect();
            for ino in files {
                self.add_opens_of(ino, &mut opens);
            }
        }
        opens.sort_unstable_by_key(|open| (open.ino, open.id));
        opens
    }

    fn add_opens_of(&self, ino: Ino, into: &mut Vec<OpenInfo>) {
        let mut after = OpenId(0);
        loop {
            let page = self.shard(ino).lock().page(ino, after, into);
            match page {
                Some(last) => after = last,
                None => return,
            }
        }
    }

    /// The opens that stand in the way of such an open of `ino`.
    pub fn blockers(&self, ino: Ino, claim: Claim) -> Vec<OpenInfo> {
        let shard = self.shard(ino).lock();
        let Some(watched) = shard.files.get(&ino) else { return Vec::new() };
        let state = &watched.state;
        let info = |id: &OpenId| shard.info(ino, *id, *state.get(*id)?);
        state.blockers(claim.access, claim.share).iter().filter_map(info).collect()
    }

    /// The files that are delete pending.
    pub fn pending_files(&self) -> Vec<Ino> {
        let mut pending = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let marked = shard.files.iter().filter(|(_, watched)| watched.state.is_delete_pending());
            pending.extend(marked.map(|(ino, _)| *ino));
        }
        pending
    }
}
