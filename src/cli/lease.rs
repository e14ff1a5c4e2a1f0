//! `leasefs lease` and `leasefs break-lease`: holding the lease of one blob while a command runs, and ending
//! somebody's.
//!
//! Of a file on a mount, an exclusive open is the lease: the mount judges it against everybody else, keeps it renewed
//! and tells who stands in the way. Of a URL, the service is asked directly, and [`remote`] renews. Either way
//! [`watch`] looks whether it is still held, and ends the command when it is not.

use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::args::{BreakLeaseArgs, LeaseArgs};
use super::child;
use super::error::CliError;
use super::ioctl;
use super::locate::{self, daemon_of};
use super::open::take::{Take, TakeError};
use super::paths::Places;
use super::report;
use crate::share::lease::LeaseDuration;
use crate::share::{Access, ShareMode};
use crate::store::azure::Source;

mod remote;

use remote::RemoteLease;

/// How often a lease that is held by somebody else is asked for again.
const RETRY: Duration = Duration::from_millis(500);
/// How often an open file is asked whether its lease is still held.
const LOOK: Duration = Duration::from_secs(1);
/// Tells the command the lease's id, and the number of the open file's descriptor.
const ID_VARIABLE: &str = "LEASEFS_LEASE_ID";
const DESCRIPTOR_VARIABLE: &str = "LEASEFS_FD";

/// A lease that is held.
enum Held {
    File(std::fs::File),
    Remote(Box<RemoteLease>),
}

/// What a look at a lease found.
enum Look {
    /// It is held; look again after this time.
    Held(Duration),
    /// It is not ours any more, for this reason.
    Lost(String),
}

/// Why a lease was not got.
enum Refusal {
    /// Somebody else holds it; the text names what is known.
    Busy(String),
    Failed(CliError),
}

/// Runs the command while the lease is held; its exit code is ours.
pub(super) fn run(args: &LeaseArgs) -> Result<ExitCode, CliError> {
    let name = args.target.display().to_string();
    let held = take(args)?;
    let variable = match &held {
        Held::Remote(lease) => (ID_VARIABLE, lease.id().to_string()),
        Held::File(file) => {
            fcntl(file.as_fd(), FcntlArg::F_SETFD(FdFlag::empty()))
                .map_err(|e| CliError::Failed(format!("the descriptor cannot be passed on: {e}")))?;
            (DESCRIPTOR_VARIABLE, file.as_raw_fd().to_string())
        }
    };
    let (stop, stopped) = mpsc::channel();
    let mut watcher = None;
    let held = std::sync::Arc::new(held);
    let started = |pid: Pid| {
        let (held, name, keep_going) = (std::sync::Arc::clone(&held), name.clone(), args.keep_going);
        watcher = Some(std::thread::spawn(move || watch(&held, &stopped, &name, pid, keep_going)));
    };
    let code = child::run(args.command.clone(), &[variable], started);
    drop(stop);
    let lost = watcher.is_some_and(|watcher| watcher.join().unwrap_or(false));
    match &*held {
        Held::Remote(lease) if !lost => lease.release(),
        Held::Remote(_) | Held::File(_) => {}
    }
    code
}

/// Looks after the lease until the command ends. True if it was lost.
fn watch(held: &Held, stopped: &mpsc::Receiver<()>, name: &str, pid: Pid, keep_going: bool) -> bool {
    let mut pause = Duration::ZERO;
    loop {
        match stopped.recv_timeout(pause) {
            Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => return false,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        let look = match held {
            Held::Remote(lease) => lease.tend(),
            Held::File(file) => match ioctl::state(file) {
                Ok(state) if state.lease == 1 => Look::Held(LOOK),
                Ok(_) => Look::Lost("the mount does not hold it any more".to_owned()),
                Err(problem) => Look::Lost(format!("the mount does not answer: {}", problem.desc())),
            },
        };
        match look {
            Look::Held(next) => pause = next,
            Look::Lost(why) if keep_going => {
                report::complain(&format!("the lease on {name} is lost: {why}; the command goes on"));
                return true;
            }
            Look::Lost(why) => {
                report::complain(&format!("the lease on {name} is lost: {why}; the command is ended"));
                // It may just have ended.
                kill(pid, Signal::SIGTERM).ok();
                return true;
            }
        }
    }
}

/// Tries until it works, the time is over, or something else than a holder stands in the way.
fn take(args: &LeaseArgs) -> Result<Held, CliError> {
    let deadline = Instant::now() + args.wait;
    let target = Target::parse(&args.target, args)?;
    loop {
        let who = match target.attempt(args) {
            Ok(held) => return Ok(held),
            Err(Refusal::Busy(who)) => who,
            Err(Refusal::Failed(problem)) => return Err(problem),
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let advice = if args.wait.is_zero() { "; wait for it with --wait SECONDS" } else { "" };
            return Err(CliError::Conflict(format!("{} {who}{advice}", args.target.display())));
        }
        std::thread::sleep(RETRY.min(left));
    }
}

/// What a lease is asked for.
enum Target<'a> {
    File(&'a Path),
    Remote(Box<RemoteLease>),
}

impl<'a> Target<'a> {
    fn parse(word: &'a Path, args: &LeaseArgs) -> Result<Self, CliError> {
        match word.to_str().filter(|word| Source::is_url(word)) {
            Some(url) => {
                let duration = args.duration.or(LeaseDuration::seconds(60));
                let lease = RemoteLease::new(url, duration.unwrap_or(LeaseDuration::INFINITE))?;
                Ok(Target::Remote(Box::new(lease)))
            }
            None if args.duration.is_some() => Err(CliError::Usage(
                "--duration is for URLs; a mount has its own: leasefs mount --lease SECONDS".into(),
            )),
            None => {
                locate::locate(word)?;
                Ok(Target::File(word))
            }
        }
    }

    fn attempt(&self, args: &LeaseArgs) -> Result<Held, Refusal> {
        match self {
            Target::Remote(lease) => lease.acquire(args.create).map(|()| Held::Remote(lease.clone())),
            Target::File(path) => {
                // Write access that nobody else may have is what takes the blob's lease.
                let share = ShareMode::READ.union(ShareMode::DELETE);
                let wanted = Take { path, access: Access::WRITE, share, create: args.create };
                match wanted.attempt() {
                    Ok(file) => Ok(Held::File(file)),
                    Err(TakeError::Busy(holders)) => Err(Refusal::Busy(holders.describe())),
                    Err(TakeError::Failed(problem)) => Err(Refusal::Failed(problem)),
                }
            }
        }
    }
}

/// Ends somebody's lease.
pub(super) fn break_lease(args: &BreakLeaseArgs, places: &Places) -> Result<(), CliError> {
    let name = args.target.display();
    match args.target.to_str().filter(|word| Source::is_url(word)) {
        Some(url) => remote::break_lease(url, args.after)?,
        None => {
            let at = locate::locate(&args.target)?;
            let Some(inside) = at.inside else {
                return Err(CliError::Failed(format!("{name} is a mountpoint, not a file")));
            };
            let asked = daemon_of(&at.mount, places)?.break_lease(inside, args.after);
            asked.map_err(|problem| CliError::Failed(format!("{name}: {problem}")))?;
        }
    }
    report::say(&match args.after {
        0 => format!("the lease on {name} is broken"),
        seconds => format!("the lease on {name} will be broken in {seconds} s at most"),
    });
    Ok(())
}
