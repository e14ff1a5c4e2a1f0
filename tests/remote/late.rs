//! Who comes too late: what it is told, and what becomes of its work.

use std::time::{Duration, Instant};

use crate::holder::Holder;
use crate::machine::{PATIENCE, Sdk};

/// Names and texts of the conflict copies.
pub async fn conflict_copies(sdk: &Sdk) -> Vec<(String, String)> {
    let mut copies = Vec::new();
    for name in sdk.names().await {
        if name.contains(".conflict-") {
            let text = String::from_utf8(sdk.get(&name).await.unwrap()).unwrap();
            copies.push((name, text));
        }
    }
    copies
}

/// The holder is told that it came too late, the later content stands, and the holder's is beside.
pub async fn too_late(holder: &mut Holder, descriptor: &str, sdk: &Sdk) {
    let written = holder.act(&["write", descriptor, "late"]);
    let told = written.and_then(|_| holder.act(&["fsync", descriptor]));
    let there = sdk.get("plan").await.map(|text| String::from_utf8_lossy(&text).into_owned());
    assert_eq!((told, there.as_deref()), (Err(libc::EIO), Some("theirs")));
    // It may tell once more.
    holder.act(&["close", descriptor]).ok();
    assert_eq!(
        sdk.get("plan").await.as_deref(),
        Some(&b"theirs"[..]),
        "the late one's close changes nothing"
    );
    let deadline = Instant::now() + PATIENCE;
    loop {
        let copies = conflict_copies(sdk).await;
        // Over "begin", with or without what came too late.
        let ours = |text: &str| ["oursn", "laten"].contains(&text);
        if copies.iter().any(|(name, text)| name.starts_with("plan.conflict-") && ours(text)) {
            return;
        }
        assert!(Instant::now() < deadline, "the content of the late one is not kept: {copies:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
