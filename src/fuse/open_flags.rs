//! `open(2)` flags as the engine's open request: one function.

use fuser::OpenFlags;

use crate::fs::OpenRequest;

/// What the program asked for.
///
/// Access mode 3 is Linux's "neither read nor write", for ioctls. Without any flag at all it is the kernel itself that
/// opens the file to ask for its flags (`lsattr`): a program on a 64-bit machine has at least `O_LARGEFILE`. A program
/// without it is checked at its first read instead.
pub(super) fn open_request(flags: OpenFlags) -> OpenRequest {
    let (read, write) = match flags.0 & libc::O_ACCMODE {
        libc::O_RDONLY => (flags.0 != 0, false),
        libc::O_WRONLY => (false, true),
        libc::O_RDWR => (true, true),
        _ => (false, false),
    };
    OpenRequest {
        read,
        write,
        truncate: flags.0 & libc::O_TRUNC != 0,
        exclusive: flags.0 & libc::O_EXCL != 0,
    }
}

/// Whether the program wants to bypass the page cache.
pub(super) fn wants_direct(flags: OpenFlags) -> bool {
    flags.0 & libc::O_DIRECT != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_requests() {
        let of = |flags: i32| open_request(OpenFlags(flags));
        /// What the kernel adds for programs; the C library's constant is 0 on 64-bit machines.
        const LARGE_FILE: i32 = 0o100_000;
        assert_eq!(of(LARGE_FILE), OpenRequest { read: true, ..OpenRequest::default() });
        assert_eq!(of(0), OpenRequest::default(), "the kernel itself");
        assert_eq!(of(libc::O_ACCMODE | LARGE_FILE), OpenRequest::default(), "for ioctls only");
        assert_eq!(of(libc::O_WRONLY), OpenRequest { write: true, ..OpenRequest::default() });
        let all = OpenRequest { read: true, write: true, truncate: true, exclusive: true };
        assert_eq!(of(libc::O_RDWR | libc::O_TRUNC | libc::O_EXCL | libc::O_CREAT), all);
        assert!(wants_direct(OpenFlags(libc::O_RDONLY | libc::O_DIRECT)));
    }
}
