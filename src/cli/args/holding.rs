//! Arguments of the commands about who holds what: `open`, `lease`, `break-lease`, `status`, `close-handle`,
//! `undelete`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::settings;
use crate::share::lease::{LeaseDuration, MAX_BREAK_SECONDS};
use crate::share::{Access, ShareMode};

const OPEN_NOTES: &str = "\
The command gets the open file as a descriptor. Its number is in LEASEFS_FD, and
{} in the command becomes its path (/dev/fd/N). A program that opens the file
once more asks like everybody else, so it must fit --share.

Examples:
  leasefs open --access rw --share none report.csv -- sh -c 'sort >&$LEASEFS_FD'
      nobody else can even open report.csv meanwhile
  leasefs open --access r --share r prices.db -- ./nightly-export
      others may read prices.db, nobody may change or remove it
  leasefs open --wait 30 --share none queue -- ./take-one
      waits up to half a minute for its turn

Exit codes: that of the command; 126 if it cannot be run, 127 if there is none of
that name, 128+N if signal N ended it; 75 if the file is held by somebody else,
1 and 2 as with all of leasefs.";

const LEASE_NOTES: &str = "\
While the command runs, nobody else can change or remove the blob, whatever tool
they use, and nobody else gets the lease. So a blob can also guard something that
is elsewhere: a table, a device, a nightly job.

Of a URL, the command finds the lease's id in LEASEFS_LEASE_ID; whoever sends it as
x-ms-lease-id may change the blob. Of a file on a mount, it gets the open file in
LEASEFS_FD, as with `leasefs open`, and the mount keeps the lease renewed.

If the lease is lost (broken, or the service was away for too long), the command
is ended by SIGTERM; with --keep-going it is only told.

Examples:
  leasefs lease ~/share/ledger.lock -- ./close-the-books
  leasefs lease --create --wait 60 \\
      https://acct.blob.core.windows.net/jobs/nightly -- ./nightly

Credentials for URLs come from the environment: AZURE_STORAGE_CONNECTION_STRING,
AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, or an identity of Entra.
Exit codes: that of the command; 75 if somebody else holds the lease.";

const BREAK_NOTES: &str = "\
Whoever holds the lease cannot write any more once it is broken; its content is
kept beside as a conflict copy if it is a mount of leasefs.

Example:
  leasefs break-lease ~/share/plan.xlsx";

const STATUS_NOTES: &str = "\
Columns: ACCESS is what an open may do, SHARE what it lets others do (r read,
w write, d remove or rename). ID is what close-handle takes.
The shape of --json is described in docs/STATUS.md.

Examples:
  leasefs status                     all your mounts (root: all)
  leasefs status ~/share/plan.xlsx   who holds this file
  leasefs status ~/share --json | jq '.mounts[].opens[] | select(.share==\"none\")'";

const CLOSE_NOTES: &str = "\
The program keeps its descriptor, but reading and writing fail from now on, and
others can open the file. What it wrote and did not flush is committed first.

Example:
  leasefs status ~/share             shows 17 in the column ID
  leasefs close-handle ~/share 17";

const UNDELETE_NOTES: &str = "\
A file that was removed while somebody has it open is delete pending: it goes
away when the last one closes it. Until then it can be brought back.

Example:
  rm ~/share/plan.txt                (an editor still has it open)
  leasefs undelete ~/share/plan.txt";

/// `leasefs open …`
#[derive(Debug, Args)]
#[command(after_help = OPEN_NOTES, arg_required_else_help = true)]
pub(in crate::cli) struct OpenArgs {
    /// What the command may do: r read, w write, d remove or rename, in any combination
    #[arg(long, value_name = "LETTERS", default_value = "rw", value_parser = parse_access)]
    pub(in crate::cli) access: Access,

    /// What others may do meanwhile: none, or letters of r, w and d
    #[arg(long, value_name = "LETTERS", default_value = "none", value_parser = parse_share_mode)]
    pub(in crate::cli) share: ShareMode,

    /// Wait so long for the file to become free
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    pub(in crate::cli) wait: Duration,

    /// Create the file if it does not exist
    #[arg(long)]
    pub(in crate::cli) create: bool,

    /// The file, on a mount of leasefs
    #[arg(value_name = "FILE")]
    pub(in crate::cli) file: PathBuf,

    /// The command and its arguments
    #[arg(value_name = "CMD", last = true, required = true)]
    pub(in crate::cli) command: Vec<OsString>,
}

/// `leasefs lease …`
#[derive(Debug, Args)]
#[command(after_help = LEASE_NOTES, arg_required_else_help = true)]
pub(in crate::cli) struct LeaseArgs {
    /// How long the lease lasts if this machine dies: 15 to 60 seconds, or `infinite`; for URLs only, a mount has its
    /// own [default: 60]
    #[arg(long, value_name = "SECONDS|infinite", value_parser = settings::parse_lease)]
    pub(in crate::cli) duration: Option<LeaseDuration>,

    /// Wait so long for the lease to become free
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    pub(in crate::cli) wait: Duration,

    /// Create the blob, empty, if it does not exist
    #[arg(long)]
    pub(in crate::cli) create: bool,

    /// Only say so if the lease is lost; do not end the command
    #[arg(long)]
    pub(in crate::cli) keep_going: bool,

    /// A file on a mount of leasefs, or the URL of a blob
    #[arg(value_name = "FILE-OR-URL")]
    pub(in crate::cli) target: PathBuf,

    /// The command and its arguments
    #[arg(value_name = "CMD", last = true, required = true)]
    pub(in crate::cli) command: Vec<OsString>,
}

/// `leasefs break-lease …`
#[derive(Debug, Args)]
#[command(after_help = BREAK_NOTES, arg_required_else_help = true)]
pub(in crate::cli) struct BreakLeaseArgs {
    /// Give the holder so many seconds to finish, 60 at most
    #[arg(long, value_name = "SECONDS", default_value = "0",
          value_parser = clap::value_parser!(u8).range(0..=i64::from(MAX_BREAK_SECONDS)))]
    pub(in crate::cli) after: u8,

    /// A file on a mount of leasefs, or the URL of a blob
    #[arg(value_name = "FILE-OR-URL")]
    pub(in crate::cli) target: PathBuf,
}

/// `leasefs status …`
#[derive(Debug, Args)]
#[command(after_help = STATUS_NOTES)]
pub(in crate::cli) struct StatusArgs {
    /// A mountpoint, or a file or directory on a mount [default: all mounts of this user]
    #[arg(value_name = "PATH")]
    pub(in crate::cli) path: Option<PathBuf>,

    /// One JSON object instead of tables
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

/// `leasefs close-handle …`
#[derive(Debug, Args)]
#[command(after_help = CLOSE_NOTES, arg_required_else_help = true)]
pub(in crate::cli) struct CloseHandleArgs {
    /// The mountpoint
    #[arg(value_name = "DIR")]
    pub(in crate::cli) dir: PathBuf,

    /// The open, as `leasefs status` shows it in the column ID
    #[arg(value_name = "ID")]
    pub(in crate::cli) id: u64,
}

/// `leasefs undelete …`
#[derive(Debug, Args)]
#[command(after_help = UNDELETE_NOTES, arg_required_else_help = true)]
pub(in crate::cli) struct UndeleteArgs {
    /// The file that was removed
    #[arg(value_name = "FILE")]
    pub(in crate::cli) file: PathBuf,
}

fn parse_access(text: &str) -> Result<Access, String> {
    match text.parse() {
        Ok(Access::NONE) | Err(_) => Err("allowed are the letters r (read), w (write) and d (remove or \
                                          rename), each at most once, such as r, rw or rwd"
            .into()),
        Ok(access) => Ok(access),
    }
}

fn parse_share_mode(text: &str) -> Result<ShareMode, String> {
    let problem = "allowed are none, or the letters r (read), w (write) and d (remove or rename), each at most \
                   once, such as r, rw or rwd";
    text.parse().map_err(|_| problem.to_owned())
}

/// A year is more patience than anybody has.
const WAIT_MAX: Duration = Duration::from_secs(31_536_000);

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let problem =
        || format!("allowed is a number of seconds from 0 to {}, such as 30 or 0.5", WAIT_MAX.as_secs());
    seconds.filter(|time| *time <= WAIT_MAX).ok_or_else(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_times_are_read_or_refused_with_what_is_allowed() {
        assert_eq!(parse_access("rwd"), Ok(Access::ALL));
        assert_eq!(parse_share_mode("none"), Ok(ShareMode::NONE));
        for wrong in ["", "none", "x", "rr", "R", "r,w"] {
            assert!(parse_access(wrong).unwrap_err().contains("letters r (read), w (write)"), "{wrong}");
        }
        for wrong in ["", "all", "rx", "ww"] {
            assert!(parse_share_mode(wrong).unwrap_err().contains("allowed are none"), "{wrong}");
        }
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "-1", "soon", "NaN", "inf", "1e99", "31536001"] {
            assert!(parse_seconds(wrong).unwrap_err().contains("number of seconds"), "{wrong}");
        }
    }
}
