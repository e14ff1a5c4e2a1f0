//! `leasefs status` and the attribute that names holders.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::common::{Mount, on_both_paths};
use super::holder::Holder;
use super::rig::{LEASEFS, err, leasefs, out, refused, rows, status, succeeded, wait_until};

#[test]
fn status_shows_who_holds_what() {
    on_both_paths(&[], |mount| {
        fs::create_dir(mount.path("dir")).unwrap();
        let path = mount.path("dir/report");
        fs::write(&path, "content").unwrap();
        fs::write(mount.path("other"), "content").unwrap();
        let mut holder = Holder::start();
        let pid = u64::from(holder.pid());
        holder.open_shared(&path, "rw", "r").unwrap();
        holder.open(&mount.path("other"), libc::O_RDONLY).unwrap();

        let all = status(&mount.dir());
        assert_eq!(all["state"], "serving");
        assert_eq!(all["mountpoint"], mount.dir().canonicalize().unwrap().to_str().unwrap());
        assert_eq!((&all["share_name"], &all["conflict_copies"]), (&"share".into(), &0.into()));
        assert_eq!(rows(&all, "opens").len(), 2);
        for place in [&path, &mount.path("dir")] {
            let one = status(place);
            let [open] = rows(&one, "opens").as_slice() else { panic!("{one}") };
            assert_eq!(
                (&open["path"], &open["access"], &open["share"]),
                (&"dir/report".into(), &"rw".into(), &"r".into())
            );
            assert_eq!((open["pid"].as_u64(), &open["program"]), (Some(pid), &"python3".into()));
            assert_eq!(
                (&open["uid"], &open["user"], &open["front_end"]),
                (&0.into(), &"root".into(), &"mount".into())
            );
            let (id, since) = (open["id"].as_u64().unwrap(), open["since"].as_str().unwrap());
            assert!(id > 0 && since.starts_with("20") && since.ends_with('Z'), "{open}");
            assert!(open["since_ms"].as_i64().unwrap() > 1_700_000_000_000);
        }
        let table = out(&leasefs(&["status", mount.dir().to_str().unwrap()]));
        for part in ["opens: 2", "ACCESS", "PROGRAM", "dir/report", "python3", "root", "delete pending: none"]
        {
            assert!(table.contains(part), "{part:?} is not in:\n{table}");
        }
        drop(holder);
        wait_until("the opens are gone", || rows(&status(&mount.dir()), "opens").is_empty());
        let table = out(&leasefs(&["status", mount.dir().to_str().unwrap()]));
        assert!(table.contains("opens: none"), "{table}");
    });
}

#[test]
fn status_without_a_path_lists_the_mounts() {
    let Some(mount) = Mount::new(&[]) else { return };
    let output = leasefs(&["status", "--json"]);
    succeeded(&output);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let dir = mount.dir().canonicalize().unwrap();
    let found =
        answer["mounts"].as_array().unwrap().iter().any(|one| one["mountpoint"] == dir.to_str().unwrap());
    assert!(found, "{answer}");
    assert!(out(&leasefs(&["status"])).contains(dir.to_str().unwrap()));
}

#[test]
fn status_of_what_is_no_mount_says_so() {
    refused(&leasefs(&["status", "/proc"]), 1, &["/proc", "not on a mount of leasefs"]);
    refused(&leasefs(&["status", "/no/such/dir"]), 1, &["/no/such/dir"]);
}

#[test]
fn range_locks_and_their_waiters_are_shown() {
    on_both_paths(&[], |mount| {
        let path = mount.path("file");
        fs::write(&path, "content").unwrap();
        let mut holder = Holder::start();
        let file = holder.open(&path, libc::O_RDWR).unwrap();
        holder.act(&["lock", &file, "wr", "10", "5"]).unwrap();
        let mut waiting = Command::new("flock").arg(&path).arg("true").spawn().unwrap();
        wait_until("the waiter is shown", || rows(&status(&path), "range_locks").len() == 2);
        let seen = status(&path);
        let find = |state: &str| {
            rows(&seen, "range_locks").iter().find(|row| row["state"] == state).cloned().unwrap()
        };
        let (held, waits) = (find("held"), find("waiting"));
        assert_eq!(
            (&held["kind"], &held["start"], &held["length"]),
            (&"exclusive".into(), &10.into(), &5.into())
        );
        assert_eq!((held["pid"].as_u64(), &held["program"]), (Some(holder.pid().into()), &"python3".into()));
        assert_eq!(
            (&waits["kind"], &waits["start"], &waits["length"]),
            (&"exclusive".into(), &0.into(), &Value::Null)
        );
        assert_eq!(waits["pid"].as_u64(), Some(waiting.id().into()));
        let table = out(&leasefs(&["status", path.to_str().unwrap()]));
        assert!(table.contains("range locks: 1 held, 1 waiting") && table.contains("10-14"), "{table}");
        holder.act(&["lock", &file, "un", "0", "0"]).unwrap();
        assert!(waiting.wait().unwrap().success());
        wait_until("all are gone", || rows(&status(&path), "range_locks").is_empty());
    });
}

#[test]
fn exclusive_opens_show_their_lease() {
    let Some(mount) = Mount::new(&[]) else { return };
    let path = mount.path("file");
    fs::write(&path, "content").unwrap();
    let mut holder = Holder::start();
    holder.open_shared(&path, "rw", "none").unwrap();
    let seen = status(&path);
    let [lease] = rows(&seen, "leases").as_slice() else { panic!("{seen}") };
    assert_eq!((&lease["path"], &lease["state"]), (&"file".into(), &"held".into()));
    assert_eq!(lease["lease_id"].as_str().unwrap().len(), 36);
    drop(holder);
    wait_until("the lease is gone", || rows(&status(&path), "leases").is_empty());
}

#[test]
fn the_holders_attribute_names_the_holders() {
    let Some(mount) = Mount::new(&[]) else { return };
    let path = mount.path("file");
    fs::write(&path, "").unwrap();
    let mut holder = Holder::start();
    holder.open_shared(&path, "w", "rd").unwrap();
    let getfattr = |option: &str| {
        let mut command = Command::new("getfattr");
        out(&command
            .args([option, "-n", "user.leasefs.holders", "--only-values"])
            .arg(&path)
            .output()
            .unwrap())
    };
    let text = getfattr("--absolute-names");
    let wanted = format!("pid={} uid=0 access=w share=rd since=", holder.pid());
    assert!(text.starts_with("open=") && text.contains(&wanted), "{text}");
    assert!(text.ends_with("program=python3\n"), "{text}");
    let all = Command::new("getfattr").args(["--absolute-names", "-d"]).arg(&path).output().unwrap();
    assert!(!out(&all).contains("holders"), "no copy takes it along: {}", out(&all));
    let set = Command::new("setfattr")
        .args(["-n", "user.leasefs.holders", "-v", "me"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(err(&set).contains("not permitted"), "{}", err(&set));
}

/// A shell opens the file, hands it to a child and ends: nobody has the number of the opener any more.
#[test]
fn a_holder_that_is_gone_is_shown_as_unknown() {
    let Some(mount) = Mount::new(&[]) else { return };
    let path = mount.path("file");
    fs::write(&path, "").unwrap();
    let script = format!("exec 9< {}; sleep 300 >/dev/null 2>&1 & echo $!", path.display());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let keeper = out(&output).trim().parse().unwrap();
    let seen = status(&path);
    let table = out(&leasefs(&["status", path.to_str().unwrap()]));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(keeper), nix::sys::signal::Signal::SIGKILL).unwrap();
    let [open] = rows(&seen, "opens").as_slice() else { panic!("{seen}") };
    assert_eq!((&open["pid"], &open["program"]), (&Value::Null, &Value::Null));
    assert!(table.contains("unknown"), "{table}");
}

/// A daemon in a process namespace of its own cannot see who opens files from outside.
#[test]
fn a_holder_in_another_namespace_is_shown_as_unknown() {
    let Some(other) = Mount::new(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (dir, data) = (folder.path().join("mount"), folder.path().join("data"));
    fs::create_dir(&dir).unwrap();
    let mut daemon = Command::new("unshare")
        .args(["--pid", "--fork", LEASEFS, "mount", "--foreground", "--log", "error", "--data"])
        .args([&data, &dir])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the mount is there", || leasefs(&["status", dir.to_str().unwrap()]).status.success());
    let path = dir.join("file");
    fs::write(&path, "").unwrap();
    let mut holder = Holder::start();
    holder.open(&path, libc::O_RDONLY).unwrap();
    let seen = status(&path);
    drop(holder);
    succeeded(&leasefs(&["umount", "--lazy", dir.to_str().unwrap()]));
    daemon.wait().unwrap();
    drop(other);
    let [open] = rows(&seen, "opens").as_slice() else { panic!("{seen}") };
    assert_eq!((&open["pid"], &open["program"]), (&Value::Null, &Value::Null));
}

/// 20,000 here, so that a small machine can do it; LEASEFS_TEST_OPENS asks for more.
#[test]
fn status_copes_with_very_many_opens() {
    /// Below the usual hard limit of descriptors.
    const EACH: usize = 10_000;
    let Some(mount) = Mount::new(&[]) else { return };
    let wanted: usize =
        std::env::var("LEASEFS_TEST_OPENS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let mut holders: Vec<Holder> = (0..wanted.div_ceil(EACH)).map(|_| Holder::start()).collect();
    let total = holders.len() * EACH;
    for (number, holder) in holders.iter_mut().enumerate() {
        let path = mount.path(&format!("file{number}"));
        fs::write(&path, "").unwrap();
        holder.act(&["many", &EACH.to_string(), path.to_str().unwrap()]).unwrap();
    }
    let start = Instant::now();
    let all = status(&mount.dir());
    println!("{total} opens: --json in {:?}", start.elapsed());
    let ids: std::collections::HashSet<u64> =
        rows(&all, "opens").iter().map(|row| row["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), total, "each open once");
    let start = Instant::now();
    let table = out(&leasefs(&["status", mount.dir().to_str().unwrap()]));
    println!("{total} opens: table in {:?}", start.elapsed());
    assert!(table.contains(&format!("opens: {total}")));
    assert_eq!(rows(&status(&mount.path("file0")), "opens").len(), EACH);
    for holder in &mut holders {
        holder.act(&["close-all"]).unwrap();
    }
}

/// Shows what `path` looks like to other users, where that matters.
pub fn let_others_in(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
