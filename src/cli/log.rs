//! The log: to stderr, which for a mount in the background is the log file, or to a file by name.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, IsTerminal, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

use super::settings::LogLevel;

/// How much of a log's end is read to find its last lines.
const TAIL_BYTES: u64 = 4096;
/// How many of them are shown.
const TAIL_LINES: usize = 5;

/// Starts logging for the rest of the process's life.
pub(super) fn start(level: LogLevel, file: Option<File>) {
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter(level)).with_target(false);
    // Starting twice can only happen in tests, where the first one is as good.
    let result = match file {
        Some(file) => subscriber.with_ansi(false).with_writer(Mutex::new(file)).try_init(),
        None => subscriber.with_ansi(io::stderr().is_terminal()).with_writer(io::stderr).try_init(),
    };
    result.ok();
}

/// Libraries are heard from `warn` up only, unless everything was asked for; the FUSE library warns of what is normal
/// (an optional request, a mount that is already gone).
fn filter(level: LogLevel) -> EnvFilter {
    EnvFilter::new(match level {
        LogLevel::Off => "off",
        LogLevel::Error => "error",
        LogLevel::Warn => "warn,fuser=error",
        LogLevel::Info => "warn,fuser=error,leasefs=info",
        LogLevel::Debug => "warn,leasefs=debug",
        LogLevel::Trace => "trace",
    })
}

/// Opens a log file to write at its end; makes it and its directory, readable by the owner only.
pub(super) fn open(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// The last lines written behind byte `from`, to show why a daemon ended.
pub(super) fn tail(path: &Path, from: u64) -> Vec<String> {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(from.max(end.saturating_sub(TAIL_BYTES))))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_log_is_private_appended_and_its_new_tail_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/x.log");
        writeln!(open(&path).unwrap(), "old").unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().mode() & 0o777, 0o700);
        let before = path.metadata().unwrap().len();
        let mut file = open(&path).unwrap();
        for n in 0..8 {
            writeln!(file, "line {n}\n").unwrap();
        }
        assert_eq!(tail(&path, before), ["line 3", "line 4", "line 5", "line 6", "line 7"]);
        assert_eq!(tail(&path, 0).len(), 5);
        assert!(tail(Path::new("/no/such"), 0).is_empty());
    }
}
