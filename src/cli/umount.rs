//! `leasefs umount DIR`: have the daemon commit what is pending, take the mount away, wait until the daemon has ended.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::args::UmountArgs;
use super::control::{self, Client, DrainError};
use super::detach::{self, DetachError, Manner};
use super::error::CliError;
use super::mounts::{self, Health, MountEntry};
use super::paths::{self, Places};
use super::processes;
use super::progress::{self, ProgressView};
use super::report;

/// How long a mount whose daemon cannot be reached may take to answer.
const PROBE_PATIENCE: Duration = Duration::from_secs(3);
/// How long a daemon whose mount was detached lazily is watched, in case nothing keeps it.
const LAZY_PATIENCE: Duration = Duration::from_secs(2);

/// How many seconds a daemon may take to end that keeps the rest for the next mount.
const KEEP_PATIENCE: u64 = 60;

/// Unmounts; prints one line about how it went.
pub(super) fn run(args: &UmountArgs, places: &Places) -> Result<(), CliError> {
    let mount = find(&args.dir)?;
    // Somebody who types `leasefs umount .` should not be told that leasefs itself is in the way.
    std::env::set_current_dir("/").ok();
    let limit = Limit::new(args.timeout, Instant::now());
    let manner = if args.lazy { Manner::Lazy } else { Manner::Clean };
    let dirs = places.control_dirs_for(mount.owner.unwrap_or(0));
    let mut keeps_rest = false;
    let pid = match Client::find(&dirs, &mount.path, mount.owner.unwrap_or(0)) {
        Some(mut client) => match drain(&mut client, &mount.path, limit) {
            Ok(Drained::Committed) => Some(client.hello.pid),
            Ok(Drained::DaemonDied) => return clear_dead(&mount.path, &dirs),
            // A remote share has a place for the rest.
            Err(CliError::DrainTimeout { left, .. }) if client.hello.source.is_some() => {
                let owner = mount.owner.unwrap_or(0);
                let (path, pid, data) = (mount.path.clone(), client.hello.pid, client.hello.data.clone());
                drop(client);
                Client::keep_rest(&dirs, &path, owner)
                    .map_err(|problem| CliError::NoAnswer { path, why: problem.to_string() })?;
                let data = data.display();
                report::complain(&format!("{left}: kept in {data} and uploaded by the next mount"));
                keeps_rest = true;
                Some(pid)
            }
            Err(error) => return Err(error),
        },
        None => match (mounts::probe(&mount.path, PROBE_PATIENCE), manner) {
            (Health::Dead, _) => return clear_dead(&mount.path, &dirs),
            (Health::Hangs, Manner::Clean) => return Err(CliError::MountHangs(mount.path)),
            (Health::Hangs, Manner::Lazy) | (Health::Alive, _) => None,
        },
    };
    take_away(&mount, manner)?;
    match (manner, pid) {
        // The time is over already; writing down what is kept takes a moment.
        (Manner::Clean, Some(pid)) if keeps_rest => {
            wait_for_daemon(&mount.path, pid, Limit::new(Some(KEEP_PATIENCE), Instant::now()))?;
        }
        (Manner::Clean, Some(pid)) => wait_for_daemon(&mount.path, pid, limit)?,
        (Manner::Lazy, Some(pid)) if !processes::wait_for_end(pid, Some(Instant::now() + LAZY_PATIENCE)) => {
            let path = mount.path.display();
            report::say(&format!("{path} is detached; its process {pid} ends when the last file is closed"));
            return Ok(());
        }
        (Manner::Lazy, _) | (Manner::Clean, None) => {}
    }
    report::say(&format!("{} is unmounted", mount.path.display()));
    Ok(())
}

/// The time the whole command may take.
#[derive(Clone, Copy)]
struct Limit {
    seconds: u64,
    deadline: Option<Instant>,
}

impl Limit {
    fn new(seconds: Option<u64>, now: Instant) -> Self {
        let deadline = seconds.and_then(|seconds| now.checked_add(Duration::from_secs(seconds)));
        Self { seconds: seconds.unwrap_or(0), deadline }
    }
}

/// The mount of leasefs at `dir`, without asking the mount itself anything.
fn find(dir: &Path) -> Result<MountEntry, CliError> {
    let listed =
        mounts::all().map_err(|e| CliError::Failed(format!("the list of mounts cannot be read: {e}")))?;
    let is_mount = |path: &Path| mounts::on_top(&listed, path).is_some();
    let path = paths::canonical_mountpoint(dir, is_mount)
        .map_err(|e| CliError::Failed(format!("{} cannot be looked at: {e}", dir.display())))?;
    match mounts::on_top(&listed, &path) {
        Some(mount) if mount.is_ours() => Ok(mount),
        Some(other) => Err(CliError::NotOurMount { path, kind: other.kind }),
        None => Err(CliError::NotAMount(path)),
    }
}

enum Drained {
    Committed,
    DaemonDied,
}

fn drain(client: &mut Client, path: &Path, limit: Limit) -> Result<Drained, CliError> {
    let mut view = ProgressView::new(Instant::now());
    let result = client.drain(limit.deadline, |progress| view.update(Instant::now(), progress));
    view.finish();
    let path = path.to_owned();
    match result {
        Ok(()) => Ok(Drained::Committed),
        Err(DrainError::Timeout(at)) => {
            Err(CliError::DrainTimeout { path, seconds: limit.seconds, left: progress::rest(at) })
        }
        Err(DrainError::Refused(reason)) => Err(CliError::UnmountFailed { path, reason }),
        Err(DrainError::Lost(_)) if mounts::probe(&path, PROBE_PATIENCE) == Health::Dead => {
            Ok(Drained::DaemonDied)
        }
        Err(DrainError::Lost(e)) => {
            Err(CliError::UnmountFailed { path, reason: format!("its daemon does not answer: {e}") })
        }
    }
}

fn take_away(mount: &MountEntry, manner: Manner) -> Result<(), CliError> {
    let path = mount.path.clone();
    match detach::detach(&path, manner) {
        // Somebody else was faster.
        Ok(()) | Err(DetachError::NotMounted) => Ok(()),
        Err(DetachError::Busy) => {
            let listed = mounts::all().unwrap_or_default();
            Err(CliError::Busy { users: processes::describe_users(mount, &listed), path })
        }
        Err(other) => Err(CliError::UnmountFailed { path, reason: other.to_string() }),
    }
}

fn clear_dead(path: &Path, dirs: &[PathBuf]) -> Result<(), CliError> {
    match detach::detach(path, Manner::Lazy) {
        Ok(()) | Err(DetachError::NotMounted) => {}
        Err(other) => {
            return Err(CliError::UnmountFailed { path: path.to_owned(), reason: other.to_string() });
        }
    }
    control::remove_stale(dirs, path);
    report::say(&format!("a dead mount at {} was cleared away", path.display()));
    Ok(())
}

/// The data directory is free once the daemon has ended, and not before.
fn wait_for_daemon(path: &Path, pid: i32, limit: Limit) -> Result<(), CliError> {
    let soon = Instant::now() + Duration::from_secs(1);
    let first = limit.deadline.map_or(soon, |deadline| deadline.min(soon));
    if processes::wait_for_end(pid, Some(first)) {
        return Ok(());
    }
    report::complain(&format!("waiting for process {pid} to write its last changes"));
    if processes::wait_for_end(pid, limit.deadline) {
        return Ok(());
    }
    Err(CliError::ExitTimeout { path: path.to_owned(), pid, seconds: limit.seconds })
}
