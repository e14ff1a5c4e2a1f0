//! Cold sequential read of one blob through a mirror, from a service with a delay: MiB/s, and memory at its peak.
//!
//! ```text
//! cargo run --release --example bench_cold_read -- [MIB] [DELAY_MS] [FOLDER]
//! ```
//!
//! The service is a process of its own (this program again), so that the memory told is the mirror's alone. Reads are
//! of 128 KiB, one after the other, as the kernel's are for a program that reads a file.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasefs::rest::auth::{Accounts, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use leasefs::rest::blobs::{BlobService, CopySources};
use leasefs::rest::server::{Answer, Limits, Protocol, Request, Server, ServerConfig};
use leasefs::store::azure::{AzureConfig, AzureStore, Credential};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::mirror::{Mirror, MirrorOptions, Place};
use leasefs::store::{
    BlobName, BlobPath, BlobStore, ContainerName, LocalStore, Metadata, NewContent, Preconditions,
    PublicAccess, Upstream,
};
use leasefs::wire::signing::AccountKey;

const READ: u64 = 128 << 10;
const NAME: &str = "blob";

/// The service, some time later.
struct Delayed(Arc<BlobService>, Duration);

impl Protocol for Delayed {
    async fn answer(self: Arc<Self>, request: Request) -> Answer {
        tokio::time::sleep(self.1).await;
        Arc::clone(&self.0).answer(request).await
    }
}

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |or: u64| words.next().map_or(or, |word| word.parse().unwrap());
    let (mib, delay) = (number(512), number(20));
    let folder = words.next().unwrap_or_else(|| std::env::temp_dir().display().to_string());
    let folder = tempfile::tempdir_in(folder).unwrap();
    if std::env::var_os("BENCH_SERVE").is_some() {
        return serve(folder.path(), mib, delay).await;
    }
    let mut service = Command::new(std::env::current_exe().unwrap())
        .args([mib.to_string(), delay.to_string(), folder.path().display().to_string()])
        .env("BENCH_SERVE", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut addr = String::new();
    BufReader::new(service.stdout.as_mut().unwrap()).read_line(&mut addr).unwrap();
    read(&folder.path().join("mirror"), addr.trim(), mib, delay).await;
    service.kill().unwrap();
    service.wait().unwrap();
}

async fn serve(folder: &std::path::Path, mib: u64, delay: u64) {
    let store = EmbeddedStore::open(&folder.join("service"), EmbeddedOptions::default()).unwrap();
    let at = BlobPath::new(container(), BlobName::new(NAME).unwrap());
    store.create_container(&container(), Metadata::new(), PublicAccess::None).await.unwrap();
    let mut upload = store.upload().without_md5();
    let piece: Vec<u8> = (0..1 << 20).map(|at: u32| (at ^ (at >> 11)) as u8).collect();
    for _ in 0..mib {
        upload.write(&piece).unwrap();
    }
    let new = NewContent { content_md5: Some([0; 16]), ..NewContent::default() };
    store.put_blob(&at, upload.finish(), new, &Preconditions::default()).await.unwrap();
    let blobs = BlobService::new(store.durable_user(), Accounts::development(), CopySources::Own);
    let config = ServerConfig { addr: "127.0.0.1:0".parse().unwrap(), tls: None, limits: Limits::default() };
    let delayed = Arc::new(Delayed(Arc::new(blobs), Duration::from_millis(delay)));
    let server = Server::start(&config, delayed).unwrap();
    println!("{}", server.addr());
    std::future::pending::<()>().await;
}

async fn read(folder: &std::path::Path, addr: &str, mib: u64, delay: u64) {
    let local = EmbeddedStore::open(folder, EmbeddedOptions::default()).unwrap();
    let key = AccountKey::parse(DEVELOPMENT_KEY).unwrap();
    let credential = Credential::Key { account: DEVELOPMENT_ACCOUNT.to_owned(), key };
    let (config, _) =
        AzureConfig::from_url(&format!("http://{addr}/{DEVELOPMENT_ACCOUNT}"), credential).unwrap();
    let service = Arc::new(AzureStore::new(config).unwrap());
    let (place, home) = (Place::new(container(), "").unwrap(), ContainerName::new("share").unwrap());
    let options = MirrorOptions { cache_size: 64 << 30, ..MirrorOptions::default() };
    let mirror = Mirror::open(&local, home.clone(), service, place, options).await.unwrap();
    let name = BlobName::new(NAME).unwrap();
    mirror.refresh_directory(None).await.unwrap();
    for pass in ["cold", "warm"] {
        let started = Instant::now();
        mirror.revalidate(&name).await.unwrap();
        let fetch = mirror.content(&name).await.unwrap().fetch.unwrap();
        let reader = local.reader(&BlobPath::new(home.clone(), name.clone())).unwrap();
        let mut buffer = vec![0; READ as usize];
        for start in (0..reader.size()).step_by(READ as usize) {
            let range = start..start + READ;
            if !fetch.is_here(&range) {
                fetch.bring(range).await.unwrap();
            }
            reader.read_at(&mut buffer, start).unwrap();
        }
        let took = started.elapsed().as_secs_f64();
        let rate = mib as f64 / took;
        println!("{pass}: {mib} MiB at {delay} ms per request in {took:.2} s: {rate:.0} MiB/s; {}", memory());
    }
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    format!("memory at its peak {}", line.trim_start_matches("VmHWM:").trim())
}

fn container() -> ContainerName {
    ContainerName::new("there").unwrap()
}
