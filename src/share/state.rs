//! All that sharing knows about one file: its opens, its range locks, and whether it is delete pending.
//!
//! ```text
//!                         mark_delete, or the close of a delete-on-close open
//!   NORMAL  --------------------------------------------------------------->  DELETE PENDING
//!     |     <---------------------------------------------------------------       |
//!     |                               clear_delete                                 |
//!     | last close                                                      last close |
//!     v                                                                            v
//!   Last { delete: false }                                        Last { delete: true }
//! ```
//!
//! While a file is delete pending no open is granted; the opens that exist go on. After `Last { delete: true }` the
//! file stays delete pending, so that nobody opens it while it is being removed.
//!
//! A range lock came through an open, and goes with it at the latest.
//!
//! A [`FileShareState`] is a plain value: it can be copied, compared, encoded and kept elsewhere. It must never do more
//! than decide: no I/O, no clock, no waiting.

use super::access::{Access, ShareMode};
use super::opens::{OpenClaim, OpenId, OpenSet};
use super::ranges::{RangeKind, RangeLock, RangeLocks, RangeOwner};
use super::spans::Span;

mod encoding;
#[cfg(test)]
mod tests;

pub use encoding::DecodeError;

/// Why sharing refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The file was removed and waits for its last close.
    #[error("the file is delete pending")]
    DeletePending,
    /// The access or the share mode does not fit another open of the file.
    #[error("the file is open elsewhere in a way that does not allow this")]
    SharingViolation,
    /// The open has no delete access.
    #[error("the open has no delete access")]
    AccessDenied,
    /// No open has this id. A mistake of the caller.
    #[error("no such open of the file")]
    NotOpen,
    /// An open with this id exists already. A mistake of the caller.
    #[error("the id belongs to another open of the file")]
    IdInUse,
}

/// Why a range lock was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeRefusal {
    /// This one stands in the way: the first, in the order of offsets.
    Held(RangeLock),
    /// No open has this id. A mistake of the caller, or the open was closed meanwhile.
    NotOpen,
}

/// What a close left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Closed {
    /// Other opens exist.
    Remaining,
    /// That was the last open.
    Last {
        /// Whether the file must now be removed.
        delete: bool,
    },
    /// There was no such open.
    Unknown,
}

/// The sharing state of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileShareState {
    opens: OpenSet,
    /// None when there is no range lock: most files never have one.
    ranges: Option<Box<RangeLocks>>,
    delete_pending: bool,
}

impl FileShareState {
    /// Grants an open, or says why not. Delete pending is judged first, and for every access.
    pub fn try_open(&mut self, id: OpenId, access: Access, share: ShareMode) -> Result<(), Refusal> {
        if self.delete_pending {
            return Err(Refusal::DeletePending);
        }
        if self.opens.conflicts(access, share) {
            return Err(Refusal::SharingViolation);
        }
        let claim = OpenClaim { access, share, delete_on_close: false };
        if self.opens.insert(id, claim) { Ok(()) } else { Err(Refusal::IdInUse) }
    }

    /// The opens whose access or share mode does not fit such an open. Looks at every open: for messages.
    pub fn blockers(&self, access: Access, share: ShareMode) -> Vec<OpenId> {
        self.opens.blockers(access, share)
    }

    /// Ends an open. Its range locks go, too; ask [`drop_ranges_of_open`](Self::drop_ranges_of_open) first to learn
    /// whether there were any.
    pub fn close(&mut self, id: OpenId) -> Closed {
        let Some(claim) = self.opens.remove(id) else { return Closed::Unknown };
        self.drop_ranges_of_open(id);
        self.delete_pending |= claim.delete_on_close;
        if self.opens.len() == 0 { Closed::Last { delete: self.delete_pending } } else { Closed::Remaining }
    }

    /// Tightens or loosens the share mode of an open, if the other opens allow it.
    pub fn set_share(&mut self, id: OpenId, share: ShareMode) -> Result<(), Refusal> {
        let access = self.opens.get(id).ok_or(Refusal::NotOpen)?.access;
        self.set_claim(id, access, share)
    }

    /// Gives an open another access and share mode, if the other opens allow it. Delete pending has no say: the open
    /// exists already. An open that gives up delete access gives up its delete-on-close.
    pub fn set_claim(&mut self, id: OpenId, access: Access, share: ShareMode) -> Result<(), Refusal> {
        let old = *self.opens.get(id).ok_or(Refusal::NotOpen)?;
        // Taken out for a moment, so that the open is not judged against itself.
        self.opens.replace(id, OpenClaim { access: Access::NONE, ..old });
        let fits = !self.opens.conflicts(access, share);
        let delete_on_close = old.delete_on_close && access.contains(Access::DELETE);
        self.opens.replace(id, if fits { OpenClaim { access, share, delete_on_close } } else { old });
        if fits { Ok(()) } else { Err(Refusal::SharingViolation) }
    }

    /// Makes the file delete pending, through an open that has delete access. The share modes of the other opens were
    /// judged when that open was granted.
    pub fn mark_delete(&mut self, by: OpenId) -> Result<(), Refusal> {
        self.must_have_delete(by)?;
        self.delete_pending = true;
        Ok(())
    }

    /// Takes delete pending back through an open that has delete access; it need not be the one that set it. An open's
    /// own delete-on-close stays.
    pub fn unmark_delete(&mut self, by: OpenId) -> Result<(), Refusal> {
        self.must_have_delete(by)?;
        self.delete_pending = false;
        Ok(())
    }

    /// Takes delete pending back, whoever set it: the file's owner asked, or the remove failed. An open's own
    /// delete-on-close stays.
    pub fn clear_delete(&mut self) {
        self.delete_pending = false;
    }

    /// Says whether the close of this open makes the file delete pending. Until then nobody else notices. Setting it
    /// needs delete access.
    pub fn set_delete_on_close(&mut self, id: OpenId, delete_on_close: bool) -> Result<(), Refusal> {
        let claim = *self.opens.get(id).ok_or(Refusal::NotOpen)?;
        if delete_on_close {
            self.must_have_delete(id)?;
        }
        self.opens.replace(id, OpenClaim { delete_on_close, ..claim });
        Ok(())
    }

    /// Whether the file was removed and waits for its last close.
    pub fn is_delete_pending(&self) -> bool {
        self.delete_pending
    }

    /// How many opens there are, those for attributes only included.
    pub fn open_count(&self) -> usize {
        self.opens.len()
    }

    /// What an open holds.
    pub fn get(&self, id: OpenId) -> Option<&OpenClaim> {
        self.opens.get(id)
    }

    /// The opens in the order of their ids.
    pub fn opens(&self) -> impl Iterator<Item = (OpenId, OpenClaim)> + '_ {
        self.opens.iter()
    }

    /// The opens whose id is above `id`, in the order of their ids: to look at many of them a page at a time.
    pub fn opens_after(&self, id: OpenId) -> impl Iterator<Item = (OpenId, OpenClaim)> + '_ {
        self.opens.iter_after(id)
    }

    /// Whether another file may be renamed onto this one: it is not delete pending, and every open shares delete.
    /// Opens for attributes only have no say.
    pub fn can_be_replaced(&self) -> bool {
        !self.delete_pending && !self.opens.denies_delete()
    }

    /// What must hold at every moment; the first thing that does not. Compares every pair of opens and of range locks.
    pub fn invariants(&self) -> Result<(), String> {
        self.opens.invariants()?;
        self.ranges().invariants()?;
        if self.ranges.as_ref().is_some_and(|ranges| ranges.is_empty()) {
            return Err("an empty set of range locks takes room".to_owned());
        }
        if let Some(lost) = self.ranges().iter().find(|lock| self.get(lock.owner.open).is_none()) {
            return Err(format!("{lost:?} belongs to no open"));
        }
        let wrong = |open: &OpenClaim| open.delete_on_close && !open.access.contains(Access::DELETE);
        match self.opens().find(|(_, open)| wrong(open)) {
            Some((id, _)) => Err(format!("the open {} is delete-on-close without delete access", id.0)),
            None => Ok(()),
        }
    }

    fn must_have_delete(&self, id: OpenId) -> Result<(), Refusal> {
        let claim = self.opens.get(id).ok_or(Refusal::NotOpen)?;
        if claim.access.contains(Access::DELETE) { Ok(()) } else { Err(Refusal::AccessDenied) }
    }
}

/// Range locks.
impl FileShareState {
    /// The range locks, to look at.
    pub fn ranges(&self) -> &RangeLocks {
        static NONE: RangeLocks = RangeLocks::EMPTY;
        self.ranges.as_deref().unwrap_or(&NONE)
    }

    /// Grants a range lock in place of what the owner's key has there, or says why not and changes nothing.
    pub fn set_range(&mut self, owner: RangeOwner, kind: RangeKind, span: Span) -> Result<(), RangeRefusal> {
        if self.opens.get(owner.open).is_none() {
            return Err(RangeRefusal::NotOpen);
        }
        // A refusal leaves what was there, and there was something, or nothing could refuse.
        self.ranges.get_or_insert_default().set(owner, kind, span).map_err(RangeRefusal::Held)
    }

    /// Takes the key's range locks on these bytes away. Says whether there were any, so that waiters are told.
    pub fn clear_range(&mut self, key: u64, span: Span) -> bool {
        self.with_ranges(|ranges| ranges.clear(key, span))
    }

    /// Takes all range locks of a key away. Says whether there were any.
    pub fn drop_ranges_of_key(&mut self, key: u64) -> bool {
        self.with_ranges(|ranges| ranges.drop_key(key))
    }

    /// Takes all range locks away that came through an open. Says whether there were any.
    pub fn drop_ranges_of_open(&mut self, open: OpenId) -> bool {
        self.with_ranges(|ranges| ranges.drop_open(open))
    }

    fn with_ranges(&mut self, change: impl FnOnce(&mut RangeLocks) -> bool) -> bool {
        let Some(ranges) = &mut self.ranges else { return false };
        let changed = change(ranges);
        if ranges.is_empty() {
            self.ranges = None;
        }
        changed
    }
}
