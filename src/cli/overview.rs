//! The daemon's side of a status: what the engine knows, as rows. Reads /proc, so never on a thread that serves.

use std::collections::HashMap;

use super::control::{HolderRow, LeaseRow, OpenRow, PendingRow, Status};
use crate::fs::nodes::Ino;
use crate::fs::{Engine, Holder, Process};

/// Everything at and below a path in the share; nothing means the whole share.
pub(super) fn of(engine: &Engine, below: Option<&str>) -> Status {
    let mut look = Look { engine, below, paths: HashMap::new(), processes: HashMap::new() };
    Status {
        opens: look.opens(),
        range_locks: Vec::new(),
        leases: Vec::<LeaseRow>::new(),
        pending_deletes: look.pending_deletes(),
        conflict_copies: 0,
    }
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
    fn opens(&mut self) -> Vec<OpenRow> {
        let mut rows = Vec::new();
        for open in self.engine.open_list() {
            let Some(path) = self.wanted(open.ino) else { continue };
            rows.push(OpenRow {
                id: open.id.0,
                path,
                access: open.access.to_string(),
                share: open.share.to_string(),
                holder: self.holder(&open.holder),
            });
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
            since_ms: holder.since.0 / 1_000_000,
            since: None,
        }
    }
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_goes_by_names_not_by_letters() {
        assert!(is_below("a/b", "a") && is_below("a/b", "a/b"));
        assert!(!is_below("a/bc", "a/b") && !is_below("a", "a/b"));
    }
}
