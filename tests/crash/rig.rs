//! A mount whose daemon is meant to die: it runs in the foreground as our own child, so that we know how it ended.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, umount2};
use nix::sys::resource::{Resource, setrlimit};

const LEASEFS: &str = env!("CARGO_BIN_EXE_leasefs");

/// How long a daemon may take to end after something that must end it.
const PATIENCE: Duration = Duration::from_secs(20);

/// One mount at a time: a process that another test starts gets copies of all open files for a moment, and when it
/// closes them the daemon commits what no test asked to commit.
static ALONE: Mutex<()> = Mutex::new(());

pub struct Rig {
    _alone: MutexGuard<'static, ()>,
    folder: tempfile::TempDir,
    options: Vec<String>,
    daemon: Option<Daemon>,
}

struct Daemon {
    child: Child,
    /// Kept open: the daemon's own words must not fail.
    _stdout: BufReader<ChildStdout>,
}

impl Rig {
    /// A place for a mount with these options; nothing is mounted yet. None where this machine cannot mount.
    pub fn new(options: &[&str]) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            println!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // Children inherit it: a daemon that aborts on purpose needs no picture of its memory.
        setrlimit(Resource::RLIMIT_CORE, 0, 0).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("mount")).unwrap();
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Some(Self { _alone: alone, folder, options, daemon: None })
    }

    pub fn dir(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// What the daemons said.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Mounts, over a dead mount if there is one.
    pub fn start(&mut self) {
        assert!(self.spawn(None, &[]), "the mount does not start:\n{}", self.log());
    }

    /// The same with more options.
    pub fn start_with(&mut self, more: &[&str]) {
        assert!(self.spawn(None, more), "the mount does not start:\n{}", self.log());
    }

    /// Mounts with a daemon that dies at `point`. Says whether it lived long enough to serve.
    pub fn start_doomed(&mut self, point: &str, posix: bool) -> bool {
        let more: &[&str] = if posix { &["--delete", "posix"] } else { &[] };
        self.spawn(Some(point), more)
    }

    fn spawn(&mut self, point: Option<&str>, more: &[&str]) -> bool {
        assert!(self.daemon.is_none(), "one daemon at a time");
        let log = File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let mut command = Command::new(LEASEFS);
        command.args(["mount", "--foreground", "--data"]).arg(self.data());
        command.args(&self.options).args(more).arg(self.dir());
        command.env_remove("LEASEFS_CRASH_AT").envs(point.map(|point| ("LEASEFS_CRASH_AT", point)));
        command.env("XDG_STATE_HOME", self.folder.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        stdout.read_line(&mut ready).unwrap();
        self.daemon = Some(Daemon { child, _stdout: stdout });
        ready.contains("is mounted at")
    }

    /// Kills the daemon without warning.
    pub fn kill(&mut self) {
        let mut daemon = self.daemon.take().expect("a daemon to kill");
        daemon.child.kill().unwrap();
        let status = daemon.child.wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL), "it ended before: {status}\n{}", self.log());
    }

    /// Asks the daemon to end, by `leasefs umount`. What that says is not judged here.
    pub fn ask_to_end(&self) {
        let output = Command::new(LEASEFS).arg("umount").arg(self.dir()).output();
        drop(output.expect("leasefs runs"));
    }

    /// Whether the daemon has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.daemon.as_mut().is_some_and(|daemon| daemon.child.try_wait().unwrap().is_none())
    }

    /// Unmounts in order.
    pub fn stop(&mut self) {
        self.ask_to_end();
        let status = self.ended().expect("the daemon ends after umount");
        assert!(status.success(), "the daemon ended with {status}:\n{}", self.log());
    }

    /// Waits for the end of the daemon, and says how it was. None if it goes on.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let daemon = self.daemon.as_mut()?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = daemon.child.try_wait().unwrap() {
                self.daemon = None;
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }

    /// Runs the store's own check. Nothing may be mounted.
    pub fn check(&self) {
        assert!(self.daemon.is_none());
        let output = Command::new(LEASEFS).args(["check", "--data"]).arg(self.data()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "check: {}\n{}", String::from_utf8_lossy(&said), self.log());
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            daemon.child.kill().ok();
            daemon.child.wait().ok();
        }
        // One for the living, more for the dead below it.
        for _ in 0..4 {
            umount2(&self.dir(), MntFlags::MNT_DETACH).ok();
        }
    }
}
