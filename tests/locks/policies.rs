//! Share modes of programs that cannot ask for one.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::common::{Mount, errno, on_both_paths};

fn write_open(path: &Path) -> File {
    File::options().write(true).open(path).unwrap()
}

fn second_writer(path: &Path) -> i32 {
    errno(File::options().write(true).open(path))
}

fn xattr(path: &Path, name: &str, value: &str) -> i32 {
    let text = |text: &str| std::ffi::CString::new(text).unwrap();
    let (path, name) = (text(path.to_str().unwrap()), text(name));
    // SAFETY: both strings end with NUL, and the value is as long as is said.
    let done = unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
    if done == 0 { 0 } else { std::io::Error::last_os_error().raw_os_error().unwrap() }
}

fn read_xattr(path: &Path, name: &str) -> String {
    let text = |text: &str| std::ffi::CString::new(text).unwrap();
    let (path, name) = (text(path.to_str().unwrap()), text(name));
    let mut value = vec![0_u8; 65_536];
    // SAFETY: both strings end with NUL, and the buffer is as long as is said.
    let length =
        unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    value.truncate(usize::try_from(length).unwrap());
    String::from_utf8(value).unwrap()
}

#[test]
fn the_mount_s_policy_holds_for_every_writer() {
    for (policy, reader, writer) in
        [("shared", 0, 0), ("deny-write", 0, libc::EBUSY), ("exclusive", libc::EBUSY, libc::EBUSY)]
    {
        on_both_paths(&["--share-policy", policy], |mount| {
            let path = mount.path("f");
            let mut created = File::create(&path).unwrap();
            created.write_all(b"x").unwrap();
            assert_eq!(errno(File::open(&path)), reader, "{policy}: a reader beside who made it");
            assert_eq!(second_writer(&path), writer, "{policy}: a writer beside who made it");
            drop(created);
            let _open = write_open(&path);
            assert_eq!(errno(File::open(&path)), reader, "{policy}: a reader");
            assert_eq!(second_writer(&path), writer, "{policy}: a writer");
        });
        on_both_paths(&["--share-policy", policy], |mount| {
            fs::write(mount.path("f"), "x").unwrap();
            let _one = File::open(mount.path("f")).unwrap();
            assert!(File::open(mount.path("f")).is_ok(), "{policy}: readers share everything");
        });
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let rules = [
        "--share-rule",
        "free.xlsx=shared",
        "--share-rule",
        "*.xlsx=exclusive",
        "--share-rule",
        "db/**=deny-write",
    ];
    on_both_paths(&rules, |mount| {
        fs::create_dir_all(mount.path("db/deep")).unwrap();
        for (name, reader, writer) in [
            ("free.xlsx", 0, 0),
            ("a.xlsx", libc::EBUSY, libc::EBUSY),
            ("db/deep/x", 0, libc::EBUSY),
            ("plain", 0, 0),
        ] {
            let path = mount.path(name);
            fs::write(&path, "x").unwrap();
            let _open = write_open(&path);
            assert_eq!((errno(File::open(&path)), second_writer(&path)), (reader, writer), "{name}");
        }
    });
}

#[test]
fn bad_policies_and_rules_are_refused_with_what_is_allowed() {
    for (option, value, hint) in [
        ("--share-policy", "none", "shared, deny-write, exclusive"),
        ("--share-rule", "*.xlsx", "PATTERN=POLICY"),
        ("--share-rule", "*.xlsx=all", "shared, deny-write, exclusive"),
        ("--share-rule", "[a=shared", "without its ]"),
        ("-o", "share_policy=x", "shared, deny-write, exclusive"),
        ("-o", "share_rule", "needs a value"),
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_leasefs"))
            .args(["mount", option, value, "/nonexistent"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{option} {value}: {text}");
        assert!(text.contains(hint), "{option} {value}: {text}");
    }
}

#[test]
fn a_sticky_policy_holds_for_a_file_or_all_below_a_directory() {
    on_both_paths(&["--share-rule", "*.db=exclusive"], |mount| {
        fs::create_dir_all(mount.path("d/e")).unwrap();
        let tell =
            |name: &str, value: &str| assert_eq!(xattr(&mount.path(name), "user.leasefs.share", value), 0);
        let writers = |name: &str| {
            let path = mount.path(name);
            fs::write(&path, "x").unwrap();
            let _open = write_open(&path);
            (errno(File::open(&path)), second_writer(&path))
        };
        assert_eq!(writers("d/e/f"), (0, 0));
        tell("d", "deny-write");
        assert_eq!(writers("d/e/f"), (0, libc::EBUSY), "from the directory above");
        assert_eq!(writers("d/e/f.db"), (0, libc::EBUSY), "stronger than a rule");
        tell("d/e", "exclusive");
        assert_eq!(writers("d/e/f"), (libc::EBUSY, libc::EBUSY), "the nearest directory");
        tell("d/e/f", "shared");
        assert_eq!(writers("d/e/f"), (0, 0), "the file itself");
        assert_eq!(xattr(&mount.path("d"), "user.leasefs.share", "none"), libc::EINVAL);
        tell("", "exclusive");
        assert_eq!(writers("top"), (libc::EBUSY, libc::EBUSY), "the root");
    });
}

#[test]
fn a_sticky_policy_survives_a_remount() {
    let Some(mount) = Mount::new(&[]) else { return };
    fs::create_dir(mount.path("d")).unwrap();
    fs::write(mount.path("d/f"), "x").unwrap();
    assert_eq!(xattr(&mount.path("d"), "user.leasefs.share", "exclusive"), 0);
    mount.stop();
    mount.start();
    let _open = write_open(&mount.path("d/f"));
    assert_eq!(second_writer(&mount.path("d/f")), libc::EBUSY);
}

#[test]
fn holders_are_shown_as_an_attribute() {
    on_both_paths(&[], |mount| {
        let path = mount.path("f");
        fs::write(&path, "x").unwrap();
        let _one = write_open(&path);
        let _other = File::open(&path).unwrap();
        let holders = read_xattr(&path, "user.leasefs.holders");
        let us = format!("pid={} ", std::process::id());
        let writer = |line: &&str| line.contains(&us) && line.contains("access=w share=rwd");
        let reader = |line: &&str| line.contains(&us) && line.contains("access=r share=rwd");
        assert_eq!(holders.lines().filter(writer).count(), 1, "{holders}");
        assert_eq!(holders.lines().filter(reader).count(), 1, "{holders}");
        assert_eq!(xattr(&path, "user.leasefs.holders", "me"), libc::EPERM);
        assert_eq!(read_xattr(&mount.dir(), "user.leasefs.holders"), "");
    });
}
