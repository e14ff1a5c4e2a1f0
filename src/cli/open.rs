//! `leasefs open`: hold a file with a share mode while a command runs.
//!
//! Opens the file, sets the share mode on the descriptor, runs the command with it and waits. Judges nothing: whether
//! the open fits is the daemon's word, and so are the names of those who stand in the way.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::args::OpenArgs;
use super::child;
use super::error::CliError;
use super::locate;
use super::text;

pub(super) mod holders;
pub(super) mod take;

use holders::Holders;
use take::{Take, TakeError};

/// How often a file that is held is asked for again, at first and at most.
const RETRY_FIRST: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_millis(200);
/// In an argument of the command: the path of the descriptor.
const PLACEHOLDER: &str = "{}";
/// Tells the command the number of the descriptor.
const DESCRIPTOR_VARIABLE: &str = "LEASEFS_FD";

/// Runs the command while the file is held; its exit code is ours.
pub(super) fn run(args: &OpenArgs) -> Result<ExitCode, CliError> {
    // Elsewhere nobody would judge share modes, and EBUSY could mean anything.
    locate::locate(&args.file)?;
    let file = take(args)?;
    let number =
        pass_on(&file).map_err(|e| CliError::Failed(format!("the descriptor cannot be passed on: {e}")))?;
    let path = format!("/dev/fd/{number}");
    let words = args.command.iter().map(|word| match word.to_str() {
        Some(text) => text.replace(PLACEHOLDER, &path).into(),
        None => word.clone(),
    });
    let code = child::run(words.collect(), &[(DESCRIPTOR_VARIABLE, number.to_string())], |_| {});
    drop(file);
    code
}

/// Tries until it works, the time is over, or something else than a holder stands in the way.
fn take(args: &OpenArgs) -> Result<File, CliError> {
    let wanted = Take { path: &args.file, access: args.access, share: args.share, create: args.create };
    let deadline = Instant::now() + args.wait;
    let mut pause = RETRY_FIRST;
    loop {
        let refused = match wanted.attempt() {
            Ok(file) => return Ok(file),
            Err(TakeError::Busy(holders)) => holders,
            Err(TakeError::Failed(problem)) => return Err(problem),
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(CliError::Conflict(refusal(&args.file, &refused, args.wait)));
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(RETRY_MAX);
    }
}

/// Who stands in the way and what to do, in one sentence.
fn refusal(path: &Path, holders: &Holders, waited: Duration) -> String {
    let path = text::printable(&path.display().to_string());
    let who = holders.describe();
    let still = match waited.as_secs_f64() {
        0.0 => String::new(),
        seconds => format!(", still after {seconds} s"),
    };
    let advice = match holders {
        Holders::DeletePending => format!("bring it back: leasefs undelete {path}"),
        Holders::Lease(_) if waited.is_zero() => {
            format!("wait for it with --wait SECONDS, or end the lease: leasefs break-lease {path}")
        }
        _ if waited.is_zero() => format!("wait for it with --wait SECONDS, or see: leasefs status {path}"),
        Holders::Lease(_) => format!("end the lease: leasefs break-lease {path}"),
        Holders::Opens(_) | Holders::Unknown => format!("see: leasefs status {path}"),
    };
    format!("{path} {who}{still}; {advice}")
}

/// Lets the command inherit the descriptor; its number.
fn pass_on(file: &File) -> nix::Result<i32> {
    fcntl(file.as_fd(), FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(file.as_raw_fd())
}
