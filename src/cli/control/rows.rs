//! What a status says, as it travels over the control socket and as `leasefs status --json` prints it.
//!
//! Field names are a promise (docs/STATUS.md): they may be added to, never renamed. Only shapes: the daemon fills them,
//! `status` shows them. Never holds what only one of both sides could know, except where it says so.

use serde::{Deserialize, Serialize};

use super::REPLY_MAX;

/// Room that a page leaves for its own frame.
const PAGE_FRAME: usize = 1024;

/// Who holds or waits for something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cli) struct HolderRow {
    /// How it came to us: `mount` or `rest`.
    pub(in crate::cli) front_end: String,
    /// Nothing if the process is gone or cannot be seen.
    pub(in crate::cli) pid: Option<u32>,
    /// Nothing if the process is gone or cannot be seen.
    pub(in crate::cli) program: Option<String>,
    pub(in crate::cli) uid: u32,
    /// Filled in by whoever shows it: looking up names can take long.
    #[serde(default)]
    pub(in crate::cli) user: Option<String>,
    /// The machine it came from, if that is not this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) client: Option<std::net::IpAddr>,
}

/// One open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cli) struct OpenRow {
    /// What `leasefs close-handle` takes.
    pub(in crate::cli) id: u64,
    /// In the share, without a leading slash; nothing for a file that has lost its name.
    pub(in crate::cli) path: Option<String>,
    pub(in crate::cli) access: String,
    pub(in crate::cli) share: String,
    #[serde(flatten)]
    pub(in crate::cli) holder: HolderRow,
    /// Milliseconds since 1970.
    pub(in crate::cli) since_ms: i64,
    /// The same for people, in UTC. Filled in by whoever shows it.
    #[serde(default)]
    pub(in crate::cli) since: Option<String>,
}

/// One range lock, held or waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cli) struct RangeLockRow {
    /// The open that it came through.
    pub(in crate::cli) open: u64,
    pub(in crate::cli) path: Option<String>,
    /// `shared` or `exclusive`.
    pub(in crate::cli) kind: String,
    /// `held` or `waiting`.
    pub(in crate::cli) state: String,
    pub(in crate::cli) start: u64,
    /// Nothing for "to the end, however long the file becomes".
    pub(in crate::cli) length: Option<u64>,
    #[serde(flatten)]
    pub(in crate::cli) holder: HolderRow,
}

/// One blob lease that this mount holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cli) struct LeaseRow {
    pub(in crate::cli) path: Option<String>,
    pub(in crate::cli) lease_id: String,
    /// `held`, or `lost` if the store refused to renew it.
    pub(in crate::cli) state: String,
}

/// One file that is removed but still open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cli) struct PendingRow {
    pub(in crate::cli) path: Option<String>,
    /// How many opens keep it.
    pub(in crate::cli) opens: usize,
}

/// The service behind a share that is elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cli) struct ServiceRow {
    /// Files that are changed here and not there yet.
    pub(in crate::cli) waiting_files: u64,
    pub(in crate::cli) waiting_bytes: u64,
    /// Content kept in the cache directory.
    pub(in crate::cli) cached_bytes: u64,
    /// What the service said last, if it does not answer as it should.
    pub(in crate::cli) trouble: Option<String>,
    /// A long rename under way: blobs done, and in all.
    pub(in crate::cli) moving: Option<(u64, u64)>,
}

/// Everything a status says about one mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cli) struct Status {
    pub(in crate::cli) opens: Vec<OpenRow>,
    pub(in crate::cli) range_locks: Vec<RangeLockRow>,
    pub(in crate::cli) leases: Vec<LeaseRow>,
    pub(in crate::cli) pending_deletes: Vec<PendingRow>,
    /// How many conflict copies this mount has written.
    pub(in crate::cli) conflict_copies: u64,
    /// How the service of a share stands that is elsewhere.
    #[serde(default)]
    pub(in crate::cli) service: Option<ServiceRow>,
}

impl Status {
    /// Adds what another page says.
    pub(in crate::cli) fn append(&mut self, page: Status) {
        self.opens.extend(page.opens);
        self.range_locks.extend(page.range_locks);
        self.leases.extend(page.leases);
        self.pending_deletes.extend(page.pending_deletes);
        self.conflict_copies += page.conflict_copies;
        self.service = self.service.take().or(page.service);
    }

    /// In pages that fit into a reply each. A row that is too long for any page loses its path, not its place.
    pub(in crate::cli) fn pages(self) -> impl Iterator<Item = Status> {
        let opens =
            pages_of(self.opens, |row| &mut row.path).map(|opens| Status { opens, ..Status::default() });
        let range_locks = pages_of(self.range_locks, |row| &mut row.path)
            .map(|range_locks| Status { range_locks, ..Status::default() });
        let leases =
            pages_of(self.leases, |row| &mut row.path).map(|leases| Status { leases, ..Status::default() });
        let pending = pages_of(self.pending_deletes, |row| &mut row.path)
            .map(|pending_deletes| Status { pending_deletes, ..Status::default() });
        let (conflict_copies, service) = (self.conflict_copies, self.service);
        let numbers = Status { conflict_copies, service, ..Status::default() };
        opens.chain(range_locks).chain(leases).chain(pending).chain(std::iter::once(numbers))
    }
}

/// Cuts `rows` where a page is full.
fn pages_of<R: Serialize>(
    rows: Vec<R>,
    path: impl Fn(&mut R) -> &mut Option<String>,
) -> impl Iterator<Item = Vec<R>> {
    let room = usize::try_from(REPLY_MAX).unwrap_or(usize::MAX) - PAGE_FRAME;
    let mut rows = rows.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut page = Vec::new();
        let mut used = 0;
        while let Some(row) = rows.peek_mut() {
            let mut size = encoded_len(row);
            if size > room {
                *path(row) = None;
                size = encoded_len(row);
            }
            if used + size > room {
                break;
            }
            used += size;
            page.extend(rows.next());
        }
        (!page.is_empty()).then_some(page)
    })
}

/// Length of the row with the comma behind it.
fn encoded_len<R: Serialize>(row: &R) -> usize {
    serde_json::to_vec(row).map_or(0, |bytes| bytes.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::super::{Reply, line};
    use super::*;

    fn holder() -> HolderRow {
        HolderRow {
            front_end: "mount".into(),
            pid: Some(7),
            program: Some("cat".into()),
            uid: 0,
            user: None,
            client: None,
        }
    }

    fn open(id: u64, path: String) -> OpenRow {
        let (access, share) = ("r".into(), "rwd".into());
        OpenRow { id, path: Some(path), access, share, holder: holder(), since_ms: 1, since: None }
    }

    #[test]
    fn pages_fit_and_lose_nothing() {
        let paths = |id: u64| "p".repeat(usize::try_from(id % 997).unwrap());
        let status = Status {
            opens: (0..5000).map(|id| open(id, paths(id))).collect(),
            pending_deletes: vec![PendingRow { path: Some("x".into()), opens: 2 }],
            conflict_copies: 3,
            ..Status::default()
        };
        let mut together = Status::default();
        for page in status.clone().pages() {
            let bytes = line(&Reply::Status(page.clone())).unwrap();
            assert!(bytes.len() as u64 <= REPLY_MAX, "{}", bytes.len());
            together.append(page);
        }
        assert_eq!(together, status);
    }

    #[test]
    fn a_row_that_is_too_long_loses_its_path_only() {
        let status =
            Status { opens: vec![open(1, "\u{1}".repeat(20_000)), open(2, "b".into())], ..Status::default() };
        let mut together = Status::default();
        for page in status.pages() {
            assert!(line(&Reply::Status(page.clone())).unwrap().len() as u64 <= REPLY_MAX);
            together.append(page);
        }
        let found: Vec<_> = together.opens.iter().map(|row| (row.id, row.path.as_deref())).collect();
        assert_eq!(found, [(1, None), (2, Some("b"))]);
    }

    #[test]
    fn the_words_on_the_wire_stay_what_they_are() {
        let text = serde_json::to_string(&open(9, "a/b".into())).unwrap();
        assert_eq!(
            text,
            "{\"id\":9,\"path\":\"a/b\",\"access\":\"r\",\"share\":\"rwd\",\"front_end\":\"mount\",\"pid\":7,\
             \"program\":\"cat\",\"uid\":0,\"user\":null,\"since_ms\":1,\"since\":null}"
        );
    }
}
