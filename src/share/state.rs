//! All that sharing knows about one file: its opens, and whether it is delete pending.
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
//! A [`FileShareState`] is a plain value: it can be copied, compared, encoded and kept elsewhere. It must never do more
//! than decide: no I/O, no clock, no waiting.

use super::access::{Access, ShareMode};
use super::opens::{OpenClaim, OpenId, OpenSet};

#[cfg(test)]
mod tests;

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

    /// Ends an open.
    pub fn close(&mut self, id: OpenId) -> Closed {
        let Some(claim) = self.opens.remove(id) else { return Closed::Unknown };
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

    /// Takes delete pending back, whoever set it. An open's own delete-on-close stays.
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

    /// What must hold at every moment; the first thing that does not. Compares every pair of opens.
    pub fn invariants(&self) -> Result<(), String> {
        self.opens.invariants()?;
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

/// The first byte of every encoded state. A change of the layout gets a new number.
const ENCODING: u8 = 1;
const PENDING_BIT: u8 = 1;
const DELETE_ON_CLOSE_BIT: u8 = 1 << 6;
/// An encoded open: its id and one byte of access, share mode and delete-on-close.
const OPEN_LEN: usize = 9;

/// Why bytes are no encoded state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Written by a version of the program that this one does not know.
    #[error("sharing state has the unknown version {0}")]
    Version(u8),
    /// Cut off, changed, or never an encoded state.
    #[error("sharing state is damaged")]
    Damaged,
}

/// As bytes: `version, flags, (id as 8 bytes little-endian, claim)…` with the opens in the order of their ids.
impl FileShareState {
    /// The state as bytes that [`decode`](Self::decode) reads.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 + OPEN_LEN * self.open_count());
        bytes.extend([ENCODING, if self.delete_pending { PENDING_BIT } else { 0 }]);
        for (id, open) in self.opens() {
            let on_close = if open.delete_on_close { DELETE_ON_CLOSE_BIT } else { 0 };
            bytes.extend(id.0.to_le_bytes());
            bytes.push(open.access.bits() | open.share.bits() << 3 | on_close);
        }
        bytes
    }

    /// Reads an encoded state. Refuses one that no sequence of calls could have led to.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (&version, rest) = bytes.split_first().ok_or(DecodeError::Damaged)?;
        if version != ENCODING {
            return Err(DecodeError::Version(version));
        }
        let (&flags, rest) = rest.split_first().ok_or(DecodeError::Damaged)?;
        let (opens, trailing) = rest.as_chunks::<OPEN_LEN>();
        if flags & !PENDING_BIT != 0 || !trailing.is_empty() {
            return Err(DecodeError::Damaged);
        }
        let mut state = Self::default();
        let mut previous = None;
        for [id @ .., claim] in opens {
            let id = OpenId(u64::from_le_bytes(*id));
            if previous.replace(id).is_some_and(|previous| previous >= id) {
                return Err(DecodeError::Damaged);
            }
            state.admit(id, *claim).ok_or(DecodeError::Damaged)?;
        }
        state.delete_pending = flags & PENDING_BIT != 0;
        Ok(state)
    }

    fn admit(&mut self, id: OpenId, claim: u8) -> Option<()> {
        let (access, share) = (Access::from_bits(claim), ShareMode::from_bits(claim >> 3));
        let delete_on_close = claim & DELETE_ON_CLOSE_BIT != 0;
        if claim >> 7 != 0 {
            return None;
        }
        self.try_open(id, access, share).ok()?;
        if delete_on_close { self.set_delete_on_close(id, true).ok() } else { Some(()) }
    }
}
