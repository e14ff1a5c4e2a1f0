//! The right that requests are sent by, and how a new one takes its place: keys are rotated while a mount lives.
//!
//! A refusal (403) asks for the right again, at most once a second. Requests that were refused because of the old right
//! are sent once more with the new one. Says so in the log, once a minute at most, and never what the right is.

use std::time::{Duration, Instant};

use parking_lot::RwLock;
use tokio::sync::Mutex;

use super::config::Reread;
use super::credential::Credential;

/// So often the right is asked for again, at most.
const REREAD_EVERY: Duration = Duration::from_secs(1);
/// So often the log tells that requests are refused, at most.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// A right, and the how-manieth it is.
#[derive(Clone)]
pub(super) struct Right {
    pub(super) credential: Credential,
    number: u64,
}

/// The right in use.
pub(super) struct Rights {
    current: RwLock<Right>,
    reread: Option<Reread>,
    /// When it was asked for last. Held while asking, so that one asks for all.
    asked: Mutex<Option<Instant>>,
    told: parking_lot::Mutex<Option<Instant>>,
}

impl Rights {
    pub(super) fn new(credential: Credential, reread: Option<Reread>) -> Self {
        Self {
            current: RwLock::new(Right { credential, number: 0 }),
            reread,
            asked: Mutex::new(None),
            told: parking_lot::Mutex::new(None),
        }
    }

    /// The right to use now.
    pub(super) fn current(&self) -> Right {
        self.current.read().clone()
    }

    /// Whether there is a better right than `refused`: somebody found one already, or it is found now.
    pub(super) async fn is_renewed_after(&self, refused: &Right) -> bool {
        let Some(reread) = self.reread.clone() else { return false };
        let mut asked = self.asked.lock().await;
        if self.current.read().number != refused.number {
            return true;
        }
        if asked.is_some_and(|last| last.elapsed() < REREAD_EVERY) {
            return false;
        }
        *asked = Some(Instant::now());
        // It reads files.
        let found = tokio::task::spawn_blocking(move || reread()).await;
        match found {
            Ok(Ok(credential)) if !credential.is_same(&refused.credential) => {
                tracing::info!(?credential, "the old credentials are refused; there are new ones");
                *self.current.write() = Right { credential, number: refused.number + 1 };
                true
            }
            Ok(Ok(_)) | Err(_) => false,
            Ok(Err(problem)) => {
                tracing::warn!(%problem, "the credentials are refused and cannot be read again");
                false
            }
        }
    }

    /// Tells the log that a request was refused for want of rights, unless that was told just now.
    pub(super) fn tell_refusal(&self, what: &str, why: &str) {
        let mut told = self.told.lock();
        if told.is_none_or(|last| last.elapsed() >= TELL_EVERY) {
            *told = Some(Instant::now());
            tracing::warn!(what, why, "the service refuses our credentials (told once a minute)");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn one_asks_for_all_and_only_a_different_right_counts() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let reread: Reread = Arc::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(Credential::Sas("two".to_owned()))
        });
        let rights = Rights::new(Credential::Sas("one".to_owned()), Some(reread));
        let first = rights.current();
        let (a, b) = tokio::join!(rights.is_renewed_after(&first), rights.is_renewed_after(&first));
        assert!(a && b);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        // The new one is refused as well, and there is no other.
        assert!(!rights.is_renewed_after(&rights.current()).await);
        let fixed = Rights::new(Credential::Anonymous, None);
        assert!(!fixed.is_renewed_after(&fixed.current()).await);
    }
}
