//! Two mounts of one container, each with a daemon and a cache of its own: nobody's update is lost, and who comes too
//! late is told and keeps its work.
//!
//! A daemon that stands still (SIGSTOP) and a line that is cut are played through with real leases of 15 seconds, so
//! these tests take about half a minute. `LEASEFS_ROUNDS` makes the random rounds longer.

// A test that cannot go on stops. Helper modules of several tests.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

#[path = "common/fault_proxy/mod.rs"]
#[allow(unused_imports, reason = "others use the rest")]
mod fault_proxy;
#[path = "share/holder.rs"]
mod holder;
#[path = "remote/late.rs"]
mod late;
#[path = "remote/machine.rs"]
mod machine;

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fault_proxy::FaultProxy;
use holder::Holder;
use late::{conflict_copies, too_late};
use leasefs::store::StoreError;
use machine::{PATIENCE, Remote, Sdk, Service, can_mount};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How many times each mount tries to add a line.
fn rounds() -> usize {
    std::env::var("LEASEFS_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

/// What became of a line.
enum Verdict {
    /// It is in the store.
    Done,
    /// Nothing was written.
    NotBegun(io::Error),
    /// It was written here, and refused there.
    Refused(io::Error),
}

/// Adds a line to a file by writing all of it anew, as an editor does.
fn add_line(path: &Path, line: &str) -> Verdict {
    let begin = || -> io::Result<_> {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        file.rewind()?;
        Ok((file, text + line + "\n"))
    };
    let (mut file, text) = match begin() {
        Ok(begun) => begun,
        Err(error) => return Verdict::NotBegun(error),
    };
    match file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
        Ok(()) => Verdict::Done,
        Err(error) => Verdict::Refused(error),
    }
}

/// What one writer knows in the end: the lines that were acknowledged, and those that were refused.
#[derive(Default)]
struct Told {
    done: Vec<String>,
    refused: Vec<String>,
}

fn writer(name: &str, path: &Path) -> Told {
    let mut told = Told::default();
    for round in 0..rounds() {
        let line = format!("{name}-{round}");
        match add_line(path, &line) {
            Verdict::Done => told.done.push(line),
            Verdict::NotBegun(error) => println!("{line} cannot begin: {error}"),
            Verdict::Refused(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{line}: {error}");
                told.refused.push(line);
            }
        }
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn no_update_is_lost_between_two_mounts() {
    if !can_mount() {
        return;
    }
    let service = Service::start();
    let source = service.container("team");
    let (one, two) = (Remote::new(&source, &[]), Remote::new(&source, &[]));
    std::fs::write(one.path("log"), "").unwrap();
    machine::until(|| two.path("log").exists());
    let (first, second) = (one.path("log"), two.path("log"));
    let writing = [("one", first), ("two", second)]
        .map(|(name, path)| tokio::task::spawn_blocking(move || writer(name, &path)));
    let mut told = Vec::new();
    for writer in writing {
        told.push(writer.await.unwrap());
    }
    let sdk = service.sdk("team");
    let text = String::from_utf8(sdk.get("log").await.unwrap()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let copies = conflict_copies(&sdk).await;
    for line in told.iter().flat_map(|told| &told.done) {
        let count = lines.iter().filter(|found| *found == line).count();
        assert_eq!(count, 1, "{line} was acknowledged; in the file are {lines:?}");
    }
    for line in told.iter().flat_map(|told| &told.refused) {
        assert!(!lines.contains(&line.as_str()), "{line} was refused");
        let kept = copies.iter().any(|(_, text)| text.lines().any(|found| found == line));
        assert!(kept, "{line} was refused, and is in no conflict copy");
    }
    let done: usize = told.iter().map(|told| told.done.len()).sum();
    assert!(done >= rounds(), "of {} only {done} were done", 2 * rounds());
    println!("{done} done, {} refused", told.iter().map(|told| told.refused.len()).sum::<usize>());
}

/// Waits until the service lets a stranger write: the lease has run out.
async fn write_when_free(sdk: &Sdk, name: &str, text: &str) {
    let deadline = Instant::now() + 2 * PATIENCE;
    loop {
        match sdk.put(name, text.as_bytes()).await {
            Ok(()) => return,
            Err(StoreError::Lease(_)) => {}
            Err(other) => panic!("{other}"),
        }
        assert!(Instant::now() < deadline, "the lease never runs out");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_mount_that_wakes_up_is_fenced_off() {
    if !can_mount() {
        return;
    }
    let service = Service::start();
    let source = service.container("team");
    let frozen = Remote::new(&source, &["--lease", "15", "--no-passthrough"]);
    let sdk = service.sdk("team");
    std::fs::write(frozen.path("plan"), "begin").unwrap();
    let mut holder = Holder::start();
    let descriptor = holder.open_shared(&frozen.path("plan"), "rw", "r").unwrap();
    holder.act(&["write", &descriptor, "ours"]).unwrap();
    let pid = frozen.status()["mounts"][0]["daemon_pid"].as_i64().unwrap();
    let daemon = Pid::from_raw(i32::try_from(pid).unwrap());
    kill(daemon, Signal::SIGSTOP).unwrap();
    write_when_free(&sdk, "plan", "theirs").await;
    kill(daemon, Signal::SIGCONT).unwrap();
    too_late(&mut holder, &descriptor, &sdk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_whose_line_was_cut_is_fenced_off() {
    if !can_mount() {
        return;
    }
    let service = Service::start();
    let addr = service.url.split('/').nth(2).unwrap().parse().unwrap();
    let line = FaultProxy::start("127.0.0.1:0".parse().unwrap(), addr).await.unwrap();
    let through = service.container("team").replace(&addr.to_string(), &line.addr.to_string());
    let cut_off = Remote::new(&through, &["--lease", "15", "--no-passthrough"]);
    let other = Remote::new(&service.container("team"), &[]);
    let sdk = service.sdk("team");
    std::fs::write(cut_off.path("plan"), "begin").unwrap();
    let mut holder = Holder::start();
    let descriptor = holder.open_shared(&cut_off.path("plan"), "rw", "r").unwrap();
    holder.act(&["write", &descriptor, "ours"]).unwrap();
    line.cut(true);
    // Through another mount: it is refused while the lease lasts, and then it is not.
    let deadline = Instant::now() + 2 * PATIENCE;
    while let Err(error) = std::fs::write(other.path("plan"), "theirs") {
        assert_eq!(error.raw_os_error(), Some(libc::EBUSY), "{error}");
        assert!(Instant::now() < deadline, "the lease never runs out");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    line.cut(false);
    too_late(&mut holder, &descriptor, &sdk).await;
}

/// A key and a signature that appear nowhere else.
const KEY: &str = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA==";

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_a_mount_are_in_no_log_and_no_list_of_processes() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (keys, log, mountpoint) =
        (folder.path().join("keys"), folder.path().join("log"), folder.path().join("mount"));
    std::fs::write(&keys, KEY).unwrap();
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::create_dir(&mountpoint).unwrap();
    let service = Service::start_with(&["--account", "acct", "--account-key-file", keys.to_str().unwrap()]);
    let source = service.container("team");
    let leasefs = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasefs"));
        command.args(words).env("AZURE_STORAGE_ACCOUNT", "acct").env("AZURE_STORAGE_KEY", KEY);
        command.output().unwrap()
    };
    let (cache, at) = (folder.path().join("cache"), mountpoint.to_str().unwrap());
    let words = [
        "mount",
        "--log",
        "trace",
        "--log-file",
        log.to_str().unwrap(),
        "--cache-dir",
        cache.to_str().unwrap(),
    ];
    let mounted = leasefs(&[&words[..], &[&source, at]].concat());
    assert!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr));
    std::fs::write(mountpoint.join("f"), "text").unwrap();
    std::fs::rename(mountpoint.join("f"), mountpoint.join("g")).unwrap();
    let status = leasefs(&["status", "--json", at]);
    let pid = serde_json::from_slice::<serde_json::Value>(&status.stdout).unwrap()["mounts"][0]["daemon_pid"]
        .clone();
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    let unmounted = leasefs(&["umount", at]);
    assert!(unmounted.status.success(), "{}", String::from_utf8_lossy(&unmounted.stderr));
    let told = std::fs::read_to_string(&log).unwrap();
    assert!(told.lines().count() > 50, "the log has everything: {told}");
    for text in [&told, &line, &String::from_utf8_lossy(&status.stdout).into_owned()] {
        for secret in [KEY, KEY.trim_end_matches('='), "SharedKey acct:", "secret-secret"] {
            assert!(!text.contains(secret), "{secret} is told");
        }
    }
}
