//! What a dead mount held does not keep its successor out.

use std::fs;
use std::time::{Duration, Instant};

use leasefs::store::StoreError;

use crate::holder::Holder;
use crate::rig::Rig;

/// Much less than a lease lasts.
const SOON: Duration = Duration::from_secs(15);

fn taken_over(options: &[&str]) {
    let Some(mut rig) = Rig::new(options) else { return };
    rig.start();
    for name in ["plan", "moved", "other"] {
        fs::write(rig.path(name), "begin").unwrap();
    }
    let mut holder = Holder::start();
    let plan = holder.open_shared(&rig.path("plan"), "rw", "r").unwrap();
    holder.act(&["write", &plan, "saved"]).unwrap();
    holder.act(&["fsync", &plan]).unwrap();
    let moved = holder.open_shared(&rig.path("moved"), "rw", "rd").unwrap();
    fs::rename(rig.path("moved"), rig.path("there")).unwrap();
    holder.act(&["write", &moved, "after"]).unwrap();
    for name in ["plan", "there"] {
        let refused = rig.wait(rig.sdk.put(name, b"stranger"));
        assert!(matches!(refused, Err(StoreError::Lease(_))), "{name}: {refused:?}");
    }
    let died = Instant::now();
    rig.kill();
    drop(holder);
    // Somebody else is kept out: the lease is there, and it is the dead mount's.
    let refused = rig.wait(rig.sdk.put("plan", b"stranger"));
    assert!(matches!(refused, Err(StoreError::Lease(_))), "{refused:?}");
    rig.start();
    assert_eq!(fs::read_to_string(rig.path("plan")).unwrap(), "saved");
    let mut holder = Holder::start();
    for name in ["plan", "there"] {
        let open = holder.open_shared(&rig.path(name), "rw", "r");
        let open = open.unwrap_or_else(|errno| panic!("{name}: errno {errno}\n{}", rig.log()));
        holder.act(&["write", &open, "again"]).unwrap();
        holder.act(&["close", &open]).unwrap();
    }
    assert!(died.elapsed() < SOON, "it took {:?}", died.elapsed());
    rig.same_at_the_service("after the death of a holder");
    drop(holder);
    rig.stop();
    rig.wait(rig.sdk.put("plan", b"free")).unwrap();
    rig.check();
}

#[test]
fn a_mount_takes_over_what_it_held_before_it_was_killed() {
    taken_over(&[]);
    // A lease without end would never run out.
    taken_over(&["--lease", "infinite"]);
    taken_over(&["--write-back"]);
}

/// Only the leases that the mount itself took: not those of others.
#[test]
fn the_leases_of_others_stay_when_a_mount_starts_again() {
    let Some(mut rig) = Rig::new(&[]) else { return };
    rig.start();
    fs::write(rig.path("plan"), "begin").unwrap();
    rig.kill();
    rig.wait(rig.sdk.lease("plan")).unwrap();
    rig.start();
    let refused = fs::write(rig.path("plan"), "mine").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
    assert_eq!(fs::read_to_string(rig.path("plan")).unwrap(), "begin");
    rig.stop();
}
