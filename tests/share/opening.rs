//! `leasefs open`: what the command gets, how it ends, who is refused.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::common::{Mount, on_both_paths};
use super::holder::Holder;
use super::rig::{PATIENCE, command, err, leasefs, out, refused, rows, status, succeeded, wait_until};

#[test]
fn open_runs_a_command_with_the_file_held() {
    on_both_paths(&[], |mount| {
        let path = mount.path("file");
        let file = path.to_str().unwrap();
        fs::write(&path, "before").unwrap();
        let script = "cat <&$LEASEFS_FD; printf after >&$LEASEFS_FD";
        let output = leasefs(&["open", "--access", "rw", "--share", "none", file, "--", "sh", "-c", script]);
        succeeded(&output);
        assert_eq!(out(&output), "before");
        assert_eq!(fs::read_to_string(&path).unwrap(), "beforeafter");
        let output = leasefs(&["open", "--access", "r", "--share", "r", file, "--", "cat", "{}"]);
        assert_eq!(out(&output), "beforeafter", "{}", err(&output));
        let output = leasefs(&["open", file, "--", "sh", "-c", "echo $LEASEFS_FD-{}"]);
        let (number, name) =
            out(&output).trim().split_once('-').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert_eq!(name, format!("/dev/fd/{number}"));
    });
}

#[test]
fn open_ends_as_its_command_ended() {
    let Some(mount) = Mount::new(&[]) else { return };
    let path = mount.path("file");
    let file = path.to_str().unwrap();
    fs::write(&path, "").unwrap();
    fs::write(mount.path("text"), "no program").unwrap();
    fs::set_permissions(mount.path("text"), fs::Permissions::from_mode(0o644)).unwrap();
    let text = mount.path("text");
    let cases: [(&[&str], i32); 6] = [
        (&["true"], 0),
        (&["sh", "-c", "exit 42"], 42),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["sh", "-c", "kill -KILL $$"], 137),
        (&["no-such-command-anywhere"], 127),
        (&[text.to_str().unwrap()], 126),
    ];
    for (words, code) in cases {
        let output = leasefs(&[&["open", file, "--"], words].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", err(&output));
    }
}

#[test]
fn open_passes_signals_on_and_holds_until_the_command_ends() {
    let Some(mount) = Mount::new(&[]) else { return };
    let path = mount.path("file");
    fs::write(&path, "").unwrap();
    let ready = mount.path("ready");
    let script = format!("trap 'exit 7' TERM; : > {}; while :; do sleep 0.05; done", ready.display());
    let mut running = command(&["open", path.to_str().unwrap(), "--", "sh", "-c", &script]).spawn().unwrap();
    wait_until("the command runs", || ready.exists());
    let held = status(&path);
    let open = &rows(&held, "opens")[0];
    assert_eq!((open["program"].as_str(), open["pid"].as_u64()), (Some("sh"), Some(running.id().into())));
    kill(Pid::from_raw(i32::try_from(running.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(7), "the command got the signal and chose its code");
    wait_until("the file is free", || rows(&status(&path), "opens").is_empty());
}

#[test]
fn a_refused_open_names_the_holder_and_ends_with_75() {
    on_both_paths(&[], |mount| {
        let path = mount.path("file");
        let file = path.to_str().unwrap();
        fs::write(&path, "content").unwrap();
        let mut holder = Holder::start();
        let pid = format!("pid {}", holder.pid());
        let held = holder.open_shared(&path, "rw", "none").unwrap();
        let marker = mount.path("marker");
        let touch = ["--", "touch", marker.to_str().unwrap()];
        let parts = [
            file,
            "python3",
            &pid,
            "user root",
            "access rw",
            "share none",
            "since 2",
            "Z)",
            "--wait",
            "status",
        ];
        // Refused at open(2), because the holder does not share reading.
        refused(
            &leasefs(&[&["open", "--access", "r", "--share", "rwd", file][..], &touch].concat()),
            75,
            &parts,
        );
        holder.close(&held);
        // Refused at the ioctl, because the holder reads and the new open would not share that.
        let held = holder.open_shared(&path, "r", "rwd").unwrap();
        let parts = [file, "python3", &pid, "access r, share rwd"];
        refused(
            &leasefs(&[&["open", "--access", "rw", "--share", "none", file][..], &touch].concat()),
            75,
            &parts,
        );
        assert!(!marker.exists(), "the command of a refused open does not run");
        holder.close(&held);
        let output = leasefs(&["open", "--wait", "60", "--share", "none", file, "--", "true"]);
        succeeded(&output);
    });
}

#[test]
fn a_killed_holder_frees_the_file() {
    let Some(mount) = Mount::new(&[]) else { return };
    let path = mount.path("file");
    fs::write(&path, "").unwrap();
    let mut holder = Holder::start();
    holder.open_shared(&path, "rw", "none").unwrap();
    let try_it = |wait: &str| leasefs(&["open", "--wait", wait, path.to_str().unwrap(), "--", "true"]);
    refused(&try_it("0"), 75, &["python3"]);
    drop(holder);
    succeeded(&try_it("60"));
}

#[test]
fn open_waits_until_the_file_is_free_or_the_time_is_over() {
    let Some(mount) = Mount::new(&[]) else { return };
    let path = mount.path("file");
    let file = path.to_str().unwrap();
    fs::write(&path, "").unwrap();
    let mut holder = Holder::start();
    let held = holder.open_shared(&path, "r", "r").unwrap();
    let late = leasefs(&["open", "--wait", "0.2", "--share", "none", file, "--", "true"]);
    refused(&late, 75, &[file, "python3", "still after 0.2 s"]);
    let seconds = PATIENCE.as_secs().to_string();
    let mut waiting =
        command(&["open", "--wait", &seconds, "--share", "none", file, "--", "true"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(waiting.try_wait().unwrap().is_none(), "it waits");
    holder.close(&held);
    assert!(waiting.wait().unwrap().success());
}

#[test]
fn open_says_what_is_wrong_with_a_file() {
    let Some(mount) = Mount::new(&[]) else { return };
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    let name = elsewhere.path().to_str().unwrap();
    refused(&leasefs(&["open", name, "--", "true"]), 1, &[name, "not on a mount of leasefs"]);
    let missing = mount.path("missing");
    let file = missing.to_str().unwrap();
    refused(&leasefs(&["open", file, "--", "true"]), 1, &[file, "does not exist", "--create"]);
    succeeded(&leasefs(&["open", "--create", file, "--", "true"]));
    assert!(missing.exists());
    let dir = mount.path("dir");
    fs::create_dir(&dir).unwrap();
    refused(&leasefs(&["open", dir.to_str().unwrap(), "--", "true"]), 1, &["is a directory", "--access r"]);
    let hold = [
        "open",
        "--access",
        "r",
        "--share",
        "r",
        dir.to_str().unwrap(),
        "--",
        "rmdir",
        dir.to_str().unwrap(),
    ];
    refused(&leasefs(&hold), 1, &["busy"]);
}

#[test]
fn a_delete_pending_file_is_refused_with_what_it_is() {
    let Some(mount) = Mount::new(&[]) else { return };
    let path = mount.path("file");
    fs::write(&path, "").unwrap();
    let mut holder = Holder::start();
    holder.open_shared(&path, "r", "rwd").unwrap();
    fs::remove_file(&path).unwrap();
    let output = leasefs(&["open", "--access", "r", path.to_str().unwrap(), "--", "true"]);
    refused(&output, 75, &["is delete pending"]);
}
