//! The control socket of a mount: how `leasefs umount` and its like talk to the daemon.
//!
//! One socket per mount, in a directory only its owner can enter. One JSON object per line in both directions; a
//! request may be answered by several lines, the last of which says so. Only the mount's owner and root are heard.
//! New requests are new variants of [`Request`]; a daemon answers those it does not know with [`Reply::Failed`].

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::store::Progress;

mod client;
mod rows;
mod server;

pub(super) use client::{AskError, Client, DrainError};
pub(super) use rows::{HolderRow, LeaseRow, OpenRow, PendingRow, RangeLockRow, ServiceRow, Status};
pub(super) use server::{ControlServer, Steward};

/// A request line longer than this ends the connection. The longest path in a share fits, however it is escaped.
const REQUEST_MAX: u64 = 16 * 1024;
/// A reply line longer than this is not believed.
const REPLY_MAX: u64 = 64 * 1024;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
enum Request {
    /// Who are you? Answered by one [`Reply::Hello`].
    Hello,
    /// Commit everything that is pending. Answered by [`Reply::Progress`] lines and then [`Reply::Done`].
    Drain,
    /// What is not at the service by now stays in the cache directory. Answered by [`Reply::Done`].
    KeepRest,
    /// What is open, range-locked, leased and delete pending, everywhere or at and below a path in the share.
    /// Answered by [`Reply::Status`] lines and then [`Reply::Done`].
    Status { below: Option<String> },
    /// Take an open away from its holder. Answered by [`Reply::Done`].
    CloseHandle { id: u64 },
    /// Bring back a delete-pending file. Answered by [`Reply::Done`].
    Undelete { path: String },
    /// End the lease on a file, whoever holds it, in so many seconds. Answered by [`Reply::Done`].
    BreakLease { path: String, after: u8 },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
enum Reply {
    Hello(Hello),
    Progress(ProgressLine),
    /// One page of it.
    Status(Status),
    Done,
    Failed {
        reason: String,
    },
}

/// A daemon's description of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) version: String,
    pub(super) pid: i32,
    pub(super) mountpoint: PathBuf,
    pub(super) data: PathBuf,
    pub(super) share: String,
    /// The URL of a share that is elsewhere.
    #[serde(default)]
    pub(super) source: Option<String>,
    /// The mount is gone and the daemon is about to end.
    pub(super) closing: bool,
}

/// [`Progress`] as it travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ProgressLine {
    files_done: u64,
    files_total: u64,
    bytes_done: u64,
    bytes_total: u64,
}

impl From<Progress> for ProgressLine {
    fn from(p: Progress) -> Self {
        Self {
            files_done: p.files_done,
            files_total: p.files_total,
            bytes_done: p.bytes_done,
            bytes_total: p.bytes_total,
        }
    }
}

impl From<ProgressLine> for Progress {
    fn from(p: ProgressLine) -> Self {
        Self {
            files_done: p.files_done,
            files_total: p.files_total,
            bytes_done: p.bytes_done,
            bytes_total: p.bytes_total,
        }
    }
}

/// Removes the file of a socket whose daemon is dead, where this user may.
pub(super) fn remove_stale(dirs: &[PathBuf], mountpoint: &Path) {
    let name = super::paths::socket_name(mountpoint);
    for path in dirs.iter().map(|dir| dir.join(&name)) {
        let refused = |e: &std::io::Error| e.kind() == std::io::ErrorKind::ConnectionRefused;
        if std::os::unix::net::UnixStream::connect(&path).as_ref().is_err_and(refused) {
            std::fs::remove_file(path).ok();
        }
    }
}

/// One line of the conversation.
fn line<T: Serialize>(message: &T) -> serde_json::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(message)?;
    bytes.push(b'\n');
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_on_the_wire_stay_what_they_are() {
        let text = |message: &Request| String::from_utf8(line(message).unwrap()).unwrap();
        assert_eq!(text(&Request::Hello), "{\"request\":\"hello\"}\n");
        assert_eq!(text(&Request::Drain), "{\"request\":\"drain\"}\n");
        let some = Request::Status { below: Some("a/b".into()) };
        assert_eq!(text(&some), "{\"request\":\"status\",\"below\":\"a/b\"}\n");
        assert_eq!(text(&Request::CloseHandle { id: 7 }), "{\"request\":\"close-handle\",\"id\":7}\n");
        let back = Request::Undelete { path: "a".into() };
        assert_eq!(text(&back), "{\"request\":\"undelete\",\"path\":\"a\"}\n");
        let done: Reply = serde_json::from_str("{\"reply\":\"done\"}").unwrap();
        assert_eq!(done, Reply::Done);
    }

    #[test]
    fn a_newer_daemon_may_say_more() {
        let text = "{\"reply\":\"hello\",\"version\":\"9\",\"pid\":1,\"mountpoint\":\"/m\",\"data\":\"/d\",\
                    \"share\":\"s\",\"closing\":false,\"news\":[1]}";
        assert!(matches!(serde_json::from_str(text).unwrap(), Reply::Hello(_)));
    }
}
