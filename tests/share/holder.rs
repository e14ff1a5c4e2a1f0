//! A process of its own that holds files as a test tells it: `tests/share/holder.py` behind two pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The running program; killed when dropped, as by SIGKILL.
pub struct Holder {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Holder {
    /// Starts one.
    pub fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/share/holder.py");
        let mut command = Command::new("python3");
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3 runs");
        let ask = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, ask, answers }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it do something: its answer, or the errno.
    pub fn act(&mut self, words: &[&str]) -> Result<String, i32> {
        writeln!(self.ask, "{}", words.join("\t")).expect("the holder listens");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the holder answers");
        let answer = answer.trim_end();
        match answer.strip_prefix("errno ") {
            Some(number) => Err(number.parse().unwrap()),
            None => Ok(answer.strip_prefix("ok").expect("a known answer").trim_start().to_owned()),
        }
    }

    /// Opens a file.
    pub fn open(&mut self, path: &Path, flags: i32) -> Result<String, i32> {
        self.act(&["open", path.to_str().unwrap(), &flags.to_string()])
    }

    /// Opens a file with access and share mode. Nothing stays open if it is refused.
    pub fn open_shared(&mut self, path: &Path, access: &str, share: &str) -> Result<String, i32> {
        let flags = match (access.contains('r'), access.contains('w')) {
            (true, true) => libc::O_RDWR,
            (true, false) => libc::O_RDONLY,
            (false, true) => libc::O_WRONLY,
            (false, false) => libc::O_ACCMODE,
        };
        let descriptor = self.open(path, flags)?;
        match self.act(&["share", &descriptor, access, share]) {
            Ok(_) => Ok(descriptor),
            Err(errno) => {
                self.close(&descriptor);
                Err(errno)
            }
        }
    }

    /// Closes a descriptor.
    pub fn close(&mut self, descriptor: &str) {
        self.act(&["close", descriptor]).expect("close works");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
