//! The signals that ask a process to end, or to read its settings again.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::CliError;

/// What a signal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Termination or interrupt.
    End,
    /// The terminal is gone, or somebody wants settings to be read again.
    HangUp,
}

/// Termination, interrupt and hang-up.
pub(super) struct Signals([Signal; 3]);

impl Signals {
    /// From now on they are heard here instead of ending the process.
    pub(super) fn new() -> Result<Self, CliError> {
        let listen =
            |kind| signal(kind).map_err(|e| CliError::Failed(format!("signals cannot be received: {e}")));
        Ok(Self([
            listen(SignalKind::terminate())?,
            listen(SignalKind::interrupt())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> Heard {
        let [terminate, interrupt, hangup] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => Heard::End,
            _ = interrupt.recv() => Heard::End,
            _ = hangup.recv() => Heard::HangUp,
        }
    }
}
