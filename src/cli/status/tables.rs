//! A status for people: one block per mount, one table per kind of thing that is held.

use std::io::{self, Write};

use indicatif::HumanBytes;

use super::super::control::{HolderRow, RangeLockRow, ServiceRow, Status};
use super::super::table::Table;
use super::super::text::{age, printable};
use super::MountStatus;

/// Shown where a process is gone or cannot be seen.
const UNKNOWN: &str = "unknown";
/// Shown where there is nothing to show.
const NOTHING: &str = "-";

/// Writes all mounts. A status of one file or directory leaves out what there is none of.
pub(super) fn write(
    out: &mut impl Write,
    mounts: &[MountStatus],
    of_one_place: bool,
    now_ms: i64,
) -> io::Result<()> {
    if mounts.is_empty() {
        return writeln!(out, "no share is mounted");
    }
    for (number, mount) in mounts.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        write_mount(out, mount, of_one_place, now_ms)?;
    }
    Ok(())
}

fn write_mount(out: &mut impl Write, mount: &MountStatus, of_one_place: bool, now_ms: i64) -> io::Result<()> {
    let path = mount.mountpoint.display();
    let Some(daemon) = &mount.daemon else {
        return writeln!(
            out,
            "{path}: its daemon does not answer; leasefs umount {path} clears a dead mount"
        );
    };
    let closing = if mount.state == "closing" { ", closing" } else { "" };
    let share = match &daemon.source {
        Some(source) => source.clone(),
        None => format!("share \"{}\"", daemon.share_name),
    };
    writeln!(out, "{path}: {share}, leasefs {}, process {}{closing}", daemon.version, daemon.daemon_pid)?;
    if let Some(service) = &mount.status.service {
        write_service(out, service)?;
    }
    write_status(out, &mount.status, of_one_place, now_ms)
}

/// What waits to be uploaded, what is cached, and how the service is.
fn write_service(out: &mut impl Write, service: &ServiceRow) -> io::Result<()> {
    let (waiting, cached) = (HumanBytes(service.waiting_bytes), HumanBytes(service.cached_bytes));
    match service.waiting_files {
        0 => writeln!(out, "  uploads waiting: none")?,
        files => writeln!(out, "  uploads waiting: {files} files, {waiting}")?,
    }
    if let Some((done, total)) = service.moving {
        writeln!(out, "  renaming: {done} of {total} blobs")?;
    }
    writeln!(out, "  cached: {cached}")?;
    if let Some(trouble) = &service.trouble {
        writeln!(out, "  service: {}", printable(trouble))?;
    }
    Ok(())
}

fn write_status(out: &mut impl Write, status: &Status, of_one_place: bool, now_ms: i64) -> io::Result<()> {
    heading(out, "opens", status.opens.len())?;
    opens(status, now_ms).write(out)?;
    let waiting = status.range_locks.iter().filter(|row| row.state == "waiting").count();
    heading_with(out, "range locks", status.range_locks.len() - waiting, waiting)?;
    range_locks(status).write(out)?;
    heading(out, "leases", status.leases.len())?;
    leases(status).write(out)?;
    heading(out, "delete pending", status.pending_deletes.len())?;
    pending(status).write(out)?;
    if of_one_place && status.conflict_copies == 0 {
        return Ok(());
    }
    heading(out, "conflict copies", usize::try_from(status.conflict_copies).unwrap_or(usize::MAX))
}

fn heading(out: &mut impl Write, what: &str, count: usize) -> io::Result<()> {
    heading_with(out, what, count, 0)
}

fn heading_with(out: &mut impl Write, what: &str, count: usize, waiting: usize) -> io::Result<()> {
    match (count, waiting) {
        (0, 0) => writeln!(out, "  {what}: none"),
        (count, 0) => writeln!(out, "  {what}: {count}"),
        (count, waiting) => writeln!(out, "  {what}: {count} held, {waiting} waiting"),
    }
}

fn opens(status: &Status, now_ms: i64) -> Table<8> {
    let mut table = Table::new(["ID", "ACCESS", "SHARE", "PID", "PROGRAM", "USER", "SINCE", "PATH"]);
    for row in &status.opens {
        let [pid, program, user] = holder(&row.holder);
        let since = age(now_ms, row.since_ms);
        let (access, share) = (row.access.clone(), row.share.clone());
        table.push([row.id.to_string(), access, share, pid, program, user, since, path(&row.path)]);
    }
    table
}

fn range_locks(status: &Status) -> Table<8> {
    let mut table = Table::new(["OPEN", "KIND", "STATE", "BYTES", "PID", "PROGRAM", "USER", "PATH"]);
    for row in &status.range_locks {
        let [pid, program, user] = holder(&row.holder);
        let (open, kind, state) = (row.open.to_string(), row.kind.clone(), row.state.clone());
        table.push([open, kind, state, bytes(row), pid, program, user, path(&row.path)]);
    }
    table
}

fn leases(status: &Status) -> Table<3> {
    let mut table = Table::new(["STATE", "LEASE ID", "PATH"]);
    for row in &status.leases {
        table.push([row.state.clone(), row.lease_id.clone(), path(&row.path)]);
    }
    table
}

fn pending(status: &Status) -> Table<2> {
    let mut table = Table::new(["OPENS", "PATH"]);
    for row in &status.pending_deletes {
        table.push([row.opens.to_string(), path(&row.path)]);
    }
    table
}

/// Process, program and user.
fn holder(holder: &HolderRow) -> [String; 3] {
    if holder.front_end != "mount" {
        let from = holder.client.map_or_else(String::new, |client| format!(" from {client}"));
        return [NOTHING.into(), format!("{}{from}", printable(&holder.front_end)), NOTHING.into()];
    }
    let pid = holder.pid.map_or(NOTHING.into(), |pid| pid.to_string());
    let program = holder.program.as_deref().map_or(UNKNOWN.into(), printable);
    let user = holder.user.clone().unwrap_or_else(|| holder.uid.to_string());
    [pid, program, user]
}

/// The first and the last byte, as lslocks(8) shows them.
fn bytes(row: &RangeLockRow) -> String {
    match (row.start, row.length) {
        (0, None) => "all".into(),
        (start, None) => format!("{start}-"),
        (start, Some(0)) => format!("none at {start}"),
        (start, Some(length)) => format!("{start}-{}", start.saturating_add(length - 1)),
    }
}

fn path(path: &Option<String>) -> String {
    path.as_deref().map_or("(no name)".into(), printable)
}

#[cfg(test)]
mod tests {
    use super::super::super::control::{LeaseRow, OpenRow, PendingRow};
    use super::super::DaemonStatus;
    use super::*;

    const NOW: i64 = 1_000_000_000;

    fn holder_row(program: Option<&str>) -> HolderRow {
        HolderRow {
            front_end: "mount".into(),
            pid: program.map(|_| 4242),
            program: program.map(str::to_owned),
            uid: 1000,
            user: Some("ann".into()),
            client: None,
        }
    }

    fn open(id: u64, share: &str, program: Option<&str>, name: &str) -> OpenRow {
        OpenRow {
            id,
            path: Some(name.into()),
            access: "rw".into(),
            share: share.into(),
            holder: holder_row(program),
            since_ms: NOW - 61_000,
            since: None,
        }
    }

    fn shown(mounts: &[MountStatus]) -> String {
        let mut out = Vec::new();
        write(&mut out, mounts, false, NOW).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn mount(status: Status) -> MountStatus {
        let daemon = DaemonStatus {
            version: "1".into(),
            daemon_pid: 9,
            share_name: "share".into(),
            source: None,
            data: "/d".into(),
        };
        MountStatus { mountpoint: "/m".into(), state: "serving", daemon: Some(daemon), status }
    }

    #[test]
    fn a_mount_where_nothing_is_held() {
        let text = "/m: share \"share\", leasefs 1, process 9\n  opens: none\n  range locks: none\n  \
                    leases: none\n  delete pending: none\n  conflict copies: none\n";
        assert_eq!(shown(&[mount(Status::default())]), text);
        assert_eq!(shown(&[]), "no share is mounted\n");
    }

    #[test]
    fn every_kind_has_its_table() {
        let waiting = RangeLockRow {
            open: 7,
            path: Some("a".into()),
            kind: "exclusive".into(),
            state: "waiting".into(),
            start: 10,
            length: Some(5),
            holder: holder_row(None),
        };
        let held = RangeLockRow { state: "held".into(), start: 0, length: None, ..waiting.clone() };
        let lease = LeaseRow { path: Some("a".into()), lease_id: "L".into(), state: "held".into() };
        let text = shown(&[mount(Status {
            opens: vec![open(7, "none", Some("vim"), "a"), open(123, "rwd", None, "b\u{1b}")],
            range_locks: vec![held, waiting],
            leases: vec![lease],
            pending_deletes: vec![PendingRow { path: None, opens: 2 }],
            conflict_copies: 1,
            service: None,
        })]);
        let wanted = "\
/m: share \"share\", leasefs 1, process 9
  opens: 2
    ID   ACCESS  SHARE  PID   PROGRAM  USER  SINCE  PATH
    7    rw      none   4242  vim      ann   1 min  a
    123  rw      rwd    -     unknown  ann   1 min  b\\u{1b}
  range locks: 1 held, 1 waiting
    OPEN  KIND       STATE    BYTES  PID  PROGRAM  USER  PATH
    7     exclusive  held     all    -    unknown  ann   a
    7     exclusive  waiting  10-14  -    unknown  ann   a
  leases: 1
    STATE  LEASE ID  PATH
    held   L         a
  delete pending: 1
    OPENS  PATH
    2      (no name)
  conflict copies: 1
";
        assert_eq!(text, wanted);
    }

    #[test]
    fn a_daemon_that_does_not_answer_is_named() {
        let dead = super::super::unreachable_mount("/m".into());
        assert!(shown(&[dead]).contains("leasefs umount /m"));
    }
}
