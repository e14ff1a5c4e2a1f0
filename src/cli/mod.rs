//! The command line: arguments, the life of a mount, what a person sees.
//!
//! * `args`, `settings`, `config`: what was typed → a checked `MountPlan`.
//! * `mount`, `background`, `daemon`: the life of a mount. `umount`, `check`: the other commands.
//! * `open`, `lease`, `status`, `actions`: seeing and acting on what programs hold; `child` runs a command meanwhile. `ioctl` is what they ask through a
//!   descriptor, `locate` finds the mount of a path, `table` and `text` show things to people.
//! * `serve`, `endpoint`, `accounts`: the blob service, alone or beside a mount.
//! * `mountpoint`, `mounts`, `detach`, `processes`, `paths`: what the operating system knows.
//! * `control`: the socket through which commands talk to the daemon of a mount.
//! * `backend`: the only module that uses the store, the engine and the kernel's front end; `overview` turns what the
//!   engine knows into the rows of a status.
//!
//! A failed command prints one sentence on standard error and ends with 1, a wrongly used one with 2, one that a
//! conflict refused with 75.

mod accounts;
mod actions;
mod args;
mod backend;
mod background;
mod check;
mod child;
mod config;
mod control;
mod daemon;
mod detach;
mod endpoint;
mod error;
mod ioctl;
mod lease;
mod locate;
mod log;
mod mount;
mod mountpoint;
mod mounts;
mod open;
mod overview;
mod paths;
mod processes;
mod progress;
mod remote;
mod report;
mod serve;
mod settings;
mod signals;
mod status;
mod table;
mod text;
mod umount;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command, HelperArgs};
use config::MountPlan;
use error::CliError;
use paths::Places;
use report::Reporter;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let reporter = Reporter::of_this_process();
    match run(std::env::args_os().collect(), reporter) {
        Ok(code) => code,
        Err(problem) => {
            reporter.failed(&problem.to_string());
            problem.exit_code()
        }
    }
}

fn run(words: Vec<OsString>, reporter: Reporter) -> Result<ExitCode, CliError> {
    let places = Places::of_this_process();
    if words.first().is_some_and(|name| args::called_as_helper(name)) {
        let plan = MountPlan::from_helper(&HelperArgs::parse_from(words), &places)?;
        return mount::run(&plan, &places, reporter).map(|()| ExitCode::SUCCESS);
    }
    let done = match Arguments::parse_from(words).command {
        Command::Mount(args) => mount::run(&MountPlan::from_args(*args, &places)?, &places, reporter),
        Command::Umount(args) => umount::run(&args, &places),
        Command::Open(args) => return open::run(&args),
        Command::Lease(args) => return lease::run(&args),
        Command::BreakLease(args) => lease::break_lease(&args, &places),
        Command::Status(args) => status::run(&args, &places),
        Command::CloseHandle(args) => actions::close_handle(&args, &places),
        Command::Undelete(args) => actions::undelete(&args, &places),
        Command::Check(args) => check::run(args, &places),
        Command::Serve(args) => serve::run(*args, &places),
    };
    done.map(|()| ExitCode::SUCCESS)
}
