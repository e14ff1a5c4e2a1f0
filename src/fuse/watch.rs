//! Telling the kernel what others changed in the store.
//!
//! A request that looked before the change may be answered after the kernel was told, and the kernel would then remember
//! the old answer. So it is told twice: at once, and again when every request that was under way has been answered.
//!
//! Whoever opens a file waits until the kernel has forgotten what it knew of it. Names nobody waits for here; they go
//! through [`names`](super::names).

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fuser::{INodeNo, Notifier};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::names::{NameTeller, Told};
use crate::fs::{Outdated, Watch};

/// How often the thread looks whether the mount has ended.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A request that takes longer than this waits for something; what it looked at it looks at again.
const REQUEST_MAX: Duration = Duration::from_secs(2);

/// Counts requests whose answers the kernel may remember.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Which of the two counts new requests go to.
    phase: AtomicUsize,
    under_way: [AtomicUsize; 2],
    /// Held by whoever waits.
    waiting: Mutex<()>,
}

/// One request; over when dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    requests: Arc<Requests>,
    phase: usize,
}

impl Requests {
    /// A request begins.
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        loop {
            let phase = self.phase.load(Ordering::SeqCst);
            self.under_way[phase].fetch_add(1, Ordering::SeqCst);
            if self.phase.load(Ordering::SeqCst) == phase {
                return UnderWay { requests: Arc::clone(self), phase };
            }
            // Whoever waits for this count to become zero must not wait for us.
            self.under_way[phase].fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.iter().all(|count| count.load(Ordering::SeqCst) == 0)
    }

    /// Waits until everything that is under way now is over.
    pub(super) fn wait_for_all(&self) {
        let _waiting = self.waiting.lock();
        let phase = self.phase.load(Ordering::SeqCst);
        self.phase.store(1 - phase, Ordering::SeqCst);
        let started = Instant::now();
        while self.under_way[phase].load(Ordering::SeqCst) > 0 && started.elapsed() < REQUEST_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.requests.under_way[self.phase].fetch_sub(1, Ordering::SeqCst);
    }
}

/// Starts the thread that tells the kernel. It ends when `ended` says so, or when nothing can change any more.
pub(super) fn start(
    mut watch: Watch,
    notifier: Notifier,
    names: Arc<NameTeller>,
    requests: Arc<Requests>,
    ended: impl Fn() -> bool + Send + 'static,
) -> io::Result<()> {
    let run = move || {
        while !ended() {
            let Some(outdated) = watch.next(LOOK_EVERY) else { return };
            outdated.iter().for_each(|outdated| tell(&notifier, &names, outdated, None));
            watch.done();
            if outdated.is_empty() {
                continue;
            }
            requests.wait_for_all();
            outdated.iter().for_each(|outdated| tell(&notifier, &names, outdated, None));
        }
    };
    std::thread::Builder::new().name("leasefs-watch".into()).spawn(run).map(drop)
}

/// Has the kernel forget something: a file now, a name soon. `told` is dropped when it has.
pub(super) fn tell(notifier: &Notifier, names: &Arc<NameTeller>, outdated: &Outdated, told: Option<&Told>) {
    match outdated {
        Outdated::Name { parent, segment } => names.forget(*parent, segment, told.cloned()),
        Outdated::File(ino) => {
            if let Err(error) = notifier.inval_inode(INodeNo(ino.0), 0, 0) {
                tracing::trace!(?outdated, %error, "the kernel does not know this");
            }
        }
    }
}

/// Tells the kernel of names.
pub(super) fn name_teller(runtime: &Handle, notifier: Notifier) -> Arc<NameTeller> {
    NameTeller::new(runtime.clone(), move |parent, name| {
        let name = name.file_name();
        if let Err(error) = notifier.inval_entry(INodeNo(parent.0), OsStr::new(&name)) {
            tracing::trace!(parent = parent.0, name, %error, "the kernel does not know this");
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_waits_for_what_is_under_way_and_not_for_what_follows() {
        let requests = Arc::new(Requests::default());
        let first = requests.begin();
        let waiter = std::thread::spawn({
            let requests = Arc::clone(&requests);
            move || requests.wait_for_all()
        });
        while requests.phase.load(Ordering::SeqCst) == first.phase {
            std::thread::yield_now();
        }
        let second = requests.begin();
        assert_ne!(first.phase, second.phase);
        drop(first);
        waiter.join().unwrap();
        drop(second);
        requests.wait_for_all();
        assert!(requests.under_way.iter().all(|count| count.load(Ordering::SeqCst) == 0));
    }
}
