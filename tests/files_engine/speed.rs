//! What changing a part of a file costs does not depend on how long the file is.

use std::time::{Duration, Instant};

use leasefs::fs::requests::NewFile;

use crate::world::{World, path, start};

/// Put Range calls of one measurement, and how long each range is.
const CALLS: u64 = 100;
const LENGTH: u64 = 64 << 10;

fn range(round: u64) -> Vec<u8> {
    vec![round.to_le_bytes()[0]; usize::try_from(LENGTH).unwrap()]
}

/// How long Put Range calls take, one after the other, on a file that nobody has open and that is all data.
async fn ranges(world: &World, size: u64) -> Duration {
    let name = format!("f{size}");
    let new = NewFile { size, ..NewFile::default() };
    world.rest.create_file(&path(&name), new, None).await.unwrap();
    let part = vec![0xff; 1 << 20];
    for at in (0..size).step_by(part.len()) {
        world.write(&name, at, &part).await.unwrap();
    }
    let place = |round: u64| round * 7_919_993 % (size - LENGTH);
    let started = Instant::now();
    for round in 0..CALLS {
        world.write(&name, place(round), &range(round)).await.unwrap();
    }
    let took = started.elapsed();
    let mut expected = vec![0xff; usize::try_from(size).unwrap()];
    for round in 0..CALLS {
        let at = usize::try_from(place(round)).unwrap();
        expected[at..at + range(round).len()].copy_from_slice(&range(round));
    }
    assert!(world.get(&name).await == expected, "{size}");
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_of_a_long_file_cost_what_those_of_a_short_one_do() {
    let world = start().await;
    let (short, long) = (ranges(&world, 2 << 20).await, ranges(&world, 64 << 20).await);
    println!("{CALLS} ranges of 64 KiB: {short:?} in 2 MiB, {long:?} in 64 MiB");
    // Other programs use the disk, too. Copying all of it each time would take 30 times as long.
    assert!(long < short * 6 + Duration::from_millis(500), "{short:?} in 2 MiB, {long:?} in 64 MiB");
}
