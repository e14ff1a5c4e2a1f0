//! Running a command in our place: it gets the signals meant for us, and we end the way it ended.
//!
//! Signals from the terminal (Ctrl-C) reach the command by themselves, because it is in the same process group; those
//! that a process sends to us alone are passed on. The kernel says which is which.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};

use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use super::error::CliError;
use super::report;

/// What a shell answers for a command that is there but cannot be run, and for one that is not.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;
/// Added to the number of the signal that ended a command.
const SIGNALLED: i32 = 128;
/// What a process sends us, rather than the kernel.
const PASSED_ON: [Signal; 7] = [
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

/// Runs the command to its end. What cannot be run is complained about here, with the code a shell would give.
/// `started` hears the command's process id; threads that it starts do not get the signals meant for us.
pub(super) fn run(
    words: Vec<OsString>,
    variables: &[(&str, String)],
    started: impl FnOnce(Pid),
) -> Result<ExitCode, CliError> {
    let failed = |e: io::Error| CliError::Failed(format!("the command cannot be watched: {e}"));
    let signals = Watch::start().map_err(failed)?;
    let mut words = words.into_iter();
    // The argument parser asks for at least one word.
    let program = words.next().unwrap_or_default();
    let mut command = Command::new(&program);
    command.args(words).envs(variables.iter().map(|(name, value)| (name, value)));
    signals.not_for(&mut command);
    take_name_of(&program);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(problem) => return Ok(not_run(&program, &problem)),
    };
    started(pid_of(&child));
    let status = signals.until_end(&mut child).map_err(failed)?;
    Ok(code_of(status))
}

fn not_run(program: &OsString, problem: &io::Error) -> ExitCode {
    let name = program.to_string_lossy();
    match problem.kind() {
        io::ErrorKind::NotFound => {
            report::complain(&format!("{name}: there is no such command"));
            ExitCode::from(NOT_FOUND)
        }
        _ => {
            report::complain(&format!("{name} cannot be run: {problem}"));
            ExitCode::from(CANNOT_RUN)
        }
    }
}

/// Whoever asks who holds the file should read the command's name, not ours.
fn take_name_of(program: &OsString) {
    let name = Path::new(program).file_name().unwrap_or(program);
    let name = name.as_encoded_bytes().iter().copied().filter(|byte| *byte != 0).collect::<Vec<u8>>();
    if let Ok(name) = std::ffi::CString::new(name) {
        // Only for people; without it our own name is shown.
        prctl::set_name(&name).ok();
    }
}

fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| SIGNALLED + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// Signals that are read instead of acting on us.
struct Watch {
    before: SigSet,
    descriptor: SignalFd,
}

impl Watch {
    fn start() -> io::Result<Self> {
        let mut wanted: SigSet = PASSED_ON.into_iter().collect();
        wanted.add(Signal::SIGCHLD);
        let mut before = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&wanted), Some(&mut before))?;
        let descriptor = SignalFd::with_flags(&wanted, SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { before, descriptor })
    }

    /// The command starts with the signals that we were started with.
    fn not_for(&self, command: &mut Command) {
        let before = self.before;
        let restore = move || {
            pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
            Ok(())
        };
        // SAFETY: between fork and exec only async-signal-safe functions may be called; pthread_sigmask on a copied
        // value is one, and nothing is allocated.
        unsafe { command.pre_exec(restore) };
    }

    fn until_end(&self, child: &mut Child) -> io::Result<ExitStatus> {
        loop {
            // Looked at before each wait: a SIGCHLD from before the descriptor was made is pending and will be read.
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            let Some(info) = self.descriptor.read_signal()? else { continue };
            let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
            let sent_by_process = info.ssi_code == libc::SI_USER || info.ssi_code == libc::SI_QUEUE;
            match signal {
                Some(signal) if PASSED_ON.contains(&signal) && sent_by_process => pass_on(child, signal),
                _ => {}
            }
        }
    }
}

fn pass_on(child: &Child, signal: Signal) {
    // It may just have ended.
    kill(pid_of(child), signal).ok();
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("Linux numbers processes below 2^22"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_of(script: &str) -> ExitStatus {
        Command::new("sh").args(["-c", script]).status().unwrap()
    }

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(code_of(status_of("exit 0")), ExitCode::from(0));
        assert_eq!(code_of(status_of("exit 42")), ExitCode::from(42));
        assert_eq!(code_of(status_of("kill -TERM $$")), ExitCode::from(143));
    }
}
