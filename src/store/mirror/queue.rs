//! Pushes that are done later: all of them with write-back, else those that the service did not answer, and those that an
//! earlier mount left.
//!
//! The queue is only an order. What is in it is safe without it: every name has its unpushed entry, and the next mount
//! makes a queue of those again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Mirror;
use super::push::is_refusal;
use crate::store::upstream::{Fence, Refused, UpstreamStatus};
use crate::store::{BlobName, LocalStore, Progress, Result, StoreError, crash_point};

/// Files that are pushed at a time in the background.
const FILES: usize = 32;
/// How long the queue waits before it tries again: at first, and at most.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How often a writer looks whether there is room in the queue again, at the latest.
const ROOM_CHECK: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct State {
    /// Names to push, first come, first served; those that are not in `queued` do not count.
    order: VecDeque<BlobName>,
    queued: HashSet<BlobName>,
    /// Names whose push is under way, or about to be.
    working: HashMap<BlobName, usize>,
    /// Names whose entries an earlier mount left: their content may have changed without a commit.
    found: HashSet<BlobName>,
    /// What the service does not take, for the engine to save.
    refused: VecDeque<Refused>,
    /// Why the last push did not succeed.
    trouble: Option<String>,
    closed: bool,
}

/// Names to be pushed.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    more: Notify,
    less: Notify,
    refusal: Notify,
}

impl Queue {
    /// A queue of what an earlier mount left.
    pub(super) fn of(names: Vec<BlobName>) -> Self {
        let found: HashSet<BlobName> = names.iter().cloned().collect();
        let state = State { order: names.into(), queued: found.clone(), found, ..State::default() };
        Self { state: Mutex::new(state), ..Self::default() }
    }

    fn add(&self, name: &BlobName) {
        let mut state = self.state.lock();
        if state.queued.insert(name.clone()) {
            state.order.push_back(name.clone());
        }
        drop(state);
        self.more.notify_one();
    }

    /// Tries a name again, later.
    pub(super) fn retry(&self, name: &BlobName) {
        self.add(name);
    }

    /// The next name to push; nothing when the mirror is gone.
    async fn next(&self) -> Option<BlobName> {
        loop {
            let mut more = std::pin::pin!(self.more.notified());
            more.as_mut().enable();
            {
                let mut state = self.state.lock();
                if state.closed {
                    return None;
                }
                while let Some(name) = state.order.pop_front() {
                    // What was forgotten is still in the order.
                    if state.queued.remove(&name) {
                        *state.working.entry(name.clone()).or_default() += 1;
                        return Some(name);
                    }
                }
            }
            more.await;
        }
    }

    /// The push of a name is over, however it went.
    fn done(&self, name: &BlobName) {
        let working = &mut self.state.lock().working;
        if let Some(count) = working.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                working.remove(name);
            }
        }
    }

    /// The mirror is gone.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.more.notify_waiters();
    }

    /// Whether the entry of a name was left by an earlier mount.
    pub(super) fn was_found(&self, name: &BlobName) -> bool {
        self.state.lock().found.contains(name)
    }

    /// Whether a name waits to be pushed again, perhaps because an answer was lost.
    pub(super) fn holds(&self, name: &BlobName) -> bool {
        let state = self.state.lock();
        state.queued.contains(name) || state.working.contains_key(name) || state.found.contains(name)
    }

    pub(super) fn note_pushed(&self, name: &BlobName) {
        let mut state = self.state.lock();
        state.found.remove(name);
        state.trouble = None;
        drop(state);
        self.less.notify_waiters();
    }

    /// Nothing of a name is to be pushed any more.
    pub(super) fn forget(&self, name: &BlobName) {
        let mut state = self.state.lock();
        state.queued.remove(name);
        state.found.remove(name);
        drop(state);
        self.less.notify_waiters();
    }

    /// A name that was moved is pushed under its new one.
    pub(super) fn rename(&self, from: &BlobName, to: &BlobName) {
        self.rename_all(&[(from, to)]);
    }

    /// The same for several at once, some of which may have changed places.
    pub(super) fn rename_all(&self, moves: &[(&BlobName, &BlobName)]) {
        let marks: Vec<(bool, bool)> = {
            let state = self.state.lock();
            // Whoever was about to push the old name finds nothing there any more.
            let queued = |from| state.queued.contains(from) || state.working.contains_key(from);
            moves.iter().map(|(from, _)| (state.found.contains(*from), queued(*from))).collect()
        };
        for (from, _) in moves {
            self.forget(from);
        }
        for ((_, to), (found, queued)) in moves.iter().zip(marks) {
            if found {
                self.state.lock().found.insert((*to).clone());
            }
            if queued {
                self.add(to);
            }
        }
    }

    fn refuse(&self, name: BlobName, error: StoreError) {
        let mut state = self.state.lock();
        state.trouble = Some(error.to_string());
        if state.refused.iter().all(|refused| refused.name != name) {
            state.refused.push_back(Refused { name, error });
        }
        drop(state);
        self.refusal.notify_one();
    }

    fn note_trouble(&self, error: &StoreError) {
        self.state.lock().trouble = Some(error.to_string());
    }

    /// [`Upstream::refused`](crate::store::Upstream::refused).
    pub(super) async fn next_refused(&self) -> Refused {
        loop {
            if let Some(refused) = self.state.lock().refused.pop_front() {
                return refused;
            }
            self.refusal.notified().await;
        }
    }
}

/// Starts pushing what is in the queue, until the mirror is dropped.
pub(super) fn start(mirror: &Arc<Mirror>) {
    for _ in 0..FILES {
        tokio::spawn(work(Arc::clone(&mirror.queue), Arc::downgrade(mirror)));
    }
}

/// Pushes one name after the other.
async fn work(queue: Arc<Queue>, mirror: Weak<Mirror>) {
    let mut wait = FIRST_WAIT;
    while let Some(name) = queue.next().await {
        let Some(mirror) = mirror.upgrade() else { return };
        mirror.old_leases.settled().await;
        // What is pushed to the name of a blob that is to be moved would stay there.
        mirror.old_changes.settled().await;
        let answered = mirror.push_queued(&name).await;
        queue.done(&name);
        if answered {
            wait = FIRST_WAIT;
        } else {
            drop(mirror);
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }
}

impl Mirror {
    /// [`Upstream::push`](crate::store::Upstream::push) with write-back: writers wait only while too much is not pushed.
    pub(super) async fn push_later(&self, name: &BlobName, fence: Fence) -> Result<()> {
        self.sidecars.note_fence(name, self.length_here(name)?, !fence.check_version)?;
        crash_point("push_later_after_note");
        self.queue.add(name);
        while self.sidecars.unpushed_total().1 > self.options.unpushed_bytes {
            let _ = tokio::time::timeout(ROOM_CHECK, self.queue.less.notified()).await;
        }
        Ok(())
    }

    /// Pushes a name of the queue. Answers whether the service answered.
    async fn push_queued(&self, name: &BlobName) -> bool {
        match self.push_as_noted(name).await {
            Ok(()) => true,
            Err(error) if is_refusal(&error) => {
                tracing::warn!(%name, %error, "the blob service does not take a change");
                self.queue.refuse(name.clone(), error);
                true
            }
            Err(error) => {
                tracing::debug!(%name, %error, "a push is tried again later");
                self.queue.note_trouble(&error);
                self.queue.add(name);
                false
            }
        }
    }

    /// Pushes a name under the fence that was asked for when it was queued.
    async fn push_as_noted(&self, name: &BlobName) -> Result<()> {
        let Some((entry, _)) = self.sidecars.unpushed(name)? else { return Ok(()) };
        self.push_now(name, Fence { lease: None, check_version: !entry.unchecked }).await
    }

    /// [`Upstream::drain`](crate::store::Upstream::drain).
    pub(super) async fn push_all(&self, progress: &(dyn Fn(Progress) + Send + Sync)) -> Result<()> {
        // What was told to have failed must not be carried out by the next mount.
        let mut failed = self.undo_left(None).await;
        let names = self.sidecars.unpushed_names(None);
        let (files_total, bytes_total) = self.sidecars.unpushed_total();
        let told = Mutex::new(Progress { files_total, bytes_total, ..Progress::default() });
        progress(*told.lock());
        let push = async |name: BlobName| {
            let bytes = self.length_here(&name)?;
            let pushed = self.push_as_noted(&name).await;
            if let Err(error) = pushed {
                if !is_refusal(&error) {
                    return Err(error);
                }
                self.queue.refuse(name, error);
            }
            let now = {
                let mut told = told.lock();
                told.files_done += 1;
                told.bytes_done = (told.bytes_done + bytes).min(told.bytes_total);
                *told
            };
            progress(now);
            Ok(())
        };
        let mut pushes = stream::iter(names).map(push).buffer_unordered(FILES);
        while let Some(pushed) = pushes.next().await {
            failed = failed.and(pushed);
        }
        failed
    }

    /// [`Upstream::status`](crate::store::Upstream::status).
    pub(super) fn tell(&self) -> UpstreamStatus {
        let (waiting_files, waiting_bytes) = self.sidecars.unpushed_total();
        let trouble = self.queue.state.lock().trouble.clone();
        let moving = *self.moving.lock();
        let cached_bytes = self.contents.cache.bytes();
        UpstreamStatus { waiting_files, waiting_bytes, cached_bytes, trouble, moving }
    }

    fn length_here(&self, name: &BlobName) -> Result<u64> {
        Ok(self.store.find(&self.here(name))?.blob.map_or(0, |blob| blob.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_change_places_are_queued_under_their_new_ones() {
        let [one, other] = ["one", "other"].map(|name| BlobName::new(name).unwrap());
        let queue = Queue::default();
        queue.add(&one);
        queue.state.lock().found.insert(other.clone());
        queue.rename_all(&[(&one, &other), (&other, &one)]);
        let queued = |name| queue.state.lock().queued.contains(name);
        assert_eq!((queued(&one), queued(&other)), (false, true));
        assert_eq!((queue.was_found(&one), queue.was_found(&other)), (true, false));
    }
}
