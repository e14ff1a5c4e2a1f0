//! The asking side of the control socket. Blocking, with a limit on every wait.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use super::{Hello, REPLY_MAX, Reply, Request, Status, line};
use crate::cli::paths;
use crate::store::Progress;

/// A daemon that says nothing for so long does not work any more. It tells progress far more often.
const DAEMON_PATIENCE: Duration = Duration::from_secs(20);
/// The first answer needs no work at all.
const HELLO_PATIENCE: Duration = Duration::from_secs(5);

/// A conversation with the daemon of one mount.
pub(in crate::cli) struct Client {
    stream: BufReader<UnixStream>,
    /// What the daemon said of itself, its pid corrected by what the kernel says.
    pub(in crate::cli) hello: Hello,
}

/// Why a drain did not finish.
#[derive(Debug)]
pub(in crate::cli) enum DrainError {
    /// The deadline came first; how far it was.
    Timeout(Progress),
    /// The daemon says why.
    Refused(String),
    /// The conversation broke.
    Lost(io::Error),
}

/// Why a request was not fulfilled.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum AskError {
    /// The daemon says why.
    #[error("{0}")]
    Refused(String),
    /// The conversation broke.
    #[error("its daemon does not answer: {0}")]
    Lost(#[from] io::Error),
}

impl Client {
    /// Finds the daemon of the mount at this canonical path, which belongs to `owner`.
    ///
    /// Nothing that another user could have put in place is believed.
    pub(in crate::cli) fn find(dirs: &[PathBuf], mountpoint: &Path, owner: u32) -> Option<Self> {
        let name = paths::socket_name(mountpoint);
        dirs.iter().find_map(|dir| {
            let found = std::fs::symlink_metadata(dir).ok()?;
            let trusted = found.is_dir() && found.uid() == owner && found.mode() & 0o022 == 0;
            if trusted { Self::connect(&dir.join(&name), owner).ok() } else { None }
        })
    }

    fn connect(path: &Path, owner: u32) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        let peer = getsockopt(&stream, PeerCredentials)?;
        if peer.uid() != owner {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        stream.set_read_timeout(Some(HELLO_PATIENCE))?;
        stream.set_write_timeout(Some(HELLO_PATIENCE))?;
        let mut stream = BufReader::new(stream);
        ask(&mut stream, &Request::Hello)?;
        match next(&mut stream)? {
            Reply::Hello(mut hello) => {
                hello.pid = peer.pid();
                stream.get_ref().set_read_timeout(Some(DAEMON_PATIENCE))?;
                Ok(Self { stream, hello })
            }
            Reply::Progress(_) | Reply::Status(_) | Reply::Done | Reply::Failed { .. } => Err(unexpected()),
        }
    }

    /// Has the daemon commit everything pending; `tell` hears how far it is.
    pub(in crate::cli) fn drain(
        &mut self,
        deadline: Option<Instant>,
        mut tell: impl FnMut(Progress),
    ) -> Result<(), DrainError> {
        ask(&mut self.stream, &Request::Drain).map_err(DrainError::Lost)?;
        loop {
            match next(&mut self.stream).map_err(DrainError::Lost)? {
                Reply::Done => return Ok(()),
                Reply::Failed { reason } => return Err(DrainError::Refused(reason)),
                Reply::Progress(progress) => {
                    if deadline.is_some_and(|at| Instant::now() >= at) {
                        return Err(DrainError::Timeout(progress.into()));
                    }
                    tell(progress.into());
                }
                Reply::Hello(_) | Reply::Status(_) => return Err(DrainError::Lost(unexpected())),
            }
        }
    }

    /// Has the daemon keep what is not at the service yet, instead of waiting for it. The conversation may be in the
    /// middle of a drain, so this takes another one.
    pub(in crate::cli) fn keep_rest(dirs: &[PathBuf], mountpoint: &Path, owner: u32) -> Result<(), AskError> {
        let mut client = Self::find(dirs, mountpoint, owner).ok_or_else(unexpected)?;
        client.act(&Request::KeepRest)
    }

    /// What the mount knows, everywhere or at and below a path in the share.
    pub(in crate::cli) fn status(&mut self, below: Option<String>) -> Result<Status, AskError> {
        ask(&mut self.stream, &Request::Status { below })?;
        let mut status = Status::default();
        loop {
            match next(&mut self.stream)? {
                Reply::Status(page) => status.append(page),
                Reply::Done => return Ok(status),
                Reply::Failed { reason } => return Err(AskError::Refused(reason)),
                Reply::Hello(_) | Reply::Progress(_) => return Err(unexpected().into()),
            }
        }
    }

    /// Takes an open away from its holder.
    pub(in crate::cli) fn close_handle(&mut self, id: u64) -> Result<(), AskError> {
        self.act(&Request::CloseHandle { id })
    }

    /// Brings back a delete-pending file.
    pub(in crate::cli) fn undelete(&mut self, path: String) -> Result<(), AskError> {
        self.act(&Request::Undelete { path })
    }

    /// Ends the lease on a file, in so many seconds.
    pub(in crate::cli) fn break_lease(&mut self, path: String, after: u8) -> Result<(), AskError> {
        self.act(&Request::BreakLease { path, after })
    }

    fn act(&mut self, request: &Request) -> Result<(), AskError> {
        ask(&mut self.stream, request)?;
        match next(&mut self.stream)? {
            Reply::Done => Ok(()),
            Reply::Failed { reason } => Err(AskError::Refused(reason)),
            Reply::Hello(_) | Reply::Progress(_) | Reply::Status(_) => Err(unexpected().into()),
        }
    }
}

fn ask(stream: &mut BufReader<UnixStream>, request: &Request) -> io::Result<()> {
    stream.get_mut().write_all(&line(request)?)
}

fn next(stream: &mut BufReader<UnixStream>) -> io::Result<Reply> {
    let mut reply = Vec::new();
    stream.take(REPLY_MAX).read_until(b'\n', &mut reply)?;
    if reply.is_empty() {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    Ok(serde_json::from_slice(&reply)?)
}

fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer that was not asked for")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use async_trait::async_trait;
    use nix::unistd::Uid;

    use super::super::{ControlServer, PendingRow, Steward};
    use super::*;

    /// Drains ten files, one every 20 ms, or fails with `problem`.
    struct Slow {
        problem: Option<&'static str>,
    }

    #[async_trait]
    impl Steward for Slow {
        async fn drain(&self, progress: &(dyn Fn(Progress) + Send + Sync)) -> Result<(), String> {
            for files_done in 0..10 {
                progress(Progress { files_done, files_total: 10, bytes_done: files_done, bytes_total: 10 });
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            self.problem.map_or(Ok(()), |text| Err(text.to_owned()))
        }

        fn keep_rest(&self) -> Result<(), String> {
            Ok(())
        }

        fn status(&self, below: Option<&str>) -> Status {
            let row = |n: usize| PendingRow { path: Some(format!("{}/{n}", below.unwrap_or(""))), opens: n };
            Status { pending_deletes: (0..10_000).map(row).collect(), ..Status::default() }
        }

        async fn close_handle(&self, id: u64) -> Result<(), String> {
            if id == 7 { Ok(()) } else { Err(format!("no open has the id {id}")) }
        }

        async fn undelete(&self, path: &str) -> Result<(), String> {
            if path == "a" { Ok(()) } else { Err(format!("{path} is not delete pending")) }
        }

        async fn break_lease(&self, path: &str, after: u8) -> Result<(), String> {
            if (path, after) == ("a", 3) { Ok(()) } else { Err(format!("nobody holds a lease on {path}")) }
        }
    }

    struct Rig {
        runtime: tokio::runtime::Runtime,
        server: Option<ControlServer>,
        dirs: Vec<PathBuf>,
        _root: tempfile::TempDir,
    }

    const MOUNTPOINT: &str = "/mnt/test";

    fn rig(problem: Option<&'static str>) -> Rig {
        let root = tempfile::tempdir().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let hello = Hello {
            version: "1".into(),
            pid: 0,
            mountpoint: MOUNTPOINT.into(),
            data: "/d".into(),
            share: "share".into(),
            source: None,
            closing: false,
        };
        let dirs = vec![root.path().join("no/such"), root.path().join("run")];
        let entered = runtime.enter();
        let server = ControlServer::start(&dirs, hello, Arc::new(Slow { problem })).unwrap();
        drop(entered);
        Rig { runtime, server: Some(server), dirs, _root: root }
    }

    fn client(rig: &Rig) -> Option<Client> {
        Client::find(&rig.dirs, Path::new(MOUNTPOINT), Uid::effective().as_raw())
    }

    #[test]
    fn hello_then_drain_with_progress() {
        let rig = rig(None);
        let mut client = client(&rig).unwrap();
        assert_eq!(client.hello.pid, i32::try_from(std::process::id()).unwrap());
        let mut seen = Vec::new();
        client.drain(None, |progress| seen.push(progress.files_done)).unwrap();
        assert!(seen.len() >= 2 && seen.is_sorted() && seen.last() > Some(&0), "{seen:?}");
    }

    #[test]
    fn a_long_status_comes_whole() {
        let rig = rig(None);
        let mut client = client(&rig).unwrap();
        let status = client.status(Some("x".into())).unwrap();
        assert_eq!(status.pending_deletes.len(), 10_000);
        assert_eq!(status.pending_deletes[9_999].path.as_deref(), Some("x/9999"));
        assert_eq!(client.status(None).unwrap().pending_deletes[0].path.as_deref(), Some("/0"));
    }

    #[test]
    fn actions_are_done_or_refused_with_a_reason() {
        let rig = rig(None);
        let mut client = client(&rig).unwrap();
        client.close_handle(7).unwrap();
        assert_eq!(client.close_handle(8).unwrap_err().to_string(), "no open has the id 8");
        client.undelete("a".into()).unwrap();
        assert_eq!(client.undelete("b".into()).unwrap_err().to_string(), "b is not delete pending");
        client.break_lease("a".into(), 3).unwrap();
        assert_eq!(client.break_lease("b".into(), 0).unwrap_err().to_string(), "nobody holds a lease on b");
    }

    #[test]
    fn closing_is_announced() {
        let rig = rig(None);
        rig.server.as_ref().unwrap().announce_closing();
        assert!(client(&rig).unwrap().hello.closing);
    }

    #[test]
    fn a_refusal_and_a_deadline_reach_the_asker() {
        let rig = rig(Some("no room"));
        let refused = client(&rig).unwrap().drain(None, |_| {});
        assert!(matches!(refused, Err(DrainError::Refused(text)) if text == "no room"));
        let late = client(&rig).unwrap().drain(Some(Instant::now()), |_| {});
        assert!(matches!(late, Err(DrainError::Timeout(_))));
    }

    #[test]
    fn stop_and_drop_leave_no_file() {
        let mut rig = rig(None);
        let mut server = rig.server.take().unwrap();
        let path = server.path().to_owned();
        assert_eq!(std::fs::symlink_metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        rig.runtime.block_on(server.stop());
        assert!(client(&rig).is_none());
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_others_can_write_to_is_not_used() {
        let rig = rig(None);
        std::fs::set_permissions(&rig.dirs[1], std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(client(&rig).is_none());
    }

    #[test]
    fn nonsense_and_too_long_lines_are_answered_and_bounded() {
        let rig = rig(None);
        let path = rig.server.as_ref().unwrap().path().to_owned();
        let mut stream = BufReader::new(UnixStream::connect(&path).unwrap());
        stream.get_mut().write_all(b"{\"request\":\"fly\"}\n").unwrap();
        assert!(
            matches!(next(&mut stream).unwrap(), Reply::Failed { reason } if reason.contains("does not know"))
        );
        stream.get_mut().write_all(&[b'x'; 16 * 1024]).unwrap();
        assert!(
            matches!(next(&mut stream).unwrap(), Reply::Failed { reason } if reason.contains("16384 bytes"))
        );
        assert!(next(&mut stream).is_err());
    }
}
