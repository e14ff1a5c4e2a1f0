//! Who stands in the way of an open: read from the file's `user.leasefs.holders`, told in one clause.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::super::text;
use crate::fs::{HOLDERS_ATTRIBUTE, HolderLine, LeaseLine};
use crate::share::{Access, ShareMode, conflict};

/// More holders than this are counted, not named.
const NAMED_MAX: usize = 3;
/// The longest value that an attribute can have on Linux.
const ATTRIBUTE_MAX: usize = 64 * 1024;

/// Those who stand in the way.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) enum Holders {
    /// These opens do not fit.
    Opens(Vec<HolderLine>),
    /// The file was removed and is still open.
    DeletePending,
    /// Somebody elsewhere has the blob leased.
    Lease(LeaseLine),
    /// Nobody can be named: they are gone by now.
    Unknown,
}

impl Holders {
    /// Those who keep `path` from being opened at all.
    pub(in crate::cli) fn of_path(path: &Path, claim: (Access, ShareMode)) -> Self {
        let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return Holders::Unknown };
        let read = read_attribute(|attribute, buffer| {
            // SAFETY: both names end with NUL and live through the call, and the buffer is as long as it says.
            unsafe {
                libc::getxattr(name.as_ptr(), attribute.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len())
            }
        });
        match read {
            Ok(lines) => Self::among(&lines, claim, None),
            // Whoever cannot even be asked for its attributes is delete pending.
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => Holders::DeletePending,
            Err(_) => Holders::Unknown,
        }
    }

    /// Those who keep `file`, which we have open, from having this share mode. `own` is our own open.
    pub(in crate::cli) fn of_file(file: &File, claim: (Access, ShareMode), own: Option<u64>) -> Self {
        let read = read_attribute(|attribute, buffer| {
            // SAFETY: the name ends with NUL and lives through the call, and the buffer is as long as it says.
            unsafe {
                libc::fgetxattr(
                    file.as_raw_fd(),
                    attribute.as_ptr(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                )
            }
        });
        read.map_or(Holders::Unknown, |lines| Self::among(&lines, claim, own))
    }

    fn among(lines: &str, (access, share): (Access, ShareMode), own: Option<u64>) -> Self {
        let mut opens: Vec<HolderLine> = lines.lines().filter_map(|line| line.parse().ok()).collect();
        opens.retain(|open| Some(open.open) != own && conflict(access, share, open.access, open.share));
        let lease = lines.lines().find_map(|line| line.parse().ok());
        match lease {
            _ if !opens.is_empty() => Holders::Opens(opens),
            Some(lease) => Holders::Lease(lease),
            None => Holders::Unknown,
        }
    }

    /// What follows the name of the file in a sentence.
    pub(in crate::cli) fn describe(&self) -> String {
        match self {
            Holders::DeletePending => {
                "is delete pending: it was removed, and goes away when its last user closes it".to_owned()
            }
            Holders::Lease(LeaseLine { infinite }) => {
                let end = if *infinite {
                    "does not end by itself"
                } else {
                    "ends a minute after its holder at most"
                };
                format!(
                    "is leased to another mount or another client of the blob service, and the lease {end}"
                )
            }
            Holders::Unknown => "was held by somebody who is gone by now".to_owned(),
            Holders::Opens(opens) => {
                let mut names: Vec<String> = opens.iter().take(NAMED_MAX).map(name).collect();
                if opens.len() > NAMED_MAX {
                    names.push(format!("{} more", opens.len() - NAMED_MAX));
                }
                format!("is held by {}", names.join(", "))
            }
        }
    }
}

/// `vim (pid 4242, user ann, access rw, share none, since 2026-11-17T11:08:04Z)`
fn name(open: &HolderLine) -> String {
    let (program, pid) = match &open.process {
        Some(process) => (text::printable(&process.program), format!("pid {}, ", process.pid)),
        None if open.front_end == "mount" => ("an unknown program".to_owned(), String::new()),
        None => {
            let from = open.client.map_or_else(String::new, |client| format!("from {client}, "));
            (open.front_end.clone(), from)
        }
    };
    let HolderLine { uid, access, share, since, .. } = open;
    format!("{program} ({pid}user {}, access {access}, share {share}, since {since})", text::user_name(*uid))
}

fn read_attribute(get: impl FnOnce(&CStr, &mut [u8]) -> isize) -> io::Result<String> {
    let attribute = CString::new(HOLDERS_ATTRIBUTE).map_err(io::Error::other)?;
    let mut value = vec![0; ATTRIBUTE_MAX];
    let length = get(&attribute, &mut value);
    value.truncate(usize::try_from(length).map_err(|_| io::Error::last_os_error())?);
    String::from_utf8(value).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
open=1 via=mount pid=10 uid=0 access=rw share=none since=2026-11-17T11:08:04Z program=vim
open=2 via=mount pid=unknown uid=0 access=r share=rwd since=2026-11-17T11:08:04Z program=unknown
open=3 via=rest pid=unknown uid=0 access=w share=r client=10.1.2.3 since=2026-11-17T11:08:04Z program=unknown
and 4 more
";

    #[test]
    fn only_those_in_the_way_are_named() {
        let reading = Holders::among(LINES, (Access::READ, ShareMode::ALL), None);
        assert_eq!(
            reading.describe(),
            "is held by vim (pid 10, user root, access rw, share none, since 2026-11-17T11:08:04Z)"
        );
        let alone = Holders::among(LINES, (Access::READ, ShareMode::NONE), Some(1));
        assert!(alone.describe().starts_with("is held by an unknown program (user root, access r,"));
        assert!(alone.describe().contains(", rest (from 10.1.2.3, user root, access w, share r,"));
        let own = Holders::among(LINES, (Access::READ, ShareMode::ALL), Some(1));
        assert_eq!(own, Holders::Unknown);
    }

    #[test]
    fn a_lease_is_told_of_if_no_open_is_in_the_way() {
        let lines = format!("{LINES}{}\n", LeaseLine { infinite: false });
        let writing = (Access::WRITE, ShareMode::ALL);
        assert!(matches!(Holders::among(&lines, writing, None), Holders::Opens(_)));
        let leased = Holders::among(&lines, writing, Some(1));
        assert_eq!(leased, Holders::Opens(vec![LINES.lines().nth(2).unwrap().parse().unwrap()]));
        let alone = Holders::among(&LeaseLine { infinite: true }.to_string(), writing, None);
        assert!(alone.describe().contains("does not end by itself"), "{}", alone.describe());
    }

    #[test]
    fn many_are_counted() {
        let line = LINES.lines().next().unwrap();
        let lines = format!("{line}\n").repeat(9);
        let holders = Holders::among(&lines, (Access::READ, ShareMode::ALL), None);
        assert!(holders.describe().ends_with(", 6 more"), "{}", holders.describe());
    }
}
