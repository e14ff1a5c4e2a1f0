//! `leasefs close-handle`, `leasefs undelete`, and who may ask.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use super::common::{BOTH_PATHS, Mount, errno, names, on_both_paths};
use super::holder::Holder;
use super::rig::{LEASEFS, err, leasefs, out, refused, rows, status, succeeded, wait_until};
use super::seeing::let_others_in;

/// A user who has nothing to do with the mount.
const STRANGER: u32 = 65_534;

/// Runs `leasefs` as another user, from a copy: that user may not be let in where it was built.
fn as_user(uid: u32, words: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let_others_in(folder.path());
    let program = folder.path().join("leasefs");
    // By another process: with the copy open for writing here, a fork of another test could keep it from being run.
    assert!(Command::new("cp").arg(LEASEFS).arg(&program).status().unwrap().success());
    let mut command = Command::new(program);
    command.args(words).uid(uid).gid(uid).current_dir("/");
    command.output().unwrap()
}

#[test]
fn close_handle_takes_an_open_away() {
    for mount_options in BOTH_PATHS {
        let Some(mount) = Mount::new(mount_options) else { return };
        let path = mount.path("file");
        fs::write(&path, "before").unwrap();
        let mut holder = Holder::start();
        let held = holder.open_shared(&path, "rw", "none").unwrap();
        holder.act(&["write", &held, "written"]).unwrap();
        assert_eq!(errno(fs::File::open(&path)), libc::EBUSY);
        let id = rows(&status(&path), "opens")[0]["id"].to_string();
        let dir = mount.dir();
        let output = leasefs(&["close-handle", dir.to_str().unwrap(), &id]);
        succeeded(&output);
        assert!(rows(&status(&path), "opens").is_empty());
        assert_eq!(fs::read_to_string(&path).unwrap(), "written", "what it had written is kept");
        // Where the kernel moves the bytes itself it cannot be stopped, but nothing comes of it.
        let through_daemon = mount_options.contains(&"--no-passthrough");
        let after = holder.act(&["write", &held, "too late"]);
        assert!(!through_daemon || after == Err(libc::EIO), "{after:?}");
        let flushed = holder.act(&["fsync", &held]);
        assert_eq!(flushed, Err(libc::EIO));
        if through_daemon {
            wait_until("reading fails", || holder.act(&["read", &held]) == Err(libc::EIO));
        }
        // Its program can still let go of it.
        holder.act(&["close", &held]).ok();
        refused(&leasefs(&["close-handle", dir.to_str().unwrap(), &id]), 1, &["no open has the id", &id]);
        refused(&leasefs(&["close-handle", dir.to_str().unwrap(), "x"]), 2, &["ID"]);
        wait_until("what came too late is gone", || fs::read_to_string(&path).unwrap() == "written");
        mount.check();
    }
}

#[test]
fn undelete_brings_a_pending_file_back() {
    on_both_paths(&[], |mount| {
        fs::create_dir(mount.path("dir")).unwrap();
        let path = mount.path("dir/file");
        let file = path.to_str().unwrap();
        fs::write(&path, "content").unwrap();
        let mut holder = Holder::start();
        let held = holder.open_shared(&path, "r", "rwd").unwrap();
        refused(&leasefs(&["undelete", file]), 1, &[file, "not delete pending"]);
        fs::remove_file(&path).unwrap();
        assert!(names(&mount.path("dir")).is_empty());
        let seen = status(&path);
        assert_eq!(rows(&seen, "pending_deletes")[0], serde_json::json!({"path": "dir/file", "opens": 1}));
        let output = leasefs(&["undelete", file]);
        succeeded(&output);
        assert!(out(&output).contains("is back"), "{}", out(&output));
        assert_eq!(fs::read_to_string(&path).unwrap(), "content");
        assert_eq!(names(&mount.path("dir")), ["file"]);
        holder.close(&held);
        wait_until("it is closed", || rows(&status(&path), "opens").is_empty());
        assert!(path.exists(), "the last close removes nothing any more");
        refused(&leasefs(&["undelete", mount.dir().to_str().unwrap()]), 1, &["is a mountpoint"]);
    });
}

#[test]
fn undelete_is_for_the_owner_of_the_file_and_not_for_strangers() {
    let Some(mount) = Mount::new(&["--allow-other"]) else { return };
    let_others_in(mount.dir().parent().unwrap());
    let path = mount.path("file");
    fs::write(&path, "content").unwrap();
    chown(&path, Some(1234), Some(1234)).unwrap();
    let mut holder = Holder::start();
    holder.open_shared(&path, "r", "rwd").unwrap();
    fs::remove_file(&path).unwrap();
    let file = path.to_str().unwrap();
    let output = as_user(STRANGER, &["undelete", file]);
    refused(&output, 1, &[file, "only its owner and root"]);
    assert_eq!(errno(fs::metadata(&path)), libc::EBUSY, "still pending");
    succeeded(&as_user(1234, &["undelete", file]));
    assert_eq!(fs::read_to_string(&path).unwrap(), "content");
    refused(&as_user(1234, &["undelete", file]), 1, &["not delete pending"]);
}

#[test]
fn other_users_are_told_that_they_may_not_ask() {
    let Some(mount) = Mount::new(&["--allow-other"]) else { return };
    let_others_in(mount.dir().parent().unwrap());
    let dir = mount.dir();
    let dir = dir.to_str().unwrap();
    refused(&as_user(STRANGER, &["status", dir]), 1, &[dir, "only root and root, who mounted it, may"]);
    refused(&as_user(STRANGER, &["close-handle", dir, "1"]), 1, &[dir, "only root"]);
    let all = as_user(STRANGER, &["status"]);
    assert!(out(&all).contains("no share is mounted"), "{}", out(&all));
}

/// Even with the directory and the socket opened to everybody, the daemon hears its owner and root only. In a mount
/// namespace of its own, so that no other mount's socket is laid open.
#[test]
fn the_daemon_itself_turns_other_users_away() {
    let Some(_possible) = Mount::new(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let_others_in(folder.path());
    fs::create_dir(folder.path().join("mount")).unwrap();
    let script = r#"
        set -e
        mount -t tmpfs none /run
        "$LEASEFS" mount --data "$BASE/data" "$BASE/mount" >/dev/null
        trap '"$LEASEFS" umount "$BASE/mount" >/dev/null' EXIT
        chmod 755 /run/leasefs
        chmod 777 /run/leasefs/*.sock
        cat >"$BASE/ask.py" <<'PYTHON'
import glob, os, socket, sys
os.setresuid(*[int(sys.argv[1])] * 3)
peer = socket.socket(socket.AF_UNIX)
peer.connect(glob.glob("/run/leasefs/*.sock")[0])
try:
    peer.sendall(b'{"request":"hello"}\n')
    print("answer:", peer.recv(100)[:15])
except OSError:
    print("answer:", b"")
PYTHON
        python3 "$BASE/ask.py" 0
        python3 "$BASE/ask.py" 65534
    "#;
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script])
        .env("LEASEFS", LEASEFS)
        .env("BASE", folder.path())
        .env("XDG_STATE_HOME", folder.path().join("state"))
        .output()
        .unwrap();
    succeeded(&output);
    assert_eq!(out(&output), "answer: b'{\"reply\":\"hello'\nanswer: b''\n", "{}", err(&output));
}
