//! Who hears from a mount that is starting: the terminal, or the process that started this one in the background.
//!
//! The background process has a pipe to its starter as standard output. It writes one JSON object per line there until
//! it is ready or has failed, and lets go of it then. An environment variable with the starter's pid says so; a copy of
//! it that strays into other processes means nothing, because their parent is another.

use std::fs::OpenOptions;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

/// Holds the pid of the process that waits for the reports.
pub(super) const STARTER_VARIABLE: &str = "LEASEFS_STARTED_BY";

/// One line from a starting daemon to its starter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "kebab-case")]
pub(super) enum Report {
    /// Worth telling; the start goes on.
    Note { text: String },
    /// The mount works. Nothing follows.
    Ready { text: String },
    /// It does not, and why. Nothing follows.
    Failed { text: String },
}

/// Where reports go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reporter {
    /// To a person.
    Terminal,
    /// To the starter, through standard output.
    Starter,
}

impl Reporter {
    /// As this process was started.
    pub(super) fn of_this_process() -> Self {
        let starter = std::env::var(STARTER_VARIABLE).ok().and_then(|pid| pid.parse().ok());
        if starter == Some(nix::unistd::getppid().as_raw()) { Reporter::Starter } else { Reporter::Terminal }
    }

    /// Something a person should know.
    pub(super) fn note(self, text: &str) {
        match self {
            Reporter::Terminal => complain(text),
            Reporter::Starter => send(&Report::Note { text: text.to_owned() }),
        }
    }

    /// The mount works. A background process becomes independent of its starter's terminal.
    pub(super) fn ready(self, text: &str) {
        match self {
            Reporter::Terminal => say(text),
            Reporter::Starter => {
                // Fails only for a process that leads a group already, which is as good.
                nix::unistd::setsid().ok();
                send(&Report::Ready { text: text.to_owned() });
                release_stdout();
            }
        }
    }

    /// The mount does not work.
    pub(super) fn failed(self, text: &str) {
        match self {
            Reporter::Terminal => complain(text),
            Reporter::Starter => send(&Report::Failed { text: text.to_owned() }),
        }
    }
}

/// One line on standard output. One that is closed is no reason to end.
pub(super) fn say(text: &str) {
    writeln!(io::stdout(), "leasefs: {text}").ok();
}

/// One line on standard error.
pub(super) fn complain(text: &str) {
    writeln!(io::stderr(), "leasefs: {text}").ok();
}

/// A starter that is gone does not hear; the mount goes on without it.
fn send(report: &Report) {
    if let Ok(mut line) = serde_json::to_vec(report) {
        line.push(b'\n');
        let mut out = io::stdout().lock();
        out.write_all(&line).and_then(|()| out.flush()).ok();
    }
}

fn release_stdout() {
    if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
        nix::unistd::dup2_stdout(&null).ok();
    }
}
