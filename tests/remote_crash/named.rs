//! Death at the named points of pushes, of the queue, of removals and of renames.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::rig::{Rig, crashed};
use crate::writer::{Done, Writer};

const SMALL: usize = 3000;
const MIDDLE: usize = 300_000;
/// Uploaded in blocks.
const BIG: usize = 9 << 20;

/// Points that both ways of writing reach, and the counts at which the daemon dies there.
const POINTS: &[(&str, &[u32])] = &[
    ("commit_after_publish", &[1, 3]),
    ("release_after_commit", &[1, 4]),
    ("fsync_after_commit", &[1, 2]),
    ("create_after_publish", &[1, 3]),
    ("push_before_commit", &[1, 3, 5, 8]),
    ("push_after_commit", &[1, 3, 5, 8]),
    ("push_after_note", &[1, 3, 5, 8]),
    ("remove_there_after_delete", &[1, 2]),
    ("finish_remove_after_delete", &[1]),
    ("rename_after_note", &[1, 2, 3]),
    ("rename_after_copy", &[1, 2, 3, 4, 7, 10, 13, 16]),
    ("rename_there_after_move", &[1, 2, 3, 5]),
    ("rename_there_after_state", &[1, 2, 3, 5]),
    ("rename_there_after_here", &[1, 2, 3, 5]),
    ("rename_after_move", &[1, 2, 3, 6]),
    ("exchange_after_aside", &[1]),
    ("exchange_after_copy", &[1]),
    ("exchange_before_here", &[1]),
    ("exchange_before_leg", &[1, 2, 3, 4, 5, 6, 8, 9]),
    ("exchange_after_legs", &[1, 2]),
];

/// Points of the queue.
const LATER: &[(&str, &[u32])] = &[("push_later_after_note", &[1, 2, 5, 9])];

/// A fixed sequence of operations that passes every point.
fn script(writer: &mut Writer) -> Done {
    writer.mkdir("d")?;
    for (path, size) in [("small", SMALL), ("d/middle", MIDDLE), ("big", BIG), ("d/other", SMALL)] {
        let bytes = writer.dice.bytes(size);
        writer.create(path, &bytes)?;
    }
    let part = writer.dice.bytes(4096);
    writer.overwrite("big", &[(1000, part.clone()), (6 << 20, part.clone())])?;
    writer.overwrite("d/middle", &[(100_000, part.clone())])?;
    let bytes = writer.dice.bytes(SMALL);
    writer.replace("small", &bytes)?;
    writer.begin_append("log")?;
    for _ in 0..2 {
        let bytes = writer.dice.bytes(SMALL);
        writer.append(0, &bytes)?;
    }
    writer.end_append(0)?;
    // As editors save: made, closed, and renamed at once.
    for path in ["small", "d/middle"] {
        let bytes = writer.dice.bytes(SMALL);
        writer.save(path, &bytes)?;
    }
    writer.rename("d", "e")?;
    writer.exchange("small", "e/other")?;
    writer.chmod("small", 0o640)?;
    // Changed, perhaps not there yet, and removed.
    let bytes = writer.dice.bytes(SMALL);
    writer.replace("e/other", &bytes)?;
    writer.unlink("e/other")?;
    writer.unlink_open("e/middle", None)?;
    writer.unlink("big")?;
    // Directories with a name in common change places, with a file below that is removed and open, and with a file.
    writer.mkdir("x")?;
    writer.mkdir("x/empty")?;
    for (path, size) in [("x/same", SMALL), ("x/gone", SMALL), ("e/same", MIDDLE), ("e/gone", SMALL)] {
        let bytes = writer.dice.bytes(size);
        writer.create(path, &bytes)?;
    }
    writer.exchange("e", "x")?;
    writer.unlink_open_and_exchange("e/gone", "e", "x")?;
    writer.exchange("small", "x")
}

/// The mount dies at `point`; then it is started again, and all is well.
fn die_at(rig: &mut Rig, writer: &mut Writer) {
    let point = writer.name.clone();
    if rig.start_doomed(&point) && script(writer).is_ok() {
        rig.ask_to_end();
    }
    let status = rig.ended();
    assert!(crashed(status), "{point} was not reached: {status:?}\n{}", rig.log());
    writer.appends.clear();
    rig.start();
    rig.finish_renames();
    writer.settle().unwrap_or_else(|wrong| panic!("{point}: {wrong}\nlog:\n{}", rig.log()));
    rig.same_at_the_service(&point);
    // What shows here is there: everything is as it was on a mount that knows nothing, too.
    writer.settle().unwrap_or_else(|wrong| panic!("{point}, later: {wrong}\nlog:\n{}", rig.log()));
    std::fs::remove_dir_all(writer.at("")).unwrap();
    rig.stop();
    rig.check();
}

fn die_at_every_point(options: &[&str], points: &[&[(&str, &[u32])]]) {
    let Some(mut rig) = Rig::new(options) else { return };
    rig.start();
    let dying = Arc::new(AtomicBool::new(true));
    let mut deaths = Vec::new();
    for (name, counts) in points.iter().copied().flatten() {
        for count in *counts {
            deaths.push(Writer::new(&rig.dir(), &format!("{name}:{count}"), 1, &dying));
        }
    }
    rig.stop();
    for writer in &mut deaths {
        die_at(&mut rig, writer);
    }
}

#[test]
fn every_named_point_of_a_remote_mount_is_survived() {
    die_at_every_point(&[], &[POINTS]);
}

#[test]
fn every_named_point_with_write_back_is_survived() {
    die_at_every_point(&["--write-back"], &[POINTS, LATER]);
}
