//! `leasefs check`: is everything in the embedded store as it should be?

use std::path::Path;

use super::accounts;
use super::args::CheckArgs;
use super::backend;
use super::config;
use super::error::CliError;
use super::paths::Places;
use super::report;

/// At most so many problems are printed.
const PROBLEMS_MAX: usize = 100;

/// Checks the store, and those of further accounts, and prints what was found.
pub(super) fn run(args: CheckArgs, places: &Places) -> Result<(), CliError> {
    let data = config::data_or_default(args.data, places)?;
    check(&data)?;
    let unreadable =
        |e| CliError::Failed(format!("the accounts in {} cannot be listed: {e}", data.display()));
    accounts::folders(&data).map_err(unreadable)?.iter().try_for_each(|folder| check(folder))
}

fn check(data: &Path) -> Result<(), CliError> {
    let report = backend::check(data)?;
    if report.is_clean() {
        report::say(&format!(
            "{} is clean: {} containers, {} blobs, {} bytes",
            data.display(),
            report.containers,
            report.blobs,
            report.bytes
        ));
        return Ok(());
    }
    for problem in report.problems.iter().take(PROBLEMS_MAX) {
        report::say(problem);
    }
    let count = report.more_problems + report.problems.len() as u64;
    Err(CliError::Failed(format!("{} is damaged: {count} problems were found", data.display())))
}
