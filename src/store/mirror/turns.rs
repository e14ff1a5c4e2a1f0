//! Turns: who may work on which names at the service, and what was worked on since when.
//!
//! Pushes and removes take a name, renames two trees at once. Whoever comes first is first: a turn waits for every
//! earlier one that shares a name with it, and for no other. A listing takes no turn. It asks afterwards which names were
//! worked on while it was under way, and leaves those alone, because it may have seen them before or after.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Ended turns that are remembered. A listing that began before the oldest of them knows nothing for certain.
const REMEMBERED: usize = 4096;

/// A name, or a name with everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Name(String),
    Tree(String),
}

impl Scope {
    fn includes(&self, name: &str) -> bool {
        match self {
            Scope::Name(own) => own == name,
            Scope::Tree(top) => below(name, top),
        }
    }

    pub(super) fn meets(&self, other: &Scope) -> bool {
        match (self, other) {
            (one, Scope::Name(name)) => one.includes(name),
            (Scope::Name(name), tree @ Scope::Tree(_)) => tree.includes(name),
            (Scope::Tree(one), Scope::Tree(other)) => below(one, other) || below(other, one),
        }
    }
}

/// Whether `name` is `top` or below it.
fn below(name: &str, top: &str) -> bool {
    name.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[derive(Debug)]
struct Request {
    number: u64,
    scopes: Vec<Scope>,
    /// Nothing more is changed in this turn.
    at_rest: bool,
    /// Nobody waits for it any more, but it has not ended.
    passed: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Turns that are taken or waited for, in the order they were asked for.
    asked: Vec<Request>,
    /// Turns that ended, with the moment they did.
    ended: VecDeque<(u64, Vec<Scope>)>,
    /// The last end that is not remembered any more.
    forgotten: u64,
    /// Counts requests and ends.
    clock: u64,
}

/// The turns of a mirror.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    progress: Notify,
}

/// The right to work on some names, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    inner: Arc<Inner>,
    number: u64,
}

impl Turn {
    /// Nothing more is changed in this turn: what is listed from now on is what is there. Nobody else gets a turn yet.
    pub(super) fn rest(&self) {
        let mut state = self.inner.state.lock();
        let own = state.asked.iter_mut().find(|request| request.number == self.number && !request.at_rest);
        if let Some(request) = own {
            request.at_rest = true;
            let scopes = request.scopes.clone();
            state.end(scopes);
        }
    }

    /// Lets others work on the names, which go on counting as worked on: what is left of the work is done later.
    pub(super) fn let_pass(&self) {
        if let Some(request) =
            self.inner.state.lock().asked.iter_mut().find(|asked| asked.number == self.number)
        {
            request.passed = true;
        }
        self.inner.progress.notify_waiters();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.inner.state.lock();
        if let Some(index) = state.asked.iter().position(|request| request.number == self.number) {
            let request = state.asked.remove(index);
            if !request.at_rest {
                state.end(request.scopes);
            }
        }
        drop(state);
        self.inner.progress.notify_waiters();
    }
}

impl Turns {
    /// Waits for a turn on these names.
    pub(super) async fn take(&self, scopes: Vec<Scope>) -> Turn {
        // Made first: a caller that goes away while it waits leaves nothing behind.
        let turn = {
            let mut state = self.inner.state.lock();
            state.clock += 1;
            let number = state.clock;
            state.asked.push(Request { number, scopes, at_rest: false, passed: false });
            Turn { inner: Arc::clone(&self.inner), number }
        };
        loop {
            let mut progress = std::pin::pin!(self.inner.progress.notified());
            progress.as_mut().enable();
            if self.inner.state.lock().is_first(turn.number) {
                return turn;
            }
            progress.await;
        }
    }

    /// A turn on one name.
    pub(super) async fn take_name(&self, name: &str) -> Turn {
        self.take(vec![Scope::Name(name.to_owned())]).await
    }

    /// The moment now, for [`disturbed`](Self::disturbed).
    pub(super) fn now(&self) -> u64 {
        self.inner.state.lock().clock
    }

    /// Which names somebody has worked on at or after that moment, as a question to be asked of each.
    pub(super) fn disturbed(&self, since: u64) -> Disturbed {
        let state = self.inner.state.lock();
        if state.forgotten > since {
            return Disturbed { all: true, scopes: Vec::new() };
        }
        let recent = state.ended.iter().rev().take_while(|(ended, _)| *ended > since);
        let ended = recent.flat_map(|(_, scopes)| scopes);
        let working = state.asked.iter().filter(|request| !request.at_rest);
        let scopes = working.flat_map(|request| &request.scopes).chain(ended).cloned().collect();
        Disturbed { all: false, scopes }
    }
}

impl State {
    /// Work on these names is over.
    fn end(&mut self, scopes: Vec<Scope>) {
        self.clock += 1;
        let now = self.clock;
        if self.ended.len() == REMEMBERED {
            self.forgotten = self.ended.pop_front().map_or(now, |(ended, _)| ended);
        }
        self.ended.push_back((now, scopes));
    }

    fn is_first(&self, number: u64) -> bool {
        let Some(index) = self.asked.iter().position(|request| request.number == number) else {
            return true;
        };
        let own = &self.asked[index].scopes;
        let earlier = self.asked[..index].iter().filter(|request| !request.passed);
        !earlier.flat_map(|request| &request.scopes).any(|scope| own.iter().any(|mine| mine.meets(scope)))
    }
}

/// Names that were worked on.
pub(super) struct Disturbed {
    all: bool,
    scopes: Vec<Scope>,
}

impl Disturbed {
    pub(super) fn includes(&self, name: &str) -> bool {
        self.all || self.scopes.iter().any(|scope| scope.includes(name))
    }

    /// Whether anything below this name was.
    pub(super) fn includes_below(&self, name: &str) -> bool {
        self.all || self.scopes.iter().any(|scope| scope.meets(&Scope::Tree(name.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn tree(name: &str) -> Scope {
        Scope::Tree(name.to_owned())
    }

    #[tokio::test]
    async fn a_turn_waits_for_earlier_ones_with_a_common_name() {
        let turns = Turns::default();
        let first = turns.take_name("d/f").await;
        assert!(turns.take_name("d/f").now_or_never().is_none(), "the same name");
        drop(turns.take_name("d/g").now_or_never().expect("another name"));
        let mut moving = Box::pin(turns.take(vec![tree("d"), tree("e")]));
        assert!(moving.as_mut().now_or_never().is_none(), "a tree with the name in it");
        assert!(turns.take_name("e/x").now_or_never().is_none(), "behind the rename, which was first");
        drop(turns.take_name("dd").now_or_never().expect("not below d"));
        drop(first);
        let moving = moving.await;
        assert!(turns.take_name("d").now_or_never().is_none());
        drop(moving);
        drop(turns.take_name("d").now_or_never().expect("all turns ended"));
    }

    #[tokio::test]
    async fn what_is_left_for_later_is_in_nobodys_way_and_counts_as_worked_on() {
        let turns = Turns::default();
        let left = turns.take(vec![tree("d")]).await;
        let mut waiting = Box::pin(turns.take_name("d/f"));
        assert!(waiting.as_mut().now_or_never().is_none());
        left.let_pass();
        drop(waiting.now_or_never().expect("it lets pass whoever waits"));
        drop(turns.take(vec![tree("d")]).now_or_never().expect("and whoever comes later"));
        let since = turns.now();
        assert!(turns.disturbed(since).includes("d/f"));
        drop(left);
        assert!(turns.disturbed(since).includes("d/f"), "it ended after that moment");
        assert!(!turns.disturbed(turns.now()).includes("d/f"));
    }

    #[tokio::test]
    async fn a_listing_learns_which_names_were_worked_on() {
        let turns = Turns::default();
        drop(turns.take_name("before").await);
        let held = turns.take_name("held").await;
        let since = turns.now();
        drop(turns.take(vec![tree("moved")]).await);
        let seen = turns.disturbed(since);
        for (name, expected) in
            [("before", false), ("held", true), ("moved", true), ("moved/x", true), ("movedx", false)]
        {
            assert_eq!(seen.includes(name), expected, "{name}");
        }
        assert!(seen.includes_below("moved/x") && !seen.includes_below("other"));
        drop(held);
        for _ in 0..=REMEMBERED {
            drop(turns.take_name("x").await);
        }
        assert!(turns.disturbed(since).includes("anything"), "too long ago to know");
    }

    #[tokio::test]
    async fn a_turn_at_rest_keeps_others_waiting_and_disturbs_no_listing() {
        let turns = Turns::default();
        let before = turns.now();
        let turn = turns.take(vec![tree("moved")]).await;
        turn.rest();
        let after = turns.now();
        assert!(turns.disturbed(before).includes("moved/x") && !turns.disturbed(after).includes("moved/x"));
        assert!(turns.take_name("moved/x").now_or_never().is_none());
        drop(turn);
        assert!(!turns.disturbed(after).includes("moved"), "its end is no news");
        drop(turns.take_name("moved/x").now_or_never().expect("it ended"));
        assert!(turns.disturbed(after).includes("moved/x"));
    }
}
