//! A daemon in the foreground that is meant to die: our own child, so that we know how it ended.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, umount2};
use nix::sys::resource::{Resource, setrlimit};

pub const LEASEFS: &str = env!("CARGO_BIN_EXE_leasefs");

/// How long a daemon may take to end after something that must end it.
const PATIENCE: Duration = Duration::from_secs(60);

/// One mount at a time: a process that another test starts gets copies of all open files for a moment, and when it
/// closes them the daemon commits what no test asked to commit.
static ALONE: Mutex<()> = Mutex::new(());

/// A folder with a mount point, the log of its daemons, and one of them at most.
pub struct Daemon {
    _alone: MutexGuard<'static, ()>,
    pub folder: tempfile::TempDir,
    running: Option<Running>,
}

struct Running {
    child: Child,
    /// Kept open: the daemon's own words must not fail.
    _stdout: BufReader<ChildStdout>,
}

impl Daemon {
    /// Nothing runs yet.
    pub fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // Children inherit it: a daemon that aborts on purpose needs no picture of its memory.
        setrlimit(Resource::RLIMIT_CORE, 0, 0).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("mount")).unwrap();
        Self { _alone: alone, folder, running: None }
    }

    pub fn dir(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    /// What the daemons said.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Mounts with these arguments of `leasefs mount`, before the mount point; dies at `point`. Says whether it lived
    /// long enough to serve.
    pub fn spawn(&mut self, point: Option<&str>, arguments: &[String]) -> bool {
        assert!(self.running.is_none(), "one daemon at a time");
        let log = File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let mut command = Command::new(LEASEFS);
        command.args(["mount", "--foreground"]).args(arguments).arg(self.dir());
        command.env_remove("LEASEFS_CRASH_AT").envs(point.map(|point| ("LEASEFS_CRASH_AT", point)));
        command.env("XDG_STATE_HOME", self.folder.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let mut ready = false;
        while !ready && stdout.read_line(&mut line).unwrap() > 0 {
            ready = line.contains("is mounted at");
            line.clear();
        }
        self.running = Some(Running { child, _stdout: stdout });
        ready
    }

    /// Whether there is one that nobody has seen end.
    pub fn is_there(&self) -> bool {
        self.running.is_some()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.running.as_mut().is_some_and(|daemon| daemon.child.try_wait().unwrap().is_none())
    }

    /// Kills it without warning.
    pub fn kill(&mut self) {
        let mut daemon = self.running.take().expect("a daemon to kill");
        daemon.child.kill().unwrap();
        let status = daemon.child.wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL), "it ended before: {status}\n{}", self.log());
    }

    /// Asks it to end, by `leasefs umount`. What that says is not judged here.
    pub fn ask_to_end(&self) {
        drop(Command::new(LEASEFS).arg("umount").arg(self.dir()).output().expect("leasefs runs"));
    }

    /// Unmounts in order.
    pub fn stop(&mut self) {
        self.ask_to_end();
        let status = self.ended().expect("the daemon ends after umount");
        assert!(status.success(), "the daemon ended with {status}:\n{}", self.log());
    }

    /// Waits for its end, and says how it was. None if it goes on.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let daemon = self.running.as_mut()?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = daemon.child.try_wait().unwrap() {
                self.running = None;
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }

    /// Runs the store's own check on a data directory. Nothing may be mounted.
    pub fn check(&self, data: &Path) {
        assert!(!self.is_there());
        let output = Command::new(LEASEFS).args(["check", "--data"]).arg(data).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "check: {}\n{}", String::from_utf8_lossy(&said), self.log());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.running {
            daemon.child.kill().ok();
            daemon.child.wait().ok();
        }
        // One for the living, more for the dead below it.
        for _ in 0..4 {
            umount2(&self.dir(), MntFlags::MNT_DETACH).ok();
        }
    }
}
