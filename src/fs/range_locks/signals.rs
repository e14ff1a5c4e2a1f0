//! Whether somebody who waits should stop waiting, because a signal is waiting for it or it is dying.
//!
//! The kernel cannot tell us: the FUSE crate refuses interrupts. So the thread's own page in `/proc` is read.

use std::fs;

/// What a thread that waits is up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thread {
    /// It waits.
    Waits,
    /// A signal that is neither blocked nor ignored waits for it, or it is dying.
    Interrupted,
}

/// Looks at a thread. Reads `/proc`: not on a thread that serves requests.
pub(super) fn look_at(thread: u32) -> Thread {
    match fs::read_to_string(format!("/proc/{thread}/status")) {
        Ok(status) => judge(&status),
        Err(_) => Thread::Interrupted,
    }
}

fn judge(status: &str) -> Thread {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let mask = |name: &str| field(name).and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    let dying = field("State").is_none_or(|state| state.trim_start().starts_with(['Z', 'X', 'x']));
    let pending = (mask("SigPnd") | mask("ShdPnd")) & !mask("SigBlk") & !mask("SigIgn");
    if dying || pending != 0 { Thread::Interrupted } else { Thread::Waits }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: &str, own: u64, shared: u64, blocked: u64, ignored: u64) -> String {
        format!(
            "Name:\tx\nState:\t{state}\nSigQ:\t0/1\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\nSigCgt:\t0\n"
        )
    }

    #[test]
    fn signals_that_are_neither_blocked_nor_ignored_interrupt() {
        let (term, kill) = (1 << 14, 1 << 8);
        for (own, shared, blocked, ignored, expected) in [
            (0, 0, 0, 0, Thread::Waits),
            (term, 0, 0, 0, Thread::Interrupted),
            (0, term, 0, 0, Thread::Interrupted),
            (0, term, term, 0, Thread::Waits),
            (term, 0, 0, term, Thread::Waits),
            (kill, 0, term, term, Thread::Interrupted),
            (term | kill, 0, term, 0, Thread::Interrupted),
        ] {
            assert_eq!(judge(&status("D (disk sleep)", own, shared, blocked, ignored)), expected);
        }
    }

    #[test]
    fn the_dead_and_the_unknown_do_not_wait() {
        assert_eq!(judge(&status("Z (zombie)", 0, 0, 0, 0)), Thread::Interrupted);
        assert_eq!(judge(&status("X (dead)", 0, 0, 0, 0)), Thread::Interrupted);
        assert_eq!(judge(""), Thread::Interrupted);
        assert_eq!(look_at(u32::MAX), Thread::Interrupted);
        assert_eq!(look_at(std::process::id()), Thread::Waits);
    }
}
