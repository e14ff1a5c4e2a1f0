//! Writers over REST against a reader through a mount of the same store.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::common::{BOTH_PATHS, Mount};
use crate::mounted::until;
use crate::ports::free_addr;
use crate::rig::{PATIENCE, exchange, signed};

const PUT: (&str, &str) = ("x-ms-blob-type", "BlockBlob");
const ROUNDS: u32 = 150;

/// A body that tells whether it is whole: its length follows from its bytes. Some are in the index, some in files.
fn whole(number: u32) -> Vec<u8> {
    let byte = number % 250;
    vec![byte as u8; 1 + byte as usize * 400]
}

#[tokio::test(flavor = "multi_thread")]
async fn files_replaced_over_rest_are_read_whole_through_the_mount() {
    for options in BOTH_PATHS {
        let addr = free_addr();
        let listen = addr.to_string();
        let arguments = [&["--blob-addr", listen.as_str()][..], options].concat();
        let Some(mount) = Mount::new(&arguments) else { return };
        let put = async |name: &str, body: Vec<u8>| {
            let put = exchange(addr, &signed("PUT", &format!("/share/{name}"), &[PUT], &body)).await;
            assert_eq!(put.status, 201, "{put:?}");
        };
        put("hot", whole(0)).await;
        let ended = Arc::new(AtomicBool::new(false));
        let reader = tokio::task::spawn_blocking({
            let (path, ended) = (mount.path("hot"), Arc::clone(&ended));
            move || {
                let (started, mut reads) = (Instant::now(), 0u32);
                while !ended.load(Ordering::Relaxed) || reads < 100 {
                    assert!(started.elapsed() < PATIENCE * 4, "only {reads} reads");
                    let bytes = fs::read(&path).unwrap();
                    assert_eq!(bytes.len(), whole(u32::from(bytes[0])).len(), "one version, whole");
                    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "one version, whole");
                    reads += 1;
                }
            }
        });
        for round in 1..=ROUNDS {
            put("hot", whole(round)).await;
            let name = format!("new{round}");
            // The kernel knows that it is not there.
            assert!(!mount.path(&name).exists());
            put(&name, whole(round)).await;
            until(|| mount.path(&name).exists()).await;
        }
        ended.store(true, Ordering::Relaxed);
        reader.await.unwrap();
        until(|| fs::read(mount.path("hot")).is_ok_and(|bytes| bytes == whole(ROUNDS))).await;
        mount.check();
    }
}
