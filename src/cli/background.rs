//! Starting a mount in the background: this program once more, as a process of its own, and waiting until it works.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::config::MountPlan;
use super::error::CliError;
use super::log;
use super::paths::Places;
use super::report::{Report, Reporter, STARTER_VARIABLE};

/// The daemon's log and what was in it before.
struct LogFile {
    path: PathBuf,
    size_before: u64,
}

/// Starts the daemon and returns when its mount works, or with the reason why it does not.
pub(super) fn start(plan: &MountPlan, places: &Places) -> Result<(), CliError> {
    let (stderr, log) = log_for(plan, places)?;
    let mut child =
        spawn(stderr).map_err(|e| CliError::Failed(format!("the daemon cannot be started: {e}")))?;
    let Some(stdout) = child.stdout.take() else {
        return Err(CliError::Failed("the daemon was started without a pipe to it".into()));
    };
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(Report::Note { text }) => Reporter::Terminal.note(&text),
            Ok(Report::Ready { text }) => {
                Reporter::Terminal.ready(&text);
                return Ok(());
            }
            Ok(Report::Failed { text }) => {
                child.wait().ok();
                return Err(CliError::Failed(with_log(text, log.as_ref())));
            }
            // Not for us: something in the daemon printed it.
            Err(_) => {}
        }
    }
    Err(died(&mut child, log.as_ref()))
}

fn spawn(stderr: Stdio) -> std::io::Result<Child> {
    let mut words = std::env::args_os();
    let mut command = Command::new(std::env::current_exe()?);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words).env(STARTER_VARIABLE, std::process::id().to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn()
}

/// A log that was asked for by name must work; without the usual one the mount is only harder to explain.
fn log_for(plan: &MountPlan, places: &Places) -> Result<(Stdio, Option<LogFile>), CliError> {
    let path = plan.log_file.clone().unwrap_or_else(|| places.log_file(&plan.mountpoint));
    let opened: std::io::Result<(File, u64)> = log::open(&path).and_then(|file| {
        let size = file.metadata()?.len();
        Ok((file, size))
    });
    match opened {
        Ok((file, size_before)) => Ok((Stdio::from(file), Some(LogFile { path, size_before }))),
        Err(e) if plan.log_file.is_some() => {
            Err(CliError::Failed(format!("the log file {} cannot be opened: {e}", path.display())))
        }
        Err(e) => {
            let text = format!("warning: there is no log, because {} cannot be opened: {e}", path.display());
            Reporter::Terminal.note(&text);
            Ok((Stdio::null(), None))
        }
    }
}

fn with_log(text: String, log: Option<&LogFile>) -> String {
    match log {
        Some(log) if !log::tail(&log.path, log.size_before).is_empty() => {
            format!("{text} (log: {})", log.path.display())
        }
        _ => text,
    }
}

fn died(child: &mut Child, log: Option<&LogFile>) -> CliError {
    let how = child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
    let mut text = format!("the daemon ended before the mount worked ({how})");
    if let Some(log) = log {
        text.push_str(&format!("; its log is {}", log.path.display()));
        for line in log::tail(&log.path, log.size_before) {
            text.push_str("\n  ");
            text.push_str(&line);
        }
    }
    CliError::Failed(text)
}
