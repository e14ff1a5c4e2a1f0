//! `open(2)` flags as the engine's open request: one function.

use fuser::{OpenAccMode, OpenFlags};

use crate::fs::OpenRequest;

/// What the program asked for.
pub(super) fn open_request(flags: OpenFlags) -> OpenRequest {
    let (read, write) = match flags.acc_mode() {
        OpenAccMode::O_RDONLY => (true, false),
        OpenAccMode::O_WRONLY => (false, true),
        OpenAccMode::O_RDWR => (true, true),
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
        assert_eq!(of(libc::O_RDONLY), OpenRequest { read: true, ..OpenRequest::default() });
        assert_eq!(of(libc::O_WRONLY), OpenRequest { write: true, ..OpenRequest::default() });
        let all = OpenRequest { read: true, write: true, truncate: true, exclusive: true };
        assert_eq!(of(libc::O_RDWR | libc::O_TRUNC | libc::O_EXCL | libc::O_CREAT), all);
        assert!(wants_direct(OpenFlags(libc::O_RDONLY | libc::O_DIRECT)));
    }
}
