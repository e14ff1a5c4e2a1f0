//! Death of the process at random and at every named point: what was acknowledged is there afterwards, and the store's
//! own check is clean.
//!
//! The process that dies is this test binary itself, run again with [`CHILD`] set. Child and parent make the same
//! steps from the same seed; the child appends one byte to a file for each finished step.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "store_crash/steps.rs"]
mod steps;

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use steps::Model;

/// Names the folder a child works in.
const CHILD: &str = "LEASEFS_STORE_CHILD";
const SEED: &str = "LEASEFS_STORE_SEED";
const MEMTABLE: &str = "LEASEFS_STORE_MEMTABLE";
const CRASH_AT: &str = "LEASEFS_CRASH_AT";

/// Steps after which a child ends by itself.
const STEPS: u64 = 4000;

const DEFAULT_MEMTABLE: u64 = 8 << 20;
const SMALL_MEMTABLE: u64 = 1 << 20;

fn options(memtable_bytes: u64) -> EmbeddedOptions {
    let checkpoint_every = Duration::from_millis(30);
    EmbeddedOptions { inline_max: 1000, memtable_bytes, checkpoint_every, ..EmbeddedOptions::default() }
}

fn store_folder(folder: &Path) -> PathBuf {
    folder.join("store")
}

/// One byte for each finished step.
fn finished_file(folder: &Path) -> PathBuf {
    folder.join("finished")
}

fn model_file(folder: &Path) -> PathBuf {
    folder.join("model")
}

/// Not a test: what the child does. Without the variable it is a test that has nothing to do.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let store = EmbeddedStore::open(&store_folder(&folder), options(number(MEMTABLE))).unwrap();
    let mut model = Model::load(&model_file(&folder));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut worker = steps::Worker::new(store.clone()).await;
        let mut finished = std::fs::File::create(finished_file(&folder)).unwrap();
        for index in 0..STEPS {
            let step = model.next_step(number(SEED), index);
            worker.apply(&step, &model).await;
            model.apply(&step);
            finished.write_all(b".").unwrap();
        }
    });
    store.close().unwrap();
}

fn spawn(folder: &Path, seed: u64, memtable: u64, crash_at: Option<&str>) -> Child {
    let _ = std::fs::remove_file(finished_file(folder));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, folder).env(SEED, seed.to_string()).env(MEMTABLE, memtable.to_string());
    command.stdout(Stdio::null()).stderr(Stdio::null()).env_remove(CRASH_AT);
    if let Some(point) = crash_at {
        command.env(CRASH_AT, point);
    }
    command.spawn().unwrap()
}

/// How many steps a child that has ended had finished.
fn finished_steps(folder: &Path) -> u64 {
    std::fs::metadata(finished_file(folder)).map_or(0, |file| file.len())
}

/// Opens the store and compares it with the steps that were finished, or those and one more.
fn verify(folder: &Path, seed: u64, memtable: u64, before: Model, context: &str) -> u64 {
    let finished = finished_steps(folder);
    let mut finished_model = before;
    for index in 0..finished {
        let step = finished_model.next_step(seed, index);
        finished_model.apply(&step);
    }
    let mut one_more = finished_model.clone();
    let step = one_more.next_step(seed, finished);
    one_more.apply(&step);
    let store = EmbeddedStore::open(&store_folder(folder), options(memtable)).unwrap();
    let report = store.check().unwrap();
    assert!(report.is_clean(), "{context}: {:#?}", report.problems);
    steps::assert_snapshots(&store, context);
    let found = steps::read_back(&store);
    let expected = if found == one_more.contents() { &one_more } else { &finished_model };
    let differences = steps::differences(&found, &expected.contents());
    assert!(differences.is_empty(), "{context}, {finished} steps, last {step:?}: {differences:#?}");
    expected.save(&model_file(folder));
    store.close().unwrap();
    finished
}

#[test]
fn kill_at_random_loses_nothing() {
    for memtable in [DEFAULT_MEMTABLE, SMALL_MEMTABLE] {
        let folder = tempfile::tempdir().unwrap();
        Model::default().save(&model_file(folder.path()));
        let mut finished = 0;
        for round in 0..30u64 {
            let seed = 1000 + round;
            let before = Model::load(&model_file(folder.path()));
            let mut child = spawn(folder.path(), seed, memtable, None);
            std::thread::sleep(Duration::from_millis(60 + (round * 37) % 240));
            child.kill().unwrap();
            child.wait().unwrap();
            finished += verify(folder.path(), seed, memtable, before, &format!("round {round}"));
        }
        assert!(finished > 300, "the children did hardly anything: {finished} steps");
    }
}

/// What only a mirror does has tests of its own: tests/mirror/crashes.rs.
const OF_MIRRORS: [&str; 8] = [
    "adopt_",
    "fill_",
    "push_",
    "exchange_",
    "rename_after_note",
    "rename_after_copy",
    "rename_there_",
    "remove_there_",
];

/// Every point in the sources that a child can reach.
fn points_in_sources() -> BTreeSet<String> {
    let mut points = BTreeSet::new();
    let mut folders = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/store"))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.ends_with("crash.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let named = |start: &str| {
                let parts: Vec<&str> = text.split(start).skip(1).collect();
                parts
                    .into_iter()
                    .filter_map(|rest| rest.split('"').next())
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            points.extend(named("crash_point(\""));
            for operation in named("points!(\"") {
                points.insert(format!("{operation}_before_batch"));
                points.insert(format!("{operation}_after_batch"));
            }
        }
    }
    points.retain(|point| !OF_MIRRORS.iter().any(|start| point.starts_with(start)));
    points
}

#[test]
fn death_at_every_named_point_loses_nothing() {
    let points = points_in_sources();
    assert!(points.len() > 30, "the points are found in the sources: {points:?}");
    let mut never_reached = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        Model::default().save(&model_file(folder.path()));
        if point.starts_with("leftovers") {
            leave_something_over(folder.path());
        }
        for times in [1, 3] {
            let seed = index as u64;
            let before = Model::load(&model_file(folder.path()));
            let mut child = spawn(folder.path(), seed, SMALL_MEMTABLE, Some(&format!("{point}:{times}")));
            let died = child.wait().unwrap().signal() == Some(nix::sys::signal::Signal::SIGABRT as i32);
            if !died && times == 1 {
                never_reached.push(point);
            }
            verify(folder.path(), seed, SMALL_MEMTABLE, before, &format!("{point}:{times}"));
        }
    }
    assert!(never_reached.is_empty(), "no child came to these points: {never_reached:?}");
}

/// A store that was left in disorder, with files that belong to nobody.
fn leave_something_over(folder: &Path) {
    drop(EmbeddedStore::open(&store_folder(folder), options(SMALL_MEMTABLE)).unwrap());
    std::fs::remove_file(store_folder(folder).join("clean")).unwrap();
    let content = store_folder(folder).join("content").join("00");
    std::fs::create_dir_all(&content).unwrap();
    for number in [1u64, 2, 3, 4] {
        std::fs::write(content.join(format!("{number:016x}")), b"left over").unwrap();
    }
}
