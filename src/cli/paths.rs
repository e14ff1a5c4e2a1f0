//! Where leasefs keeps its things on this machine, and how a path a person typed becomes one that can be compared.
//!
//! Reads the environment in one place ([`Places::of_this_process`]); everything else is a function of that value.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use md5::{Digest, Md5};
use nix::unistd::{Uid, User};

/// Longest readable part of a log file's name; the file system allows 255 bytes for the whole.
const LOG_NAME_MAX: usize = 120;

/// The directories a user's programs are expected to use.
#[derive(Clone, Debug)]
pub(super) struct Places {
    uid: u32,
    home: PathBuf,
    data_home: Option<PathBuf>,
    cache_home: Option<PathBuf>,
    state_home: Option<PathBuf>,
    runtime: Option<PathBuf>,
}

impl Places {
    /// As the environment and the user database say.
    pub(super) fn of_this_process() -> Self {
        let uid = Uid::effective();
        // The XDG rules: a relative path in these variables is to be ignored.
        let dir = |name: &str| absolute_only(std::env::var_os(name));
        let home = dir("HOME").or_else(|| User::from_uid(uid).ok().flatten().map(|user| user.dir));
        Self {
            uid: uid.as_raw(),
            home: home.unwrap_or_else(|| PathBuf::from("/")),
            data_home: dir("XDG_DATA_HOME"),
            cache_home: dir("XDG_CACHE_HOME"),
            state_home: dir("XDG_STATE_HOME"),
            runtime: dir("XDG_RUNTIME_DIR"),
        }
    }

    /// The data directory when none is named.
    pub(super) fn data_dir(&self) -> PathBuf {
        self.data_home.clone().unwrap_or_else(|| self.home.join(".local/share")).join("leasefs")
    }

    /// The cache directory when none is named.
    pub(super) fn cache_dir(&self) -> PathBuf {
        self.cache_home.clone().unwrap_or_else(|| self.home.join(".cache")).join("leasefs")
    }

    /// The log file of the mount at `mountpoint` when none is named.
    pub(super) fn log_file(&self, mountpoint: &Path) -> PathBuf {
        let dir = self.state_home.clone().unwrap_or_else(|| self.home.join(".local/state")).join("leasefs");
        dir.join(format!("{}.log", log_name(mountpoint)))
    }

    /// Where a daemon of this user puts its control socket, best first.
    pub(super) fn control_dirs(&self) -> Vec<PathBuf> {
        let mut dirs = control_dirs_of(self.uid);
        if let Some(runtime) = &self.runtime
            && self.uid != 0
        {
            dirs.insert(0, runtime.join("leasefs"));
        }
        dirs
    }

    /// Where the daemon of a mount that belongs to `owner` may have put its control socket.
    pub(super) fn control_dirs_for(&self, owner: u32) -> Vec<PathBuf> {
        if owner == self.uid { self.control_dirs() } else { control_dirs_of(owner) }
    }
}

/// Root's place does not depend on the environment, so that sudo, cron and a login find the same socket.
fn control_dirs_of(uid: u32) -> Vec<PathBuf> {
    let own = if uid == 0 { "/run/leasefs".into() } else { format!("/run/user/{uid}/leasefs") };
    vec![own.into(), format!("/tmp/leasefs-{uid}").into()]
}

fn absolute_only(value: Option<OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The file name of the control socket of the mount at this canonical path. Must never change between versions: an
/// old daemon is asked by a new `leasefs umount`.
pub(super) fn socket_name(mountpoint: &Path) -> String {
    format!("{}.sock", short_hash(mountpoint))
}

fn short_hash(path: &Path) -> String {
    let digest = Md5::digest(path.as_os_str().as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// `/mnt/a b` → `mnt-a_b`, readable; names that lost something get a hash so that two mounts never share a log.
fn log_name(mountpoint: &Path) -> String {
    let text = mountpoint.to_string_lossy();
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    let readable: String = text
        .trim_matches('/')
        .chars()
        .map(|c| match c {
            '/' => '-',
            c if keep(c) || c == '-' => c,
            _ => '_',
        })
        .collect();
    let exact = text.trim_matches('/').chars().all(|c| keep(c) || c == '/');
    if exact && !readable.is_empty() && readable.len() <= LOG_NAME_MAX {
        return readable;
    }
    let cut: String = readable.chars().take(LOG_NAME_MAX).collect();
    format!("{cut}~{}", short_hash(mountpoint))
}

/// `path` made absolute and free of `.`, without touching the file system (symlinks and `..` stay).
pub(super) fn absolute(path: &Path) -> io::Result<PathBuf> {
    std::path::absolute(path)
}

/// The canonical form of a path whose last component may be a dead or hanging mount: only its parent is looked at.
///
/// If the last component is a symlink the result is where it leads.
pub(super) fn canonical_mountpoint(path: &Path, is_mount: impl Fn(&Path) -> bool) -> io::Result<PathBuf> {
    let full = absolute(path)?;
    if let (Some(parent), Some(Component::Normal(name))) = (full.parent(), full.components().next_back())
        && let Ok(parent) = parent.canonicalize()
    {
        let candidate = parent.join(name);
        if is_mount(&candidate) {
            return Ok(candidate);
        }
    }
    full.canonicalize()
}

/// The canonical form of a path that need not exist yet: its longest existing part is resolved.
pub(super) fn canonical_or_future(path: &Path) -> PathBuf {
    let full = absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut existing = full.as_path();
    loop {
        if let Ok(resolved) = existing.canonicalize() {
            let rest = full.strip_prefix(existing).unwrap_or(Path::new(""));
            return if rest.as_os_str().is_empty() { resolved } else { resolved.join(rest) };
        }
        match existing.parent() {
            Some(parent) => existing = parent,
            None => return full,
        }
    }
}

/// True if one of two canonical paths is, or is inside, the other.
pub(super) fn overlap(a: &Path, b: &Path) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(uid: u32) -> Places {
        let home = "/users/ann".into();
        Places { uid, home, data_home: None, cache_home: None, state_home: None, runtime: None }
    }

    #[test]
    fn defaults_are_below_home_and_follow_xdg() {
        let mut at = places(1000);
        assert_eq!(at.data_dir(), Path::new("/users/ann/.local/share/leasefs"));
        assert_eq!(at.log_file(Path::new("/mnt/x")), Path::new("/users/ann/.local/state/leasefs/mnt-x.log"));
        at.data_home = Some("/d".into());
        at.state_home = Some("/s".into());
        assert_eq!(at.data_dir(), Path::new("/d/leasefs"));
        assert_eq!(at.log_file(Path::new("/mnt/x")), Path::new("/s/leasefs/mnt-x.log"));
        assert_eq!(absolute_only(Some("relative".into())), None);
    }

    #[test]
    fn log_names_never_collide_when_they_lose_something() {
        assert_ne!(log_name(Path::new("/mnt/a b")), log_name(Path::new("/mnt/a_b")));
        assert_ne!(log_name(Path::new("/mnt/a-b")), log_name(Path::new("/mnt/a/b")));
        let long = format!("/{}", "x".repeat(250));
        assert!(log_name(Path::new(&long)).len() < 160);
        assert_ne!(log_name(Path::new("/")), "");
    }

    #[test]
    fn sockets_of_root_do_not_depend_on_the_environment() {
        let mut root = places(0);
        root.runtime = Some("/run/user/0".into());
        assert_eq!(root.control_dirs(), [Path::new("/run/leasefs"), Path::new("/tmp/leasefs-0")]);
        let mut user = places(7);
        user.runtime = Some("/r".into());
        assert_eq!(user.control_dirs()[0], Path::new("/r/leasefs"));
        assert_eq!(root.control_dirs_for(7)[0], Path::new("/run/user/7/leasefs"));
        assert_eq!(socket_name(Path::new("/mnt")), "39de0dbcfb68c873.sock");
    }

    #[test]
    fn overlap_compares_components_not_letters() {
        assert!(overlap(Path::new("/a/b"), Path::new("/a")));
        assert!(overlap(Path::new("/a"), Path::new("/a")));
        assert!(!overlap(Path::new("/a/bc"), Path::new("/a/b")));
    }

    #[test]
    fn a_future_path_is_resolved_as_far_as_it_exists() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(&real, real.join("link")).unwrap();
        assert_eq!(canonical_or_future(&real.join("link/new/deep")), real.join("new/deep"));
    }
}
