//! A real mount for a test: started by the real binary, taken down when dropped.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The two ways data takes, tested alike.
pub const BOTH_PATHS: [&[&str]; 2] = [&[], &["--no-passthrough"]];

/// A mounted share with its own data directory.
pub struct Mount {
    folder: Option<tempfile::TempDir>,
    data: PathBuf,
    options: Vec<String>,
}

fn leasefs(arguments: &[&str]) -> Output {
    let logs = std::env::temp_dir().join("leasefs-test-logs");
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasefs"));
    command.args(arguments).env("XDG_STATE_HOME", logs);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = {
        let _starts = no_starts();
        command.spawn()
    };
    started.and_then(std::process::Child::wait_with_output).expect("leasefs runs")
}

/// While this lives no other test starts leasefs. A process that starts has a copy of every descriptor for a moment,
/// and closing a copy commits: not for tests of what was never closed.
pub fn no_starts() -> MutexGuard<'static, ()> {
    static STARTS: Mutex<()> = Mutex::new(());
    STARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mount {
    /// Mounts a fresh store, or says why this machine cannot.
    pub fn new(options: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        Self::on_data(folder, data, options)
    }

    /// Mounts with the store in `data`.
    pub fn on_data(folder: tempfile::TempDir, data: PathBuf, options: &[&str]) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            println!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        std::fs::create_dir_all(folder.path().join("mount")).unwrap();
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mount = Self { folder: Some(folder), data, options };
        mount.start();
        Some(mount)
    }

    /// Mounts again after an unmount or a kill.
    pub fn start(&self) {
        let (data, dir) = (self.data.to_str().unwrap().to_owned(), self.dir());
        let mut arguments = vec!["mount", "--data", &data];
        arguments.extend(self.options.iter().map(String::as_str));
        arguments.push(dir.to_str().unwrap());
        let output = leasefs(&arguments);
        assert!(output.status.success(), "mount: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Unmounts in order.
    pub fn stop(&self) {
        let output = leasefs(&["umount", self.dir().to_str().unwrap()]);
        assert!(output.status.success(), "umount: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Kills the daemon without warning and clears the dead mount.
    pub fn kill(&self) {
        let pid = self.daemon().expect("a daemon serves the mount");
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        // Attributes may still be answered from the kernel's cache; statfs never is.
        while nix::sys::statvfs::statvfs(&self.dir()).is_ok() {
            assert!(Instant::now() < deadline, "the mount outlives its daemon");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The daemon's process: the one whose command line names our mountpoint.
    pub fn daemon(&self) -> Option<nix::unistd::Pid> {
        let dir = self.dir();
        let processes = std::fs::read_dir("/proc").unwrap();
        for process in processes.flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            let ours = words.next().is_some_and(|word| word.ends_with(b"leasefs"))
                && words.any(|word| word == dir.as_os_str().as_bytes());
            if ours {
                return Some(nix::unistd::Pid::from_raw(pid));
            }
        }
        None
    }

    /// The mounted directory.
    pub fn dir(&self) -> PathBuf {
        self.folder.as_ref().unwrap().path().join("mount")
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// Where the store keeps its data.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Unmounts and runs the store's own check.
    pub fn check(&self) {
        self.stop();
        let output = leasefs(&["check", "--data", self.data.to_str().unwrap()]);
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "check: {text}");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let dir = self.dir();
        let done = leasefs(&["umount", "--lazy", dir.to_str().unwrap()]);
        if !done.status.success() {
            let path = CString::new(dir.as_os_str().as_bytes()).unwrap();
            // SAFETY: umount2 takes a NUL-terminated path, which `path` is, and keeps nothing of it.
            unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        }
        drop(self.folder.take());
    }
}

/// Runs `test` on a fresh mount for each data path.
pub fn on_both_paths(options: &[&str], test: impl Fn(&Mount)) {
    for path in BOTH_PATHS {
        println!("data path {path:?}");
        let options: Vec<&str> = options.iter().chain(path).copied().collect();
        let Some(mount) = Mount::new(&options) else { return };
        test(&mount);
        mount.check();
    }
}

/// The errno of a failed operation.
pub fn errno<T>(result: io::Result<T>) -> i32 {
    match result {
        Ok(_) => 0,
        Err(error) => error.raw_os_error().unwrap_or(-1),
    }
}

/// Names in a directory, sorted.
pub fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
