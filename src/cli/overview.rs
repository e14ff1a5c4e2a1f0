//! The daemon's side of a status: what the engine knows, as rows. Reads /proc, so never on a thread that serves.

use std::collections::HashMap;

use super::control::{HolderRow, LeaseRow, OpenRow, PendingRow, RangeLockRow, ServiceRow, Status};
use crate::fs::nodes::Ino;
use crate::fs::{Engine, FrontEnd, Holder, OpenInfo, Process};
use crate::share::{Moment, OpenId, RangeKind, RangeOwner, Span};
use crate::store::UpstreamStatus;

/// The kernel's word for "to the end": the last byte that a file can have.
const LAST_BYTE: u64 = i64::MAX as u64;

/// Everything at and below a path in the share; nothing means the whole share.
pub(super) fn of(engine: &Engine, below: Option<&str>) -> Status {
    let mut look = Look { engine, below, paths: HashMap::new(), processes: HashMap::new() };
    let opens = engine.open_list();
    Status {
        range_locks: look.range_locks(&opens),
        opens: look.opens(&opens),
        leases: look.leases(),
        pending_deletes: look.pending_deletes(),
        conflict_copies: engine.conflicts(),
        service: engine.upstream().map(|upstream| service(upstream.status())),
    }
}

fn service(status: UpstreamStatus) -> ServiceRow {
    let UpstreamStatus { waiting_files, waiting_bytes, cached_bytes, trouble, moving } = status;
    ServiceRow { waiting_files, waiting_bytes, cached_bytes, trouble, moving }
}

/// One look at everything. Each file and each process is looked up once, however many opens it has.
struct Look<'a> {
    engine: &'a Engine,
    below: Option<&'a str>,
    paths: HashMap<Ino, Option<String>>,
    /// By the thread that asked.
    processes: HashMap<u32, Option<Process>>,
}

impl Look<'_> {
    fn opens(&mut self, opens: &[OpenInfo]) -> Vec<OpenRow> {
        let mut rows = Vec::new();
        for open in opens {
            let Some(path) = self.wanted(open.ino) else { continue };
            rows.push(OpenRow {
                id: open.id.0,
                path,
                access: open.access.to_string(),
                share: open.share.to_string(),
                holder: self.holder(&open.holder),
                since_ms: open.holder.since.0 / 1_000_000,
                since: None,
            });
        }
        rows
    }

    fn range_locks(&mut self, opens: &[OpenInfo]) -> Vec<RangeLockRow> {
        let (held, waiting) = (self.engine.range_list(), self.engine.range_waiters());
        if held.is_empty() && waiting.is_empty() {
            return Vec::new();
        }
        let holders: HashMap<OpenId, Holder> = opens.iter().map(|open| (open.id, open.holder)).collect();
        let held = held.into_iter().map(|(ino, lock)| (ino, lock.owner, lock.kind, lock.span, "held"));
        let waiting = waiting
            .into_iter()
            .map(|wait| (wait.ino, wait.request.owner, wait.request.kind, wait.request.span, "waiting"));
        let mut rows = Vec::new();
        for (ino, owner, kind, span, state) in held.chain(waiting) {
            let Some(path) = self.wanted(ino) else { continue };
            rows.push(RangeLockRow {
                open: owner.open.0,
                path,
                kind: match kind {
                    RangeKind::Shared => "shared".to_owned(),
                    RangeKind::Exclusive => "exclusive".to_owned(),
                },
                state: state.to_owned(),
                start: span.start(),
                length: length(span),
                holder: self.asker(owner, holders.get(&owner.open)),
            });
        }
        rows
    }

    /// Who asked for a range lock: maybe another process than the one that made the open it came through.
    fn asker(&mut self, owner: RangeOwner, holder: Option<&Holder>) -> HolderRow {
        // Its open can be closed by now.
        let since = Moment::default();
        let gone = Holder { front_end: FrontEnd::Mount, thread: 0, uid: 0, since, client: None };
        self.holder(&Holder { thread: owner.process, ..*holder.unwrap_or(&gone) })
    }

    fn leases(&mut self) -> Vec<LeaseRow> {
        let mut rows = Vec::new();
        for lease in self.engine.lease_list() {
            let Some(path) = self.wanted(lease.ino) else { continue };
            let state = if lease.lost { "lost" } else { "held" };
            rows.push(LeaseRow { path, lease_id: lease.id.to_string(), state: state.to_owned() });
        }
        rows
    }

    fn pending_deletes(&mut self) -> Vec<PendingRow> {
        let mut rows = Vec::new();
        for ino in self.engine.pending_files() {
            let Some(path) = self.wanted(ino) else { continue };
            rows.push(PendingRow { path, opens: self.engine.holders(ino).len() });
        }
        rows
    }

    /// The path of a file, without the slash in front, if it is wanted at all.
    fn wanted(&mut self, ino: Ino) -> Option<Option<String>> {
        let engine = self.engine;
        let path = self
            .paths
            .entry(ino)
            .or_insert_with(|| engine.path_of(ino).map(|path| path.trim_start_matches('/').to_owned()));
        let inside = match self.below {
            None => true,
            Some(below) => path.as_deref().is_some_and(|path| is_below(path, below)),
        };
        inside.then(|| path.clone())
    }

    fn holder(&mut self, holder: &Holder) -> HolderRow {
        let process = self.processes.entry(holder.thread).or_insert_with(|| holder.process()).clone();
        HolderRow {
            front_end: holder.front_end.as_str().to_owned(),
            pid: process.as_ref().map(|process| process.pid),
            program: process.map(|process| process.program),
            uid: holder.uid,
            user: None,
            client: holder.client,
        }
    }
}

/// Nothing for a span that has no end.
fn length(span: Span) -> Option<u64> {
    match span.is_empty() {
        true => Some(0),
        false if span.last() >= LAST_BYTE => None,
        false => Some(span.last() - span.start() + 1),
    }
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_to_the_last_byte_has_no_end() {
        assert_eq!(length(Span::new(10, LAST_BYTE).unwrap()), None);
        assert_eq!(length(Span::of_length(10, 5).unwrap()), Some(5));
    }

    #[test]
    fn below_goes_by_names_not_by_letters() {
        assert!(is_below("a/b", "a") && is_below("a/b", "a/b"));
        assert!(!is_below("a/bc", "a/b") && !is_below("a", "a/b"));
    }
}
