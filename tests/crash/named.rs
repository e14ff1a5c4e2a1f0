//! Death at named points: a daemon that ends itself there, and everything is as promised afterwards.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::points::{NOT_REACHED, REACHED, Way, in_sources};
use crate::rig::Rig;
use crate::writer::{Done, Writer};

const SMALL: usize = 3000;
const MIDDLE: usize = 200_000;
const BIG: usize = 5 << 19;

/// A fixed sequence of operations that passes every point with [`Way::Script`].
fn script(writer: &mut Writer) -> Done {
    create_all(writer)?;
    change_all(writer)?;
    open_all(writer)?;
    rename_all(writer)?;
    remove_all(writer)?;
    // Still open, and not committed, when the mount ends.
    writer.begin_append("open")?;
    let bytes = writer.dice.bytes(MIDDLE);
    writer.append_unsynced(0, &bytes)
}

fn create_all(writer: &mut Writer) -> Done {
    for directory in ["d", "d/e", "empty"] {
        writer.mkdir(directory)?;
    }
    for (path, size) in
        [("small", SMALL), ("d/middle", MIDDLE), ("big", BIG), ("d/e/big", BIG), ("d/empty", 0)]
    {
        let bytes = writer.dice.bytes(size);
        writer.create(path, &bytes)?;
    }
    writer.symlink("link", "d/middle")?;
    writer.chmod("small", 0o640)?;
    writer.set_tag("d/middle", "one")
}

fn change_all(writer: &mut Writer) -> Done {
    let part = writer.dice.bytes(4096);
    // A little of a big file: moved into the base at the close. Most of it: the base moves. So much in several steps
    // that no file holds half of it: written anew.
    writer.overwrite("big", &[(1000, part.clone()), (2 << 20, part.clone())])?;
    let most = writer.dice.bytes(BIG * 3 / 4);
    writer.overwrite("d/e/big", &[(5000, most)])?;
    let parts = [0, BIG / 3].map(|from| (from, writer.dice.bytes(BIG / 3 + 9)));
    writer.overwrite_synced("big", &parts)?;
    writer.overwrite("d/middle", &[(100_000, part.clone())])?;
    writer.overwrite("small", &[(100, part.clone())])?;
    writer.change_under_reader("d/middle", &part, 50)?;
    writer.truncate("d/middle", 70_000)?;
    writer.truncate("big", 1_500_000)?;
    writer.truncate("small", 10_000)?;
    writer.cut_and_grow("d/e/big", 1_200_000, &part, 1_300_000)?;
    let bytes = writer.dice.bytes(SMALL);
    writer.replace("d/middle", &bytes)?;
    writer.touch_top()?;
    writer.sync_directory("d")
}

fn open_all(writer: &mut Writer) -> Done {
    for (path, size) in [("small.log", 1000), ("big.log", MIDDLE)] {
        writer.begin_append(path)?;
        for _ in 0..3 {
            let bytes = writer.dice.bytes(size);
            writer.append(0, &bytes)?;
        }
        writer.append_unsynced(0, b"and more")?;
        writer.end_append(0)?;
    }
    let bytes = writer.dice.bytes(MIDDLE);
    writer.cut_committed("cut", &bytes, 100_000)?;
    writer.cut_committed("cut more", &bytes, 1000)?;
    for (path, size) in [("small", SMALL), ("d/middle", MIDDLE)] {
        let bytes = writer.dice.bytes(size);
        writer.save(path, &bytes)?;
    }
    Ok(())
}

fn rename_all(writer: &mut Writer) -> Done {
    writer.rename("small", "small too")?;
    writer.rename("d/e/big", "big")?;
    writer.rename("d", "f")?;
    writer.exchange("f", "empty")?;
    writer.exchange("small too", "empty/middle")?;
    writer.rename("f", "empty/e")
}

fn remove_all(writer: &mut Writer) -> Done {
    writer.unlink("link")?;
    writer.unlink("big")?;
    writer.unlink_and_take_back("cut")?;
    writer.unlink_open("cut", None)?;
    // What is pending moves with its directory.
    writer.mkdir("g")?;
    writer.create("g/pending", b"pending")?;
    writer.unlink_open("g/pending", Some(("g", "h")))?;
    writer.mkdir("other")?;
    writer.create("other/pending", b"pending")?;
    writer.unlink_open_and_exchange("other/pending", "h", "other")?;
    writer.rmdir("h")
}

/// The mount dies at `point`; then it is started again, and all is well.
fn die_at(rig: &mut Rig, writer: &mut Writer, way: Way) {
    let point = writer.name.clone();
    if rig.start_doomed(&point, way == Way::PosixScript) && script(writer).is_ok() {
        end(rig, writer);
    }
    must_have_crashed(rig, &point);
    writer.appends.clear();
    rig.start();
    writer.settle().unwrap_or_else(|wrong| panic!("{point}: {wrong}\nlog:\n{}", rig.log()));
    fs::remove_dir_all(writer.at("")).unwrap();
    rig.stop();
    rig.check();
}

/// Ends the mount, first while a file is open, which may be refused but commits it.
fn end(rig: &mut Rig, writer: &mut Writer) {
    writer.expect_commit(0);
    rig.ask_to_end();
    if rig.is_running() && writer.end_append(0).is_ok() {
        rig.ask_to_end();
    }
}

fn must_have_crashed(rig: &mut Rig, point: &str) {
    let status = rig.ended();
    let crashed = status.is_some_and(|status| status.signal() == Some(libc::SIGABRT));
    assert!(crashed, "{point} was not reached: {status:?}\n{}", rig.log());
}

/// The very first start dies.
fn die_at_first_start(options: &[&str], point: &str) {
    let Some(mut rig) = Rig::new(options) else { return };
    assert!(!rig.start_doomed(point, false), "{point}: it serves");
    must_have_crashed(&mut rig, point);
    rig.start();
    fs::write(rig.dir().join("file"), "content").unwrap();
    rig.kill();
    rig.start();
    assert_eq!(fs::read(rig.dir().join("file")).unwrap(), b"content");
    rig.stop();
    rig.check();
}

/// A start that has to finish what a crash left dies, too.
fn die_at_next_start(options: &[&str], point: &str) {
    let Some(mut rig) = Rig::new(options) else { return };
    rig.start();
    let dir = rig.dir();
    for name in ["gone", "kept"] {
        fs::write(dir.join(name), vec![1; MIDDLE]).unwrap();
    }
    let open = File::options().write(true).open(dir.join("gone")).unwrap();
    fs::remove_file(dir.join("gone")).unwrap();
    // A content file that nothing refers to.
    let half = File::options().write(true).truncate(true).open(dir.join("kept")).unwrap();
    std::io::Write::write_all(&mut &half, &[2; MIDDLE]).unwrap();
    rig.kill();
    drop((open, half));
    rig.start_doomed(point, false);
    must_have_crashed(&mut rig, point);
    rig.start();
    let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["kept"], "{point}");
    assert!(fs::read(dir.join("kept")).unwrap() == vec![1; MIDDLE], "{point}: the old version");
    rig.stop();
    rig.check();
}

fn die_at_every_point(options: &[&str]) {
    let kernel = options.is_empty();
    let Some(mut rig) = Rig::new(options) else { return };
    rig.start();
    let dying = Arc::new(AtomicBool::new(true));
    let mut deaths = Vec::new();
    for (name, way, counts) in REACHED {
        let by_script = match way {
            Way::Script | Way::PosixScript => true,
            Way::KernelScript => kernel,
            Way::FirstStart | Way::NextStart => false,
        };
        for count in counts.iter().filter(|_| by_script) {
            deaths.push((Writer::new(&rig.dir(), &format!("{name}:{count}"), 1, &dying), *way));
        }
    }
    rig.stop();
    for (writer, way) in &mut deaths {
        die_at(&mut rig, writer, *way);
    }
    drop(rig);
    for (name, way, _) in REACHED {
        match way {
            Way::FirstStart => die_at_first_start(options, name),
            Way::NextStart => die_at_next_start(options, name),
            Way::Script | Way::PosixScript | Way::KernelScript => {}
        }
    }
}

#[test]
fn every_named_point_is_survived_through_the_kernel() {
    die_at_every_point(&[]);
}

#[test]
fn every_named_point_is_survived_through_the_daemon() {
    die_at_every_point(&["--no-passthrough"]);
}

#[test]
fn every_point_in_the_sources_is_listed() {
    let reached = REACHED.iter().map(|(name, _, _)| *name);
    let listed: Vec<&str> = reached.chain(NOT_REACHED.iter().map(|(name, _)| *name)).collect();
    let set: BTreeSet<String> = listed.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(listed.len(), set.len(), "a point is listed twice");
    assert_eq!(set, in_sources(), "listed on the left, in src/ on the right");
}
