//! `fsync` and `fdatasync` of this process, so that a test decides which sync takes how long.
//!
//! A definition in the program itself comes before the one of the C library, so the store and the libraries below it
//! call these. Without an order from a test they do what the originals do.

use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Threads of the key-value library that flush and compact.
const WORKER: &str = "fjall:worker";

/// How long a sync that is held up, or a test that waits for one, waits at most.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Syncs {
    /// Tables below this folder are not synced for now.
    held_tables: Option<PathBuf>,
    /// Workers do not sync the journal for now.
    held_journal: bool,
    /// Syncs of tables that are held up.
    waiting: u64,
    /// Finished syncs of the journal by workers.
    journal: u64,
    /// The folder whose syncs are counted, and how many are finished.
    counted: (PathBuf, u64),
}

static SYNCS: Mutex<Syncs> = Mutex::new(Syncs {
    held_tables: None,
    held_journal: false,
    waiting: 0,
    journal: 0,
    counted: (PathBuf::new(), 0),
});
static CHANGED: Condvar = Condvar::new();

fn syncs() -> MutexGuard<'static, Syncs> {
    SYNCS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn change(what: impl FnOnce(&mut Syncs)) {
    what(&mut syncs());
    CHANGED.notify_all();
}

/// Waits until it is so; `false` if it does not become so.
fn wait_until(so: impl Fn(&Syncs) -> bool) -> bool {
    let (_syncs, late) = CHANGED
        .wait_timeout_while(syncs(), PATIENCE, |syncs| !so(syncs))
        .unwrap_or_else(PoisonError::into_inner);
    !late.timed_out()
}

/// One test at a time: orders are for the whole process.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next tables of the key space in `folder` wait, until [`let_go_of_tables`].
pub fn hold_tables(folder: &Path) {
    change(|syncs| syncs.held_tables = Some(folder.join("tables")));
}

fn is_table_held() -> bool {
    syncs().waiting > 0
}

/// Waits until a table waits.
pub fn wait_for_table() -> bool {
    wait_until(|syncs| syncs.waiting > 0)
}

/// How often a worker has synced the journal.
pub fn journal_syncs() -> u64 {
    syncs().journal
}

/// Waits until a worker has synced the journal more often than that.
pub fn wait_for_journal(before: u64) -> bool {
    wait_until(|syncs| syncs.journal > before)
}

/// Workers that sync the journal wait, until [`let_go`].
pub fn hold_journal() {
    change(|syncs| syncs.held_journal = true);
}

/// Tables are synced again; waits until the key space in `folder` was synced so often since.
pub fn let_go_of_tables(folder: &Path, times: u64) -> bool {
    change(|syncs| {
        syncs.held_tables = None;
        syncs.counted = (folder.to_owned(), 0);
    });
    wait_until(|syncs| syncs.counted.1 >= times)
}

/// Everything is synced again.
pub fn let_go() {
    change(|syncs| {
        syncs.held_tables = None;
        syncs.held_journal = false;
    });
}

fn is_worker() -> bool {
    std::thread::current().name() == Some(WORKER)
}

fn sync(fd: libc::c_int, number: libc::c_long) -> libc::c_int {
    let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
    let is_journal = path.extension().is_some_and(|extension| extension == "jnl") && is_worker();
    let held = |syncs: &Syncs| {
        syncs.held_tables.as_ref().is_some_and(|folder| path.starts_with(folder))
            || (is_journal && syncs.held_journal)
    };
    if held(&syncs()) {
        change(|syncs| syncs.waiting += 1);
        wait_until(|syncs| !held(syncs));
        change(|syncs| syncs.waiting -= 1);
        share_one_processor(0);
    } else if is_journal && is_table_held() {
        share_one_processor(19);
    }
    // SAFETY: the two calls take a descriptor and answer an error if it is not open.
    let answer = unsafe { libc::syscall(number, fd) };
    change(|syncs| {
        syncs.journal += u64::from(is_journal);
        syncs.counted.1 += u64::from(path == syncs.counted.0);
    });
    answer as libc::c_int
}

/// From here on this thread has the same processor as the others that came here, and who is less nice goes first: the
/// worker that was held up goes on with its next task before the one that waited for it wakes up.
fn share_one_processor(nice: libc::c_int) {
    // SAFETY: a set of processors is plain bits; the calls fill it, or read it, within its size, for this thread only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &raw mut set);
        let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &set)).unwrap_or(0);
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(first, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
        libc::setpriority(libc::PRIO_PROCESS, 0, nice);
    }
}

/// Instead of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn fsync(fd: libc::c_int) -> libc::c_int {
    sync(fd, libc::SYS_fsync)
}

/// Instead of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(fd: libc::c_int) -> libc::c_int {
    sync(fd, libc::SYS_fdatasync)
}
