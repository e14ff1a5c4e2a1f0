//! Addresses for servers that a test starts.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// Outside of the range from which the kernel takes the ports of clients.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// An address that nobody has, and that no other test gets while this process lives.
pub fn free_addr() -> SocketAddr {
    static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let folder = std::env::temp_dir().join("leasefs-test-ports");
    std::fs::create_dir_all(&folder).unwrap();
    let take = |port: u16| {
        let claim = File::create(folder.join(port.to_string())).unwrap();
        let listener = claim.try_lock().ok().and_then(|()| TcpListener::bind(("127.0.0.1", port)).ok())?;
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).push(claim);
        Some(listener.local_addr().unwrap())
    };
    PORTS.into_iter().find_map(take).expect("ten thousand ports are enough")
}
