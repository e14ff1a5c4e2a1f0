//! Mount options by name: `-o a,b=c` as in fstab, and the lines of a configuration file.
//!
//! Both spell the same options and end in one value, [`Settings`], where everything is optional and already checked.
//! Never guesses: a name that is not known is refused with the list of those that are.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::args::EndpointArgs;
use crate::fs::policy::{InvalidPolicy, InvalidRule, SharePolicy, ShareRule};
use crate::fs::strategy::{Concurrency, InvalidConcurrency};
use crate::share::lease::LeaseDuration;
use crate::store::ContainerName;

/// A configuration file larger than this is not one.
const CONFIG_FILE_MAX: u64 = 64 * 1024;

/// More event threads than this only cost memory.
pub(super) const THREADS_MAX: usize = 256;

/// A smaller cache would only be in the way.
const CACHE_SIZE_MIN: u64 = 1 << 20;

/// Whoever believes names for longer wants another kind of tool.
const TTL_SECONDS_MAX: f64 = 3600.0;

/// The names a person may use, for messages and help.
pub(super) const ALLOWED: &str = "data=DIR, share=NAME, delete=smb|posix, share_policy=POLICY, \
     share_rule=PATTERN=POLICY, concurrency=STRATEGY, lease=SECONDS|infinite, mandatory_locks, cache_dir=DIR, cache_size=SIZE, \
     attr_ttl=SECONDS, write_back, blob_addr=ADDR, files_addr=ADDR, account=NAME, \
     account_key_file=FILE, accounts=FILE, tls_cert=FILE, tls_key=FILE, copy_from=WHOM, ro, rw, allow_other, no_passthrough, threads=N, log=LEVEL, log_file=FILE, atime, noatime, dev, nodev, exec, noexec, suid, nosuid, sync, async, dirsync; \
     accepted without effect: defaults, auto, noauto, user, users, nouser, owner, group, nofail, _netdev, relatime, \
     nodiratime, x-*, comment=*";

/// What happens to a name whose file is removed while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DeleteChoice {
    Smb,
    Posix,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Flags that go to the kernel with the mount; `None` leaves the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelFlags {
    dev: Option<bool>,
    suid: Option<bool>,
    exec: Option<bool>,
    atime: Option<bool>,
    sync: Option<bool>,
    dirsync: Option<bool>,
}

/// Options from one place, each given or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) data: Option<PathBuf>,
    pub(super) share: Option<ContainerName>,
    pub(super) delete: Option<DeleteChoice>,
    pub(super) share_policy: Option<SharePolicy>,
    /// The first that matches wins, so those of stronger settings come first.
    pub(super) share_rules: Vec<ShareRule>,
    pub(super) concurrency: Option<Concurrency>,
    pub(super) lease: Option<LeaseDuration>,
    pub(super) mandatory_locks: Option<bool>,
    pub(super) cache_dir: Option<PathBuf>,
    pub(super) cache_size: Option<u64>,
    pub(super) attr_ttl: Option<Duration>,
    pub(super) write_back: Option<bool>,
    pub(super) blob_addr: Option<SocketAddr>,
    /// Serve the files at this address.
    pub(super) files_addr: Option<SocketAddr>,
    pub(super) endpoint: EndpointArgs,
    pub(super) read_only: Option<bool>,
    pub(super) allow_other: Option<bool>,
    pub(super) passthrough: Option<bool>,
    pub(super) threads: Option<usize>,
    pub(super) log: Option<LogLevel>,
    pub(super) log_file: Option<PathBuf>,
    pub(super) flags: KernelFlags,
}

/// Why one option was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum OptionError {
    #[error("the option {0:?} is not known; allowed are: {ALLOWED}")]
    Unknown(String),
    #[error("the option {0} needs a value: {0}=…")]
    NeedsValue(String),
    #[error("the option {0} takes no value")]
    TakesNoValue(String),
    #[error("the option {name}={value} is not valid: {why}")]
    BadValue { name: String, value: String, why: String },
}

impl Settings {
    /// Reads a comma list as mount(8) passes it on. `sloppy` skips names that are not known.
    pub(super) fn from_mount_options(list: &str, sloppy: bool) -> Result<Self, OptionError> {
        let mut settings = Self::default();
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            match settings.set(name, value) {
                Err(OptionError::Unknown(_)) if sloppy => {}
                other => other?,
            }
        }
        Ok(settings)
    }

    /// Reads a configuration file. Relative paths in it are relative to its own directory.
    pub(super) fn from_config_file(path: &Path) -> Result<Self, ConfigFileError> {
        let unreadable = |why: String| ConfigFileError::Unreadable { path: path.to_owned(), why };
        let size = std::fs::metadata(path).map_err(|e| unreadable(e.to_string()))?.len();
        if size > CONFIG_FILE_MAX {
            return Err(unreadable(format!("it is larger than {CONFIG_FILE_MAX} bytes")));
        }
        let text = std::fs::read_to_string(path).map_err(|e| unreadable(e.to_string()))?;
        let mut settings = Self::from_config_text(&text)
            .map_err(|(line, problem)| ConfigFileError::Invalid { path: path.to_owned(), line, problem })?;
        let base = path.parent().unwrap_or(Path::new(""));
        let own = [&mut settings.data, &mut settings.cache_dir, &mut settings.log_file].into_iter().flatten();
        for file in own.chain(settings.endpoint.files_mut()) {
            *file = base.join(&*file);
        }
        Ok(settings)
    }

    /// One option per line: `name`, or `name = value`; `#` starts a comment. The error carries the line number.
    fn from_config_text(text: &str) -> Result<Self, (usize, OptionError)> {
        let mut settings = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = without_comment(line).trim();
            if line.is_empty() {
                continue;
            }
            let (name, value) = match line.split_once('=') {
                Some((name, value)) => (name.trim(), Some(unquoted(value.trim()))),
                None => (line, None),
            };
            // `ro = true` is how flags are spelled in such files elsewhere.
            let done = match (value, is_flag(name)) {
                (Some("true"), true) => settings.set(name, None),
                (Some("false"), true) => Ok(()),
                (value, _) => settings.set(name, value),
            };
            done.map_err(|problem| (index + 1, problem))?;
        }
        Ok(settings)
    }

    /// These settings, with what they leave open filled from `weaker`.
    pub(super) fn or(self, weaker: Self) -> Self {
        Self {
            data: self.data.or(weaker.data),
            share: self.share.or(weaker.share),
            delete: self.delete.or(weaker.delete),
            share_policy: self.share_policy.or(weaker.share_policy),
            share_rules: [self.share_rules, weaker.share_rules].concat(),
            concurrency: self.concurrency.or(weaker.concurrency),
            lease: self.lease.or(weaker.lease),
            mandatory_locks: self.mandatory_locks.or(weaker.mandatory_locks),
            cache_dir: self.cache_dir.or(weaker.cache_dir),
            cache_size: self.cache_size.or(weaker.cache_size),
            attr_ttl: self.attr_ttl.or(weaker.attr_ttl),
            write_back: self.write_back.or(weaker.write_back),
            blob_addr: self.blob_addr.or(weaker.blob_addr),
            files_addr: self.files_addr.or(weaker.files_addr),
            endpoint: self.endpoint.or(weaker.endpoint),
            read_only: self.read_only.or(weaker.read_only),
            allow_other: self.allow_other.or(weaker.allow_other),
            passthrough: self.passthrough.or(weaker.passthrough),
            threads: self.threads.or(weaker.threads),
            log: self.log.or(weaker.log),
            log_file: self.log_file.or(weaker.log_file),
            flags: self.flags.or(weaker.flags),
        }
    }

    fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), OptionError> {
        if ignored(name) {
            return Ok(());
        }
        match (name, value) {
            ("data", Some(dir)) => self.data = Some(non_empty(name, dir)?.into()),
            ("share", Some(share)) => {
                self.share = Some(parse_share(share).map_err(|why| bad(name, share, why))?);
            }
            ("delete", Some(rule)) => self.delete = Some(choice(name, rule)?),
            ("share_policy", Some(policy)) => {
                self.share_policy = Some(parse_policy(policy).map_err(|why| bad(name, policy, why))?);
            }
            ("share_rule", Some(rule)) => {
                self.share_rules.push(parse_rule(rule).map_err(|why| bad(name, rule, why))?);
            }
            ("concurrency", Some(strategy)) => {
                self.concurrency = Some(parse_concurrency(strategy).map_err(|why| bad(name, strategy, why))?);
            }
            ("lease", Some(duration)) => {
                self.lease = Some(parse_lease(duration).map_err(|why| bad(name, duration, why))?);
            }
            ("cache_dir", Some(dir)) => self.cache_dir = Some(non_empty(name, dir)?.into()),
            ("cache_size", Some(size)) => {
                self.cache_size = Some(parse_size(size).map_err(|why| bad(name, size, why))?);
            }
            ("attr_ttl", Some(seconds)) => {
                self.attr_ttl = Some(parse_ttl(seconds).map_err(|why| bad(name, seconds, why))?);
            }
            ("threads", Some(count)) => {
                self.threads = Some(parse_threads(count).map_err(|why| bad(name, count, why))?);
            }
            ("blob_addr" | "files_addr", Some(addr)) => {
                let why =
                    |_| bad(name, addr, "an address with a port is expected, such as 127.0.0.1:10000".into());
                let place = if name == "blob_addr" { &mut self.blob_addr } else { &mut self.files_addr };
                *place = Some(addr.parse().map_err(why)?);
            }
            ("copy_from", Some(whom)) => self.endpoint.copy_from = Some(choice(name, whom)?),
            ("account", Some(account)) => self.endpoint.account = Some(non_empty(name, account)?.into()),
            ("account_key_file" | "accounts" | "tls_cert" | "tls_key", Some(file)) => {
                let file = non_empty(name, file)?.into();
                let place = match name {
                    "account_key_file" => &mut self.endpoint.account_key_file,
                    "accounts" => &mut self.endpoint.accounts,
                    "tls_cert" => &mut self.endpoint.tls_cert,
                    _ => &mut self.endpoint.tls_key,
                };
                *place = Some(file);
            }
            ("log", Some(level)) => self.log = Some(choice(name, level)?),
            ("log_file", Some(file)) => self.log_file = Some(non_empty(name, file)?.into()),
            (
                "data" | "share" | "delete" | "share_policy" | "share_rule" | "concurrency" | "lease"
                | "cache_dir" | "cache_size" | "attr_ttl" | "threads" | "log" | "log_file" | "blob_addr"
                | "files_addr" | "copy_from" | "account" | "account_key_file" | "accounts" | "tls_cert"
                | "tls_key",
                None,
            ) => {
                return Err(OptionError::NeedsValue(name.to_owned()));
            }
            ("ro", None) => self.read_only = Some(true),
            ("rw", None) => self.read_only = Some(false),
            ("allow_other", None) => self.allow_other = Some(true),
            ("mandatory_locks", None) => self.mandatory_locks = Some(true),
            ("write_back", None) => self.write_back = Some(true),
            ("no_passthrough", None) => self.passthrough = Some(false),
            (flag, None) if self.flags.set(flag) => {}
            (flag, Some(_)) if is_flag(flag) => return Err(OptionError::TakesNoValue(flag.to_owned())),
            (unknown, _) => return Err(OptionError::Unknown(unknown.to_owned())),
        }
        Ok(())
    }
}

impl KernelFlags {
    /// Sets the flag of that name; false if there is none.
    fn set(&mut self, name: &str) -> bool {
        match name {
            "dev" => self.dev = Some(true),
            "nodev" => self.dev = Some(false),
            "suid" => self.suid = Some(true),
            "nosuid" => self.suid = Some(false),
            "exec" => self.exec = Some(true),
            "noexec" => self.exec = Some(false),
            "atime" => self.atime = Some(true),
            "noatime" => self.atime = Some(false),
            "sync" => self.sync = Some(true),
            "async" => self.sync = Some(false),
            "dirsync" => self.dirsync = Some(true),
            _ => return false,
        }
        true
    }

    fn or(self, weaker: Self) -> Self {
        Self {
            dev: self.dev.or(weaker.dev),
            suid: self.suid.or(weaker.suid),
            exec: self.exec.or(weaker.exec),
            atime: self.atime.or(weaker.atime),
            sync: self.sync.or(weaker.sync),
            dirsync: self.dirsync.or(weaker.dirsync),
        }
    }

    /// The flags as mount options; two that contradict each other never both.
    pub(super) fn names(self) -> Vec<String> {
        let pick = |value: Option<bool>, yes, no| value.map(|on| if on { yes } else { no });
        let names = [
            pick(self.dev, "dev", "nodev"),
            pick(self.suid, "suid", "nosuid"),
            pick(self.exec, "exec", "noexec"),
            pick(self.atime, "atime", "noatime"),
            pick(self.sync, "sync", "async"),
            self.dirsync.and_then(|on| on.then_some("dirsync")),
        ];
        names.into_iter().flatten().map(str::to_owned).collect()
    }
}

/// Why a configuration file could not be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConfigFileError {
    #[error("the configuration file {} cannot be read: {why}", .path.display())]
    Unreadable { path: PathBuf, why: String },
    #[error("{}:{line}: {problem}", .path.display())]
    Invalid { path: PathBuf, line: usize, problem: OptionError },
}

/// Checks a share's name; the error says what a valid one is.
pub(super) fn parse_share(name: &str) -> Result<ContainerName, String> {
    ContainerName::new(name).map_err(|problem| problem.to_string())
}

/// Checks a share policy; the error lists those there are.
pub(super) fn parse_policy(text: &str) -> Result<SharePolicy, String> {
    text.parse().map_err(|problem: InvalidPolicy| problem.to_string())
}

/// Checks a share rule; the error says what a valid one is.
pub(super) fn parse_rule(text: &str) -> Result<ShareRule, String> {
    text.parse().map_err(|problem: InvalidRule| problem.to_string())
}

/// Checks a strategy; the error lists those there are.
pub(super) fn parse_concurrency(text: &str) -> Result<Concurrency, String> {
    text.parse().map_err(|problem: InvalidConcurrency| problem.to_string())
}

/// Checks the duration of a lease.
pub(super) fn parse_lease(text: &str) -> Result<LeaseDuration, String> {
    let finite = || text.parse().ok().and_then(LeaseDuration::seconds);
    let duration = if text == "infinite" { Some(LeaseDuration::INFINITE) } else { finite() };
    duration.ok_or_else(|| "15 to 60 seconds, or infinite, is expected".to_owned())
}

/// Checks a size: a number of bytes, or with K, M, G or T for 1024 of them and so on.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || "a size such as 500M or 20G, at least 1M, is expected".to_owned();
    let (number, shift) = match text.char_indices().next_back() {
        Some((at, unit)) if unit.is_ascii_alphabetic() => {
            let shift = match unit.to_ascii_uppercase() {
                'K' => 10,
                'M' => 20,
                'G' => 30,
                'T' => 40,
                _ => return Err(wrong()),
            };
            (&text[..at], shift)
        }
        _ => (text, 0),
    };
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    size.filter(|size| *size >= CACHE_SIZE_MIN).ok_or_else(wrong)
}

/// Checks how long names and attributes are believed.
pub(super) fn parse_ttl(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=TTL_SECONDS_MAX).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("a number of seconds from 0 to {TTL_SECONDS_MAX} is expected"))
}

/// Checks a number of threads.
pub(super) fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=THREADS_MAX).contains(&count) => Ok(count),
        _ => Err(format!("a number from 1 to {THREADS_MAX} is expected")),
    }
}

/// Names that belong to mount(8), systemd or other tools.
fn ignored(name: &str) -> bool {
    let words = [
        "defaults",
        "auto",
        "noauto",
        "user",
        "users",
        "nouser",
        "owner",
        "group",
        "nofail",
        "_netdev",
        "relatime",
        "nodiratime",
        "comment",
    ];
    words.contains(&name) || name.starts_with("x-") || name.starts_with("X-")
}

fn is_flag(name: &str) -> bool {
    matches!(name, "ro" | "rw" | "allow_other" | "no_passthrough" | "mandatory_locks" | "write_back")
        || KernelFlags::default().set(name)
}

fn choice<T: ValueEnum>(name: &str, value: &str) -> Result<T, OptionError> {
    T::from_str(value, false).map_err(|_| {
        let words: Vec<_> = T::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
        let words: Vec<_> = words.iter().map(PossibleValue::get_name).collect();
        bad(name, value, format!("one of {} is expected", words.join(", ")))
    })
}

fn non_empty<'a>(name: &str, value: &'a str) -> Result<&'a str, OptionError> {
    if value.is_empty() { Err(OptionError::NeedsValue(name.to_owned())) } else { Ok(value) }
}

fn bad(name: &str, value: &str, why: String) -> OptionError {
    OptionError::BadValue { name: name.to_owned(), value: value.to_owned(), why }
}

/// The line up to a `#` that starts a word, so that paths may contain one.
fn without_comment(line: &str) -> &str {
    let starts_comment = |at: &usize| *at == 0 || line[..*at].ends_with(char::is_whitespace);
    match line.match_indices('#').map(|(at, _)| at).find(starts_comment) {
        Some(at) => &line[..at],
        None => line,
    }
}

fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(list: &str) -> Result<Settings, OptionError> {
        Settings::from_mount_options(list, false)
    }

    #[test]
    fn every_option_lands_where_it_belongs() {
        let all = options(
            "data=/d,share=abc,delete=posix,share_policy=deny-write,share_rule=*.a=exclusive,share_rule=b=shared,\
             concurrency=pessimistic,lease=30,mandatory_locks,cache_dir=/c,cache_size=2G,attr_ttl=0.5,write_back,ro,allow_other,no_passthrough,threads=3,log=debug,log_file=/l",
        )
        .unwrap();
        let expected = Settings {
            data: Some("/d".into()),
            share: Some(ContainerName::new("abc").unwrap()),
            delete: Some(DeleteChoice::Posix),
            share_policy: Some(SharePolicy::DenyWrite),
            share_rules: vec!["*.a=exclusive".parse().unwrap(), "b=shared".parse().unwrap()],
            concurrency: Some(Concurrency::Pessimistic),
            lease: LeaseDuration::seconds(30),
            mandatory_locks: Some(true),
            cache_dir: Some("/c".into()),
            cache_size: Some(2 << 30),
            attr_ttl: Some(Duration::from_millis(500)),
            write_back: Some(true),
            blob_addr: None,
            files_addr: None,
            endpoint: EndpointArgs::default(),
            read_only: Some(true),
            allow_other: Some(true),
            passthrough: Some(false),
            threads: Some(3),
            log: Some(LogLevel::Debug),
            log_file: Some("/l".into()),
            flags: KernelFlags::default(),
        };
        assert_eq!(all, expected);
        assert_eq!(options("rw").unwrap().read_only, Some(false));
    }

    #[test]
    fn words_of_other_tools_change_nothing() {
        let list = "defaults,auto,noauto,user,users,nofail,_netdev,x-systemd.automount,x-foo=bar,relatime,,comment=x";
        assert_eq!(options(list).unwrap(), Settings::default());
    }

    #[test]
    fn of_two_flags_that_contradict_the_later_wins() {
        assert_eq!(
            options("nodev,dev,suid,nosuid,noexec").unwrap().flags.names(),
            ["dev", "nosuid", "noexec"]
        );
        assert_eq!(options("noatime,async,dirsync").unwrap().flags.names(), ["noatime", "async", "dirsync"]);
        assert_eq!(options("ro,rw").unwrap().read_only, Some(false));
    }

    #[test]
    fn wrong_options_say_what_is_right() {
        let message = |list| options(list).unwrap_err().to_string();
        assert!(message("cachesize=3").contains("\"cachesize\" is not known; allowed are: data=DIR"));
        assert!(message("cache_size=3").contains("500M or 20G"));
        assert!(message("cache_size=20X").contains("500M or 20G"));
        assert!(message("attr_ttl=-1").contains("seconds from 0 to 3600"));
        assert!(message("data").contains("data=…"));
        assert!(message("data=").contains("data=…"));
        assert!(message("ro=1").contains("ro takes no value"));
        assert!(message("delete=windows").contains("one of smb, posix"));
        assert!(message("threads=0").contains("1 to 256"));
        assert!(message("concurrency=none").contains("optimistic, pessimistic, last-writer-wins"));
        assert!(message("lease=14").contains("15 to 60 seconds, or infinite"));
        assert_eq!(options("lease=infinite").unwrap().lease, Some(LeaseDuration::INFINITE));
        assert!(message("log=loud").contains("off, error, warn, info, debug, trace"));
        assert!(message("share=Not_Valid").contains("share=Not_Valid"));
        assert!(message("nodev=x").contains("nodev takes no value"));
    }

    #[test]
    fn sloppy_skips_only_what_is_unknown() {
        assert_eq!(Settings::from_mount_options("what,ro", true).unwrap().read_only, Some(true));
        assert!(Settings::from_mount_options("threads=x", true).is_err());
    }

    #[test]
    fn a_config_file_spells_the_same_options() {
        let text = "# a mount\n\nshare = docs  # which\nro\ndata = \"/with space/#1\"\nallow_other = true\nnoexec = false\n";
        let settings = Settings::from_config_text(text).unwrap();
        assert_eq!(settings.share.unwrap().as_str(), "docs");
        assert_eq!(settings.data.unwrap(), Path::new("/with space/#1"));
        assert_eq!(settings.read_only, Some(true));
        assert_eq!(settings.allow_other, Some(true));
        assert_eq!(settings.flags, KernelFlags::default());
        let (line, problem) = Settings::from_config_text("ro\nnonsense = 1\n").unwrap_err();
        assert_eq!((line, problem), (2, OptionError::Unknown("nonsense".into())));
    }

    #[test]
    fn relative_paths_in_a_config_file_start_at_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("leasefs.conf");
        std::fs::write(&file, "data = blobs\naccounts = keys\n").unwrap();
        let settings = Settings::from_config_file(&file).unwrap();
        assert_eq!(settings.endpoint.accounts.unwrap(), dir.path().join("keys"));
        assert_eq!(settings.data.unwrap(), dir.path().join("blobs"));
    }

    #[test]
    fn an_endpoint_is_an_option_too() {
        let list = "blob_addr=127.0.0.1:1,account=mine,account_key_file=k,tls_cert=c,tls_key=d,copy_from=own";
        let all = options(list).unwrap();
        assert_eq!(all.blob_addr, Some("127.0.0.1:1".parse().unwrap()));
        assert_eq!(all.endpoint.account.as_deref(), Some("mine"));
        assert_eq!(all.endpoint.account_key_file.as_deref(), Some(Path::new("k")));
        assert_eq!(all.endpoint.tls_cert.as_deref(), Some(Path::new("c")));
        assert_eq!(all.endpoint.tls_key.as_deref(), Some(Path::new("d")));
        // Whoever names accounts names all that there is to say about them.
        let both = options("accounts=f").unwrap().or(all);
        assert_eq!((both.endpoint.account, both.endpoint.accounts), (None, Some("f".into())));
        assert_eq!(both.endpoint.tls_key, Some("d".into()));
        assert!(options("blob_addr=here").unwrap_err().to_string().contains("127.0.0.1:10000"));
        assert!(options("copy_from=me").unwrap_err().to_string().contains("own, loopback, any"));
        assert!(options("accounts").is_err());
    }

    #[test]
    fn the_stronger_settings_win() {
        let strong = options("ro,data=/a,dev").unwrap();
        let weak = options("rw,data=/b,threads=2,nodev,nosuid").unwrap();
        let both = strong.or(weak);
        assert_eq!(both.read_only, Some(true));
        assert_eq!(both.data.unwrap(), Path::new("/a"));
        assert_eq!(both.threads, Some(2));
        assert_eq!(both.flags.names(), ["dev", "nosuid"]);
    }
}
