//! `leasefs mount`: which process does what.

use super::background;
use super::config::MountPlan;
use super::daemon;
use super::error::CliError;
use super::mountpoint;
use super::paths::Places;
use super::report::Reporter;

/// Mounts in this process or starts one that does.
pub(super) fn run(plan: &MountPlan, places: &Places, reporter: Reporter) -> Result<(), CliError> {
    // Before anything is started or written: is there a place to mount at?
    let place = mountpoint::inspect(&plan.mountpoint)?;
    mountpoint::refuse_overlap(&place.path, &plan.data)?;
    mountpoint::refuse_without_fuse(plan.allow_other)?;
    if plan.fake {
        return Ok(());
    }
    match reporter {
        Reporter::Terminal if !plan.foreground => background::start(plan, places),
        Reporter::Terminal | Reporter::Starter => daemon::run(plan, places, reporter),
    }
}
