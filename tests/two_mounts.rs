//! Mounts of one container by the real program, and what nobody may learn of them: secrets.

// A test that cannot go on stops. Helper modules of several tests.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

#[path = "remote/machine.rs"]
mod machine;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use machine::{Service, can_mount};

/// A key that appears nowhere else.
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
