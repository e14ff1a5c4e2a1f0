//! `leasefs close-handle` and `leasefs undelete`: acting on what programs hold, through the daemon of the mount.

use std::fs::File;
use std::path::Path;

use nix::errno::Errno;

use super::args::{CloseHandleArgs, UndeleteArgs};
use super::control::AskError;
use super::error::CliError;
use super::ioctl;
use super::locate::{daemon_of, locate, may_ask};
use super::paths::Places;
use super::report;

/// Takes an open away from its holder.
pub(super) fn close_handle(args: &CloseHandleArgs, places: &Places) -> Result<(), CliError> {
    let at = locate(&args.dir)?;
    daemon_of(&at.mount, places)?.close_handle(args.id).map_err(|e| failed(&at.mount.path.display(), &e))?;
    report::say(&format!("the open {} of {} is closed", args.id, at.mount.path.display()));
    Ok(())
}

/// Brings a delete-pending file back.
pub(super) fn undelete(args: &UndeleteArgs, places: &Places) -> Result<(), CliError> {
    let at = locate(&args.file)?;
    let file = args.file.display();
    let Some(inside) = at.inside else {
        return Err(CliError::Failed(format!("{file} is a mountpoint, not a file that was removed")));
    };
    if may_ask(&at.mount) {
        daemon_of(&at.mount, places)?.undelete(inside).map_err(|e| failed(&file, &e))?;
    } else {
        // The owner of a file need not be the one who mounted the share.
        by_directory(&at.mount.path.join(inside))?;
    }
    report::say(&format!("{file} is back"));
    Ok(())
}

/// Asks through the directory that the file was in, as any program on the mount can.
fn by_directory(path: &Path) -> Result<(), CliError> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(CliError::NotOnMount(path.into()));
    };
    let opened = File::open(directory).map_err(|e| CliError::NotVisible(directory.into(), e))?;
    ioctl::undelete(&opened, name).map_err(|problem| {
        let path = path.display();
        CliError::Failed(match problem {
            Errno::ENOENT => format!("{path}: it is not delete pending"),
            Errno::EPERM => format!("{path}: only its owner and root can bring it back"),
            _ => format!("{path} cannot be brought back: {}", problem.desc()),
        })
    })
}

fn failed(what: &impl std::fmt::Display, problem: &AskError) -> CliError {
    CliError::Failed(format!("{what}: {problem}"))
}
