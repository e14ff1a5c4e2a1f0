//! `leasefs status`: who holds what, as tables or as one JSON object.
//!
//! The rows come from the daemons; only names of users and readable times are added here. The shape of the JSON is a
//! promise (docs/STATUS.md).

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use serde::Serialize;

use super::args::StatusArgs;
use super::control::{HolderRow, Status};
use super::error::CliError;
use super::locate::{self, Located};
use super::paths::Places;
use super::text;

mod tables;

/// The whole answer.
#[derive(Debug, Serialize)]
struct Answer {
    mounts: Vec<MountStatus>,
}

/// What is known about one mount.
#[derive(Debug, Serialize)]
struct MountStatus {
    mountpoint: PathBuf,
    /// `serving`, `closing` or `unreachable`.
    state: &'static str,
    #[serde(flatten)]
    daemon: Option<DaemonStatus>,
    #[serde(flatten)]
    status: Status,
}

/// What a daemon that answers says of itself.
#[derive(Debug, Serialize)]
struct DaemonStatus {
    version: String,
    daemon_pid: i32,
    share_name: String,
    data: PathBuf,
    /// The URL of a share that is elsewhere.
    source: Option<String>,
}

/// Prints the status of one place or of all mounts.
pub(super) fn run(args: &StatusArgs, places: &Places) -> Result<(), CliError> {
    let mounts = match &args.path {
        Some(path) => vec![ask(locate::locate(path)?, places)?],
        None => locate::mounts_of_user()?
            .into_iter()
            .map(|mount| {
                let path = mount.path.clone();
                ask(Located { mount, inside: None }, places).unwrap_or_else(|_| unreachable_mount(path))
            })
            .collect(),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let written = if args.json {
        write_json(&mut out, &Answer { mounts })
    } else {
        tables::write(&mut out, &mounts, args.path.is_some(), text::now_ms())
    };
    match written.and_then(|()| out.flush()) {
        // Whoever reads has seen enough: `leasefs status | head`.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|e| CliError::Failed(format!("the status cannot be written: {e}"))),
    }
}

fn write_json(out: &mut impl Write, answer: &Answer) -> io::Result<()> {
    serde_json::to_writer(&mut *out, answer)?;
    writeln!(out)
}

fn ask(at: Located, places: &Places) -> Result<MountStatus, CliError> {
    let path = at.mount.path.clone();
    let mut client = locate::daemon_of(&at.mount, places)?;
    let mut status = client
        .status(at.inside)
        .map_err(|problem| CliError::NoAnswer { path: path.clone(), why: problem.to_string() })?;
    complete(&mut status);
    let hello = client.hello;
    Ok(MountStatus {
        mountpoint: path,
        state: if hello.closing { "closing" } else { "serving" },
        daemon: Some(DaemonStatus {
            version: hello.version,
            daemon_pid: hello.pid,
            share_name: hello.share,
            data: hello.data,
            source: hello.source,
        }),
        status,
    })
}

fn unreachable_mount(mountpoint: PathBuf) -> MountStatus {
    MountStatus { mountpoint, state: "unreachable", daemon: None, status: Status::default() }
}

/// Adds what daemons do not look up. Few users hold many opens, so each is looked up once.
fn complete(status: &mut Status) {
    let mut known: Vec<(u32, String)> = Vec::new();
    let mut fill = |holder: &mut HolderRow| {
        if holder.front_end != "mount" {
            return;
        }
        let found = known.iter().find(|(uid, _)| *uid == holder.uid).map(|(_, name)| name.clone());
        let name = found.unwrap_or_else(|| {
            let name = text::user_name(holder.uid);
            known.push((holder.uid, name.clone()));
            name
        });
        holder.user = Some(name);
    };
    for row in &mut status.opens {
        row.since = Some(text::utc(row.since_ms));
        fill(&mut row.holder);
    }
    status.range_locks.iter_mut().for_each(|row| fill(&mut row.holder));
}
