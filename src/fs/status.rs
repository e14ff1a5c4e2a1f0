//! What people and other programs are told about opens: one line per holder, readable and readable back.
//!
//! ```text
//! open=17 via=mount pid=4242 uid=1000 access=rw share=none since=2026-11-17T11:08:04Z program=vim
//! lease=elsewhere duration=timed
//! ```
//!
//! The second line: somebody who is not on this mount holds the blob's lease. A blob service does not tell who.
//!
//! This is what `getfattr -n user.leasefs.holders FILE` shows, and what a refused `leasefs open` reads to name the
//! holder. Processes are looked up in /proc when somebody asks, never at an open. Decides nothing.

use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::str::FromStr;

use crate::share::lease::Lease;
use crate::share::{Access, ShareMode};

use super::error::{FsError, Result};
use super::gate::OpenInfo;
use super::handles::HandleId;
use super::holders::{Process, utc};
use super::names::Segment;
use super::namespace::Caller;
use super::nodes::Ino;
use super::{Engine, now};

/// The attribute that shows who has a file open. It is made up when asked for, so it is in no list of attributes, and
/// no copy of the file takes it along.
pub const HOLDERS_ATTRIBUTE: &str = "user.leasefs.holders";

/// Longest list of holders; Linux has no room for more than 64 KiB.
const HOLDERS_BYTES_MAX: usize = 60_000;

/// Stands for a process that is gone or cannot be seen.
const UNKNOWN: &str = "unknown";

/// Has whoever caches the content of a file forget it.
pub(super) type ContentForgetter = Box<dyn Fn(Ino) + Send + Sync>;

/// An open and its holder, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderLine {
    /// The open's number.
    pub open: u64,
    /// How the holder came to us.
    pub front_end: String,
    /// Its process; nothing if it is gone or cannot be seen.
    pub process: Option<Process>,
    /// Its user.
    pub uid: u32,
    /// What the open may do.
    pub access: Access,
    /// What it lets others do.
    pub share: ShareMode,
    /// When it was granted, in UTC.
    pub since: String,
    /// The machine it came from, if that is not this one.
    pub client: Option<IpAddr>,
}

impl HolderLine {
    /// The line for an open. Reads /proc.
    pub fn of(open: &OpenInfo) -> Self {
        Self {
            open: open.id.0,
            front_end: open.holder.front_end.as_str().to_owned(),
            process: open.holder.process(),
            uid: open.holder.uid,
            access: open.access,
            share: open.share,
            since: utc(open.holder.since),
            client: open.holder.client,
        }
    }
}

impl fmt::Display for HolderLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { open, front_end, process, uid, access, share, since, client } = self;
        let pid = process.as_ref().map_or(UNKNOWN.to_owned(), |process| process.pid.to_string());
        let program = process.as_ref().map_or(UNKNOWN, |process| process.program.as_str());
        write!(f, "open={open} via={front_end} pid={pid} uid={uid} access={access} share={share} ")?;
        if let Some(client) = client {
            write!(f, "client={client} ")?;
        }
        // Last, because a program's name may have spaces.
        write!(f, "since={since} program={program}")
    }
}

impl FromStr for HolderLine {
    type Err = FsError;

    fn from_str(line: &str) -> Result<Self> {
        parse(line).ok_or(FsError::Invalid("not a line about a holder"))
    }
}

/// A lease on the file's blob that somebody elsewhere holds, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseLine {
    /// It does not end by itself.
    pub infinite: bool,
}

impl LeaseLine {
    const INFINITE: &str = "lease=elsewhere duration=infinite";
    const TIMED: &str = "lease=elsewhere duration=timed";
}

impl fmt::Display for LeaseLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.infinite { Self::INFINITE } else { Self::TIMED })
    }
}

impl FromStr for LeaseLine {
    type Err = FsError;

    fn from_str(line: &str) -> Result<Self> {
        match line {
            Self::INFINITE => Ok(Self { infinite: true }),
            Self::TIMED => Ok(Self { infinite: false }),
            _ => Err(FsError::Invalid("not a line about a lease")),
        }
    }
}

fn parse(line: &str) -> Option<HolderLine> {
    let (fields, program) = line.split_once(" program=")?;
    let field = |name: &str| {
        let mut words = fields.split(' ').filter_map(|word| word.split_once('='));
        words.find_map(|(key, value)| (key == name).then_some(value))
    };
    let pid = match field("pid")? {
        UNKNOWN => None,
        number => Some(number.parse().ok()?),
    };
    Some(HolderLine {
        open: field("open")?.parse().ok()?,
        front_end: field("via")?.to_owned(),
        process: pid.map(|pid| Process { pid, program: program.to_owned() }),
        uid: field("uid")?.parse().ok()?,
        access: field("access")?.parse().ok()?,
        share: field("share")?.parse().ok()?,
        since: field("since")?.to_owned(),
        client: field("client").and_then(|text| text.parse().ok()),
    })
}

impl Engine {
    /// Who has `ino` open, one line each, and whether somebody elsewhere has it leased.
    pub(super) async fn holders_text(&self, ino: Ino) -> String {
        let holders = self.gate.opens_of(ino);
        let mut text = String::new();
        for (n, open) in holders.iter().enumerate() {
            let line = format!("{}\n", HolderLine::of(open));
            if text.len() + line.len() > HOLDERS_BYTES_MAX {
                let _ = writeln!(text, "and {} more", holders.len() - n);
                break;
            }
            text.push_str(&line);
        }
        // Should that not be known, the others are told all the same.
        if let Ok(Some(lease)) = self.strangers_lease(ino).await {
            let _ = writeln!(text, "{}", LeaseLine { infinite: !lease.is_timed() });
        }
        text
    }

    /// The lease that somebody who is not on this mount holds.
    async fn strangers_lease(&self, ino: Ino) -> Result<Option<Lease>> {
        let Some(name) = self.name_there(ino).await? else { return Ok(None) };
        if let Some(upstream) = self.upstream() {
            let standing = upstream.revalidate(&name).await?;
            let strange = standing.leased && self.is_strangers_lease(&**upstream, ino, &name).await?;
            return Ok(strange.then_some(standing.lease));
        }
        let Some(blob) = self.local()?.find(&self.at(name))?.blob else { return Ok(None) };
        let holder = blob.lease.holder(now());
        Ok(holder.filter(|id| !self.is_own_lease(ino, *id)).map(|_| blob.lease))
    }

    /// Says whom to tell that cached content must not be used any more. The first one to say so is told.
    pub fn forget_content_with(&self, forgetter: impl Fn(Ino) + Send + Sync + 'static) {
        // A share is mounted once; a second mount of it would have caches of its own.
        let _ = self.content_forgetter.set(Box::new(forgetter));
    }

    /// Has what is cached of `ino` forgotten, soon.
    pub(super) fn forget_content(&self, ino: Ino) {
        if let Some(forgetter) = self.content_forgetter.get() {
            forgetter(ino);
        }
    }

    /// Takes delete pending back from the file that had this name in an open directory.
    pub async fn undelete_in(&self, directory: HandleId, name: &Segment, caller: Caller) -> Result<()> {
        self.undelete(self.directories.get(directory)?.ino, name, caller).await
    }

    /// Takes delete pending back from the file that has this path in the share, with the names that programs see.
    pub async fn undelete_path(&self, path: &str, caller: Caller) -> Result<()> {
        let path = format!("/{path}");
        let named = |ino: &Ino| self.path_of(*ino).as_ref() == Some(&path);
        let ino = self.pending_files().into_iter().find(named).ok_or(FsError::NotFound)?;
        let (parent, segment) = self.nodes.place(ino).ok_or(FsError::NotFound)?;
        self.undelete(parent, &segment, caller).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::Moment;

    fn line(program: Option<&str>) -> HolderLine {
        HolderLine {
            open: 17,
            front_end: "mount".into(),
            process: program.map(|program| Process { pid: 4242, program: program.into() }),
            uid: 1000,
            access: Access::READ_WRITE,
            share: ShareMode::NONE,
            since: utc(Moment(1_794_913_684_000_000_000)),
            client: None,
        }
    }

    #[test]
    fn a_line_is_read_back_as_it_was_written() {
        let text = line(Some("vim")).to_string();
        assert_eq!(
            text,
            "open=17 via=mount pid=4242 uid=1000 access=rw share=none since=2026-11-17T11:08:04Z program=vim"
        );
        for program in [None, Some("vim"), Some("Web Content"), Some("a program=b"), Some("=")] {
            let line = line(program);
            assert_eq!(line.to_string().parse::<HolderLine>().unwrap(), line);
            let from_afar = HolderLine { client: Some([10, 1, 2, 3].into()), ..line };
            assert_eq!(from_afar.to_string().parse::<HolderLine>().unwrap(), from_afar);
        }
    }

    #[test]
    fn a_lease_is_a_line_of_its_own() {
        for infinite in [false, true] {
            let line = LeaseLine { infinite }.to_string();
            assert_eq!(line.parse::<LeaseLine>().unwrap(), LeaseLine { infinite });
            assert!(line.parse::<HolderLine>().is_err());
        }
        assert!(line(Some("vim")).to_string().parse::<LeaseLine>().is_err());
    }

    #[test]
    fn other_lines_are_refused() {
        for text in [
            "",
            "and 3 more",
            "open=x via=mount pid=1 uid=1 access=r share=r since=x program=",
            "program=vim",
        ] {
            assert!(text.parse::<HolderLine>().is_err(), "{text}");
        }
    }
}
