//! The signals that ask a process to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::CliError;

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
    pub(super) async fn next(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
