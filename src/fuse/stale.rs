//! Telling the kernel that something it remembers is wrong.
//!
//! Has its own thread: the kernel may make such a call wait for requests that the serving threads must answer first.
//! Whoever waits for it is told by the end of a channel: when all who were to say something have dropped it.

use std::sync::Arc;

use fuser::{INodeNo, Notifier};
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use crate::fs::nodes::Ino;
use crate::fs::{HiddenName, Outdated};

use super::names::NameTeller;
use super::watch::{Requests, tell};

/// So many things may wait to be announced.
const WAITING_MAX: usize = 4096;

/// What the kernel must forget.
#[derive(Debug)]
enum Stale {
    /// The attributes of an inode.
    Attributes(Ino),
    /// The content of an inode. Told when it is done.
    Content(Ino, oneshot::Sender<()>),
    /// A name. Told when it is done.
    Name(HiddenName, oneshot::Sender<()>),
    /// What a call by path changed. Told when it is done.
    Changed(Arc<[Outdated]>, oneshot::Sender<()>),
}

/// Where to say what is stale.
#[derive(Clone, Debug)]
pub(super) struct Announcer(mpsc::Sender<Stale>);

/// Where it is heard.
#[derive(Debug)]
pub(super) struct Announcements(mpsc::Receiver<Stale>);

/// The two ends.
pub(super) fn channel() -> (Announcer, Announcements) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (Announcer(sender), Announcements(receiver))
}

impl Announcer {
    /// The attributes changed behind the kernel's back.
    pub(super) fn attributes(&self, ino: Ino) {
        // Full means that thousands were announced just now; the kernel asks again after the limit.
        let _ = self.0.try_send(Stale::Attributes(ino));
    }

    /// A way to say that pages must not be used any more. It does not keep the other end listening.
    pub(super) fn content_forgetter(&self) -> impl Fn(Ino) + Send + Sync + 'static {
        let weak = self.0.downgrade();
        move |ino| {
            // Gone when the mount is ending; full when thousands were announced just now.
            if let Some(sender) = weak.upgrade() {
                let (done, _told) = oneshot::channel();
                let _ = sender.try_send(Stale::Content(ino, done));
            }
        }
    }

    /// A way to say what calls by path have changed. It does not keep the other end listening.
    ///
    /// Pages that are just being read are waited for by the kernel, and it knows itself which answers about attributes
    /// are older than what it is told. But a look-up that began before the change may bring the old name back: so names
    /// are told again when every request that was under way has been answered.
    pub(super) fn change_announcer(
        &self,
        requests: Arc<Requests>,
    ) -> impl Fn(Vec<Outdated>) -> BoxFuture<'static, ()> + Send + Sync + 'static {
        let weak = self.0.downgrade();
        move |outdated| {
            let (sender, requests) = (weak.upgrade().map(Announcer), Arc::clone(&requests));
            Box::pin(async move {
                // Gone when the mount is ending.
                let Some(announcer) = sender else { return };
                let outdated: Arc<[Outdated]> = outdated.into();
                announcer.told(|done| Stale::Changed(Arc::clone(&outdated), done)).await;
                let names = outdated.iter().any(|outdated| matches!(outdated, Outdated::Name { .. }));
                if names && !requests.is_idle() {
                    // Fails only when the runtime is ending.
                    let _ = tokio::task::spawn_blocking(move || requests.wait_for_all()).await;
                    announcer.told(|done| Stale::Changed(outdated, done)).await;
                }
            })
        }
    }

    /// The name leads nowhere now. Returns when the kernel knows.
    pub(super) async fn name(&self, hidden: HiddenName) {
        self.told(|done| Stale::Name(hidden, done)).await;
    }

    /// Somebody elsewhere changed the content. Returns when the kernel knows.
    pub(super) async fn content(&self, ino: Ino) {
        self.told(|done| Stale::Content(ino, done)).await;
    }

    async fn told(&self, stale: impl FnOnce(oneshot::Sender<()>) -> Stale) {
        let (done, told) = oneshot::channel();
        // Fails only when the mount is ending.
        let _ = self.0.send(stale(done)).await;
        // Nobody sends anything: the other end is dropped when it is done.
        let _ = told.await;
    }
}

impl Announcements {
    /// Passes everything on until nobody is left to say anything.
    pub(super) fn run(mut self, notifier: &Notifier, names: &Arc<NameTeller>) {
        while let Some(stale) = self.0.blocking_recv() {
            let told = match &stale {
                // A negative offset means the attributes alone.
                Stale::Attributes(ino) => notifier.inval_inode(INodeNo(ino.0), -1, 0),
                // To the end of the file.
                Stale::Content(ino, _) => notifier.inval_inode(INodeNo(ino.0), 0, 0),
                Stale::Name(..) | Stale::Changed(..) => Ok(()),
            };
            if let Err(error) = told {
                tracing::trace!(?stale, %error, "the kernel does not know this any more");
            }
            match stale {
                Stale::Name(HiddenName { parent, name }, done) => {
                    names.forget(parent, &name, Some(Arc::new(done)));
                }
                Stale::Changed(outdated, done) => {
                    let done = Arc::new(done);
                    outdated.iter().for_each(|outdated| tell(notifier, names, outdated, Some(&done)));
                }
                Stale::Content(_, done) => drop(done),
                Stale::Attributes(_) => {}
            }
        }
    }
}
