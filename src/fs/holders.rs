//! Who holds an open: enough to name the holder in a refusal, small enough for a million opens.
//!
//! Only numbers are kept. Names of programs are looked up in `/proc` when somebody asks, and a process that is gone,
//! or that lives in a namespace we cannot see, is simply unknown.

use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use crate::share::Moment;

use super::namespace::Caller;
use super::now;

/// The longest program name that is shown; the kernel's own limit is 15 bytes.
const PROGRAM_CHARS_MAX: usize = 64;

/// The unit of times in `/proc`: a hundredth of a second, on every Linux.
const MS_PER_TICK: u64 = 10;
/// Ages are rounded, and the clock may be set.
const AGE_TOLERANCE: Duration = Duration::from_secs(2);

/// Through what somebody came to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrontEnd {
    /// A program on the mount.
    Mount,
    /// A client of the REST endpoints.
    Rest,
    /// Nobody from outside: a step of an operation such as a rename.
    Engine,
}

impl FrontEnd {
    /// The word for it in messages and listings.
    pub fn as_str(self) -> &'static str {
        match self {
            FrontEnd::Mount => "mount",
            FrontEnd::Rest => "rest",
            FrontEnd::Engine => "leasefs",
        }
    }
}

/// Who holds an open, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// How it came to us.
    pub front_end: FrontEnd,
    /// The thread that asked, as this process sees it; 0 if the kernel could not say.
    pub thread: u32,
    /// The user that asked.
    pub uid: u32,
    /// When the open was granted.
    pub since: Moment,
    /// The machine it came from; nothing if that is this one, as for every program on the mount.
    pub client: Option<IpAddr>,
}

impl Holder {
    /// The caller, from now on.
    pub fn new(caller: Caller, now: Moment) -> Self {
        Self { front_end: caller.front_end, thread: caller.pid, uid: caller.uid, since: now, client: None }
    }

    /// A call over REST from that machine, for a moment.
    pub fn rest(client: Option<IpAddr>, now: Moment) -> Self {
        Self { front_end: FrontEnd::Rest, thread: 0, uid: 0, since: now, client }
    }

    /// The engine itself, for a moment.
    pub fn engine(now: Moment) -> Self {
        Self { front_end: FrontEnd::Engine, thread: 0, uid: 0, since: now, client: None }
    }

    /// The process behind it, if it still exists and can be seen. Reads `/proc`: never while a mutex is held.
    pub fn process(&self) -> Option<Process> {
        if self.front_end != FrontEnd::Mount || is_younger(self.thread, self.since) {
            return None;
        }
        Process::of_thread(self.thread)
    }
}

/// A running process, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
}

impl Process {
    /// The process that `thread` belongs to. Nothing if it is gone or cannot be seen.
    pub fn of_thread(thread: u32) -> Option<Self> {
        if thread == 0 {
            return None;
        }
        let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
        let pid = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()?;
        let program = fs::read(format!("/proc/{pid}/comm")).ok()?;
        Some(Self { pid, program: printable(&program) })
    }
}

/// Whether `thread` began after `since`: then it only has the number of whoever asked. Nothing that cannot be told is.
fn is_younger(thread: u32, since: Moment) -> bool {
    age(thread).is_some_and(|age| now().since(since) > age + AGE_TOLERANCE)
}

/// How long `thread` has been running.
fn age(thread: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    // `pid (name) state …`, and the name may contain anything. The start is the 22nd field, the 20th behind the name.
    let started: u64 = stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime = Duration::try_from_secs_f64(uptime.split(' ').next()?.parse().ok()?).ok()?;
    Some(uptime.saturating_sub(Duration::from_millis(started.saturating_mul(MS_PER_TICK))))
}

/// A time for people: UTC, to the second.
pub fn utc(moment: Moment) -> String {
    let seconds = moment.0.div_euclid(1_000_000_000);
    match time::OffsetDateTime::from_unix_timestamp(seconds) {
        Ok(at) => format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
            at.year(),
            u8::from(at.month()),
            at.day(),
            at.hour(),
            at.minute(),
            at.second()
        ),
        // 292 years around 1970 always fit.
        Err(_) => seconds.to_string(),
    }
}

/// A program may call itself anything: control characters must not reach a terminal.
fn printable(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    name.trim_end_matches('\n')
        .chars()
        .take(PROGRAM_CHARS_MAX)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_leads_to_its_process() {
        let pid = std::process::id();
        let thread = std::thread::spawn(|| fs::read_link("/proc/thread-self").unwrap()).join().unwrap();
        let thread: u32 = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
        assert_eq!(Process::of_thread(pid).unwrap().pid, pid);
        // That thread has ended; whatever has its number now, nothing fails.
        let _ = Process::of_thread(thread);
    }

    #[test]
    fn a_process_that_began_later_only_has_the_number() {
        let mut holder = Holder::engine(now());
        (holder.front_end, holder.thread) = (FrontEnd::Mount, std::process::id());
        assert!(holder.process().is_some());
        holder.since = Moment(now().0 - 3_600_000_000_000);
        assert_eq!(holder.process(), None, "this test does not take an hour");
    }

    #[test]
    fn who_cannot_be_seen_is_unknown() {
        assert_eq!(Process::of_thread(0), None);
        assert_eq!(Process::of_thread(u32::MAX), None);
        assert_eq!(Holder::engine(Moment(0)).process(), None);
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(utc(Moment(0)), "1970-01-01T00:00:00Z");
        assert_eq!(utc(Moment(1_700_000_000_999_999_999)), "2023-11-14T22:13:20Z");
        assert_eq!(utc(Moment(-1)), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn names_of_programs_are_safe_to_print() {
        assert_eq!(printable(b"vim\n"), "vim");
        assert_eq!(printable(b"a\x1b[31mb\nc\n"), "a?[31mb?c");
    }
}
