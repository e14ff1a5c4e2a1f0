//! The driver of the metadata benchmarks: many small operations, one after another, timed without a process per file.
//!
//! Prints one line per phase: `name operations seconds`. `scripts/bench.sh` pins it to a CPU and reads the lines.
//!
//! * `bench_meta meta DIR N`: N files in one directory: create + write 100 bytes + close, stat, open + read + close,
//!   unlink.
//! * `bench_meta fill DIR FIRST N`: makes files FIRST.. of a large tree, 100 to a directory, and keeps them.
//! * `bench_meta stat DIR TOTAL N`: stats N files of such a tree of TOTAL files, spread evenly over it.
//! * `bench_meta patch FILE OFFSET`: open + write 4 KiB at OFFSET + close.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// What each small file holds.
const BODY: [u8; 100] = [b'x'; 100];
/// Files per directory of a large tree.
const PER_DIRECTORY: u64 = 100;

/// Runs one operation per number and prints the phase's line.
fn phase(
    name: &str,
    numbers: impl Iterator<Item = u64>,
    mut operation: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    let start = Instant::now();
    let mut count = 0u64;
    for number in numbers {
        operation(number)?;
        count += 1;
    }
    println!("{name} {count} {:.6}", start.elapsed().as_secs_f64());
    Ok(())
}

fn create(path: &Path) -> io::Result<()> {
    File::create_new(path)?.write_all(&BODY)
}

fn meta(dir: &Path, count: u64) -> io::Result<()> {
    let dir = dir.join("meta");
    fs::create_dir(&dir)?;
    // Names are made before the clock starts: their cost is not the file system's.
    let paths: Vec<PathBuf> = (0..count).map(|number| dir.join(format!("file-{number:06}"))).collect();
    let mut buffer = Vec::with_capacity(BODY.len());
    phase("create", 0..count, |number| create(&paths[number as usize]))?;
    phase("stat", 0..count, |number| fs::metadata(&paths[number as usize]).map(drop))?;
    phase("read", 0..count, |number| {
        buffer.clear();
        File::open(&paths[number as usize])?.take(BODY.len() as u64 + 1).read_to_end(&mut buffer)?;
        if buffer == BODY { Ok(()) } else { Err(io::Error::other("a file does not hold what was written")) }
    })?;
    phase("unlink", 0..count, |number| fs::remove_file(&paths[number as usize]))?;
    fs::remove_dir(&dir)
}

/// Where file `number` of a large tree is.
fn place(dir: &Path, number: u64) -> PathBuf {
    let directory = number / PER_DIRECTORY;
    dir.join(format!("d{}/d{}/f{number}", directory / PER_DIRECTORY, directory % PER_DIRECTORY))
}

fn fill(dir: &Path, first: u64, count: u64) -> io::Result<()> {
    phase("fill", first..first + count, |number| {
        let path = place(dir, number);
        if number % PER_DIRECTORY == 0
            && let Some(parent) = path.parent()
        {
            fs::create_dir_all(parent)?;
        }
        create(&path)
    })
}

fn stat(dir: &Path, total: u64, count: u64) -> io::Result<()> {
    // Whole directories, so that a large tree costs as many directory lookups per file as a small one.
    let directories = total / PER_DIRECTORY;
    let wanted = (count / PER_DIRECTORY).clamp(1, directories.max(1));
    let step = directories / wanted;
    let numbers =
        (0..wanted).flat_map(|n| (0..PER_DIRECTORY).map(move |file| n * step * PER_DIRECTORY + file));
    phase("stat", numbers, |number| fs::metadata(place(dir, number)).map(drop))
}

fn patch(file: &Path, offset: u64) -> io::Result<()> {
    phase("patch", 0..1, |_| OpenOptions::new().write(true).open(file)?.write_all_at(&[b'p'; 4096], offset))
}

fn run(arguments: &[String]) -> io::Result<()> {
    let number = |at: usize| -> io::Result<u64> {
        arguments
            .get(at)
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| io::Error::other("a number is missing"))
    };
    let [mode, path, ..] = arguments else {
        return Err(io::Error::other("usage: bench_meta MODE PATH NUMBER…"));
    };
    let path = Path::new(path);
    match mode.as_str() {
        "meta" => meta(path, number(2)?),
        "fill" => fill(path, number(2)?, number(3)?),
        "stat" => stat(path, number(2)?, number(3)?),
        "patch" => patch(path, number(2)?),
        _ => Err(io::Error::other("the mode is one of meta, fill, stat, patch")),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench_meta: {error}");
            ExitCode::FAILURE
        }
    }
}
