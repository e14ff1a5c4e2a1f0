//! What the tests of the commands share: running the program, and reading what it says.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The program.
pub const LEASEFS: &str = env!("CARGO_BIN_EXE_leasefs");

/// Longest wait for something that is on its way.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `leasefs` with these words.
pub fn leasefs(words: &[&str]) -> Output {
    command(words).output().unwrap()
}

/// `leasefs` with these words, not started yet.
pub fn command(words: &[&str]) -> Command {
    let mut command = Command::new(LEASEFS);
    command.args(words).stdin(Stdio::null());
    command
}

/// What it printed.
pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it complained about.
pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Checks the exit code, and that the complaint has all of `parts`.
#[track_caller]
pub fn refused(output: &Output, code: i32, parts: &[&str]) {
    let said = err(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
}

/// Checks that it worked.
#[track_caller]
pub fn succeeded(output: &Output) {
    assert!(output.status.success(), "{:?}: {}", output.status, err(output));
}

/// `leasefs status --json PATH` about its one mount.
#[track_caller]
pub fn status(path: &Path) -> Value {
    let output = leasefs(&["status", "--json", path.to_str().unwrap()]);
    succeeded(&output);
    let mut answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mounts = answer["mounts"].as_array_mut().unwrap();
    assert_eq!(mounts.len(), 1);
    mounts.remove(0)
}

/// The rows of one kind in a status.
pub fn rows<'a>(status: &'a Value, kind: &str) -> &'a Vec<Value> {
    status[kind].as_array().unwrap()
}

/// Waits for something that is on its way.
#[track_caller]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
