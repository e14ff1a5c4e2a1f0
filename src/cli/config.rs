//! From what was typed to a plan that can be carried out: every default filled in, every contradiction refused.
//!
//! Looks at no file except the configuration file; whether paths exist is for the commands to find out.

use std::path::{Path, PathBuf};

use super::args::{HelperArgs, MountArgs};
use super::endpoint::EndpointPlan;
use super::error::CliError;
use super::paths::{self, Places};
use super::remote::RemotePlan;
use super::settings::{ConfigFileError, DeleteChoice, LogLevel, Settings};
use crate::fs::policy::{RULES_MAX, SharePolicies};
use crate::fs::strategy::{Concurrency, Fencing};
use crate::share::lease::LeaseDuration;
use crate::store::ContainerName;
use crate::store::azure::Source;

/// The share that is mounted when none is named.
const DEFAULT_SHARE: &str = "share";

/// Everything a mount needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MountPlan {
    /// Absolute, as typed otherwise.
    pub(super) mountpoint: PathBuf,
    /// Absolute, as typed otherwise. Of a remote share: its mirror in the cache directory.
    pub(super) data: PathBuf,
    /// Where the blobs are, if they are elsewhere.
    pub(super) remote: Option<RemotePlan>,
    pub(super) share: ContainerName,
    pub(super) delete: DeleteChoice,
    pub(super) policies: SharePolicies,
    pub(super) fencing: Fencing,
    pub(super) mandatory_locks: bool,
    pub(super) read_only: bool,
    pub(super) allow_other: bool,
    pub(super) passthrough: bool,
    pub(super) threads: usize,
    /// Further mount options, none of which contradict each other.
    pub(super) kernel_flags: Vec<String>,
    pub(super) foreground: bool,
    /// Serve the blobs too, at this endpoint.
    pub(super) blobs: Option<EndpointPlan>,
    /// Serve the files too, at this endpoint.
    pub(super) files: Option<EndpointPlan>,
    /// Check everything, mount nothing.
    pub(super) fake: bool,
    pub(super) log: LogLevel,
    /// Absent: the terminal in the foreground, the usual place in the background.
    pub(super) log_file: Option<PathBuf>,
}

impl MountPlan {
    /// The plan of `leasefs mount …`.
    pub(super) fn from_args(args: MountArgs, places: &Places) -> Result<Self, CliError> {
        let (source, dir) = match &*args.source_and_dir {
            [dir] => (None, dir.clone()),
            [source, dir] => (Some(source.clone()), dir.clone()),
            [] => return Err(CliError::Usage("the mountpoint is missing".into())),
            [_, _, more, ..] => {
                return Err(CliError::Usage(format!("unexpected argument '{}'", more.display())));
            }
        };
        let typed = Settings {
            data: args.data,
            share: args.share,
            delete: args.delete,
            share_policy: args.share_policy,
            share_rules: args.share_rule,
            concurrency: args.concurrency,
            lease: args.lease,
            mandatory_locks: args.mandatory_locks.then_some(true),
            cache_dir: args.cache_dir,
            cache_size: args.cache_size,
            attr_ttl: args.attr_ttl,
            write_back: args.write_back.then_some(true),
            blob_addr: args.blob_addr,
            files_addr: args.files_addr,
            endpoint: args.endpoint,
            read_only: args.read_only.then_some(true),
            allow_other: args.allow_other.then_some(true),
            passthrough: args.no_passthrough.then_some(false),
            threads: args.threads,
            log: args.log,
            log_file: args.log_file,
            ..Settings::default()
        };
        let file = match &args.config {
            Some(path) => Settings::from_config_file(path)?,
            None => Settings::default(),
        };
        let settings = typed.or(mount_options(&args.options, false)?).or(environment()?).or(file);
        let mut plan = Self::new(source.as_deref(), &dir, settings, places)?;
        plan.foreground = args.foreground;
        Ok(plan)
    }

    /// The plan of `mount.leasefs SOURCE DIR …`.
    pub(super) fn from_helper(args: &HelperArgs, places: &Places) -> Result<Self, CliError> {
        let mut settings = mount_options(&args.options, args.sloppy)?.or(environment()?);
        if args.read_only {
            settings.read_only = Some(true);
        }
        let mut plan = Self::new(Some(&args.source), &args.dir, settings, places)?;
        plan.fake = args.fake;
        Ok(plan)
    }

    /// What is mounted, for messages.
    pub(super) fn title(&self) -> String {
        match &self.remote {
            Some(remote) => remote.source.to_string(),
            None => format!("share \"{}\"", self.share),
        }
    }

    fn new(source: Option<&Path>, dir: &Path, settings: Settings, places: &Places) -> Result<Self, CliError> {
        let remote = remote_plan(source, &settings)?;
        let data = match &remote {
            Some(remote) => remote.mirror_dir(&settings.cache_dir.unwrap_or_else(|| places.cache_dir())),
            None => data_directory(source, settings.data, places)?,
        };
        let share = match settings.share {
            Some(share) => share,
            None => {
                ContainerName::new(DEFAULT_SHARE).map_err(|problem| CliError::Usage(problem.to_string()))?
            }
        };
        if settings.share_rules.len() > RULES_MAX {
            return Err(CliError::Usage(format!("there are more than {RULES_MAX} share rules")));
        }
        if remote.is_some() && settings.blob_addr.is_some() {
            let text =
                "--blob-addr is for the embedded store; the blobs of a remote share are served already";
            return Err(CliError::Usage(text.to_owned()));
        }
        let at =
            |addr: Option<_>| addr.map(|addr| EndpointPlan::new(addr, settings.endpoint.clone())).transpose();
        let (blobs, files) = (at(settings.blob_addr)?, at(settings.files_addr)?);
        if remote.is_some() && files.as_ref().is_some_and(EndpointPlan::is_listed) {
            let text = "--accounts is for the embedded store; a remote share is served to one --account";
            return Err(CliError::Usage(text.to_owned()));
        }
        if blobs.is_none() && files.is_none() && !settings.endpoint.is_empty() {
            let text = "accounts, TLS files and --copy-from need --blob-addr or --files-addr";
            return Err(CliError::Usage(text.into()));
        }
        Ok(Self {
            mountpoint: absolute(dir)?,
            data: absolute(&data)?,
            remote,
            share,
            delete: settings.delete.unwrap_or(DeleteChoice::Smb),
            policies: SharePolicies::new(settings.share_rules, settings.share_policy.unwrap_or_default()),
            fencing: fencing(settings.concurrency, settings.lease),
            mandatory_locks: settings.mandatory_locks.unwrap_or(false),
            read_only: settings.read_only.unwrap_or(false),
            allow_other: settings.allow_other.unwrap_or(false),
            passthrough: settings.passthrough.unwrap_or(true),
            threads: settings.threads.unwrap_or_else(default_threads),
            kernel_flags: settings.flags.names(),
            foreground: false,
            blobs,
            files,
            fake: false,
            log: settings.log.unwrap_or(LogLevel::Info),
            log_file: settings.log_file.as_deref().map(absolute).transpose()?,
        })
    }
}

fn fencing(concurrency: Option<Concurrency>, lease: Option<LeaseDuration>) -> Fencing {
    let usual = Fencing::default();
    Fencing { concurrency: concurrency.unwrap_or_default(), lease: lease.unwrap_or(usual.lease), ..usual }
}

/// What is to be mounted from elsewhere, if the source is a URL. Refuses options that are for the other kind.
fn remote_plan(source: Option<&Path>, settings: &Settings) -> Result<Option<RemotePlan>, CliError> {
    let usage = |text: &str| Err(CliError::Usage(text.to_owned()));
    let url = source.and_then(Path::to_str).filter(|source| Source::is_url(source));
    let Some(url) = url else {
        let Settings { cache_dir, cache_size, attr_ttl, write_back, .. } = settings;
        let given = cache_dir.is_some() || cache_size.is_some() || attr_ttl.is_some() || write_back.is_some();
        return if given {
            usage(
                "--cache-dir, --cache-size, --attr-ttl and --write-back are for shares elsewhere; name one by its URL",
            )
        } else {
            Ok(None)
        };
    };
    if settings.data.is_some() {
        return usage("--data is for the embedded store; a remote share has a --cache-dir");
    }
    if settings.share.is_some() {
        return usage("the URL names the container; --share is for the embedded store");
    }
    let source = Source::parse(url).map_err(|problem| CliError::Usage(problem.to_string()))?;
    Ok(Some(RemotePlan {
        source,
        cache_size: settings.cache_size,
        attr_ttl: settings.attr_ttl,
        write_back: settings.write_back.unwrap_or(false),
    }))
}

/// The data directory that `--data` (or its default) names, absolute.
pub(super) fn data_or_default(data: Option<PathBuf>, places: &Places) -> Result<PathBuf, CliError> {
    absolute(&data.unwrap_or_else(|| places.data_dir()))
}

fn data_directory(
    source: Option<&Path>,
    data: Option<PathBuf>,
    places: &Places,
) -> Result<PathBuf, CliError> {
    let from_source = match source {
        Some(source) => parse_source(source)?,
        None => None,
    };
    match (from_source, data) {
        (Some(source), Some(data)) if source != data => Err(CliError::Usage(format!(
            "the source {} and the data directory {} differ; name only one of them",
            source.display(),
            data.display()
        ))),
        (Some(dir), _) | (None, Some(dir)) => Ok(dir),
        (None, None) => Ok(places.data_dir()),
    }
}

/// The data directory a source names, if it names one.
fn parse_source(source: &Path) -> Result<Option<PathBuf>, CliError> {
    let text = source.to_string_lossy();
    if text == "embedded" {
        return Ok(None);
    }
    // A bare word is more likely a mistake, such as two mountpoints, than a directory.
    if !text.contains('/') {
        return Err(CliError::Usage(format!(
            "the source {text:?} is not known; use `embedded`, the path of a data directory (./{text} if it is one) or a URL"
        )));
    }
    Ok(Some(source.to_owned()))
}

fn mount_options(lists: &[String], sloppy: bool) -> Result<Settings, CliError> {
    Settings::from_mount_options(&lists.join(","), sloppy)
        .map_err(|problem| CliError::Usage(problem.to_string()))
}

/// The log level that the environment asks for.
pub(super) fn log_level_of_environment() -> Result<Option<LogLevel>, CliError> {
    Ok(environment()?.log)
}

/// What the environment asks for.
fn environment() -> Result<Settings, CliError> {
    let log = match std::env::var("LEASEFS_LOG") {
        Ok(level) if !level.is_empty() => Settings::from_mount_options(&format!("log={level}"), false),
        _ => Ok(Settings::default()),
    };
    log.map_err(|problem| CliError::Usage(format!("in the environment variable LEASEFS_LOG: {problem}")))
}

fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    paths::absolute(path)
        .map_err(|e| CliError::Failed(format!("the path {} cannot be made absolute: {e}", path.display())))
}

fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).max(2)
}

impl From<ConfigFileError> for CliError {
    fn from(problem: ConfigFileError) -> Self {
        match problem {
            ConfigFileError::Unreadable { .. } => CliError::Failed(problem.to_string()),
            ConfigFileError::Invalid { .. } => CliError::Usage(problem.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::args::{Arguments, Command};
    use super::*;
    use clap::Parser;

    fn plan(words: &[&str]) -> Result<MountPlan, CliError> {
        let words = ["leasefs", "mount"].iter().chain(words);
        let Command::Mount(args) = Arguments::try_parse_from(words).unwrap().command else {
            unreachable!("the word mount was given")
        };
        MountPlan::from_args(*args, &Places::of_this_process())
    }

    fn refused(words: &[&str]) -> String {
        match plan(words) {
            Err(CliError::Usage(text)) => text,
            other => panic!("expected wrong usage, got {other:?}"),
        }
    }

    #[test]
    fn defaults() {
        let plan = plan(&["/mnt"]).unwrap();
        assert_eq!(plan.mountpoint, Path::new("/mnt"));
        assert!(plan.data.is_absolute() && plan.data.ends_with("leasefs"));
        assert_eq!(plan.share.as_str(), "share");
        assert_eq!(plan.delete, DeleteChoice::Smb);
        assert!(plan.passthrough && !plan.read_only && !plan.allow_other && !plan.foreground);
        assert!(plan.threads >= 2);
    }

    #[test]
    fn a_source_before_the_directory_names_the_data() {
        assert_eq!(plan(&["/blobs", "/mnt"]).unwrap().data, Path::new("/blobs"));
        assert_eq!(plan(&["embedded", "/mnt", "--data", "/d"]).unwrap().data, Path::new("/d"));
        assert_eq!(plan(&["/d", "/mnt", "--data", "/d"]).unwrap().data, Path::new("/d"));
        assert!(refused(&["/d", "/mnt", "--data", "/e"]).contains("differ"));
        assert!(refused(&["mnt", "dir"]).contains("./mnt if it is one"));
    }

    #[test]
    fn a_url_is_mounted_through_the_cache_directory() {
        let url = "https://a.blob.core.windows.net/docs/x";
        let there = plan(&[url, "/mnt", "--cache-dir", "/c", "-o", "attr_ttl=5,write_back"]).unwrap();
        assert!(there.data.starts_with("/c/") && there.data != Path::new("/c"), "{:?}", there.data);
        let remote = there.remote.unwrap();
        assert_eq!(remote.source.to_string(), url);
        assert_eq!((remote.attr_ttl, remote.write_back), (Some(std::time::Duration::from_secs(5)), true));
        assert!(plan(&[url, "/mnt", "--files-addr", "127.0.0.1:0"]).unwrap().files.is_some());
        assert!(plan(&["/mnt"]).unwrap().remote.is_none());
        for (words, why) in [
            (["/mnt", "--cache-size", "2G"].as_slice(), "for shares elsewhere"),
            (&[url, "/mnt", "--data", "/d"], "--cache-dir"),
            (&[url, "/mnt", "--share", "abc"], "the URL names the container"),
            (&[url, "/mnt", "--blob-addr", "127.0.0.1:0"], "--blob-addr"),
            (&[url, "/mnt", "--files-addr", "127.0.0.1:0", "--accounts", "a"], "one --account"),
            (&["https://a.blob.core.windows.net/docs?sig=s3cret", "/mnt"], "AZURE_STORAGE_SAS_TOKEN"),
            (&["https://a.blob.core.windows.net/", "/mnt"], "not the URL of a container"),
        ] {
            let said = refused(words);
            assert!(said.contains(why) && !said.contains("s3cret"), "{said}");
        }
    }

    #[test]
    fn arguments_win_over_o_and_o_over_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c");
        std::fs::write(&file, "share = from-file\nthreads = 7\ndelete = posix\nnoexec\n").unwrap();
        let file = file.to_str().unwrap();
        let plan = plan(&[
            "--config",
            file,
            "-o",
            "share=from-o,threads=5",
            "--share",
            "typed",
            "-o",
            "nodev",
            "/mnt",
        ])
        .unwrap();
        assert_eq!(plan.share.as_str(), "typed");
        assert_eq!(plan.threads, 5);
        assert_eq!(plan.delete, DeleteChoice::Posix);
        assert_eq!(plan.kernel_flags, ["nodev", "noexec"]);
    }

    #[test]
    fn an_endpoint_can_stand_in_fstab() {
        let words = ["mount.leasefs", "/srv/b", "/mnt", "-o", "blob_addr=127.0.0.1:0,copy_from=own"];
        let args = HelperArgs::try_parse_from(words).unwrap();
        let plan = MountPlan::from_helper(&args, &Places::of_this_process()).unwrap();
        assert_eq!(plan.blobs.unwrap().addr, "127.0.0.1:0".parse().unwrap());
        assert!(refused(&["-o", "blob_addr=0.0.0.0:0", "/mnt"]).contains("--account-key-file"));
        assert!(refused(&["-o", "tls_cert=a", "/mnt"]).contains("--blob-addr"));
    }

    #[test]
    fn the_helper_reads_fstab() {
        let words = ["mount.leasefs", "/srv/b", "/mnt", "-r", "-f", "-o", "noauto,share=docs,nosuid"];
        let args = HelperArgs::try_parse_from(words).unwrap();
        let plan = MountPlan::from_helper(&args, &Places::of_this_process()).unwrap();
        assert_eq!((plan.data.as_path(), plan.share.as_str()), (Path::new("/srv/b"), "docs"));
        assert!(plan.read_only && plan.fake && !plan.foreground);
        assert_eq!(plan.kernel_flags, ["nosuid"]);
    }
}
