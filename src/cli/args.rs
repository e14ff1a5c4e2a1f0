//! What the command line may say, and the help a person reads. Only shapes: `config` judges what they mean.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::endpoint::CopyChoice;
use super::settings::{self, DeleteChoice, LogLevel};
use crate::fs::policy::{SharePolicy, ShareRule};
use crate::fs::strategy::Concurrency;
use crate::share::lease::LeaseDuration;
use crate::store::ContainerName;

mod holding;

pub(super) use holding::{BreakLeaseArgs, CloseHandleArgs, LeaseArgs, OpenArgs, StatusArgs, UndeleteArgs};

const EXAMPLES: &str = "\
Examples:
  leasefs mount ~/share                       mount the embedded store, return when it works
  leasefs mount --data /srv/blobs /mnt/docs   with the blobs in /srv/blobs
  leasefs mount https://ACCOUNT.blob.core.windows.net/docs /mnt/docs
                                              a container of Azure, or of `leasefs serve` elsewhere
  leasefs umount ~/share                      commit what is pending, then unmount
  leasefs open --share r ~/share/a -- make    nobody else may change or remove a while make runs
  leasefs lease ~/share/job.lock -- ./job     only one machine runs job at a time
  leasefs status                              who holds what
  leasefs check                               look for damage in the embedded store
  leasefs serve                               serve blobs and files to Azure SDKs at 127.0.0.1:10000 and :10004

Exit codes: 0 done, 1 failed, 2 wrong usage, 75 refused by a conflict: try again later.";

const SERVE_NOTES: &str = "\
Every answer of success means the change survives a power loss. SIGTERM and
SIGINT let running requests finish, then end. docs/BLOB-SERVICE.md and
docs/FILES-SERVICE.md have the limits and what is not supported.

Examples:
  leasefs serve                                      UseDevelopmentStorage=true works at once
  leasefs serve --files-addr 127.0.0.1:10004         only the Files service
  leasefs serve --blob-addr 0.0.0.0:443 --account mine --account-key-file keys \\
                --tls-cert chain.pem --tls-key key.pem";

const MOUNT_NOTES: &str = "\
Options for -o (separated by commas), and for a --config file (one per line,
`name` or `name = value`; `#` starts a comment):
  data=DIR  share=NAME  delete=smb|posix  share_policy=POLICY
  share_rule=PATTERN=POLICY (again for more)  concurrency=STRATEGY
  lease=SECONDS|infinite  mandatory_locks
  cache_dir=DIR  cache_size=SIZE  attr_ttl=SECONDS  write_back
  blob_addr=ADDR  files_addr=ADDR  account=NAME  account_key_file=FILE
  accounts=FILE  tls_cert=FILE  tls_key=FILE  copy_from=WHOM
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
  https://ACCOUNT.blob.core.windows.net/docs  /mnt/az  leasefs  _netdev  0 0

Credentials for a blob service come from the environment as Azure's own tools
read them (AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY,
AZURE_STORAGE_SAS_TOKEN, an identity), never from arguments.

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
    /// Mount the embedded store, or a container of a blob service, at a directory
    Mount(Box<MountArgs>),
    /// Commit what is pending, then unmount; also clears a dead mount
    Umount(UmountArgs),
    /// Hold a file with a share mode while a command runs
    Open(OpenArgs),
    /// Hold the lease of a blob while a command runs
    Lease(LeaseArgs),
    /// End somebody's lease on a blob
    BreakLease(BreakLeaseArgs),
    /// Show who has which files open, range locks, leases and pending deletes
    Status(StatusArgs),
    /// Take an open file away from the program that holds it
    CloseHandle(CloseHandleArgs),
    /// Bring back a removed file that somebody still has open
    Undelete(UndeleteArgs),
    /// Check the embedded store for damage
    Check(CheckArgs),
    /// Serve the embedded store over the Azure Blob and Files protocols
    Serve(Box<ServeArgs>),
}

// Headings in the help of `leasefs mount`.
const SHARING_OPTIONS: &str = "Sharing";
const REMOTE_OPTIONS: &str = "With a URL as SOURCE";
const ENDPOINT_OPTIONS: &str = "Endpoints for REST";

/// `leasefs mount …`
#[derive(Debug, Args)]
#[command(after_help = MOUNT_NOTES, arg_required_else_help = true)]
#[command(override_usage = "leasefs mount [OPTIONS] [SOURCE] <DIR>")]
pub(super) struct MountArgs {
    /// What to mount, and where. SOURCE is `embedded` (the store in the --data directory), the path of a data directory, or
    /// the URL of a container or of a prefix in it: https://ACCOUNT.blob.core.windows.net/CONTAINER,
    /// http://HOST:PORT/ACCOUNT/CONTAINER [default: embedded]
    // One list, because options may stand between the two.
    #[arg(required = true, value_name = "[SOURCE] DIR")]
    pub(super) source_and_dir: Vec<PathBuf>,

    /// Directory of the embedded store [default: $XDG_DATA_HOME/leasefs or ~/.local/share/leasefs]
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,

    /// The container to mount; created if it is not there [default: share]
    #[arg(long, value_name = "NAME", value_parser = settings::parse_share)]
    pub(super) share: Option<ContainerName>,

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

    /// When a file is removed while open: `smb` keeps its name taken until the last close, `posix` frees it at once
    /// [default: smb]
    #[arg(long, value_name = "RULE", help_heading = SHARING_OPTIONS)]
    pub(super) delete: Option<DeleteChoice>,

    /// What programs that open a file for writing let others do meanwhile: `shared` everything, `deny-write` only read
    /// it, `exclusive` nothing [default: shared]
    #[arg(long, value_name = "POLICY", value_parser = settings::parse_policy, help_heading = SHARING_OPTIONS)]
    pub(super) share_policy: Option<SharePolicy>,

    /// Another policy for files whose name or path matches, such as `*.xlsx=exclusive`; the first match wins
    #[arg(long, value_name = "PATTERN=POLICY", value_parser = settings::parse_rule, help_heading = SHARING_OPTIONS)]
    pub(super) share_rule: Vec<ShareRule>,

    /// Range locks refuse the reads and writes of others, not only their locks
    #[arg(long, help_heading = SHARING_OPTIONS)]
    pub(super) mandatory_locks: bool,

    /// When writers on other machines or of the blob service change the same file: `optimistic` lets the first to
    /// commit win and keeps the other's content beside, `pessimistic` lets only one open it for writing,
    /// `last-writer-wins` overwrites [default: optimistic]
    #[arg(long, value_name = "STRATEGY", value_parser = settings::parse_concurrency, help_heading = SHARING_OPTIONS)]
    pub(super) concurrency: Option<Concurrency>,

    /// How long a lease on a blob lasts if this mount dies: 15 to 60 seconds, or `infinite` [default: 60]
    #[arg(long, value_name = "SECONDS|infinite", value_parser = settings::parse_lease, help_heading = SHARING_OPTIONS)]
    pub(super) lease: Option<LeaseDuration>,

    /// Where a remote share is cached, and what is not uploaded yet is kept [default: $XDG_CACHE_HOME/leasefs or
    /// ~/.cache/leasefs]
    #[arg(long, value_name = "DIR", help_heading = REMOTE_OPTIONS)]
    pub(super) cache_dir: Option<PathBuf>,

    /// How much of a remote share is kept there at most, such as 500M or 20G [default: 10G]
    #[arg(long, value_name = "SIZE", value_parser = settings::parse_size, help_heading = REMOTE_OPTIONS)]
    pub(super) cache_size: Option<u64>,

    /// How long names and attributes of a remote share are believed without asking again [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = settings::parse_ttl, help_heading = REMOTE_OPTIONS)]
    pub(super) attr_ttl: Option<Duration>,

    /// Let close return when the content is in the cache directory, and upload it later
    #[arg(long, help_heading = REMOTE_OPTIONS)]
    pub(super) write_back: bool,

    /// Serve the blobs over the Azure Blob protocol too, at this address
    #[arg(long, value_name = "ADDR", help_heading = ENDPOINT_OPTIONS)]
    pub(super) blob_addr: Option<SocketAddr>,

    /// Serve the files over the Azure Files protocol too, at this address
    #[arg(long, value_name = "ADDR", help_heading = ENDPOINT_OPTIONS)]
    pub(super) files_addr: Option<SocketAddr>,

    // The last, because what follows it would stand under its heading.
    #[command(flatten, next_help_heading = ENDPOINT_OPTIONS)]
    pub(super) endpoint: EndpointArgs,
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

/// `leasefs check …`
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Directory of the embedded store [default: $XDG_DATA_HOME/leasefs or ~/.local/share/leasefs]
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
}

/// `leasefs serve …`
#[derive(Debug, Args)]
#[command(after_help = SERVE_NOTES)]
pub(super) struct ServeArgs {
    /// Directory of the embedded store [default: $XDG_DATA_HOME/leasefs or ~/.local/share/leasefs]
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,

    /// Where to serve blobs; port 0 takes a free one [default: 127.0.0.1:10000, unless only --files-addr is given]
    #[arg(long, value_name = "ADDR")]
    pub(super) blob_addr: Option<SocketAddr>,

    /// Where to serve files; port 0 takes a free one [default: 127.0.0.1:10004, unless only --blob-addr is given]
    #[arg(long, value_name = "ADDR")]
    pub(super) files_addr: Option<SocketAddr>,

    #[command(flatten)]
    pub(super) endpoint: EndpointArgs,

    /// How much to log [env: LEASEFS_LOG] [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(super) log: Option<LogLevel>,

    /// Where to log [default: standard error]
    #[arg(long, value_name = "FILE")]
    pub(super) log_file: Option<PathBuf>,
}

/// What `serve` and `mount --blob-addr` share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(super) struct EndpointArgs {
    /// Account that clients sign for [default: devstoreaccount1 with the emulators' well-known key, on loopback only]
    #[arg(long, value_name = "NAME")]
    pub(super) account: Option<String>,

    /// File with one or two keys of the account in base64, one per line, readable by its owner only
    #[arg(long, value_name = "FILE")]
    pub(super) account_key_file: Option<PathBuf>,

    /// File with several accounts, each with containers of its own: one per line, its name and one or two keys in
    /// base64; readable by its owner only, read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub(super) accounts: Option<PathBuf>,

    /// Certificate chain for TLS, in PEM
    #[arg(long, value_name = "FILE")]
    pub(super) tls_cert: Option<PathBuf>,

    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub(super) tls_key: Option<PathBuf>,

    /// Whom copies may read from: the service itself, this machine too, or anybody [default: loopback if only this
    /// machine can connect, else own]
    #[arg(long, value_name = "WHOM")]
    pub(super) copy_from: Option<CopyChoice>,
}

impl EndpointArgs {
    /// Whether nothing was given.
    pub(super) fn is_empty(&self) -> bool {
        let Self { account, account_key_file, accounts, tls_cert, tls_key, copy_from } = self;
        account.is_none()
            && account_key_file.is_none()
            && accounts.is_none()
            && tls_cert.is_none()
            && tls_key.is_none()
            && copy_from.is_none()
    }

    /// These, with what they leave open filled from `weaker`. What is said about accounts comes from one place.
    pub(super) fn or(self, weaker: Self) -> Self {
        let says_who = self.account.is_some() || self.account_key_file.is_some() || self.accounts.is_some();
        let (account, account_key_file, accounts) = if says_who {
            (self.account, self.account_key_file, self.accounts)
        } else {
            (weaker.account, weaker.account_key_file, weaker.accounts)
        };
        Self {
            account,
            account_key_file,
            accounts,
            tls_cert: self.tls_cert.or(weaker.tls_cert),
            tls_key: self.tls_key.or(weaker.tls_key),
            copy_from: self.copy_from.or(weaker.copy_from),
        }
    }

    /// The files that are named.
    pub(super) fn files_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let Self { account: _, account_key_file, accounts, tls_cert, tls_key, copy_from: _ } = self;
        [account_key_file, accounts, tls_cert, tls_key].into_iter().flatten()
    }
}

/// `mount.leasefs …`, the way mount(8) calls a helper.
#[derive(Debug, Parser)]
#[command(
    name = "mount.leasefs",
    version,
    about = "Called by mount(8) for file systems of type leasefs; people use `leasefs mount`"
)]
pub(super) struct HelperArgs {
    /// `embedded`, the path of a data directory, or the URL of a container
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
