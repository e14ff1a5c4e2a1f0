//! Who waits for which range lock, in which order. Holds no mutex of the gate, and never waits itself.
//!
//! ```text
//!               granted: nothing in the way, and nobody earlier who wants the same
//!   arrives ------------------------------------------------------------------------> has it
//!      |                                                                                ^
//!      | something in the way                                   something was cleared   |
//!      +---> WAITS  --------------------------------------------------------------------+
//!      |       |
//!      |       +--- a signal, or its open is closed ---> Interrupted
//!      +---> would wait for itself in the end ---> Deadlock
//! ```
//!
//! First come, first served, with two exceptions: who has a range lock on the file already does not wait behind those
//! who wait for it, and neither does somebody for whom that would be a deadlock.

use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;

use crate::share::{OpenId, WaitGraph, WaitId};

use super::super::error::{FsError, Result};
use super::super::gate::{Gate, RangeRequest};
use super::super::nodes::Ino;

/// Most requests that may wait at a time.
const WAITING_MAX: usize = 100_000;

/// The answer to somebody who waits.
pub(super) type Answer = oneshot::Sender<Result<()>>;

/// Somebody who waits.
#[derive(Debug)]
struct Waiter {
    id: WaitId,
    request: RangeRequest,
    /// The thread to look after; 0 if it cannot be seen.
    thread: u32,
    answer: Answer,
}

/// All who wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    files: HashMap<Ino, VecDeque<Waiter>>,
    graph: WaitGraph,
    next: u64,
}

/// A request that waits, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitInfo {
    /// The file.
    pub ino: Ino,
    /// What it waits for.
    pub request: RangeRequest,
    /// The thread that waits.
    pub thread: u32,
}

/// What came of a request.
#[derive(Debug)]
pub(super) enum Arrival {
    /// It has the range lock, and nobody has to be told.
    Granted,
    /// It waits; the answer comes through the channel.
    Waits(oneshot::Receiver<Result<()>>),
}

impl Queue {
    /// Grants a request or lets it wait.
    pub(super) fn arrive(
        &mut self,
        gate: &Gate,
        ino: Ino,
        request: RangeRequest,
        thread: u32,
    ) -> Result<Arrival> {
        let key = request.owner.key;
        let (held, ahead) = loop {
            let held = gate.range_blockers(ino, &request);
            let ahead = self.ahead_of(gate, ino, &request, usize::MAX);
            if !held.is_empty() || !ahead.is_empty() {
                break (held, ahead);
            }
            match gate.try_set_range(ino, request) {
                Ok(()) => {
                    self.refresh(gate, ino);
                    return Ok(Arrival::Granted);
                }
                // Somebody who does not wait was faster: look again.
                Err(FsError::RangeLocked) => {}
                Err(error) => return Err(error),
            }
        };
        if self.graph.would_deadlock(key, &held) {
            return Err(FsError::Deadlock);
        }
        if self.graph.len() >= WAITING_MAX {
            return Err(FsError::RangeLocked);
        }
        self.next += 1;
        let id = WaitId(self.next);
        self.graph.insert(id, key, if held.is_empty() { ahead } else { held });
        let (answer, receiver) = oneshot::channel();
        self.files.entry(ino).or_default().push_back(Waiter { id, request, thread, answer });
        Ok(Arrival::Waits(receiver))
    }

    /// The keys of those among the first `before` who wait for what this request would take from them.
    fn ahead_of(&self, gate: &Gate, ino: Ino, request: &RangeRequest, before: usize) -> Vec<u64> {
        let Some(waiters) = self.files.get(&ino) else { return Vec::new() };
        let earlier = waiters.iter().take(before).filter(|waiter| waiter.request.conflicts(request));
        let keys: Vec<u64> = earlier.map(|waiter| waiter.request.owner.key).collect();
        let exempt = !keys.is_empty()
            && (gate.has_range(ino, request.owner.key)
                || self.graph.would_deadlock(request.owner.key, &keys));
        if exempt { Vec::new() } else { keys }
    }

    /// Something was cleared on `ino`: serves those who can go on, the first first.
    pub(super) fn wake(&mut self, gate: &Gate, ino: Ino) {
        let mut place = 0;
        while let Some(request) =
            self.files.get(&ino).and_then(|waiters| waiters.get(place)).map(|w| w.request)
        {
            if !self.ahead_of(gate, ino, &request, place).is_empty() {
                place += 1;
                continue;
            }
            match gate.try_set_range(ino, request) {
                Err(FsError::RangeLocked) => place += 1,
                done => {
                    let Some(waiter) = self.take(ino, place) else { return };
                    // Whoever gave up waiting does not want it any more.
                    if waiter.answer.send(done).is_err() {
                        gate.clear_range(ino, request.owner.key, request.span);
                    }
                }
            }
        }
        self.refresh(gate, ino);
    }

    fn take(&mut self, ino: Ino, place: usize) -> Option<Waiter> {
        let waiters = self.files.get_mut(&ino)?;
        let waiter = waiters.remove(place)?;
        self.graph.remove(waiter.id, waiter.request.owner.key);
        if waiters.is_empty() {
            self.files.remove(&ino);
        }
        Some(waiter)
    }

    /// Notes for whom each of the waiters of `ino` waits now.
    fn refresh(&mut self, gate: &Gate, ino: Ino) {
        let Some(waiters) = self.files.get(&ino) else { return };
        for waiter in waiters {
            let held = gate.range_blockers(ino, &waiter.request);
            if !held.is_empty() {
                self.graph.insert(waiter.id, waiter.request.owner.key, held);
            }
        }
    }

    /// A range lock was set without asking here.
    pub(super) fn granted(&mut self, gate: &Gate, ino: Ino) {
        self.refresh(gate, ino);
    }

    /// Answers everybody for whom `stop` says so.
    pub(super) fn interrupt(
        &mut self,
        gate: &Gate,
        stop: impl Fn(&WaitInfo) -> bool,
        why: impl Fn() -> FsError,
    ) {
        let files: Vec<Ino> = self.files.keys().copied().collect();
        for ino in files {
            let mut place = 0;
            let mut left = false;
            while let Some(waiter) = self.files.get(&ino).and_then(|waiters| waiters.get(place)) {
                if stop(&WaitInfo { ino, request: waiter.request, thread: waiter.thread })
                    || waiter.answer.is_closed()
                {
                    let Some(waiter) = self.take(ino, place) else { break };
                    // Gone only if nobody waits for the answer.
                    let _ = waiter.answer.send(Err(why()));
                    left = true;
                } else {
                    place += 1;
                }
            }
            if left {
                // Somebody may have waited only because of the order.
                self.wake(gate, ino);
            }
        }
    }

    /// The open is closed: nobody waits through it any more.
    pub(super) fn close(&mut self, gate: &Gate, ino: Ino, open: OpenId) {
        if self.files.contains_key(&ino) {
            let through = |waiter: &WaitInfo| waiter.ino == ino && waiter.request.owner.open == open;
            self.interrupt(gate, through, || FsError::BadHandle);
        }
    }

    /// Everybody who waits, in order.
    pub(super) fn list(&self) -> Vec<WaitInfo> {
        let mut all: Vec<(WaitId, WaitInfo)> = Vec::new();
        for (ino, waiters) in &self.files {
            all.extend(waiters.iter().map(|waiter| {
                (waiter.id, WaitInfo { ino: *ino, request: waiter.request, thread: waiter.thread })
            }));
        }
        all.sort_unstable_by_key(|(id, _)| *id);
        all.into_iter().map(|(_, info)| info).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}
