//! Which mount a path is on, and what it is called in there.
//!
//! Goes by the kernel's list of mounts and looks at the directory above a path at most: the last name may be that of a
//! delete-pending file, which cannot be looked at, or a mount that is dead.

use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;

use super::control::Client;
use super::error::CliError;
use super::mounts::{self, MountEntry};
use super::paths::{self, Places};

/// A place on a mount of leasefs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) mount: MountEntry,
    /// Names from the root of the share, with slashes between them; nothing for the root itself.
    pub(super) inside: Option<String>,
}

/// Finds the mount that `path` is on.
pub(super) fn locate(path: &Path) -> Result<Located, CliError> {
    let listed = list()?;
    let is_mount = |path: &Path| mounts::on_top(&listed, path).is_some();
    let full = match paths::canonical_mountpoint(path, is_mount) {
        Ok(full) => full,
        Err(problem) => {
            without_last(path, &problem).ok_or_else(|| CliError::NotVisible(path.into(), problem))?
        }
    };
    place_in(&listed, &full).ok_or(CliError::NotOnMount(full))
}

/// All mounts of leasefs that this user may ask about.
pub(super) fn mounts_of_user() -> Result<Vec<MountEntry>, CliError> {
    let user = Uid::effective();
    let listed = list()?;
    let ours = listed.iter().filter(|entry| entry.is_ours());
    let visible = ours.filter(|entry| mounts::on_top(&listed, &entry.path).as_ref() == Some(*entry));
    let allowed = visible.filter(|entry| user.is_root() || entry.owner == Some(user.as_raw()));
    Ok(allowed.cloned().collect())
}

/// A conversation with the daemon of this mount.
pub(super) fn daemon_of(mount: &MountEntry, places: &Places) -> Result<Client, CliError> {
    let owner = mount.owner.unwrap_or(0);
    let no_answer = |why: String| CliError::NoAnswer { path: mount.path.clone(), why };
    if !may_ask(mount) {
        return Err(no_answer(format!(
            "only root and {}, who mounted it, may",
            super::text::user_name(owner)
        )));
    }
    let found = Client::find(&places.control_dirs_for(owner), &mount.path, owner);
    found.ok_or_else(|| no_answer("it has ended or does not listen".into()))
}

/// Whether this user may talk to the daemon of this mount.
pub(super) fn may_ask(mount: &MountEntry) -> bool {
    let user = Uid::effective();
    user.is_root() || user.as_raw() == mount.owner.unwrap_or(0)
}

fn list() -> Result<Vec<MountEntry>, CliError> {
    mounts::all().map_err(|e| CliError::Failed(format!("the list of mounts cannot be read: {e}")))
}

/// The real directory and the name in it, for a name that cannot be looked at: it is delete pending, it is not there,
/// or this user is not let in.
fn without_last(path: &Path, problem: &io::Error) -> Option<PathBuf> {
    let full = paths::absolute(path).ok()?;
    match problem.kind() {
        io::ErrorKind::ResourceBusy | io::ErrorKind::NotFound => {
            Some(full.parent()?.canonicalize().ok()?.join(full.file_name()?))
        }
        io::ErrorKind::PermissionDenied => Some(full),
        _ => None,
    }
}

/// The innermost mount above `full`, if it is ours.
fn place_in(listed: &[MountEntry], full: &Path) -> Option<Located> {
    let path = full.ancestors().find(|above| mounts::on_top(listed, above).is_some())?;
    let mount = mounts::on_top(listed, path).filter(MountEntry::is_ours)?;
    let inside = full.strip_prefix(path).ok()?.to_str()?;
    Some(Located { mount, inside: (!inside.is_empty()).then(|| inside.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::super::mounts::FS_TYPE;
    use super::*;

    fn entry(kind: &str, path: &str) -> MountEntry {
        MountEntry { path: path.into(), kind: kind.into(), device: "0:1".into(), owner: Some(0) }
    }

    #[test]
    fn the_innermost_mount_counts() {
        let list =
            [entry("ext4", "/"), entry(FS_TYPE, "/m"), entry("tmpfs", "/m/tmp"), entry(FS_TYPE, "/m/tmp/n")];
        let inside = |path: &str| place_in(&list, Path::new(path)).map(|at| (at.mount.path, at.inside));
        assert_eq!(inside("/m"), Some(("/m".into(), None)));
        assert_eq!(inside("/m/a/b"), Some(("/m".into(), Some("a/b".into()))));
        assert_eq!(inside("/m/tmp/n/x"), Some(("/m/tmp/n".into(), Some("x".into()))));
        assert_eq!(inside("/m/tmp/x"), None);
        assert_eq!(inside("/mx"), None);
    }

    #[test]
    fn a_path_elsewhere_is_refused_by_name() {
        assert!(matches!(locate(Path::new("/proc/self")), Err(CliError::NotOnMount(_))));
        let missing = locate(Path::new("/no/such/place")).unwrap_err();
        assert!(missing.to_string().contains("/no/such/place"), "{missing}");
    }
}
