//! Telling subscribers what other users of the store changed.
//!
//! Each subscriber has a bounded queue. A commit adds to it under the writer's mutex, so the order is the order of
//! commits; past the bound the queue becomes one "everything may have changed".

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::store::{ChangeEvent, ChangeFeed, Lag};

/// Events that wait for one subscriber at most.
const WAITING_EVENTS: usize = 16 << 10;

/// Names a user of the store.
pub(super) type UserId = u32;

/// The subscribers of a store.
#[derive(Default)]
pub(super) struct Changes {
    /// How many there are, to skip everything else without.
    count: Arc<AtomicUsize>,
    queues: Mutex<Vec<Weak<Queue>>>,
}

struct Queue {
    user: UserId,
    state: Mutex<State>,
    some: Condvar,
    lag: Arc<Lag>,
}

#[derive(Default)]
struct State {
    events: VecDeque<ChangeEvent>,
    /// Number of the last change in the queue or before.
    last: u64,
    closed: bool,
}

/// A change that has begun and that others will be told of, whatever becomes of it.
pub(super) struct Begun {
    queues: Vec<(Arc<Queue>, u64)>,
    events: Vec<ChangeEvent>,
}

/// A subscription of one user.
pub(super) struct Feed {
    queue: Arc<Queue>,
    count: Arc<AtomicUsize>,
    /// Number of the last change that was handed out.
    taken: u64,
}

impl Changes {
    /// Starts a subscription: the user hears of what others change from now on.
    pub(super) fn subscribe(&self, user: UserId) -> Feed {
        let queue = Queue { user, state: Mutex::default(), some: Condvar::new(), lag: Arc::default() };
        let queue = Arc::new(queue);
        let mut queues = self.queues.lock();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&queue));
        self.count.fetch_add(1, Ordering::Relaxed);
        Feed { queue, count: Arc::clone(&self.count), taken: 0 }
    }

    /// Before anybody can see a change: everybody except its maker is going to be told of these events. They are
    /// asked for only if there is anybody else.
    pub(super) fn begin(&self, by: UserId, events: impl FnOnce() -> Vec<ChangeEvent>) -> Begun {
        let others = self.others(by);
        let events = if others.is_empty() { Vec::new() } else { events() };
        let told = if events.is_empty() { Vec::new() } else { others };
        let numbered = |queue: Arc<Queue>| {
            let number = queue.lag.begin();
            (queue, number)
        };
        Begun { queues: told.into_iter().map(numbered).collect(), events }
    }

    fn others(&self, than: UserId) -> Vec<Arc<Queue>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let queues = self.queues.lock();
        queues.iter().filter_map(Weak::upgrade).filter(|queue| queue.user != than).collect()
    }

    /// No more changes will come.
    pub(super) fn close(&self) {
        for queue in self.queues.lock().drain(..).filter_map(|queue| queue.upgrade()) {
            queue.state.lock().closed = true;
            queue.some.notify_all();
        }
    }
}

impl Begun {
    /// It happened: tells them.
    pub(super) fn done(self) {
        for (queue, number) in &self.queues {
            queue.add(&self.events, *number);
        }
    }

    /// It may or may not have happened.
    pub(super) fn in_doubt(self) {
        for (queue, number) in &self.queues {
            queue.add(&[ChangeEvent::Everything], *number);
        }
    }
}

impl Queue {
    fn add(&self, events: &[ChangeEvent], number: u64) {
        let mut state = self.state.lock();
        state.last = number;
        if state.events.len() + events.len() > WAITING_EVENTS {
            state.events.clear();
            state.events.push_back(ChangeEvent::Everything);
        } else {
            state.events.extend(events.iter().cloned());
        }
        self.some.notify_one();
    }
}

impl ChangeFeed for Feed {
    fn next(&mut self, wait: Duration) -> Option<Vec<ChangeEvent>> {
        let mut state = self.queue.state.lock();
        if state.events.is_empty() && !state.closed {
            self.queue.some.wait_for(&mut state, wait);
        }
        let events: Vec<ChangeEvent> = state.events.drain(..).collect();
        self.taken = state.last;
        if events.is_empty() && state.closed { None } else { Some(events) }
    }

    fn handled(&mut self) {
        self.queue.lag.handle(self.taken);
    }

    fn lag(&self) -> Arc<Lag> {
        Arc::clone(&self.queue.lag)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // Nobody is left to be waited for.
        self.queue.lag.handle(u64::MAX);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Found;

    fn event(name: &str) -> ChangeEvent {
        ChangeEvent::Name { parent: 1, name: name.into(), before: Found::default(), after: Found::default() }
    }

    #[test]
    fn others_hear_in_order_and_the_maker_does_not() {
        let changes = Changes::default();
        let (mut maker, mut other) = (changes.subscribe(1), changes.subscribe(2));
        changes.begin(1, || vec![event("a"), event("b")]).done();
        let heard = other.next(Duration::ZERO).unwrap();
        let names: Vec<&str> = heard
            .iter()
            .map(|event| match event {
                ChangeEvent::Name { name, .. } => name.as_str(),
                ChangeEvent::Everything => "*",
            })
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert!(maker.next(Duration::ZERO).unwrap().is_empty());
        drop(other);
        changes.begin(1, || unreachable!("nobody else listens")).done();
    }

    #[test]
    fn a_queue_that_is_full_says_that_everything_may_have_changed() {
        let changes = Changes::default();
        let mut feed = changes.subscribe(2);
        for _ in 0..WAITING_EVENTS + 10 {
            changes.begin(1, || vec![event("a")]).done();
        }
        let heard = feed.next(Duration::ZERO).unwrap();
        assert!(matches!(heard[0], ChangeEvent::Everything));
        assert!(heard.len() < WAITING_EVENTS);
        changes.close();
        assert!(feed.next(Duration::from_secs(60)).is_none());
    }

    #[tokio::test]
    async fn whoever_waits_is_told_when_what_had_begun_is_handled() {
        let changes = Changes::default();
        let mut feed = changes.subscribe(2);
        let lag = feed.lag();
        lag.caught_up().await;
        let begun = changes.begin(1, || vec![event("a")]);
        let waiter = tokio::spawn({
            let lag = feed.lag();
            async move { lag.caught_up().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        begun.done();
        assert_eq!(feed.next(Duration::ZERO).unwrap().len(), 1);
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished(), "taken, and not yet dealt with");
        feed.handled();
        waiter.await.unwrap();
        changes.begin(1, || vec![event("b")]).in_doubt();
        assert!(matches!(feed.next(Duration::ZERO).unwrap()[..], [ChangeEvent::Everything]));
        drop(feed);
        lag.caught_up().await;
    }
}
