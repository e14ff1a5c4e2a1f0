//! Is this a place to mount at? All checks that need no store and no kernel device, before anything is started.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::Uid;

use super::detach::{self, Manner};
use super::error::CliError;
use super::mounts::{self, Health};
use super::paths;

/// How long a mount that is found at the mountpoint may take to answer.
const PROBE_PATIENCE: Duration = Duration::from_secs(3);

/// A mountpoint that can be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Canonical.
    pub(super) path: PathBuf,
    pub(super) state: PlaceState,
}

/// In what state a usable mountpoint was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PlaceState {
    /// An empty directory.
    Empty,
    /// A directory whose files the mount will hide.
    NotEmpty,
    /// A mount of leasefs whose process is gone.
    DeadMount,
}

/// Looks at `mountpoint` and changes nothing.
pub(super) fn inspect(mountpoint: &Path) -> Result<Place, CliError> {
    let listed = mounts::all().map_err(|e| CliError::MountpointUnusable(mountpoint.to_owned(), e))?;
    let is_mount = |path: &Path| mounts::on_top(&listed, path).is_some();
    let path = match paths::canonical_mountpoint(mountpoint, is_mount) {
        Ok(path) => path,
        Err(e) => return Err(unusable(mountpoint, e)),
    };
    if let Some(entry) = mounts::on_top(&listed, &path) {
        let health = mounts::probe(&path, PROBE_PATIENCE);
        match (entry.is_ours(), health) {
            (true, Health::Alive) => return Err(CliError::AlreadyMounted(path)),
            (true, Health::Dead) => return Ok(Place { path, state: PlaceState::DeadMount }),
            (true, Health::Hangs) => return Err(CliError::MountHangs(path)),
            (false, Health::Alive) => {}
            (false, Health::Dead | Health::Hangs) => {
                return Err(CliError::ForeignDeadMount { path, kind: entry.kind });
            }
        }
    }
    inspect_directory(path)
}

fn inspect_directory(path: PathBuf) -> Result<Place, CliError> {
    let attributes = std::fs::metadata(&path).map_err(|e| unusable(&path, e))?;
    if !attributes.is_dir() {
        return Err(CliError::MountpointNotDirectory(path));
    }
    // A directory that may not be listed counts as empty: the warning is all that depends on it.
    let state = match std::fs::read_dir(&path).ok().and_then(|mut entries| entries.next()) {
        Some(_) => PlaceState::NotEmpty,
        None => PlaceState::Empty,
    };
    Ok(Place { path, state })
}

/// [`inspect`], and a dead mount is cleared away. `note` gets a sentence for each thing a person should know.
pub(super) fn prepare(mountpoint: &Path, note: &dyn Fn(&str)) -> Result<PathBuf, CliError> {
    let mut place = inspect(mountpoint)?;
    // Dead mounts can be stacked; each round removes one, and the list of mounts is finite.
    while place.state == PlaceState::DeadMount {
        detach::detach(&place.path, Manner::Lazy)
            .map_err(|e| CliError::UnmountFailed { path: place.path.clone(), reason: e.to_string() })?;
        note(&format!("a dead mount at {} was cleared away", place.path.display()));
        place = inspect(mountpoint)?;
    }
    if place.state == PlaceState::NotEmpty {
        note(&format!(
            "warning: {} is not empty; its files are hidden while the share is mounted",
            place.path.display()
        ));
    }
    Ok(place.path)
}

/// Refuses a data directory that the mount would hide, or that would hold the mount.
pub(super) fn refuse_overlap(mountpoint: &Path, data: &Path) -> Result<(), CliError> {
    let real = paths::canonical_or_future(data);
    if paths::overlap(mountpoint, &real) {
        return Err(CliError::Overlap { data: real, mountpoint: mountpoint.to_owned() });
    }
    Ok(())
}

/// Refuses early, in words, what the mount would fail for with an error number.
pub(super) fn refuse_without_fuse(allow_other: bool) -> Result<(), CliError> {
    match OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(CliError::DeviceMissing),
        // The node is there but no driver is behind it.
        Err(e) if matches!(e.raw_os_error().map(Errno::from_raw), Some(Errno::ENODEV | Errno::ENXIO)) => {
            return Err(CliError::DeviceMissing);
        }
        Err(e) => return Err(CliError::DeviceDenied(e)),
    }
    if detach::may_mount() {
        return Ok(());
    }
    if detach::fusermount().is_none() {
        return Err(CliError::FusermountMissing);
    }
    if allow_other && !Uid::effective().is_root() && !fuse_conf_allows_other() {
        return Err(CliError::AllowOtherDenied);
    }
    Ok(())
}

fn fuse_conf_allows_other() -> bool {
    let text = std::fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    text.lines().any(|line| line.trim() == "user_allow_other")
}

fn unusable(path: &Path, error: io::Error) -> CliError {
    match error.kind() {
        io::ErrorKind::NotFound => CliError::MountpointMissing(path.to_owned()),
        io::ErrorKind::NotADirectory => CliError::MountpointNotDirectory(path.to_owned()),
        _ => CliError::MountpointUnusable(path.to_owned(), error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_files_and_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        assert_eq!(inspect(&root).unwrap(), Place { path: root.clone(), state: PlaceState::Empty });
        std::fs::write(root.join("file"), "x").unwrap();
        assert_eq!(inspect(&root).unwrap().state, PlaceState::NotEmpty);
        assert!(matches!(inspect(&root.join("file")), Err(CliError::MountpointNotDirectory(_))));
        assert!(matches!(inspect(&root.join("file/below")), Err(CliError::MountpointNotDirectory(_))));
        assert!(matches!(inspect(&root.join("none")), Err(CliError::MountpointMissing(_))));
        std::os::unix::fs::symlink(root.join("none"), root.join("dangling")).unwrap();
        assert!(matches!(inspect(&root.join("dangling")), Err(CliError::MountpointMissing(_))));
        std::fs::create_dir(root.join("sub")).unwrap();
        std::os::unix::fs::symlink("sub", root.join("link")).unwrap();
        assert_eq!(inspect(&root.join("link")).unwrap().path, root.join("sub"));
    }

    #[test]
    fn data_and_mountpoint_may_be_neighbours_only() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        assert!(refuse_overlap(&at("mnt"), &at("data")).is_ok());
        assert!(refuse_overlap(&at("mnt"), &at("mnt-data")).is_ok());
        assert!(matches!(refuse_overlap(&at("mnt"), &at("mnt/data")), Err(CliError::Overlap { .. })));
        assert!(matches!(refuse_overlap(&at("data/mnt"), &at("data")), Err(CliError::Overlap { .. })));
        assert!(matches!(refuse_overlap(&at("mnt"), &at("mnt")), Err(CliError::Overlap { .. })));
    }
}
