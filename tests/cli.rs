//! What the command says to a person: help, messages and exit codes, of the real program and without any mount.

// A test that cannot go on stops.
#![allow(clippy::unwrap_used)]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

const LEASEFS: &str = env!("CARGO_BIN_EXE_leasefs");

/// Runs the program as if its user had an empty home.
fn run(home: &Path, words: &[&str]) -> Output {
    command(home, words).output().unwrap()
}

fn command(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(LEASEFS);
    command.args(words).env("HOME", home);
    for variable in
        ["XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "LEASEFS_LOG", "LEASEFS_STARTED_BY"]
    {
        command.env_remove(variable);
    }
    command
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Checks the exit code and that stderr is one sentence with all of `parts`.
#[track_caller]
fn refused(output: &Output, code: i32, parts: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.starts_with("leasefs: "), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "one sentence: {said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
    assert_no_internals(&said);
}

#[track_caller]
fn assert_no_internals(said: &str) {
    for internal in ["panicked", "stack backtrace", "Error {", "Some(", "Err("] {
        assert!(!said.contains(internal), "{said}");
    }
}

/// A temporary home with a mountpoint in it.
fn home_with_mountpoint() -> (tempfile::TempDir, String) {
    let home = home();
    let dir = home.path().join("mnt");
    std::fs::create_dir(&dir).unwrap();
    let dir = dir.to_str().unwrap().to_owned();
    (home, dir)
}

#[test]
fn version_and_help() {
    let home = home();
    let version = run(home.path(), &["--version"]);
    assert_eq!(text(&version.stdout), format!("leasefs {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(version.status.code(), Some(0));
    let help = run(home.path(), &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    for word in ["mount", "umount", "check", "Examples:", "Exit codes"] {
        assert!(text(&help.stdout).contains(word), "{word}");
    }
    let help = text(&run(home.path(), &["mount", "--help"]).stdout);
    for word in
        ["--data", "--share", "--delete", "--read-only", "--allow-other", "--no-passthrough", "--threads"]
    {
        assert!(help.contains(word), "{word}");
    }
    for word in ["--foreground", "--log", "--log-file", "--config", "/etc/fstab", "LEASEFS_LOG"] {
        assert!(help.contains(word), "{word}");
    }
}

#[test]
fn wrong_usage_is_2() {
    let home = home();
    let cases: &[&[&str]] = &[
        &[],
        &["fly"],
        &["mount"],
        &["mount", "--fly", "/mnt"],
        &["mount", "a/b", "/mnt", "/more"],
        &["mount", "--threads", "0", "/mnt"],
        &["mount", "--threads", "many", "/mnt"],
        &["mount", "--delete", "never", "/mnt"],
        &["mount", "--share", "Not_A_Share", "/mnt"],
        &["mount", "--log", "loud", "/mnt"],
        &["mount", ""],
        &["open"],
        &["open", "/mnt/file"],
        &["open", "--access", "none", "/mnt/file", "--", "true"],
        &["open", "--wait", "soon", "/mnt/file", "--", "true"],
        &["status", "/mnt", "/more"],
        &["close-handle", "/mnt"],
        &["close-handle", "/mnt", "first"],
        &["undelete"],
        &["umount"],
        &["umount", "--timeout", "0", "/mnt"],
        &["umount", "--timeout", "-1", "/mnt"],
        &["check", "extra"],
    ];
    for words in cases {
        let output = run(home.path(), words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output.stderr));
        assert!(!output.stderr.is_empty(), "{words:?}");
        assert_no_internals(&text(&output.stderr));
    }
}

#[test]
fn unknown_letters_are_refused_with_those_that_are_known() {
    let home = home();
    for (option, letters) in [("--access", "x"), ("--access", "rr"), ("--share", "all"), ("--share", "R")] {
        let output = run(home.path(), &["open", option, letters, "/mnt/file", "--", "true"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("r (read), w (write) and d (remove or rename)"), "{said}");
    }
}

#[test]
fn every_command_about_holders_has_examples() {
    let home = home();
    for (command, word) in [
        ("open", "LEASEFS_FD"),
        ("status", "docs/STATUS.md"),
        ("close-handle", "ID"),
        ("undelete", "delete pending"),
    ] {
        let help = text(&run(home.path(), &[command, "--help"]).stdout);
        assert!(help.contains("Example") && help.contains(word), "{help}");
    }
    assert!(text(&run(home.path(), &["--help"]).stdout).contains("75 refused by a conflict"));
}

#[test]
fn an_unknown_mount_option_is_refused_with_the_list_of_those_that_are_known() {
    let (home, dir) = home_with_mountpoint();
    let output = run(home.path(), &["mount", "-o", "ro,cache_colour=3", &dir]);
    refused(
        &output,
        2,
        &["\"cache_colour\"", "allowed are:", "data=DIR", "no_passthrough", "noatime", "x-*"],
    );
    let output = run(home.path(), &["mount", "-o", "threads=none", &dir]);
    refused(&output, 2, &["threads=none", "1 to 256"]);
    let output = run(home.path(), &["mount", "-o", "share", &dir]);
    refused(&output, 2, &["share needs a value"]);
}

#[test]
fn the_environment_variable_for_the_log_is_checked() {
    let (home, dir) = home_with_mountpoint();
    let output = command(home.path(), &["mount", &dir]).env("LEASEFS_LOG", "loud").output().unwrap();
    refused(&output, 2, &["LEASEFS_LOG", "off, error, warn, info, debug, trace"]);
}

#[test]
fn a_configuration_file_must_be_there_and_right() {
    let (home, dir) = home_with_mountpoint();
    let file = home.path().join("leasefs.conf");
    let name = file.to_str().unwrap();
    refused(&run(home.path(), &["mount", "--config", name, &dir]), 1, &[name, "cannot be read"]);
    std::fs::write(&file, "# fine\nro\n\nspeed = high\n").unwrap();
    refused(&run(home.path(), &["mount", "--config", name, &dir]), 2, &[&format!("{name}:4:"), "\"speed\""]);
    std::fs::write(&file, "delete = never\n").unwrap();
    refused(&run(home.path(), &["mount", "--config", name, &dir]), 2, &[&format!("{name}:1:"), "smb, posix"]);
}

#[test]
fn remote_sources_and_words_that_are_no_source() {
    let (home, dir) = home_with_mountpoint();
    for url in ["https://acc.blob.core.windows.net/", "http://127.0.0.1:10000/devstoreaccount1"] {
        refused(&run(home.path(), &["mount", url, &dir]), 2, &[url, "/CONTAINER"]);
    }
    let url = "https://acc.blob.core.windows.net/c";
    refused(&run(home.path(), &["mount", url, &dir]), 2, &["\"c\" is not a container name", "3 to 63"]);
    let url = "http://127.0.0.1:9/devstoreaccount1/docs";
    // Nobody listens there.
    refused(&run(home.path(), &["mount", url, &dir]), 1, &[url, "cannot be mounted"]);
    // Options may stand anywhere.
    let cache = home.path().join("cache");
    let (option, cache) = ("--cache-dir", cache.to_str().unwrap());
    for words in [[option, cache, url, &dir], [url, option, cache, &dir], [url, &dir, option, cache]] {
        let words = [&["mount"], &words[..]].concat();
        refused(&run(home.path(), &words), 1, &["127.0.0.1:9", "docs"]);
    }
    let words = ["mount", url, option, cache, &dir, "--read-only", "/more"];
    refused(&run(home.path(), &words), 2, &["unexpected argument", "/more"]);
    refused(&run(home.path(), &["mount", "word", &dir]), 2, &["\"word\" is not known", "embedded"]);
    let output = run(home.path(), &["mount", "/a/data", &dir, "--data", "/b/data"]);
    refused(&output, 2, &["/a/data", "/b/data", "only one"]);
}

#[test]
fn mountpoints_that_cannot_be_one() {
    let (home, dir) = home_with_mountpoint();
    let missing = format!("{dir}/missing");
    refused(&run(home.path(), &["mount", &missing]), 1, &[&missing, "does not exist", "mkdir"]);
    let file = format!("{dir}/file");
    std::fs::write(&file, "").unwrap();
    refused(&run(home.path(), &["mount", &file]), 1, &[&file, "not a directory"]);
    let below = format!("{file}/below");
    refused(&run(home.path(), &["mount", &below]), 1, &[&below, "not a directory"]);
    assert!(!home.path().join(".local").exists(), "a refused mount leaves nothing behind");
}

#[test]
fn data_and_mountpoint_must_not_contain_each_other() {
    let (home, dir) = home_with_mountpoint();
    let inside = format!("{dir}/data");
    let around = home.path().to_str().unwrap();
    for data in [&inside, &dir, around] {
        let output = run(home.path(), &["mount", "--data", data, &dir]);
        refused(&output, 1, &[&dir, "must not contain each other"]);
    }
    let link = home.path().join("link");
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    let output = run(home.path(), &["mount", "--data", link.join("data").to_str().unwrap(), &dir]);
    refused(&output, 1, &["must not contain each other"]);
    assert!(!Path::new(&inside).exists());
}

#[test]
fn a_log_file_that_was_asked_for_must_work() {
    let (home, dir) = home_with_mountpoint();
    let output = run(home.path(), &["mount", "--log-file", "/proc/no/log", &dir]);
    let said = text(&output.stderr);
    // Without a usable device the mount is refused before the log is looked at.
    if said.contains("/dev/fuse") || said.contains("fusermount3") {
        println!("skipped: {said}");
        return;
    }
    refused(&output, 1, &["/proc/no/log", "cannot be opened"]);
}

#[test]
fn umount_of_what_is_no_mount_of_leasefs() {
    let (home, dir) = home_with_mountpoint();
    refused(&run(home.path(), &["umount", &dir]), 1, &[&dir, "is not a mount"]);
    let missing = format!("{dir}/missing");
    refused(&run(home.path(), &["umount", &missing]), 1, &[&missing]);
    refused(&run(home.path(), &["umount", "/proc"]), 1, &["/proc", "type proc", "not of leasefs"]);
}

#[test]
fn check_of_what_is_no_store() {
    let home = home();
    let missing = home.path().join("none");
    let output = run(home.path(), &["check", "--data", missing.to_str().unwrap()]);
    refused(&output, 1, &[missing.to_str().unwrap()]);
    assert!(!missing.exists(), "a check makes nothing");
    let output = run(home.path(), &["check"]);
    refused(&output, 1, &[".local/share/leasefs"]);
    let empty = home.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let output = run(home.path(), &["check", "--data", empty.to_str().unwrap()]);
    refused(&output, 1, &[empty.to_str().unwrap(), "empty"]);
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0, "a check makes nothing");
    let foreign = home.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("letter.txt"), "dear").unwrap();
    let output = run(home.path(), &["check", "--data", foreign.to_str().unwrap()]);
    refused(&output, 1, &[foreign.to_str().unwrap(), "holds no leasefs store"]);
    assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), 1, "nothing was added");
}

#[test]
fn the_helper_for_mount_checks_like_the_command() {
    let (home, dir) = home_with_mountpoint();
    let helper = |words: &[&str]| {
        let mut command = command(home.path(), words);
        command.arg0("/usr/sbin/mount.leasefs").output().unwrap()
    };
    refused(&helper(&["embedded", "/no/such/dir", "-f"]), 1, &["/no/such/dir", "does not exist"]);
    refused(&helper(&["embedded", &dir, "-f", "-o", "rw,what"]), 2, &["\"what\"", "allowed are:"]);
    refused(&helper(&["https://x/y", &dir, "-f"]), 2, &["https://x/y", "/CONTAINER"]);
    assert_eq!(helper(&["embedded"]).status.code(), Some(2));
    let sloppy = helper(&["embedded", &dir, "-sfnv", "-o", "rw,what,noauto,x-systemd.automount"]);
    let said = text(&sloppy.stderr);
    if said.contains("/dev/fuse") || said.contains("fusermount3") {
        println!("skipped: {said}");
        return;
    }
    assert_eq!(sloppy.status.code(), Some(0), "{said}");
}

#[test]
fn a_stray_starter_variable_means_nothing() {
    let home = home();
    let output = command(home.path(), &["umount", "/proc"]).env("LEASEFS_STARTED_BY", "1").output().unwrap();
    refused(&output, 1, &["not of leasefs"]);
}
