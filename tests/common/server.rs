//! A blob service as a process: `leasefs serve` on a port of its own, and a client for it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasefs::store::azure::{AzureConfig, AzureStore, Environment, RetryPolicy, ServiceUrl};
use leasefs::store::{BlobName, BlobPath, ContainerName};

/// The account of the emulators.
pub(crate) const ACCOUNT: &str = "devstoreaccount1";

/// `leasefs serve`; ends when dropped.
pub(crate) struct Server {
    child: Child,
    /// Where it listens.
    pub(crate) addr: SocketAddr,
    _data: tempfile::TempDir,
}

impl Server {
    /// Starts one on a port that is free.
    pub(crate) fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasefs"));
        command.args(["serve", "--blob-addr", "127.0.0.1:0", "--data"]).arg(data.path());
        let mut child =
            command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().expect("leasefs serve runs");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().expect("it says where it listens").unwrap();
        let addr = line.rsplit_once("http://").and_then(|(_, rest)| rest.split('/').next()?.parse().ok());
        let addr = addr.unwrap_or_else(|| panic!("no address in: {line}"));
        // Whatever else it says must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, addr, _data: data }
    }

    /// The URL of the account.
    pub(crate) fn account_url(&self) -> String {
        format!("http://{}/{ACCOUNT}", self.addr)
    }

    /// The URL of something below the account.
    pub(crate) fn url(&self, inside: &str) -> String {
        format!("{}/{inside}", self.account_url())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A client as any SDK: it knows nothing of mounts.
pub(crate) fn client(addr: SocketAddr) -> AzureStore {
    client_at(&format!("http://{addr}/{ACCOUNT}"))
}

/// The same for the URL of an account with the emulators' key.
pub(crate) fn client_at(url: &str) -> AzureStore {
    let (service, _) = ServiceUrl::split(url).unwrap();
    let nothing = Environment::new(|_| None);
    let config = AzureConfig::from_environment(&service, &nothing).unwrap();
    let retry = RetryPolicy { base: Duration::from_millis(20), ..RetryPolicy::default() };
    AzureStore::new(config.with_retry(retry)).unwrap()
}

/// A blob in a container.
pub(crate) fn at(container: &str, name: &str) -> BlobPath {
    BlobPath::new(ContainerName::new(container).unwrap(), BlobName::new(name).unwrap())
}
