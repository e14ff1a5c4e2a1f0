//! The ioctls of `leasefs.h`, as values. Reads and writes bytes, decides nothing.

use fuser::Errno;

use crate::fs::{Claim, HandleState};
use crate::share::{Access, ShareMode};

const MAGIC: u32 = 0xE9;
const SET_SHARE: u32 = 1;
const GET_STATE: u32 = 2;
const SET_DELETE: u32 = 3;
const UNDELETE: u32 = 4;

/// The direction bits of a command, seen from the program.
const WRITES: u32 = 1;
const READS: u32 = 2;

const SHARE_SIZE: usize = 8;
const STATE_SIZE: usize = 32;
const DELETE_SIZE: usize = 4;
const NAME_SIZE: usize = 256;

/// What a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ioctl {
    SetShare(Claim),
    GetState,
    SetDelete(bool),
    /// A name in the directory, as the program wrote it.
    Undelete(Vec<u8>),
}

/// A command's parts, as the kernel's `_IOC` macros put them together.
struct Parts {
    direction: u32,
    size: usize,
    magic: u32,
    number: u32,
}

impl Parts {
    fn of(command: u32) -> Self {
        Self {
            direction: command >> 30,
            // Fourteen bits.
            size: (command >> 16 & 0x3fff) as usize,
            magic: command >> 8 & 0xff,
            number: command & 0xff,
        }
    }
}

/// Reads a request. ENOTTY for a command that is not ours, EINVAL for one that is and is wrong.
pub(super) fn parse(command: u32, data: &[u8]) -> Result<Ioctl, Errno> {
    let parts = Parts::of(command);
    let (direction, size) = match (parts.magic, parts.number) {
        (MAGIC, SET_SHARE) => (WRITES, SHARE_SIZE),
        (MAGIC, GET_STATE) => (READS, STATE_SIZE),
        (MAGIC, SET_DELETE) => (WRITES, DELETE_SIZE),
        (MAGIC, UNDELETE) => (WRITES, NAME_SIZE),
        _ => return Err(Errno::ENOTTY),
    };
    let given = if direction == WRITES { data.len() } else { size };
    if parts.direction != direction || parts.size != size || given != size {
        return Err(Errno::EINVAL);
    }
    if parts.number == UNDELETE {
        let end = data.iter().position(|byte| *byte == 0).ok_or(Errno::EINVAL)?;
        return Ok(Ioctl::Undelete(data[..end].to_vec()));
    }
    let words: Vec<u32> = data.as_chunks().0.iter().map(|bytes| u32::from_ne_bytes(*bytes)).collect();
    match words.as_slice() {
        [access, share] if parts.number == SET_SHARE => {
            let access = bits(*access).ok_or(Errno::EINVAL)?;
            let share = bits(*share).ok_or(Errno::EINVAL)?;
            Ok(Ioctl::SetShare(Claim {
                access: Access::from_bits(access),
                share: ShareMode::from_bits(share),
            }))
        }
        [0] if parts.number == SET_DELETE => Ok(Ioctl::SetDelete(false)),
        [1] if parts.number == SET_DELETE => Ok(Ioctl::SetDelete(true)),
        _ if parts.number == GET_STATE => Ok(Ioctl::GetState),
        _ => Err(Errno::EINVAL),
    }
}

/// A set of the three classes.
fn bits(word: u32) -> Option<u8> {
    u8::try_from(word).ok().filter(|bits| *bits <= Access::ALL.bits())
}

/// The answer to `GetState`.
pub(super) fn state(state: &HandleState) -> [u8; STATE_SIZE] {
    let words = [
        u32::from(state.access.bits()),
        u32::from(state.share.bits()),
        u32::from(state.lease),
        u32::from(state.delete_pending),
        u32::try_from(state.opens).unwrap_or(u32::MAX),
        0,
    ];
    let mut bytes = [0; STATE_SIZE];
    let (first, last) = bytes.split_at_mut(STATE_SIZE - size_of::<u64>());
    for (place, word) in first.as_chunks_mut().0.iter_mut().zip(words) {
        *place = word.to_ne_bytes();
    }
    last.copy_from_slice(&state.open.0.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::OpenId;

    fn command(direction: u32, number: u32, size: u32) -> u32 {
        direction << 30 | size << 16 | MAGIC << 8 | number
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn requests_are_read() {
        let claim = Claim { access: Access::ALL, share: ShareMode::READ };
        assert_eq!(parse(command(1, 1, 8), &words(&[7, 1])), Ok(Ioctl::SetShare(claim)));
        assert_eq!(parse(command(2, 2, 32), &[]), Ok(Ioctl::GetState));
        assert_eq!(parse(command(1, 3, 4), &words(&[1])), Ok(Ioctl::SetDelete(true)));
        assert_eq!(parse(command(1, 3, 4), &words(&[0])), Ok(Ioctl::SetDelete(false)));
        let mut name = [0; NAME_SIZE];
        name[..2].copy_from_slice(b"ab");
        assert_eq!(parse(command(1, 4, 256), &name), Ok(Ioctl::Undelete(b"ab".to_vec())));
        assert_eq!(parse(command(1, 4, 256), &[b'x'; NAME_SIZE]), Err(Errno::EINVAL), "no end");
    }

    #[test]
    fn what_is_not_ours_is_enotty_and_what_is_wrong_is_einval() {
        let enotty = Err(Errno::ENOTTY);
        assert_eq!(parse(command(1, 9, 8), &words(&[7, 1])), enotty);
        assert_eq!(parse(0x8008_6601, &[]), enotty, "FS_IOC_GETFLAGS");
        assert_eq!(parse(0x5401, &[]), enotty, "TCGETS, from isatty");
        for (command, data) in [
            (command(1, 1, 12), words(&[7, 1, 0])),
            (command(1, 1, 8), words(&[7])),
            (command(1, 1, 8), words(&[8, 1])),
            (command(1, 1, 8), words(&[7, 0x100])),
            (command(3, 1, 8), words(&[7, 1])),
            (command(0, 1, 8), vec![]),
            (command(1, 2, 32), words(&[0; 8])),
            (command(2, 2, 16), vec![]),
            (command(1, 3, 4), words(&[2])),
        ] {
            assert_eq!(parse(command, &data), Err(Errno::EINVAL), "{command:#x} {data:?}");
        }
    }

    #[test]
    fn the_answer_has_the_documented_layout() {
        let bytes = state(&HandleState {
            open: OpenId(7),
            access: Access::READ_WRITE,
            share: ShareMode::DELETE,
            lease: true,
            delete_pending: false,
            opens: 9,
        });
        assert_eq!(bytes[..24], words(&[3, 4, 1, 0, 9, 0]));
        assert_eq!(bytes[24..], 7u64.to_ne_bytes());
    }

    #[test]
    fn the_header_says_the_same() {
        let header = include_str!("leasefs.h");
        for text in [
            "SET_SHARE  _IOW(0xE9, 1, struct leasefs_share)",
            "GET_STATE  _IOR(0xE9, 2, struct leasefs_state)",
            "SET_DELETE _IOW(0xE9, 3, __u32)",
            "UNDELETE   _IOW(0xE9, 4, struct leasefs_name)",
            "LEASEFS_READ   1u",
            "LEASEFS_WRITE  2u",
            "LEASEFS_DELETE 4u",
        ] {
            assert!(header.contains(text), "{text}");
        }
    }
}
