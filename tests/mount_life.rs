//! The life of a mount, with the real program and the real kernel: how it starts, how it ends, what it leaves behind.
//!
//! Needs root and /dev/fuse; says so and passes without them.

// A test that cannot go on stops.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const LEASEFS: &str = env!("CARGO_BIN_EXE_leasefs");
const PATIENCE: Duration = Duration::from_secs(20);

/// A home of its own for one test; unmounts and ends everything when dropped.
struct Rig {
    root: tempfile::TempDir,
    mnt: PathBuf,
    data: PathBuf,
}

impl Rig {
    /// None, with the reason printed, where nothing can be mounted.
    fn new() -> Option<Self> {
        if !nix::unistd::Uid::effective().is_root() {
            println!("skipped: needs root");
            return None;
        }
        if fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
            println!("skipped: /dev/fuse cannot be opened");
            return None;
        }
        let root = tempfile::tempdir().unwrap();
        let base = root.path().canonicalize().unwrap();
        let (mnt, data) = (base.join("mnt"), base.join("data"));
        fs::create_dir(&mnt).unwrap();
        Some(Self { root, mnt, data })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(LEASEFS);
        command.args(words).env("HOME", self.root.path());
        for variable in ["XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "LEASEFS_LOG"] {
            command.env_remove(variable);
        }
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).stdin(Stdio::null()).output().unwrap()
    }

    fn mnt(&self) -> &str {
        self.mnt.to_str().unwrap()
    }

    fn data(&self) -> &str {
        self.data.to_str().unwrap()
    }

    #[track_caller]
    fn mount(&self) {
        self.mount_with(&[]);
    }

    #[track_caller]
    fn mount_with(&self, more: &[&str]) -> Output {
        let output = self.run(&[&["mount", "--data", self.data(), self.mnt()], more].concat());
        succeeded(&output);
        assert!(is_mounted(&self.mnt), "mount returned before the mount was there");
        output
    }

    /// The one process that serves this rig's mount.
    #[track_caller]
    fn daemon(&self) -> i32 {
        let found = daemons(&self.mnt);
        assert_eq!(found.len(), 1, "exactly one daemon: {found:?}");
        found[0]
    }

    fn log(&self) -> String {
        let dir = self.root.path().join(".local/state/leasefs");
        let files = fs::read_dir(dir).into_iter().flatten().flatten();
        files.map(|file| fs::read_to_string(file.path()).unwrap()).collect()
    }

    /// No mount, no process, no socket, and the data can be used again at once.
    #[track_caller]
    fn assert_nothing_left(&self, daemon: i32) {
        wait_until("the mount is gone", || !is_mounted(&self.mnt));
        wait_until("the daemon has ended", || !is_running(daemon));
        assert!(daemons(&self.mnt).is_empty());
        assert!(!socket(&self.mnt).exists(), "a socket is left; log:\n{}", self.log());
        assert_eq!(
            fs::read_dir(&self.mnt).unwrap().count(),
            0,
            "the mountpoint is the empty directory again"
        );
        succeeded(&self.run(&["check", "--data", self.data()]));
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let found = daemons(&self.mnt);
        for _ in 0..8 {
            if !is_mounted(&self.mnt) {
                break;
            }
            Command::new("umount").arg("-l").arg(&self.mnt).status().ok();
        }
        for pid in found {
            if wait_up_to(Duration::from_secs(5), || !is_running(pid)).is_err() {
                kill(pid, nix::sys::signal::Signal::SIGKILL);
            }
        }
        fs::remove_file(socket(&self.mnt)).ok();
    }
}

/// Ends a helper process when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn is_mounted(path: &Path) -> bool {
    mounts_at(path) > 0
}

fn mounts_at(path: &Path) -> usize {
    let list = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let escaped = path.to_str().unwrap().replace(' ', "\\040");
    list.lines().filter(|line| line.split(' ').nth(4) == Some(&escaped)).count()
}

/// Processes of the program that have the mountpoint among their arguments.
fn daemons(mnt: &Path) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let names_mountpoint =
            words.split(|byte| *byte == 0).any(|word| word == mnt.as_os_str().as_encoded_bytes());
        let is_ours = fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == Path::new(LEASEFS));
        names_mountpoint && is_ours && is_running(*pid)
    })
    .collect()
}

/// False once the process and all its threads have ended, even if its parent has not noticed.
fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
    let fields: Vec<&str> = rest.split(' ').collect();
    fields[17] != "1" && fields[17] != "0" || !matches!(fields[0], "Z" | "X")
}

/// Where the daemon of a mount at `mnt` listens.
fn socket(mnt: &Path) -> PathBuf {
    use md5::{Digest, Md5};
    let digest = Md5::digest(mnt.as_os_str().as_encoded_bytes());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    PathBuf::from(format!("/run/leasefs/{name}.sock"))
}

fn kill(pid: i32, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).ok();
}

fn wait_up_to(time: Duration, mut done: impl FnMut() -> bool) -> Result<(), ()> {
    let start = Instant::now();
    while !done() {
        if start.elapsed() > time {
            return Err(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

#[track_caller]
fn wait_until(what: &str, done: impl FnMut() -> bool) {
    wait_up_to(PATIENCE, done).unwrap_or_else(|()| panic!("waited in vain: {what}"));
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn succeeded(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "stdout: {}\nstderr: {}", out(output), err(output));
}

#[track_caller]
fn refused(output: &Output, parts: &[&str]) {
    let said = err(output);
    assert_eq!(output.status.code(), Some(1), "{said}{}", out(output));
    assert!(said.starts_with("leasefs: "), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
}

#[test]
fn mount_returns_when_it_works_and_umount_when_all_is_over() {
    let Some(rig) = Rig::new() else { return };
    let output = rig.mount_with(&[]);
    assert_eq!(
        out(&output),
        format!("leasefs: share \"share\" is mounted at {} (data in {})\n", rig.mnt(), rig.data())
    );
    assert_eq!(err(&output), "");
    let list = fs::read_to_string("/proc/mounts").unwrap();
    assert!(list.contains(&format!("{} {} fuse.leasefs rw,", rig.data(), rig.mnt())), "{list}");
    fs::write(rig.mnt.join("file"), "hello").unwrap();
    let daemon = rig.daemon();
    assert!(socket(&rig.mnt).exists());
    let cwd = fs::read_link(format!("/proc/{daemon}/cwd")).unwrap();
    assert_eq!(cwd, Path::new("/"), "the daemon keeps no directory busy");
    let output = rig.run(&["umount", rig.mnt()]);
    succeeded(&output);
    assert!(!is_running(daemon), "umount waits for the daemon");
    rig.assert_nothing_left(daemon);
    rig.mount();
    assert_eq!(fs::read_to_string(rig.mnt.join("file")).unwrap(), "hello");
}

#[test]
fn a_second_mount_at_the_same_place_is_refused() {
    let Some(rig) = Rig::new() else { return };
    rig.mount();
    let other = rig.root.path().join("other");
    let output = rig.run(&["mount", "--data", other.to_str().unwrap(), rig.mnt()]);
    refused(&output, &[rig.mnt(), "already mounted", "leasefs umount"]);
    assert!(!other.exists(), "nothing was made for it");
    assert_eq!(mounts_at(&rig.mnt), 1);
}

#[test]
fn a_data_directory_in_use_is_refused_with_its_user() {
    let Some(rig) = Rig::new() else { return };
    rig.mount();
    let second = rig.root.path().canonicalize().unwrap().join("second");
    fs::create_dir(&second).unwrap();
    let output = rig.run(&["mount", "--data", rig.data(), second.to_str().unwrap()]);
    refused(&output, &[rig.data(), "in use", &rig.daemon().to_string()]);
    assert!(!is_mounted(&second));
    let output = rig.run(&["check", "--data", rig.data()]);
    refused(&output, &[rig.data(), "in use", &rig.daemon().to_string()]);
}

#[test]
fn a_foreign_data_directory_is_refused() {
    let Some(rig) = Rig::new() else { return };
    fs::create_dir(&rig.data).unwrap();
    fs::write(rig.data.join("letter.txt"), "dear").unwrap();
    let output = rig.run(&["mount", "--data", rig.data(), rig.mnt()]);
    refused(&output, &[rig.data(), "holds no leasefs store"]);
    assert!(!is_mounted(&rig.mnt));
    assert_eq!(fs::read_dir(&rig.data).unwrap().count(), 1, "nothing was added");
    wait_until("the daemon has ended", || daemons(&rig.mnt).is_empty());
}

/// Mounts, writes, ends the mount by `end`, and checks what is left.
#[track_caller]
fn ends_cleanly(rig: &Rig, end: impl Fn(&Rig, i32)) {
    for round in 0..2 {
        rig.mount();
        fs::write(rig.mnt.join(format!("file {round}")), round.to_string()).unwrap();
        let daemon = rig.daemon();
        end(rig, daemon);
        rig.assert_nothing_left(daemon);
    }
    rig.mount();
    for round in 0..2 {
        assert_eq!(fs::read_to_string(rig.mnt.join(format!("file {round}"))).unwrap(), round.to_string());
    }
}

#[test]
fn ends_cleanly_by_umount() {
    let Some(rig) = Rig::new() else { return };
    ends_cleanly(&rig, |rig, _| {
        assert!(Command::new("umount").arg(&rig.mnt).status().unwrap().success());
    });
}

#[test]
fn ends_cleanly_by_fusermount() {
    let Some(rig) = Rig::new() else { return };
    if Command::new("fusermount3").arg("-V").output().is_err() {
        println!("skipped: fusermount3 is not installed");
        return;
    }
    ends_cleanly(&rig, |rig, _| {
        assert!(Command::new("fusermount3").arg("-u").arg(&rig.mnt).status().unwrap().success());
    });
}

#[test]
fn ends_cleanly_by_signal() {
    use nix::sys::signal::Signal;
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let Some(rig) = Rig::new() else { return };
        ends_cleanly(&rig, |_, daemon| kill(daemon, signal));
    }
}

#[test]
fn mounting_again_right_after_umount_works() {
    let Some(rig) = Rig::new() else { return };
    for _ in 0..5 {
        rig.mount();
        fs::write(rig.mnt.join("file"), vec![7; 100_000]).unwrap();
        // Returns before the daemon has ended.
        assert!(Command::new("umount").arg(&rig.mnt).status().unwrap().success());
    }
    rig.mount();
}

#[test]
fn the_foreground_stays_and_ends_with_success_on_a_signal() {
    let Some(rig) = Rig::new() else { return };
    let mut command = rig.command(&["mount", "--foreground", "--data", rig.data(), rig.mnt()]);
    let mut child = Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    wait_until("it is mounted", || is_mounted(&rig.mnt));
    let pid = i32::try_from(child.0.id()).unwrap();
    assert_eq!(rig.daemon(), pid, "it serves itself");
    wait_until("the control socket", || socket(&rig.mnt).exists());
    kill(pid, nix::sys::signal::Signal::SIGINT);
    let status = child.0.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.0.stdout.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("is mounted at"), "{said}");
    rig.assert_nothing_left(pid);
}

#[test]
fn a_signal_while_files_are_open_detaches_and_still_ends() {
    let Some(rig) = Rig::new() else { return };
    rig.mount();
    let daemon = rig.daemon();
    let user = Running(Command::new("sleep").arg("60").current_dir(&rig.mnt).spawn().unwrap());
    kill(daemon, nix::sys::signal::Signal::SIGTERM);
    wait_until("the mount is gone", || !is_mounted(&rig.mnt));
    drop(user);
    rig.assert_nothing_left(daemon);
}

#[test]
fn a_second_signal_ends_at_once_without_a_dead_mount() {
    let Some(rig) = Rig::new() else { return };
    rig.mount();
    let daemon = rig.daemon();
    let _user = Running(Command::new("sleep").arg("60").current_dir(&rig.mnt).spawn().unwrap());
    kill(daemon, nix::sys::signal::Signal::SIGTERM);
    wait_until("the mount is gone", || !is_mounted(&rig.mnt));
    let asked = Instant::now();
    kill(daemon, nix::sys::signal::Signal::SIGTERM);
    wait_until("the daemon has ended", || !is_running(daemon));
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
}

#[test]
fn a_dead_mount_is_replaced_by_the_next_mount() {
    let Some(rig) = Rig::new() else { return };
    rig.mount();
    fs::write(rig.mnt.join("file"), "kept").unwrap();
    let daemon = rig.daemon();
    kill(daemon, nix::sys::signal::Signal::SIGKILL);
    wait_until("the daemon has ended", || !is_running(daemon));
    assert!(nix::sys::statvfs::statvfs(&rig.mnt).is_err(), "the mount is dead");
    let output = rig.mount_with(&[]);
    assert!(err(&output).contains("dead mount"), "{}", err(&output));
    assert_eq!(mounts_at(&rig.mnt), 1);
    assert_eq!(fs::read_to_string(rig.mnt.join("file")).unwrap(), "kept");
    let daemon = rig.daemon();
    succeeded(&rig.run(&["umount", rig.mnt()]));
    rig.assert_nothing_left(daemon);
}

#[test]
fn a_dead_mount_is_cleared_by_umount() {
    let Some(rig) = Rig::new() else { return };
    rig.mount();
    let daemon = rig.daemon();
    kill(daemon, nix::sys::signal::Signal::SIGKILL);
    wait_until("the daemon has ended", || !is_running(daemon));
    let output = rig.run(&["umount", rig.mnt()]);
    succeeded(&output);
    assert!(out(&output).contains("dead mount"), "{}", out(&output));
    rig.assert_nothing_left(daemon);
}

#[test]
fn a_mount_that_hangs_is_told_and_can_be_detached() {
    use nix::sys::signal::Signal;
    let Some(rig) = Rig::new() else { return };
    rig.mount();
    let daemon = rig.daemon();
    kill(daemon, Signal::SIGSTOP);
    let refusal = rig.run(&["mount", "--data", rig.data(), rig.mnt()]);
    let detached = rig.run(&["umount", "--lazy", rig.mnt()]);
    kill(daemon, Signal::SIGCONT);
    refused(&refusal, &[rig.mnt(), "does not answer"]);
    succeeded(&detached);
    rig.assert_nothing_left(daemon);
}

#[test]
fn a_busy_mount_names_its_users_and_can_be_detached() {
    let Some(rig) = Rig::new() else { return };
    rig.mount();
    let daemon = rig.daemon();
    let user = Running(Command::new("sleep").arg("60").current_dir(&rig.mnt).spawn().unwrap());
    let output = rig.run(&["umount", rig.mnt()]);
    refused(&output, &[rig.mnt(), "busy", &format!("sleep (pid {})", user.0.id()), "--lazy"]);
    assert!(is_mounted(&rig.mnt));
    let output = rig.run(&["umount", "--lazy", rig.mnt()]);
    succeeded(&output);
    assert!(!is_mounted(&rig.mnt));
    assert!(is_running(daemon) && out(&output).contains(&daemon.to_string()), "{}", out(&output));
    drop(user);
    rig.assert_nothing_left(daemon);
}

#[test]
fn umount_of_the_directory_one_is_in_names_the_shell_not_leasefs() {
    let Some(rig) = Rig::new() else { return };
    rig.mount();
    let script = format!("cd {} && {LEASEFS} umount .; echo $$; true", rig.mnt());
    let output = Command::new("sh").args(["-c", &script]).env("HOME", rig.root.path()).output().unwrap();
    let shell = out(&output).trim().to_owned();
    assert!(err(&output).contains(&format!("in use by sh (pid {shell});")), "{}", err(&output));
}

#[test]
fn a_directory_that_is_not_empty_gets_a_warning() {
    let Some(rig) = Rig::new() else { return };
    fs::write(rig.mnt.join("hidden"), "x").unwrap();
    let output = rig.mount_with(&[]);
    assert!(err(&output).contains("warning") && err(&output).contains("not empty"), "{}", err(&output));
    assert!(!rig.mnt.join("hidden").exists());
    succeeded(&rig.run(&["umount", rig.mnt()]));
    assert!(rig.mnt.join("hidden").exists());
}

#[test]
fn read_only_and_other_options_reach_the_kernel() {
    let Some(rig) = Rig::new() else { return };
    rig.mount();
    fs::write(rig.mnt.join("file"), "x").unwrap();
    succeeded(&rig.run(&["umount", rig.mnt()]));
    rig.mount_with(&["--read-only", "--allow-other", "-o", "noexec,noatime,nofail"]);
    let refusal = fs::write(rig.mnt.join("file"), "y").unwrap_err();
    assert_eq!(refusal.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(fs::read_to_string(rig.mnt.join("file")).unwrap(), "x");
    let list = fs::read_to_string("/proc/mounts").unwrap();
    let line = list.lines().find(|line| line.contains(rig.mnt())).unwrap();
    for option in ["ro,", "noexec", "noatime", "nosuid", "nodev", "allow_other"] {
        assert!(line.contains(option), "{option} is not in {line}");
    }
}

#[test]
fn shares_of_one_store_are_separate() {
    let Some(rig) = Rig::new() else { return };
    rig.mount_with(&["--share", "first"]);
    fs::write(rig.mnt.join("file"), "x").unwrap();
    succeeded(&rig.run(&["umount", rig.mnt()]));
    rig.mount_with(&["-o", "share=second"]);
    assert!(!rig.mnt.join("file").exists());
    succeeded(&rig.run(&["umount", rig.mnt()]));
    let output = rig.run(&["check", "--data", rig.data()]);
    succeeded(&output);
    assert!(out(&output).contains("is clean: 2 containers"), "{}", out(&output));
}

#[test]
fn check_finds_content_that_is_missing() {
    let Some(rig) = Rig::new() else { return };
    rig.mount();
    fs::write(rig.mnt.join("big"), vec![7; 300_000]).unwrap();
    fs::write(rig.mnt.join("small"), "x").unwrap();
    succeeded(&rig.run(&["umount", rig.mnt()]));
    let output = rig.run(&["check", "--data", rig.data()]);
    succeeded(&output);
    assert!(out(&output).contains("1 containers, 2 blobs, 300001 bytes"), "{}", out(&output));
    let content = largest_file(&rig.data.join("content"));
    fs::OpenOptions::new().write(true).open(&content).unwrap().set_len(100).unwrap();
    let output = rig.run(&["check", "--data", rig.data()]);
    refused(&output, &[rig.data(), "is damaged"]);
    assert!(out(&output).contains("big"), "{}", out(&output));
    assert!(!out(&output).contains("small"), "{}", out(&output));
}

fn largest_file(dir: &Path) -> PathBuf {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.map(|path| if path.is_dir() { largest_file_in(&path) } else { Some(path) });
    files.flatten().max_by_key(|path| path.metadata().unwrap().len()).unwrap()
}

fn largest_file_in(dir: &Path) -> Option<PathBuf> {
    let is_empty = fs::read_dir(dir).unwrap().next().is_none();
    if is_empty { None } else { Some(largest_file(dir)) }
}

#[test]
fn fstab_style_call_through_the_helper() {
    let Some(rig) = Rig::new() else { return };
    let mut helper =
        rig.command(&[rig.data(), rig.mnt(), "-o", "rw,noatime,share=docs,nofail,x-systemd.automount"]);
    let output = helper.arg0("/sbin/mount.leasefs").output().unwrap();
    succeeded(&output);
    assert!(out(&output).contains("share \"docs\""), "{}", out(&output));
    assert!(is_mounted(&rig.mnt));
    let daemon = rig.daemon();
    succeeded(&rig.run(&["umount", rig.mnt()]));
    rig.assert_nothing_left(daemon);
}

#[test]
fn mounts_are_found_through_symlinks_and_relative_paths() {
    let Some(rig) = Rig::new() else { return };
    let base = rig.root.path().canonicalize().unwrap();
    std::os::unix::fs::symlink(&rig.mnt, base.join("link")).unwrap();
    let output = rig.command(&["mount", "--data", "data", "link"]).current_dir(&base).output().unwrap();
    succeeded(&output);
    assert!(is_mounted(&rig.mnt));
    assert!(rig.data.is_dir(), "a relative data directory is where the caller was");
    refused(&rig.run(&["mount", "--data", "/nowhere", rig.mnt()]), &["already mounted"]);
    succeeded(&rig.command(&["umount", "./link/."]).current_dir(&base).output().unwrap());
    assert!(!is_mounted(&rig.mnt));
}

#[test]
fn names_with_spaces_work_everywhere() {
    let Some(mut rig) = Rig::new() else { return };
    let base = rig.root.path().canonicalize().unwrap();
    (rig.mnt, rig.data) = (base.join("a mount"), base.join("some data"));
    fs::create_dir(&rig.mnt).unwrap();
    succeeded(&rig.run(&["mount", "--data", rig.data(), rig.mnt()]));
    fs::write(rig.mnt.join("file"), "x").unwrap();
    refused(&rig.run(&["mount", "--data", rig.data(), rig.mnt()]), &["already mounted"]);
    succeeded(&rig.run(&["umount", rig.mnt()]));
    assert!(!rig.mnt.join("file").exists());
}

#[test]
fn the_daemon_may_have_as_many_files_open_as_the_system_allows() {
    let Some(rig) = Rig::new() else { return };
    // 256 is less than a shell gives, so that the limit is seen to be raised.
    let mut command = Command::new("sh");
    let script = format!("ulimit -S -n 256; exec {LEASEFS} mount --data {} {}", rig.data(), rig.mnt());
    succeeded(&command.args(["-c", &script]).env("HOME", rig.root.path()).output().unwrap());
    let limits = fs::read_to_string(format!("/proc/{}/limits", rig.daemon())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    assert_eq!(words[0], words[1], "{line}");
}

#[test]
fn the_log_of_a_background_mount_is_private_and_tells_the_story() {
    let Some(rig) = Rig::new() else { return };
    rig.mount();
    succeeded(&rig.run(&["umount", rig.mnt()]));
    let log = rig.log();
    for words in ["mounted", "unmounted from outside", "ended"] {
        assert!(log.contains(words), "{words:?} is not in {log}");
    }
    let dir = rig.root.path().join(".local/state/leasefs");
    let file = fs::read_dir(dir).unwrap().next().unwrap().unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_normal_user_gets_a_mount_or_a_reason() {
    let Some(rig) = Rig::new() else { return };
    fs::set_permissions(rig.root.path(), fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::chown(&rig.mnt, Some(65534), Some(65534)).unwrap();
    let program = rig.root.path().join("leasefs");
    fs::copy(LEASEFS, &program).unwrap();
    let mut command = Command::new(&program);
    command
        .args(["mount", "--data", rig.data(), rig.mnt()])
        .env("HOME", rig.root.path())
        .uid(65534)
        .gid(65534);
    let output = command.env_remove("XDG_RUNTIME_DIR").output().unwrap();
    if output.status.success() {
        assert!(is_mounted(&rig.mnt));
        let mut umount = Command::new(&program);
        succeeded(&umount.args(["umount", rig.mnt()]).uid(65534).gid(65534).output().unwrap());
        assert!(!is_mounted(&rig.mnt));
    } else {
        let said = err(&output);
        refused(&output, &["leasefs: "]);
        assert!(said.contains("/dev/fuse") || said.contains("fusermount3"), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}
