//! `leasefs close-handle` and `leasefs undelete`: acting on what programs hold, through the daemon of the mount.

use super::args::{CloseHandleArgs, UndeleteArgs};
use super::control::AskError;
use super::error::CliError;
use super::locate::{daemon_of, locate};
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
    daemon_of(&at.mount, places)?.undelete(inside).map_err(|e| failed(&file, &e))?;
    report::say(&format!("{file} is back"));
    Ok(())
}

fn failed(what: &impl std::fmt::Display, problem: &AskError) -> CliError {
    CliError::Failed(format!("{what}: {problem}"))
}
