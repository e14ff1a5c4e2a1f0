//! Share modes that a program asks for by ioctl.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::children::{Program, within};
use crate::common::{errno, names, on_both_paths};

const READ: &str = "share.READ";
const WRITE: &str = "share.WRITE";
const BOTH: &str = "share.READ | share.WRITE";

#[test]
fn a_program_asks_for_a_share_mode_and_others_are_refused() {
    on_both_paths(&[], |mount| {
        let path = mount.path("f");
        fs::write(&path, "content").unwrap();
        let mut holder = Program::with_open(&path);
        assert_eq!(holder.ask(&format!("share.set_share(fd, {BOTH}, 0)")), "None");
        holder.until_state("(3, 0, 1, 0, 1)");
        assert_eq!(errno(fs::File::open(&path)), libc::EBUSY, "read");
        assert_eq!(errno(fs::File::options().write(true).open(&path)), libc::EBUSY, "write");
        assert_eq!(errno(fs::File::create(&path)), libc::EBUSY, "overwrite");
        assert_eq!(errno(fs::remove_file(&path)), libc::EBUSY, "remove");
        assert_eq!(errno(fs::rename(&path, mount.path("g"))), libc::EBUSY, "rename");
        assert_eq!(errno(nix::unistd::truncate(&path, 0).map_err(Into::into)), libc::EBUSY, "truncate");
        assert!(fs::metadata(&path).is_ok(), "attributes are not shared or denied");
        assert!(fs::set_permissions(&path, fs::metadata(&path).unwrap().permissions()).is_ok());
        assert_eq!(holder.ask(&format!("share.set_share(fd, {BOTH}, {READ})")), "None");
        assert_eq!(fs::read(&path).unwrap(), b"content", "loosened");
        assert_eq!(holder.ask("os.close(fd)"), "None");
        fs::write(&path, "free").unwrap();
    });
}

#[test]
fn a_share_mode_that_does_not_fit_is_refused_and_changes_nothing() {
    on_both_paths(&[], |mount| {
        let path = mount.path("f");
        fs::write(&path, "content").unwrap();
        let (mut one, mut other) = (Program::with_open(&path), Program::with_open(&path));
        assert_eq!(one.ask(&format!("share.set_share(fd, {BOTH}, {READ})")), "EBUSY");
        one.until_state("(3, 7, 0, 0, 2)");
        assert_eq!(other.ask("os.close(fd)"), "None");
        assert_eq!(
            one.ask(&format!("share.set_share(fd, {BOTH}, {READ})")),
            "None",
            "its close has returned"
        );
    });
}

#[test]
fn wrong_ioctls_are_refused() {
    on_both_paths(&[], |mount| {
        fs::write(mount.path("f"), "x").unwrap();
        let mut program = Program::with_open(&mount.path("f"));
        for (line, answer) in [
            ("share.set_share(fd, share.READ, 0)", "EINVAL"),
            ("share.set_share(fd, share.READ | share.WRITE | 8, 0)", "EINVAL"),
            ("share.set_share(fd, 3, 8)", "EINVAL"),
            ("share.set_delete(fd, 2)", "EINVAL"),
            ("share.set_delete(fd, 1)", "EPERM"),
            ("fcntl.ioctl(fd, 0x400CE901, bytes(12))", "EINVAL"),
            ("fcntl.ioctl(fd, 0x4008E909, bytes(8))", "ENOTTY"),
            ("fcntl.ioctl(fd, 0x5401, bytes(64))", "ENOTTY"),
        ] {
            assert_eq!(program.ask(line), answer, "{line}");
        }
        program.until_state("(3, 7, 0, 0, 1)");
    });
}

#[test]
fn a_handle_for_delete_alone_removes_and_takes_back() {
    on_both_paths(&[], |mount| {
        let path = mount.path("f");
        fs::write(&path, "content").unwrap();
        let mut program = Program::start();
        assert_eq!(program.ask(&format!("fd = os.open({path:?}, os.O_ACCMODE)")), "ok");
        program.until_state("(0, 7, 0, 0, 1)");
        assert_eq!(program.ask("os.read(fd, 1)"), "EBADF");
        assert_eq!(program.ask("share.set_share(fd, share.DELETE, 7)"), "None");
        assert_eq!(program.ask("share.set_delete(fd, 1)"), "None");
        program.until_state("(4, 7, 0, 1, 1)");
        assert_eq!(errno(fs::metadata(&path)), libc::EBUSY, "the kernel remembers no name");
        assert_eq!(errno(fs::File::open(&path)), libc::EBUSY);
        assert!(names(&mount.dir()).is_empty());
        assert_eq!(program.ask("share.set_delete(fd, 0)"), "None");
        assert_eq!(fs::read(&path).unwrap(), b"content", "back");
        assert_eq!(program.ask("share.set_delete(fd, 1)"), "None");
        assert_eq!(program.ask("os.close(fd)"), "None");
        within(|| errno(fs::metadata(&path)) == libc::ENOENT);
        fs::write(&path, "new").unwrap();
    });
}

#[test]
fn asking_for_flags_trips_no_share_mode() {
    on_both_paths(&[], |mount| {
        let path = mount.path("f");
        fs::write(&path, "content").unwrap();
        let mut holder = Program::with_open(&path);
        assert_eq!(holder.ask(&format!("share.set_share(fd, {BOTH}, 0)")), "None");
        // The kernel opens the file by itself for this.
        assert_eq!(holder.ask("fcntl.ioctl(fd, 0x80086601, bytes(8))"), "ENOTTY");
        holder.until_state("(3, 0, 1, 0, 1)");
    });
}

#[test]
fn a_directory_claims_a_share_mode_too() {
    on_both_paths(&[], |mount| {
        let path = mount.path("d");
        fs::create_dir(&path).unwrap();
        let mut holder = Program::start();
        assert_eq!(holder.ask(&format!("fd = os.open({path:?}, os.O_RDONLY)")), "ok");
        holder.until_state("(1, 7, 0, 0, 0)");
        assert_eq!(holder.ask(&format!("share.set_share(fd, {READ}, {READ} | {WRITE})")), "None");
        assert_eq!(errno(fs::remove_dir(&path)), libc::EBUSY);
        assert_eq!(errno(fs::rename(&path, mount.path("e"))), libc::EBUSY);
        fs::write(path.join("inside"), "x").unwrap();
        assert_eq!(names(&path), ["inside"]);
        fs::remove_file(path.join("inside")).unwrap();
        assert_eq!(holder.ask("share.set_delete(fd, 1)"), "EINVAL");
        assert_eq!(holder.ask("os.close(fd)"), "None");
        fs::remove_dir(&path).unwrap();
    });
}

#[test]
fn the_example_holds_a_file() {
    on_both_paths(&[], |mount| {
        let path = mount.path("f");
        fs::write(&path, "content").unwrap();
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/share.py");
        let mut holder = Command::new("python3")
            .args([example.as_ref(), path.as_os_str(), "rwd".as_ref(), "none".as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Not by trying to open the file: such an open could stand in the holder's way.
        let mut said = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert!(said.starts_with("held "), "{said}");
        assert_eq!(errno(fs::File::open(&path)), libc::EBUSY);
        drop(holder.stdin.take());
        assert!(holder.wait().unwrap().success());
        assert_eq!(fs::read(&path).unwrap(), b"content");
    });
}

#[test]
fn a_killed_holder_frees_what_it_claimed() {
    on_both_paths(&[], |mount| {
        let path = mount.path("f");
        fs::write(&path, "content").unwrap();
        let mut holder = Program::with_open(&path);
        assert_eq!(holder.ask(&format!("share.set_share(fd, {BOTH}, 0)")), "None");
        assert_eq!(errno(fs::File::open(&path)), libc::EBUSY);
        holder.kill();
        within(|| fs::File::open(&path).is_ok());
    });
}
