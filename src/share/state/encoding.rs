//! The state of a file as bytes, so that it can be kept elsewhere.
//!
//! `version, flags, number of opens (4 bytes), opens…, range locks…`; numbers are little-endian. An open is its id and
//! one byte of access, share mode and delete-on-close. A range lock is start, last, key, open, process and one byte of
//! kind and emptiness. Opens are in the order of their ids, range locks in that of keys and offsets: one state has one
//! encoding.
//!
//! Decoding must never make a state that no sequence of calls could have led to.

use crate::share::access::{Access, ShareMode};
use crate::share::opens::OpenId;
use crate::share::ranges::{RangeKind, RangeLock, RangeOwner};
use crate::share::spans::Span;

use super::FileShareState;

/// The first byte of every encoded state. A change of the layout gets a new number. (1 had no range locks.)
pub(super) const ENCODING: u8 = 2;
const PENDING_BIT: u8 = 1;
const DELETE_ON_CLOSE_BIT: u8 = 1 << 6;
const EXCLUSIVE_BIT: u8 = 1;
const POINT_BIT: u8 = 2;
const OPEN_LEN: usize = 9;
const RANGE_LEN: usize = 37;

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

impl FileShareState {
    /// The state as bytes that [`decode`](Self::decode) reads.
    pub fn encode(&self) -> Vec<u8> {
        let (opens, ranges) = (self.open_count(), self.ranges().len());
        let mut bytes = Vec::with_capacity(6 + OPEN_LEN * opens + RANGE_LEN * ranges);
        bytes.extend([ENCODING, if self.delete_pending { PENDING_BIT } else { 0 }]);
        bytes.extend(u32::try_from(opens).unwrap_or(u32::MAX).to_le_bytes());
        for (id, open) in self.opens() {
            let on_close = if open.delete_on_close { DELETE_ON_CLOSE_BIT } else { 0 };
            bytes.extend(id.0.to_le_bytes());
            bytes.push(open.access.bits() | open.share.bits() << 3 | on_close);
        }
        for lock in self.ranges().iter() {
            encode_range(&lock, &mut bytes);
        }
        bytes
    }

    /// Reads an encoded state. Refuses one that no sequence of calls could have led to.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (&version, rest) = bytes.split_first().ok_or(DecodeError::Damaged)?;
        if version != ENCODING {
            return Err(DecodeError::Version(version));
        }
        let state = Self::read(rest).ok_or(DecodeError::Damaged)?;
        // One state has one encoding: this refuses what is unsorted, doubled, not merged, or has unknown bits.
        if state.encode() == bytes { Ok(state) } else { Err(DecodeError::Damaged) }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (&[flags, ref count @ ..], rest) = bytes.split_first_chunk::<5>()?;
        let opens = usize::try_from(u32::from_le_bytes(*count)).ok()?;
        let (opens, rest) = rest.split_at_checked(opens.checked_mul(OPEN_LEN)?)?;
        let (ranges, trailing) = rest.as_chunks::<RANGE_LEN>();
        if !trailing.is_empty() {
            return None;
        }
        let mut state = Self::default();
        for [id @ .., claim] in opens.as_chunks::<OPEN_LEN>().0 {
            state.admit(OpenId(u64::from_le_bytes(*id)), *claim)?;
        }
        for bytes in ranges {
            let RangeLock { span, kind, owner } = decode_range(bytes)?;
            state.set_range(owner, kind, span).ok()?;
        }
        state.delete_pending = flags & PENDING_BIT != 0;
        Some(state)
    }

    fn admit(&mut self, id: OpenId, claim: u8) -> Option<()> {
        let (access, share) = (Access::from_bits(claim), ShareMode::from_bits(claim >> 3));
        self.try_open(id, access, share).ok()?;
        let delete_on_close = claim & DELETE_ON_CLOSE_BIT != 0;
        if delete_on_close { self.set_delete_on_close(id, true).ok() } else { Some(()) }
    }
}

fn encode_range(lock: &RangeLock, bytes: &mut Vec<u8>) {
    let owner = lock.owner;
    for number in [lock.span.start(), lock.span.last(), owner.key, owner.open.0] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(owner.process.to_le_bytes());
    let exclusive = if lock.kind == RangeKind::Exclusive { EXCLUSIVE_BIT } else { 0 };
    bytes.push(exclusive | if lock.span.is_empty() { POINT_BIT } else { 0 });
}

fn decode_range(bytes: &[u8; RANGE_LEN]) -> Option<RangeLock> {
    let (numbers, rest) = bytes.split_first_chunk::<32>()?;
    let (process, flags) = rest.split_first_chunk::<4>()?;
    let [start, last, key, open] = numbers.as_chunks::<8>().0 else { return None };
    let [start, last, key, open] = [start, last, key, open].map(|number| u64::from_le_bytes(*number));
    let [flags] = flags else { return None };
    let point = flags & POINT_BIT != 0;
    let span = if point { Span::of_length(start, 0) } else { Span::exactly(start, last) };
    Some(RangeLock {
        span: span.ok()?,
        kind: if flags & EXCLUSIVE_BIT != 0 { RangeKind::Exclusive } else { RangeKind::Shared },
        owner: RangeOwner { key, open: OpenId(open), process: u32::from_le_bytes(*process) },
    })
}
