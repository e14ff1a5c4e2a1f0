//! What the command line may say, and the help a person reads. Only shapes: `config` judges what they mean.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::settings::{self, DeleteChoice, LogLevel};
use crate::fs::policy::{SharePolicy, ShareRule};
use crate::share::{Access, ShareMode};
use crate::store::ContainerName;

const EXAMPLES: &str = "\
Examples:
  leasefs mount ~/share                       mount the embedded store, return when it works
  leasefs mount --data /srv/blobs /mnt/docs   with the blobs in /srv/blobs
  leasefs umount ~/share                      commit what is pending, then unmount
  leasefs open --share r ~/share/a -- make    nobody else may change or remove a while make runs
  leasefs status                              who holds what
  leasefs check                               look for damage in the embedded store

Exit codes: 0 done, 1 failed, 2 wrong usage, 75 refused by a conflict: try again later.";

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

const MOUNT_NOTES: &str = "\
Options for -o (separated by commas), and for a --config file (one per line,
`name` or `name = value`; `#` starts a comment):
  data=DIR  share=NAME  delete=smb|posix  share_policy=POLICY
  share_rule=PATTERN=POLICY (again for more)  mandatory_locks
  ro  rw  allow_other  no_passthrough
  threads=N  log=LEVEL  log_file=FILE  atime noatime dev nodev exec noexec
  suid nosuid sync async dirsync
Arguments win over -o, -o wins over the environment, and that over the file.
Words that fstab holds for other tools (defaults, noauto, nofail, _netdev,
user, x-...) are accepted.

Share policies (shared, deny-write, exclusive) say what a program that opens a
file for writing lets others do meanwhile. The first of these decides: the
attribute user.leasefs.share of the file, that of the nearest directory above,
the first --share-rule that matches, --share-policy. A pattern is matched with
the file's name or, if it has a /, with the path inside the share; * ? [a-z]
stand for characters other than /, ** for any.

Lines for /etc/fstab, after
`ln -s \"$(command -v leasefs)\" /usr/sbin/mount.leasefs`:
  embedded    /mnt/docs   leasefs  share=docs,allow_other,nofail  0 0
  /srv/blobs  /mnt/blobs  leasefs  ro,noatime                     0 0

In the background leasefs logs to $XDG_STATE_HOME/leasefs/MOUNTPOINT.log (or
~/.local/state/leasefs/...), where MOUNTPOINT is the path with `-` for `/`.";

/// `leasefs …`
#[derive(Debug, Parser)]
#[command(
    name = "leasefs",
    version,
    about = "Mount a share with every file stored as a blob, and SMB-style locking enforced on it",
    after_help = EXAMPLES,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 120
)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Mount the embedded store at a directory
    Mount(Box<MountArgs>),
    /// Commit what is pending, then unmount; also clears a dead mount
    Umount(UmountArgs),
    /// Hold a file with a share mode while a command runs
    Open(OpenArgs),
    /// Show who has which files open, range locks, leases and pending deletes
    Status(StatusArgs),
    /// Take an open file away from the program that holds it
    CloseHandle(CloseHandleArgs),
    /// Bring back a removed file that somebody still has open
    Undelete(UndeleteArgs),
    /// Check the embedded store for damage
    Check(CheckArgs),
}

/// `leasefs mount …`
#[derive(Debug, Args)]
#[command(after_help = MOUNT_NOTES, arg_required_else_help = true, allow_missing_positional = true)]
pub(super) struct MountArgs {
    /// `embedded` (the store in the --data directory), or the path of a data directory [default: embedded]
    pub(super) source: Option<PathBuf>,

    /// Where to mount
    #[arg(required = true)]
    pub(super) dir: Option<PathBuf>,

    /// Directory of the embedded store [default: $XDG_DATA_HOME/leasefs or ~/.local/share/leasefs]
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,

    /// The container to mount; created if it is not there [default: share]
    #[arg(long, value_name = "NAME", value_parser = settings::parse_share)]
    pub(super) share: Option<ContainerName>,

    /// When a file is removed while open: `smb` keeps its name taken until the last close, `posix` frees it at once
    /// [default: smb]
    #[arg(long, value_name = "RULE")]
    pub(super) delete: Option<DeleteChoice>,

    /// What programs that open a file for writing let others do meanwhile: `shared` everything, `deny-write` only read
    /// it, `exclusive` nothing [default: shared]
    #[arg(long, value_name = "POLICY", value_parser = settings::parse_policy)]
    pub(super) share_policy: Option<SharePolicy>,

    /// Another policy for files whose name or path matches, such as `*.xlsx=exclusive`; the first match wins
    #[arg(long, value_name = "PATTERN=POLICY", value_parser = settings::parse_rule)]
    pub(super) share_rule: Vec<ShareRule>,

    /// Range locks refuse the reads and writes of others, not only their locks
    #[arg(long)]
    pub(super) mandatory_locks: bool,

    /// Allow no changes
    #[arg(long)]
    pub(super) read_only: bool,

    /// Let other users in, as far as file permissions go
    #[arg(long)]
    pub(super) allow_other: bool,

    /// Send all data through the daemon instead of straight to the local file
    #[arg(long)]
    pub(super) no_passthrough: bool,

    /// Threads that serve the kernel [default: one per core, at least 2]
    #[arg(long, value_name = "N", value_parser = settings::parse_threads)]
    pub(super) threads: Option<usize>,

    /// Stay in the foreground and log to the terminal
    #[arg(long)]
    pub(super) foreground: bool,

    /// How much to log [env: LEASEFS_LOG] [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(super) log: Option<LogLevel>,

    /// Where to log
    #[arg(long, value_name = "FILE")]
    pub(super) log_file: Option<PathBuf>,

    /// Options as in fstab, separated by commas
    #[arg(short, value_name = "OPTIONS")]
    pub(super) options: Vec<String>,

    /// File with options, one per line
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

/// `leasefs umount …`
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(super) struct UmountArgs {
    /// The mountpoint
    #[arg(value_name = "DIR")]
    pub(super) dir: PathBuf,

    /// Give up after so many seconds [default: wait as long as it takes]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(super) timeout: Option<u64>,

    /// Detach at once even if files are in use; the mount ends when the last one is closed
    #[arg(long)]
    pub(super) lazy: bool,
}

/// `leasefs open …`
#[derive(Debug, Args)]
#[command(after_help = OPEN_NOTES, arg_required_else_help = true)]
pub(super) struct OpenArgs {
    /// What the command may do: r read, w write, d remove or rename, in any combination
    #[arg(long, value_name = "LETTERS", default_value = "rw", value_parser = parse_access)]
    pub(super) access: Access,

    /// What others may do meanwhile: none, or letters of r, w and d
    #[arg(long, value_name = "LETTERS", default_value = "none", value_parser = parse_share_mode)]
    pub(super) share: ShareMode,

    /// Wait so long for the file to become free
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    pub(super) wait: Duration,

    /// Create the file if it does not exist
    #[arg(long)]
    pub(super) create: bool,

    /// The file, on a mount of leasefs
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,

    /// The command and its arguments
    #[arg(value_name = "CMD", last = true, required = true)]
    pub(super) command: Vec<OsString>,
}

/// `leasefs status …`
#[derive(Debug, Args)]
#[command(after_help = STATUS_NOTES)]
pub(super) struct StatusArgs {
    /// A mountpoint, or a file or directory on a mount [default: all mounts of this user]
    #[arg(value_name = "PATH")]
    pub(super) path: Option<PathBuf>,

    /// One JSON object instead of tables
    #[arg(long)]
    pub(super) json: bool,
}

/// `leasefs close-handle …`
#[derive(Debug, Args)]
#[command(after_help = CLOSE_NOTES, arg_required_else_help = true)]
pub(super) struct CloseHandleArgs {
    /// The mountpoint
    #[arg(value_name = "DIR")]
    pub(super) dir: PathBuf,

    /// The open, as `leasefs status` shows it in the column ID
    #[arg(value_name = "ID")]
    pub(super) id: u64,
}

/// `leasefs undelete …`
#[derive(Debug, Args)]
#[command(after_help = UNDELETE_NOTES, arg_required_else_help = true)]
pub(super) struct UndeleteArgs {
    /// The file that was removed
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
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

/// `leasefs check …`
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Directory of the embedded store [default: $XDG_DATA_HOME/leasefs or ~/.local/share/leasefs]
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
}

/// `mount.leasefs …`, the way mount(8) calls a helper.
#[derive(Debug, Parser)]
#[command(
    name = "mount.leasefs",
    version,
    about = "Called by mount(8) for file systems of type leasefs; people use `leasefs mount`"
)]
pub(super) struct HelperArgs {
    /// `embedded`, or the path of a data directory
    pub(super) source: PathBuf,
    /// Where to mount
    pub(super) dir: PathBuf,
    /// Options as in fstab
    #[arg(short)]
    pub(super) options: Vec<String>,
    /// Check everything, mount nothing
    #[arg(short)]
    pub(super) fake: bool,
    /// Skip options that are not known
    #[arg(short)]
    pub(super) sloppy: bool,
    /// Mount read-only
    #[arg(short)]
    pub(super) read_only: bool,
    /// Mount read-write (the default)
    #[arg(short = 'w', hide = true)]
    pub(super) writable: bool,
    /// No effect
    #[arg(short, hide = true)]
    pub(super) no_mtab: bool,
    /// No effect
    #[arg(short, hide = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
    /// No effect: the type is leasefs
    #[arg(short = 't', hide = true)]
    pub(super) kind: Option<String>,
}

/// True if the program was started under a name that mount(8) uses for helpers.
pub(super) fn called_as_helper(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().and_then(OsStr::to_str);
    matches!(name, Some("mount.leasefs" | "mount.fuse.leasefs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Arguments::command().debug_assert();
        HelperArgs::command().debug_assert();
    }

    #[test]
    fn every_option_of_o_is_in_the_help() {
        for word in settings::ALLOWED.split(';').next().unwrap().split(',') {
            assert!(MOUNT_NOTES.contains(word.trim()), "{word}");
        }
    }

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

    #[test]
    fn helper_names() {
        for yes in ["mount.leasefs", "/sbin/mount.leasefs", "/usr/sbin/mount.fuse.leasefs"] {
            assert!(called_as_helper(OsStr::new(yes)), "{yes}");
        }
        for no in ["leasefs", "/mount.leasefs/leasefs", ""] {
            assert!(!called_as_helper(OsStr::new(no)), "{no}");
        }
    }

    #[test]
    fn mount_calls_its_helper_with_clustered_flags() {
        let args =
            HelperArgs::try_parse_from(["mount.leasefs", "embedded", "/mnt", "-sfnv", "-o", "rw,noatime"])
                .unwrap();
        assert!(args.sloppy && args.fake && args.no_mtab && !args.read_only);
        assert_eq!((args.verbose, args.options), (1, vec!["rw,noatime".to_owned()]));
    }
}
