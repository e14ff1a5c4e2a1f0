//! flock, fcntl and OFD locks: one space, several processes.

use std::fs;
use std::path::Path;
use std::time::Instant;

use nix::sys::signal::Signal;

use crate::children::{PATIENCE, Program, within};
use crate::common::{Mount, on_both_paths};

const KINDS: [&str; 3] = ["flock", "posix", "ofd"];
const SHARED: &str = "fcntl.F_RDLCK";
const EXCLUSIVE: &str = "fcntl.F_WRLCK";
const CLEAR: &str = "fcntl.F_UNLCK";

fn file(mount: &Mount) -> std::path::PathBuf {
    let path = mount.path("f");
    fs::write(&path, vec![b'x'; 100]).unwrap();
    path
}

/// Takes a lock without waiting; says whether it was granted.
fn takes(program: &mut Program, kind: &str, how: &str, fd: &str) -> bool {
    match program.ask(&format!("{kind}({fd}, {how})")).as_str() {
        "None" => true,
        "EAGAIN" => false,
        other => panic!("{kind} {how}: {other}"),
    }
}

fn let_go(program: &mut Program, kind: &str, fd: &str) {
    assert!(takes(program, kind, CLEAR, fd));
}

#[test]
fn every_pair_of_kinds_conflicts_between_two_programs_unless_both_are_shared() {
    on_both_paths(&[], |mount| {
        let path = file(mount);
        let (mut one, mut other) = (Program::with_open(&path), Program::with_open(&path));
        for first in KINDS {
            for second in KINDS {
                for (held, wanted, fits) in [
                    (SHARED, SHARED, true),
                    (SHARED, EXCLUSIVE, false),
                    (EXCLUSIVE, SHARED, false),
                    (EXCLUSIVE, EXCLUSIVE, false),
                ] {
                    assert!(takes(&mut one, first, held, "fd"));
                    let granted = takes(&mut other, second, wanted, "fd");
                    assert_eq!(granted, fits, "{first} {held}, then {second} {wanted}");
                    let_go(&mut one, first, "fd");
                    assert!(takes(&mut other, second, wanted, "fd"), "free again");
                    let_go(&mut other, second, "fd");
                }
            }
        }
    });
}

#[test]
fn one_program_conflicts_with_itself_only_through_two_descriptions() {
    on_both_paths(&[], |mount| {
        let path = file(mount);
        let mut program = Program::with_open(&path);
        assert_eq!(program.ask(&format!("again = os.open({path:?}, os.O_RDWR)")), "ok");
        for first in KINDS {
            for second in KINDS {
                assert!(takes(&mut program, first, EXCLUSIVE, "fd"));
                assert!(takes(&mut program, second, EXCLUSIVE, "fd"), "{first}, {second}: one descriptor");
                let_go(&mut program, second, "fd");
                let_go(&mut program, first, "fd");
                assert!(takes(&mut program, first, EXCLUSIVE, "fd"));
                let granted = takes(&mut program, second, EXCLUSIVE, "again");
                // fcntl locks belong to the process, the others to the description.
                assert_eq!(granted, (first, second) == ("posix", "posix"), "{first}, {second}: two of them");
                for fd in ["fd", "again"] {
                    let_go(&mut program, first, fd);
                    let_go(&mut program, second, fd);
                }
            }
        }
    });
}

#[test]
fn flock_and_fcntl_of_one_program_do_not_block_each_other() {
    on_both_paths(&[], |mount| {
        let path = file(mount);
        let (mut program, mut other) = (Program::with_open(&path), Program::with_open(&path));
        assert_eq!(program.ask("flock(fd, fcntl.F_WRLCK, True)"), "None");
        assert_eq!(program.ask("posix(fd, fcntl.F_WRLCK, True)"), "None");
        assert_eq!(program.ask("ofd(fd, fcntl.F_WRLCK, True)"), "None");
        let_go(&mut program, "posix", "fd");
        assert!(!takes(&mut other, "posix", SHARED, "fd"), "the flock is still there");
    });
}

#[test]
fn getlk_names_the_holder_and_its_bytes() {
    on_both_paths(&[], |mount| {
        let path = file(mount);
        let (mut one, mut other) = (Program::with_open(&path), Program::with_open(&path));
        assert_eq!(other.ask("getlk(fd, fcntl.F_WRLCK)"), "(2, 0, 0, 0)", "nobody");
        assert_eq!(one.ask("posix(fd, fcntl.F_WRLCK, False, 10, 20)"), "None");
        let pid = one.pid();
        assert_eq!(other.ask("getlk(fd, fcntl.F_RDLCK)"), format!("(1, 10, 20, {pid})"));
        assert_eq!(other.ask("getlk(fd, fcntl.F_RDLCK, 0, 10)"), "(2, 0, 10, 0)", "beside it");
        // A clear in the middle leaves two; setting it again makes one.
        assert_eq!(one.ask("posix(fd, fcntl.F_UNLCK, False, 15, 5)"), "None");
        assert_eq!(other.ask("getlk(fd, fcntl.F_WRLCK)"), format!("(1, 10, 5, {pid})"));
        assert_eq!(other.ask("getlk(fd, fcntl.F_WRLCK, 15)"), format!("(1, 20, 10, {pid})"));
        assert_eq!(one.ask("posix(fd, fcntl.F_WRLCK, False, 15, 5)"), "None");
        assert_eq!(other.ask("getlk(fd, fcntl.F_WRLCK)"), format!("(1, 10, 20, {pid})"));
        // To the end of the file, wherever that is.
        assert_eq!(one.ask("posix(fd, fcntl.F_RDLCK, False, 50)"), "None");
        assert_eq!(other.ask("getlk(fd, fcntl.F_WRLCK, 40)"), format!("(0, 50, 0, {pid})"));
        assert_eq!(other.ask("getlk(fd, fcntl.F_WRLCK, 0, 0, F_OFD_GETLK)"), "(1, 10, 20, -1)");
    });
}

#[test]
fn closing_a_descriptor_drops_what_its_rules_say() {
    on_both_paths(&[], |mount| {
        let path = file(mount);
        let (mut one, mut other) = (Program::with_open(&path), Program::with_open(&path));
        // Closing a copy drops the process's fcntl locks, and nothing else.
        for (kind, kept) in [("posix", false), ("flock", true), ("ofd", true)] {
            assert!(takes(&mut one, kind, EXCLUSIVE, "fd"));
            assert_eq!(one.ask("os.close(os.dup(fd))"), "None");
            assert_eq!(takes(&mut other, "posix", EXCLUSIVE, "fd"), !kept, "{kind}");
            let_go(&mut other, "posix", "fd");
            let_go(&mut one, kind, "fd");
        }
        // The last close drops everything; a close that has returned is a close.
        for kind in KINDS {
            one.open(&path);
            assert!(takes(&mut one, kind, EXCLUSIVE, "fd"));
            assert_eq!(one.ask("os.close(fd)"), "None");
            assert!(takes(&mut other, kind, EXCLUSIVE, "fd"), "{kind}");
            let_go(&mut other, kind, "fd");
        }
    });
}

#[test]
fn fork_shares_descriptions_and_not_processes() {
    on_both_paths(&[], |mount| {
        let path = file(mount);
        let (mut parent, mut other) = (Program::with_open(&path), Program::with_open(&path));
        let child = "subprocess.Popen([\"sleep\", \"60\"], pass_fds=[fd])";
        for (kind, inherited) in [("posix", false), ("flock", true), ("ofd", true)] {
            assert!(takes(&mut parent, kind, EXCLUSIVE, "fd"));
            assert_eq!(parent.ask(&format!("child = {child}")), "ok");
            assert_eq!(parent.ask("os.close(fd)"), "None");
            assert_eq!(
                takes(&mut other, "ofd", EXCLUSIVE, "fd"),
                !inherited,
                "{kind}: the child has the copy"
            );
            let_go(&mut other, "ofd", "fd");
            assert_eq!(parent.ask("child.kill() or child.wait()"), "-9");
            within(|| takes(&mut other, "ofd", EXCLUSIVE, "fd"));
            let_go(&mut other, "ofd", "fd");
            parent.open(&path);
        }
    });
}

#[test]
fn exec_keeps_what_was_taken() {
    on_both_paths(&[], |mount| {
        let path = file(mount);
        let mut other = Program::with_open(&path);
        for kind in KINDS {
            let mut program = Program::with_open(&path);
            assert!(takes(&mut program, kind, EXCLUSIVE, "fd"));
            assert_eq!(program.ask("os.set_inheritable(fd, True)"), "None");
            program.tell("os.execvp(\"sleep\", [\"sleep\", \"60\"])");
            let name = format!("/proc/{}/comm", program.pid());
            within(|| fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep"));
            assert!(!takes(&mut other, "posix", SHARED, "fd"), "{kind}");
            program.kill();
            within(|| takes(&mut other, "posix", EXCLUSIVE, "fd"));
            let_go(&mut other, "posix", "fd");
        }
    });
}

#[test]
fn waiters_are_served_in_the_order_they_came() {
    on_both_paths(&[], |mount| {
        let path = file(mount);
        let mut holder = Program::with_open(&path);
        assert!(takes(&mut holder, "flock", EXCLUSIVE, "fd"));
        let mut waiters: Vec<(Program, &str)> =
            ["posix", "flock", "ofd", "posix"].map(|kind| (Program::with_open(&path), kind)).into();
        for (waiter, kind) in &mut waiters {
            waiter.tell(&format!("{kind}(fd, fcntl.F_WRLCK, True)"));
            waiter.until_blocked();
        }
        let_go(&mut holder, "flock", "fd");
        for turn in 0..waiters.len() {
            let (before, behind) = waiters.split_at_mut(turn + 1);
            let (waiter, kind) = &mut before[turn];
            assert_eq!(waiter.answer(), "None", "turn {turn}");
            for (later, _) in behind {
                assert!(later.is_waiting());
            }
            let_go(waiter, kind, "fd");
        }
    });
}

#[test]
fn a_signal_ends_a_wait() {
    on_both_paths(&[], |mount| {
        let path = file(mount);
        let mut holder = Program::with_open(&path);
        assert!(takes(&mut holder, "posix", EXCLUSIVE, "fd"));
        for kind in KINDS {
            let mut waiter = Program::with_open(&path);
            // Python would go on waiting after a handler that returns.
            waiter.ask("def stop(*_): raise InterruptedError(errno.EINTR, \"\")");
            waiter.ask("old = signal.signal(signal.SIGUSR1, stop)");
            waiter.ask("old = signal.signal(signal.SIGUSR2, signal.SIG_IGN)");
            waiter.tell(&format!("{kind}(fd, fcntl.F_WRLCK, True)"));
            waiter.until_blocked();
            waiter.signal(Signal::SIGUSR2);
            let sent = Instant::now();
            waiter.signal(Signal::SIGUSR1);
            assert_eq!(waiter.answer(), "EINTR", "{kind}");
            println!("{kind}: a signal ended the wait after {:?}", sent.elapsed());
            assert!(!takes(&mut waiter, kind, SHARED, "fd"), "it did not get it");
        }
    });
}

#[test]
fn waiters_and_holders_can_be_killed() {
    on_both_paths(&[], |mount| {
        let path = file(mount);
        let mut holder = Program::with_open(&path);
        for kind in KINDS {
            assert!(takes(&mut holder, kind, EXCLUSIVE, "fd"));
            let mut doomed = Program::with_open(&path);
            doomed.tell(&format!("{kind}(fd, fcntl.F_WRLCK, True)"));
            doomed.until_blocked();
            println!("{kind}: a waiter was gone {:?} after SIGKILL", doomed.kill());
            let mut term = Program::with_open(&path);
            term.tell(&format!("{kind}(fd, fcntl.F_WRLCK, True)"));
            term.until_blocked();
            term.signal(Signal::SIGTERM);
            assert!(term.is_dead());
            let mut waiter = Program::with_open(&path);
            waiter.tell(&format!("{kind}(fd, fcntl.F_WRLCK, True)"));
            waiter.until_blocked();
            holder.kill();
            assert_eq!(waiter.answer(), "None", "{kind}: a dead holder has let go");
            let_go(&mut waiter, kind, "fd");
            holder = waiter;
        }
    });
}

#[test]
fn a_thread_waits_and_its_program_goes_on() {
    on_both_paths(&[], |mount| {
        let path = file(mount);
        let (mut holder, mut waiter) = (Program::with_open(&path), Program::with_open(&path));
        assert!(takes(&mut holder, "posix", EXCLUSIVE, "fd"));
        waiter.ask("thread = threading.Thread(target=posix, args=(fd, fcntl.F_WRLCK, True), daemon=True)");
        assert_eq!(waiter.ask("thread.start()"), "None");
        assert_eq!(waiter.ask("os.pread(fd, 1, 0)"), "b'x'", "the program goes on");
        assert_eq!(waiter.ask("thread.is_alive()"), "True");
        let_go(&mut holder, "posix", "fd");
        assert_eq!(waiter.ask("thread.join(30)"), "None");
        assert_eq!(waiter.ask("thread.is_alive()"), "False");
        assert!(!takes(&mut holder, "posix", SHARED, "fd"), "the process has it");
    });
}

#[test]
fn only_a_real_circle_is_a_deadlock() {
    on_both_paths(&[], |mount| {
        let (a, b) = (file(mount), mount.path("g"));
        fs::write(&b, "y").unwrap();
        let (mut one, mut two, mut three) =
            (Program::with_open(&a), Program::with_open(&a), Program::with_open(&a));
        for program in [&mut one, &mut two, &mut three] {
            assert_eq!(program.ask(&format!("other = os.open({b:?}, os.O_RDWR)")), "ok");
        }
        assert!(takes(&mut one, "posix", EXCLUSIVE, "fd"));
        assert!(takes(&mut two, "posix", EXCLUSIVE, "other"));
        three.tell("posix(fd, fcntl.F_WRLCK, True)");
        three.until_blocked();
        one.tell("posix(other, fcntl.F_WRLCK, True)");
        one.until_blocked();
        let refused = two.ask("posix(fd, fcntl.F_WRLCK, True)");
        assert!(["EDEADLK", "EDEADLOCK"].contains(&refused.as_str()), "two names of one errno: {refused}");
        let_go(&mut two, "posix", "other");
        assert_eq!(one.answer(), "None", "two let go");
        let_go(&mut one, "posix", "fd");
        assert_eq!(three.answer(), "None");
    });
}

#[test]
fn a_waiter_learns_that_the_daemon_died() {
    on_both_paths(&[], |mount| {
        let path = file(mount);
        let (mut holder, mut waiter) = (Program::with_open(&path), Program::with_open(&path));
        assert!(takes(&mut holder, "flock", EXCLUSIVE, "fd"));
        waiter.tell("flock(fd, fcntl.F_WRLCK, True)");
        waiter.until_blocked();
        mount.kill();
        let answer = waiter.answer();
        assert!(["ECONNABORTED", "ENOTCONN"].contains(&answer.as_str()), "{answer}");
        drop((holder, waiter));
        mount.start();
        let mut next = Program::with_open(&path);
        assert!(takes(&mut next, "flock", EXCLUSIVE, "fd"), "a dead daemon holds nothing");
    });
}

#[test]
fn giving_up_an_exclusive_range_lock_commits() {
    on_both_paths(&[], |mount| {
        let path = file(mount);
        for (kind, text) in [("posix", "one"), ("flock", "two"), ("ofd", "three")] {
            let mut program = Program::with_open(&path);
            assert!(takes(&mut program, kind, EXCLUSIVE, "fd"));
            assert_eq!(program.ask(&format!("os.pwrite(fd, b\"{text}\", 0)")), text.len().to_string());
            let_go(&mut program, kind, "fd");
            // Neither closed nor synced.
            mount.kill();
            drop(program);
            mount.start();
            assert_eq!(&fs::read(&path).unwrap()[..text.len()], text.as_bytes(), "{kind}");
        }
    });
}

#[test]
fn an_exclusive_range_lock_holds_the_lease() {
    on_both_paths(&[], |mount| {
        let path = file(mount);
        let (mut program, mut other) = (Program::with_open(&path), Program::with_open(&path));
        let lease = |program: &mut Program| program.ask("share.get_state(fd)[2]");
        for kind in KINDS {
            assert!(takes(&mut program, kind, SHARED, "fd"));
            assert_eq!(lease(&mut program), "0", "{kind}, shared");
            assert!(takes(&mut program, kind, EXCLUSIVE, "fd"));
            assert_eq!(lease(&mut program), "1", "{kind}, exclusive");
            assert!(takes(&mut program, kind, SHARED, "fd"));
            assert_eq!(lease(&mut program), "0", "{kind}, shared again");
            assert!(takes(&mut program, kind, EXCLUSIVE, "fd"));
            let_go(&mut program, kind, "fd");
            assert_eq!(lease(&mut program), "0", "{kind}, given up");
            assert!(takes(&mut program, kind, EXCLUSIVE, "fd"));
            assert_eq!(program.ask("os.close(fd)"), "None");
            within(|| lease(&mut other) == "0");
            program.open(&path);
        }
    });
}

#[test]
fn flock_of_the_shell_keeps_scripts_apart() {
    on_both_paths(&[], |mount| {
        let (counter, guard) = (mount.path("counter"), mount.path("guard"));
        fs::write(&counter, "0").unwrap();
        fs::write(&guard, "").unwrap();
        const ROUNDS: usize = 25;
        let script = format!(
            "for i in $(seq {ROUNDS}); do flock '{0}' sh -c 'n=$(cat \"$1\"); echo $((n + 1)) > \"$1\"' - '{1}' || exit 1; done",
            guard.display(),
            counter.display()
        );
        let run = || std::process::Command::new("sh").args(["-c", &script]).spawn().unwrap();
        let mut all: Vec<_> = (0..3).map(|_| run()).collect();
        for child in &mut all {
            assert!(child.wait().unwrap().success());
        }
        assert_eq!(fs::read_to_string(&counter).unwrap().trim(), (3 * ROUNDS).to_string());
    });
}

fn read_at(program: &mut Program, at: u64) -> String {
    program.ask(&format!("len(os.pread(fd, 10, {at}))"))
}

#[test]
fn mandatory_range_locks_bind_the_reads_and_writes_of_others() {
    on_both_paths(&["--mandatory-locks"], |mount| {
        let path = file(mount);
        let (mut one, mut other) = (Program::with_open(&path), Program::with_open(&path));
        assert_eq!(read_at(&mut other, 0), "10", "not in any cache that could answer later");
        assert_eq!(one.ask("posix(fd, fcntl.F_WRLCK, False, 0, 10)"), "None");
        assert_eq!(read_at(&mut other, 0), "EAGAIN");
        assert_eq!(other.ask("os.pwrite(fd, b\"y\", 5)"), "EAGAIN");
        assert_eq!(other.ask("os.ftruncate(fd, 5)"), "EAGAIN");
        assert_eq!(other.ask(&format!("os.open({path:?}, os.O_RDWR | os.O_TRUNC)")), "EAGAIN");
        assert_eq!(read_at(&mut other, 10), "10", "beside it");
        assert_eq!(other.ask("os.pwrite(fd, b\"y\", 10)"), "1");
        assert_eq!(one.ask("os.pwrite(fd, b\"z\", 5)"), "1", "its owner may");
        assert_eq!(read_at(&mut one, 0), "10");
        assert_eq!(one.ask(&format!("again = os.open({path:?}, os.O_RDWR)")), "ok");
        assert_eq!(one.ask("os.pwrite(again, b\"z\", 5)"), "1", "its owner may, through any descriptor");
        assert_eq!(one.ask("posix(fd, fcntl.F_RDLCK, False, 0, 10)"), "None");
        assert_eq!(read_at(&mut other, 0), "10", "a shared one lets others read");
        assert_eq!(other.ask("os.pwrite(fd, b\"y\", 5)"), "EAGAIN");
        let_go(&mut one, "posix", "fd");
        assert_eq!(other.ask("os.pwrite(fd, b\"y\", 5)"), "1");
        let text = fs::read(Path::new(&path)).unwrap();
        assert_eq!((text[5], text[10]), (b'y', b'y'));
    });
}

#[test]
fn range_locks_are_advisory_unless_asked() {
    on_both_paths(&[], |mount| {
        let path = file(mount);
        let (mut one, mut other) = (Program::with_open(&path), Program::with_open(&path));
        assert!(takes(&mut one, "flock", EXCLUSIVE, "fd"));
        assert_eq!(read_at(&mut other, 0), "10");
        assert_eq!(other.ask("os.pwrite(fd, b\"y\", 5)"), "1");
        let before = Instant::now();
        assert!(!takes(&mut other, "posix", SHARED, "fd"));
        assert!(before.elapsed() < PATIENCE);
    });
}
