//! What an earlier mount left, and whether it is dealt with.

use tokio::sync::watch;

/// Something that is left until it is settled, once and for all.
#[derive(Debug)]
pub(super) struct Settled(watch::Sender<bool>);

impl Default for Settled {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Settled {
    /// It is dealt with.
    pub(super) fn settle(&self) {
        self.0.send_replace(true);
    }

    /// Waits for that.
    pub(super) async fn settled(&self) {
        // The sender is ours, so this ends with the answer only.
        let _ = self.0.subscribe().wait_for(|settled| *settled).await;
    }
}
