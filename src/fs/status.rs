//! What people and other programs are told about opens: one line per holder, readable and readable back.
//!
//! ```text
//! open=17 front=mount pid=4242 uid=1000 access=rw share=none since=2026-11-17T11:08:04Z program=vim
//! ```
//!
//! This is what `getfattr -n user.leasefs.holders FILE` shows, and what a refused `leasefs open` reads to name the
//! holder. Processes are looked up in /proc when somebody asks, never at an open. Decides nothing.

use std::fmt;
use std::str::FromStr;

use time::OffsetDateTime;

use crate::share::{Access, Moment, ShareMode};

use super::Engine;
use super::error::{FsError, Result};
use super::gate::OpenInfo;
use super::holders::Process;
use super::namespace::Caller;
use super::nodes::Ino;

/// The attribute that shows who has a file open. It is made up when asked for, so it is in no list of attributes, and
/// no copy of the file takes it along.
pub const HOLDERS_ATTRIBUTE: &[u8] = b"user.leasefs.holders";

/// Opens named in the attribute; a last line says how many more there are. An attribute has 64 KiB at most.
const HOLDERS_MAX: usize = 200;

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
        }
    }
}

impl fmt::Display for HolderLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { open, front_end, process, uid, access, share, since } = self;
        let pid = process.as_ref().map_or(0, |process| process.pid);
        let program = process.as_ref().map_or("", |process| process.program.as_str());
        write!(f, "open={open} front={front_end} pid={pid} uid={uid} access={access} share={share} ")?;
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

fn parse(line: &str) -> Option<HolderLine> {
    let (fields, program) = line.split_once(" program=")?;
    let field = |name: &str| {
        let mut words = fields.split(' ').filter_map(|word| word.split_once('='));
        words.find_map(|(key, value)| (key == name).then_some(value))
    };
    let pid: u32 = field("pid")?.parse().ok()?;
    Some(HolderLine {
        open: field("open")?.parse().ok()?,
        front_end: field("front")?.to_owned(),
        process: (pid != 0).then(|| Process { pid, program: program.to_owned() }),
        uid: field("uid")?.parse().ok()?,
        access: field("access")?.parse().ok()?,
        share: field("share")?.parse().ok()?,
        since: field("since")?.to_owned(),
    })
}

/// `2026-11-17T11:08:04Z`. A time that no calendar has is the start of 1970.
pub fn utc(moment: Moment) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(moment.0.into());
    let time = time.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    let (hour, minute, second) = time.to_hms();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

impl Engine {
    /// The value of [`HOLDERS_ATTRIBUTE`]: a line per open of `ino`, oldest first.
    pub(super) fn holders_text(&self, ino: Ino) -> String {
        let holders = self.holders(ino);
        let mut text = String::new();
        for open in holders.iter().take(HOLDERS_MAX) {
            text.push_str(&format!("{}\n", HolderLine::of(open)));
        }
        if holders.len() > HOLDERS_MAX {
            text.push_str(&format!("more={}\n", holders.len() - HOLDERS_MAX));
        }
        text
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

    fn line(program: Option<&str>) -> HolderLine {
        HolderLine {
            open: 17,
            front_end: "mount".into(),
            process: program.map(|program| Process { pid: 4242, program: program.into() }),
            uid: 1000,
            access: Access::READ_WRITE,
            share: ShareMode::NONE,
            since: utc(Moment(1_794_913_684_000_000_000)),
        }
    }

    #[test]
    fn a_line_is_read_back_as_it_was_written() {
        let text = line(Some("vim")).to_string();
        assert_eq!(
            text,
            "open=17 front=mount pid=4242 uid=1000 access=rw share=none since=2026-11-17T11:08:04Z program=vim"
        );
        for program in [None, Some("vim"), Some("Web Content"), Some("a program=b"), Some("=")] {
            let line = line(program);
            assert_eq!(line.to_string().parse::<HolderLine>().unwrap(), line);
        }
    }

    #[test]
    fn other_lines_are_refused() {
        for text in
            ["", "more=3", "open=x front=mount pid=1 uid=1 access=r share=r since=x program=", "program=vim"]
        {
            assert!(text.parse::<HolderLine>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(utc(Moment(0)), "1970-01-01T00:00:00Z");
        assert_eq!(utc(Moment(-1)), "1969-12-31T23:59:59Z");
        assert_eq!(utc(Moment(i64::MAX)), "2262-04-11T23:47:16Z");
    }
}
