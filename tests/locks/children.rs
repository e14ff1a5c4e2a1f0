//! Other processes: a small Python program that does what it is told, line by line, and answers each line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long anything may take before a test says that it hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What the child runs: it evaluates each line and prints the result, or the errno.
const PROGRAM: &str = r#"
import ctypes, errno, fcntl, mmap, os, signal, struct, subprocess, sys, threading, time
sys.path.insert(0, sys.argv[1])
import share
F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW = 36, 37, 38
def pack(kind, start=0, length=0, pid=0):
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, pid)
def posix(fd, kind, wait=False, start=0, length=0):
    fcntl.fcntl(fd, fcntl.F_SETLKW if wait else fcntl.F_SETLK, pack(kind, start, length))
def ofd(fd, kind, wait=False, start=0, length=0):
    fcntl.fcntl(fd, F_OFD_SETLKW if wait else F_OFD_SETLK, pack(kind, start, length))
def flock(fd, kind, wait=False, start=0, length=0):
    how = {fcntl.F_RDLCK: fcntl.LOCK_SH, fcntl.F_WRLCK: fcntl.LOCK_EX, fcntl.F_UNLCK: fcntl.LOCK_UN}[kind]
    fcntl.flock(fd, how if wait else how | fcntl.LOCK_NB)
def getlk(fd, kind, start=0, length=0, command=fcntl.F_GETLK):
    answer = struct.unpack("hhqqi4x", fcntl.fcntl(fd, command, pack(kind, start, length)))
    return (answer[0], answer[2], answer[3], answer[4])
def run(line, names=globals()):
    try:
        exec(line, names) if line.startswith(("import ", "def ", "del ")) or " = " in line else None
        return "ok" if " = " in line or line.startswith(("import ", "def ", "del ")) else repr(eval(line, names))
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
for line in sys.stdin:
    print(run(line.strip()), flush=True)
"#;

/// A program on the mount.
pub struct Program {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Program {
    pub fn start() -> Self {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
        let mut child = Command::new("python3")
            .args(["-u", "-c", PROGRAM])
            .arg(examples)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, input, answers }
    }

    /// Starts a program that opens `path`; its descriptor is `fd`.
    pub fn with_open(path: &Path) -> Self {
        let mut program = Self::start();
        program.open(path);
        program
    }

    pub fn open(&mut self, path: &Path) {
        assert_eq!(self.ask(&format!("fd = os.open({path:?}, os.O_RDWR)")), "ok");
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Says a line without waiting for the answer.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// The answer to the line that was told.
    pub fn answer(&mut self) -> String {
        self.answers.recv_timeout(PATIENCE).expect("the program answers in time")
    }

    /// Says a line and waits for the answer.
    pub fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.answer()
    }

    /// Waits until the file of `fd` stands like this. The count of its opens includes those whose closes have returned
    /// and whose RELEASE is still on its way, so it may take a moment.
    pub fn until_state(&mut self, wanted: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = self.ask("share.get_state(fd)");
            if state == wanted {
                return;
            }
            assert!(Instant::now() < deadline, "the state stays {state}, not {wanted}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether the program has not answered yet.
    pub fn is_waiting(&mut self) -> bool {
        match self.answers.try_recv() {
            Ok(answer) => panic!("the program answered {answer}"),
            Err(_) => true,
        }
    }

    /// Waits until the program sleeps in its call, so that whoever comes later comes behind it.
    pub fn until_blocked(&mut self) {
        let pid = self.pid();
        let blocked = || {
            let syscall = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
            // fcntl and flock, by number.
            matches!(syscall.split(' ').next(), Some(number) if number.parse().is_ok_and(|number: i64| [libc::SYS_fcntl, libc::SYS_flock].contains(&number)))
        };
        within(blocked);
        self.is_waiting();
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Kills it and returns how long it took to be gone.
    pub fn kill(mut self) -> Duration {
        let before = Instant::now();
        self.child.kill().unwrap();
        self.gone(before)
    }

    /// Waits for its end, which must come in time.
    fn gone(&mut self, before: Instant) -> Duration {
        within(|| self.child.try_wait().unwrap().is_some());
        before.elapsed()
    }

    /// Waits until it has answered nothing more and its output is closed: it is dead.
    pub fn is_dead(&mut self) -> bool {
        matches!(self.answers.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a condition, with a limit that only a real fault exceeds.
pub fn within(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "it never came about");
        std::thread::sleep(Duration::from_millis(2));
    }
}
