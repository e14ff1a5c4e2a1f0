//! Names, attributes and what a share does not have.

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::common::{Mount, errno, names, on_both_paths};

#[test]
fn names_must_be_utf8() {
    on_both_paths(&[], |mount| {
        let bad = mount.dir().join(OsStr::from_bytes(b"caf\xe9"));
        assert_eq!(errno(File::create(&bad)), libc::EILSEQ);
        assert_eq!(errno(fs::create_dir(&bad)), libc::EILSEQ);
    });
}

#[test]
fn names_have_255_bytes_and_paths_1024_characters() {
    on_both_paths(&[], |mount| {
        File::create(mount.path(&"x".repeat(255))).unwrap();
        assert_eq!(errno(File::create(mount.path(&"x".repeat(256)))), libc::ENAMETOOLONG);
        let mut path = mount.dir();
        for _ in 0..4 {
            path = path.join("d".repeat(250));
            fs::create_dir(&path).unwrap();
        }
        // 4 × 250 + 4 slashes + 20 = 1,024.
        File::create(path.join("f".repeat(20))).unwrap();
        assert_eq!(errno(File::create(path.join("f".repeat(21)))), libc::ENAMETOOLONG);
    });
}

#[test]
fn odd_names_come_back_unchanged() {
    on_both_paths(&[], |mount| {
        let odd =
            ["a\\b", "dot.", "line\nbreak", " space ", "ünïcode", "\u{F029}", "tab\t", "100%25", "a..", "~"];
        for name in odd {
            fs::write(mount.path(name), name).unwrap();
        }
        let mut expected: Vec<String> = odd.iter().map(|name| (*name).to_owned()).collect();
        expected.sort();
        assert_eq!(names(&mount.dir()), expected);
        mount.stop();
        mount.start();
        assert_eq!(names(&mount.dir()), expected);
        for name in odd {
            assert_eq!(fs::read_to_string(mount.path(name)).unwrap(), name);
        }
    });
}

#[test]
fn names_are_case_sensitive() {
    on_both_paths(&[], |mount| {
        fs::write(mount.path("a"), "small").unwrap();
        fs::write(mount.path("A"), "big").unwrap();
        assert_eq!(names(&mount.dir()), ["A", "a"]);
    });
}

#[test]
fn the_reserved_name_is_invisible_and_refused() {
    on_both_paths(&[], |mount| {
        assert_eq!(errno(fs::metadata(mount.path(".leasefs"))), libc::ENOENT);
        assert_eq!(errno(fs::create_dir(mount.path(".leasefs"))), libc::EPERM);
        assert_eq!(errno(File::create(mount.path(".leasefs"))), libc::EPERM);
        fs::write(mount.path("x"), "x").unwrap();
        assert_eq!(errno(fs::rename(mount.path("x"), mount.path(".leasefs"))), libc::EPERM);
        // Only in the root.
        fs::create_dir(mount.path("d")).unwrap();
        fs::create_dir(mount.path("d/.leasefs")).unwrap();
        let open = File::open(mount.path("x")).unwrap();
        fs::remove_file(mount.path("x")).unwrap();
        assert_eq!(names(&mount.dir()), ["d"], "its mark is hidden, too");
        drop(open);
    });
}

#[test]
fn there_are_no_hard_links_and_no_device_nodes() {
    on_both_paths(&[], |mount| {
        fs::write(mount.path("a"), "a").unwrap();
        assert_eq!(errno(fs::hard_link(mount.path("a"), mount.path("b"))), libc::EPERM);
        let node = |kind| {
            let path = mount.path("node");
            errno(nix::sys::stat::mknod(&path, kind, nix::sys::stat::Mode::S_IRUSR, 259).map_err(Into::into))
        };
        assert_eq!(node(nix::sys::stat::SFlag::S_IFCHR), libc::EPERM);
        assert_eq!(node(nix::sys::stat::SFlag::S_IFBLK), libc::EPERM);
        assert_eq!(node(nix::sys::stat::SFlag::S_IFIFO), 0, "pipes exist as names");
    });
}

#[test]
fn attributes_survive_a_remount() {
    on_both_paths(&[], |mount| {
        let path = mount.path("file");
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
        std::os::unix::fs::chown(&path, Some(12), Some(34)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o2751)).unwrap();
        let time = std::time::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        symlink("no/where", mount.path("link")).unwrap();
        let before = fs::metadata(&path).unwrap();
        mount.stop();
        mount.start();
        let after = fs::metadata(&path).unwrap();
        assert_eq!((after.mode(), after.uid(), after.gid()), (0o102_751, 12, 34));
        assert_eq!((after.mtime(), after.mtime_nsec()), (1_234_567_890, 123_456_789));
        assert_eq!(after.ino(), before.ino(), "numbers are for ever");
        assert_eq!(fs::read_link(mount.path("link")).unwrap().to_str(), Some("no/where"));
    });
}

#[test]
fn inode_numbers_stay_through_renames() {
    on_both_paths(&[], |mount| {
        fs::create_dir(mount.path("d")).unwrap();
        fs::write(mount.path("d/a"), "x").unwrap();
        let before = fs::metadata(mount.path("d/a")).unwrap().ino();
        fs::rename(mount.path("d/a"), mount.path("d/b")).unwrap();
        fs::rename(mount.path("d"), mount.path("e")).unwrap();
        assert_eq!(fs::metadata(mount.path("e/b")).unwrap().ino(), before);
    });
}

#[test]
fn statfs_tells_the_truth() {
    let Some(mount) = Mount::new(&[]) else { return };
    let ours = nix::sys::statvfs::statvfs(&mount.dir()).unwrap();
    let disk = nix::sys::statvfs::statvfs(mount.data()).unwrap();
    assert_eq!(ours.blocks() * ours.fragment_size(), disk.blocks() * disk.fragment_size());
    assert!(ours.blocks_available() > 0 && ours.blocks_available() <= disk.blocks());
    assert_eq!(ours.name_max(), 255);
}

#[test]
fn a_read_only_mount_changes_nothing() {
    let Some(mount) = Mount::new(&["--read-only"]) else { return };
    assert_eq!(errno(File::create(mount.path("x"))), libc::EROFS);
    assert_eq!(errno(fs::create_dir(mount.path("x"))), libc::EROFS);
}

#[test]
fn a_directory_lists_itself_and_the_one_above() {
    on_both_paths(&[], |mount| {
        fs::create_dir_all(mount.path("d/e")).unwrap();
        let root = mount.path("");
        let number = |path: &str| fs::metadata(root.join(path)).unwrap().ino();
        for (directory, above, entries) in [("", "", &["d"][..]), ("d", "", &["e"]), ("d/e", "d", &[])] {
            let ran = Command::new("ls").arg("-fai1").arg(root.join(directory)).output().unwrap();
            let (listed, mut expected) = (String::from_utf8(ran.stdout).unwrap(), Vec::new());
            expected.push(format!("{} .", number(directory)));
            // What is above the root is another file system.
            expected.extend((!directory.is_empty()).then(|| format!("{} ..", number(above))));
            let entry = |name: &&str| fs::metadata(root.join(directory).join(name)).unwrap().ino();
            expected.extend(entries.iter().map(|name| format!("{} {name}", entry(name))));
            let listed: Vec<&str> = listed.lines().map(str::trim).collect();
            for line in &expected {
                assert!(listed.contains(&line.as_str()), "{line} in {listed:?}");
            }
            assert_eq!(listed.len(), 2 + entries.len(), "{listed:?}");
        }
    });
}

/// More entries than fit into one page of the store, or into one answer to the kernel.
#[test]
fn positions_in_a_directory_stay_when_entries_go() {
    on_both_paths(&[], |mount| {
        let directory = mount.path("d");
        fs::create_dir(&directory).unwrap();
        for number in 0..2_500 {
            File::create(directory.join(format!("{number:05}-{}", "x".repeat(number % 40)))).unwrap();
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/semantics/seekdir.py");
        let ran = Command::new("python3").arg(script).arg(&directory).arg("2500").output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    });
}

#[test]
fn reading_leaves_the_access_time_alone() {
    on_both_paths(&[], |mount| {
        let path = mount.path("a");
        fs::write(&path, "x".repeat(100_000)).unwrap();
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        File::open(&path).unwrap().set_times(FileTimes::new().set_accessed(long_ago)).unwrap();
        mount.stop();
        mount.start();
        assert_eq!(fs::read(&path).unwrap().len(), 100_000);
        assert_eq!(fs::metadata(&path).unwrap().accessed().unwrap(), long_ago);
        mount.stop();
        mount.start();
        assert_eq!(fs::metadata(&path).unwrap().accessed().unwrap(), long_ago);
    });
}

#[test]
fn blocks_and_links_are_counted_simply() {
    on_both_paths(&[], |mount| {
        let file = File::create(mount.path("sparse")).unwrap();
        file.set_len(1 << 20).unwrap();
        drop(file);
        fs::create_dir_all(mount.path("d/e/f")).unwrap();
        mount.stop();
        mount.start();
        assert_eq!(fs::metadata(mount.path("sparse")).unwrap().blocks(), (1 << 20) / 512);
        assert_eq!(fs::metadata(mount.path("d")).unwrap().nlink(), 2);
    });
}
