//! Removing and renaming what is open.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{errno, names, on_both_paths};

fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    condition()
}

#[test]
fn a_removed_open_file_is_delete_pending() {
    on_both_paths(&[], |mount| {
        fs::create_dir(mount.path("d")).unwrap();
        let (path, other) = (mount.path("d/f"), mount.path("other"));
        fs::write(&path, "content").unwrap();
        fs::write(&other, "other").unwrap();
        let mut open = File::options().read(true).write(true).open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(errno(File::open(&path)), libc::EBUSY, "open");
        assert_eq!(errno(File::create(&path)), libc::EBUSY, "create");
        assert_eq!(errno(fs::create_dir(&path)), libc::EBUSY, "mkdir");
        assert_eq!(errno(fs::rename(&other, &path)), libc::EBUSY, "rename onto it");
        assert_eq!(errno(fs::remove_file(&path)), libc::EBUSY, "remove again");
        assert!(names(&mount.path("d")).is_empty(), "hidden");
        assert_eq!(errno(fs::remove_dir(mount.path("d"))), libc::ENOTEMPTY, "its directory stays");
        assert_eq!(open.metadata().unwrap().nlink(), 0);
        open.write_all(b"CON").unwrap();
        open.rewind().unwrap();
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, "CONtent", "still readable and writable");
        drop(open);
        assert!(within(Duration::from_secs(2), || !matches!(errno(fs::metadata(&path)), libc::EBUSY)));
        assert_eq!(errno(fs::metadata(&path)), libc::ENOENT, "gone with the last close");
        fs::write(&path, "new").unwrap();
        fs::remove_file(&path).unwrap();
        fs::remove_dir(mount.path("d")).unwrap();
    });
}

#[test]
fn a_killed_holder_counts_as_a_close() {
    on_both_paths(&[], |mount| {
        let path = mount.path("held");
        fs::write(&path, "x").unwrap();
        let mut holder =
            Command::new("sleep").arg("60").stdin(Stdio::from(File::open(&path).unwrap())).spawn().unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(errno(File::open(&path)), libc::EBUSY);
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(within(Duration::from_secs(2), || errno(File::open(&path)) == libc::ENOENT));
    });
}

#[test]
fn a_pending_delete_is_finished_after_the_daemon_dies() {
    on_both_paths(&[], |mount| {
        fs::create_dir(mount.path("d")).unwrap();
        fs::write(mount.path("d/f"), "x").unwrap();
        fs::write(mount.path("keep"), "x").unwrap();
        let open = File::open(mount.path("d/f")).unwrap();
        fs::remove_file(mount.path("d/f")).unwrap();
        // The mark follows a rename of the directory above.
        fs::rename(mount.path("d"), mount.path("e")).unwrap();
        mount.kill();
        drop(open);
        mount.start();
        assert_eq!(names(&mount.dir()), ["e", "keep"]);
        assert!(names(&mount.path("e")).is_empty());
        fs::remove_dir(mount.path("e")).unwrap();
    });
}

#[test]
fn posix_delete_frees_the_name_at_once() {
    on_both_paths(&["--delete", "posix"], |mount| {
        let path = mount.path("f");
        fs::write(&path, "old").unwrap();
        let mut open = File::options().read(true).write(true).open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(errno(fs::metadata(&path)), libc::ENOENT);
        fs::write(&path, "new").unwrap();
        assert_eq!(open.metadata().unwrap().nlink(), 0);
        open.write_all(b"O").unwrap();
        open.rewind().unwrap();
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, "Old");
        drop(open);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    });
}

#[test]
fn close_remove_create_loops_never_fail() {
    on_both_paths(&[], |mount| {
        let path = mount.path("loop");
        for round in 0..3000 {
            let file = File::options().write(true).create_new(true).open(&path);
            let mut file = file.unwrap_or_else(|error| panic!("create in round {round}: {error}"));
            file.write_all(b"x").unwrap();
            drop(file);
            fs::remove_file(&path).unwrap_or_else(|error| panic!("remove in round {round}: {error}"));
        }
        fs::create_dir(mount.path("d")).unwrap();
        for round in 0..500 {
            fs::create_dir(mount.path("d/e")).unwrap();
            fs::write(mount.path("d/e/f"), "x").unwrap();
            let gone = fs::remove_dir_all(mount.path("d/e"));
            gone.unwrap_or_else(|error| panic!("rm -r in round {round}: {error}"));
        }
    });
}

#[test]
fn a_rename_replaces_an_open_file_and_its_opens_keep_the_old_content() {
    on_both_paths(&[], |mount| {
        fs::write(mount.path("target"), "old").unwrap();
        fs::write(mount.path("new"), "new").unwrap();
        let mut open = File::open(mount.path("target")).unwrap();
        fs::rename(mount.path("new"), mount.path("target")).unwrap();
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, "old");
        assert_eq!(open.metadata().unwrap().nlink(), 0);
        assert_eq!(fs::read_to_string(mount.path("target")).unwrap(), "new");
    });
}

/// A program may be interrupted between the look-up and the open, which a descriptor that only names a file stands for.
#[test]
fn what_was_just_replaced_can_be_opened_by_who_found_it_before() {
    on_both_paths(&[], |mount| {
        for old in ["small".to_owned(), "big ".repeat(100_000)] {
            fs::write(mount.path("target"), &old).unwrap();
            let found = found(&mount.path("target"));
            // Many more than one, so that a second look would not help.
            for round in 0..20 {
                fs::write(mount.path("new"), format!("new {round}")).unwrap();
                fs::rename(mount.path("new"), mount.path("target")).unwrap();
            }
            let here = format!("/proc/self/fd/{}", found.as_raw_fd());
            assert_eq!(fs::read_to_string(&here).unwrap(), old);
            assert_eq!(fs::metadata(&here).unwrap().nlink(), 0);
            assert_eq!(fs::read_to_string(mount.path("target")).unwrap(), "new 19");
        }
    });
}

/// A look-up without an open.
fn found(path: &std::path::Path) -> File {
    File::options().read(true).custom_flags(libc::O_PATH).open(path).unwrap()
}

/// The kernel tells of a close later than the program returns from it.
#[test]
fn a_directory_whose_last_pending_file_was_just_closed_can_be_removed_and_replaced() {
    on_both_paths(&[], |mount| {
        for round in 0..300 {
            fs::create_dir_all(mount.path("old")).unwrap();
            let file = File::create(mount.path("old/f")).unwrap();
            fs::remove_file(mount.path("old/f")).unwrap();
            if round % 2 == 0 {
                drop(file);
                fs::remove_dir(mount.path("old")).unwrap();
            } else {
                fs::create_dir(mount.path("new")).unwrap();
                drop(file);
                fs::rename(mount.path("new"), mount.path("old")).unwrap();
            }
        }
    });
}

#[test]
fn open_files_follow_a_rename() {
    on_both_paths(&[], |mount| {
        fs::create_dir(mount.path("d")).unwrap();
        let mut open = File::create(mount.path("d/f")).unwrap();
        open.write_all(b"one ").unwrap();
        fs::rename(mount.path("d/f"), mount.path("d/g")).unwrap();
        open.write_all(b"two ").unwrap();
        fs::rename(mount.path("d"), mount.path("e")).unwrap();
        open.write_all(b"three").unwrap();
        drop(open);
        assert_eq!(fs::read_to_string(mount.path("e/g")).unwrap(), "one two three");
        assert_eq!(names(&mount.dir()), ["e"]);
    });
}

#[test]
fn renames_refuse_and_exchange_as_asked() {
    on_both_paths(&[], |mount| {
        fs::write(mount.path("a"), "a").unwrap();
        fs::create_dir(mount.path("b")).unwrap();
        fs::write(mount.path("b/inside"), "b").unwrap();
        let rename = |flags| {
            let (from, to) = (mount.path("a"), mount.path("b"));
            let here = nix::fcntl::AT_FDCWD;
            errno(nix::fcntl::renameat2(here, &from, here, &to, flags).map_err(Into::into))
        };
        assert_eq!(rename(nix::fcntl::RenameFlags::RENAME_NOREPLACE), libc::EEXIST);
        assert_eq!(rename(nix::fcntl::RenameFlags::empty()), libc::EISDIR);
        assert_eq!(rename(nix::fcntl::RenameFlags::RENAME_EXCHANGE), 0);
        assert_eq!(fs::read_to_string(mount.path("b")).unwrap(), "a");
        assert_eq!(fs::read_to_string(mount.path("a/inside")).unwrap(), "b");
    });
}
