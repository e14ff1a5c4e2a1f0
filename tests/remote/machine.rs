//! A `leasefs serve` process, and mounts of what it serves, each with a cache directory of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasefs::share::lease::{LeaseDuration, LeaseId};
use leasefs::store::azure::{AzureConfig, AzureStore, Environment, Source};
use leasefs::store::{
    BlobName, BlobPath, BlobStore, LeaseRequest, ListItem, ListQuery, NewContent, Preconditions, StoreError,
};

/// No wait in these tests is longer.
pub const PATIENCE: Duration = Duration::from_secs(60);

fn leasefs() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasefs"));
    command.env("XDG_STATE_HOME", std::env::temp_dir().join("leasefs-test-logs"));
    command
}

/// Whether this machine can mount; says so if not.
pub fn can_mount() -> bool {
    let can = nix::unistd::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        println!("skipped: mounting needs root and /dev/fuse");
    }
    can
}

/// A blob service in a process of its own.
pub struct Service {
    process: Child,
    /// Kept open: the service says something when it ends, too.
    _output: BufReader<ChildStdout>,
    pub url: String,
    folder: tempfile::TempDir,
}

impl Service {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// With further options.
    pub fn start_with(options: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), "127.0.0.1:0", options)
    }

    /// At an address of our choice.
    pub fn start_at(addr: &str, options: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), addr, options)
    }

    fn start_in(folder: tempfile::TempDir, addr: &str, options: &[&str]) -> Self {
        let mut process = leasefs()
            .args(["serve", "--data"])
            .arg(folder.path())
            .args(["--blob-addr", addr])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let url = line.split_whitespace().find(|word| word.starts_with("http")).map(str::to_owned);
        Self { process, _output: output, url: url.expect("the service says where it is"), folder }
    }

    /// Ends the service, and hands out what is needed to start it again.
    pub fn stop(mut self) -> Stopped {
        self.end();
        let addr = self.url.split('/').nth(2).unwrap().to_owned();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        Stopped { folder, addr }
    }

    fn end(&mut self) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.process.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).ok();
        self.process.wait().ok();
    }

    /// The URL of a container.
    pub fn container(&self, name: &str) -> String {
        format!("{}/{name}", self.url.trim_end_matches('/'))
    }

    /// What an SDK would be: somebody who speaks to the service and knows nothing of leasefs.
    pub fn sdk(&self, container: &str) -> Sdk {
        Sdk::new(&self.container(container), &[])
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}

/// A service that has ended.
pub struct Stopped {
    folder: tempfile::TempDir,
    addr: String,
}

impl Stopped {
    pub fn start(self) -> Service {
        Service::start_in(self.folder, &self.addr, &[])
    }
}

/// A client of the service.
pub struct Sdk {
    pub store: Arc<AzureStore>,
    source: Source,
}

impl Sdk {
    /// A client of the container at this URL, by the right that these variables give.
    pub fn new(url: &str, variables: &[(&str, &str)]) -> Self {
        let source = Source::parse(url).unwrap();
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let get = move |name: &str| {
            variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        let config = AzureConfig::from_environment(&source.service, &Environment::new(get)).unwrap();
        Self { store: Arc::new(AzureStore::new(config).unwrap()), source }
    }

    pub fn at(&self, name: &str) -> BlobPath {
        BlobPath::new(self.source.container.clone(), BlobName::new(name).unwrap())
    }

    pub async fn put(&self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let body = bytes::Bytes::copy_from_slice(content).into();
        let always = Preconditions::default();
        self.store.put_blob(&self.at(name), body, NewContent::default(), &always).await.map(drop)
    }

    pub async fn get(&self, name: &str) -> Option<Vec<u8>> {
        match self.store.get_blob(&self.at(name), None, None, &Preconditions::default()).await {
            Ok(blob) => Some(blob.body.to_vec()),
            Err(StoreError::BlobNotFound(_)) => None,
            Err(error) => panic!("{name}: {error}"),
        }
    }

    /// How many blocks of a blob are there and not committed.
    pub async fn uncommitted(&self, name: &str) -> usize {
        match self.store.get_block_list(&self.at(name), &Preconditions::default()).await {
            Ok(report) => report.uncommitted.len(),
            Err(StoreError::BlobNotFound(_)) => 0,
            Err(error) => panic!("{name}: {error}"),
        }
    }

    /// Takes the lease of a blob, for a minute.
    pub async fn lease(&self, name: &str) -> Result<(), StoreError> {
        let (proposed, duration) =
            (LeaseId(uuid::Uuid::new_v4().as_u128()), LeaseDuration::seconds(60).unwrap());
        let request = LeaseRequest::Acquire { proposed, duration };
        self.store.lease_blob(&self.at(name), request, &Preconditions::default()).await.map(drop)
    }

    /// All names, without those that leasefs keeps for itself.
    pub async fn names(&self) -> Vec<String> {
        let mut names = self.all_names().await;
        names.retain(|name| !name.starts_with(".leasefs/"));
        names
    }

    pub async fn all_names(&self) -> Vec<String> {
        let mut query = ListQuery { max: 5000, ..ListQuery::default() };
        let mut names = Vec::new();
        loop {
            let page = self.store.list_blobs(&self.source.container, &query).await.unwrap();
            names.extend(page.items.into_iter().filter_map(|item| match item {
                ListItem::Blob { name, .. } => Some(name),
                _ => None,
            }));
            match page.next {
                Some(next) => query.marker = Some(next),
                None => return names,
            }
        }
    }
}

/// A mount of a remote share.
pub struct Remote {
    folder: tempfile::TempDir,
    source: String,
    options: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Remote {
    pub fn new(source: &str, options: &[&str]) -> Self {
        let mount = Self::prepared(source, options);
        mount.start();
        mount
    }

    /// Not mounted yet.
    pub fn prepared(source: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("mount")).unwrap();
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Self { folder, source: source.to_owned(), options, variables: Vec::new() }
    }

    /// With a variable of the environment.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Its cache directory.
    pub fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    pub fn start(&self) {
        let output = self.try_start();
        assert!(output.status.success(), "mount: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn try_start(&self) -> Output {
        leasefs()
            .args(["mount", "--cache-dir"])
            .arg(self.cache())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .args(&self.options)
            .arg(&self.source)
            .arg(self.dir())
            .output()
            .unwrap()
    }

    pub fn stop(&self) {
        let output = leasefs().arg("umount").arg(self.dir()).output().unwrap();
        assert!(output.status.success(), "umount: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn dir(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// What a shell prints.
    pub fn shell(&self, script: &str) -> String {
        let mut bash = Command::new("bash");
        // `leasefs` is the program under test, as if it were installed.
        let program = format!("leasefs() {{ {} \"$@\"; }}; {script}", env!("CARGO_BIN_EXE_leasefs"));
        let output =
            bash.args(["-euo", "pipefail", "-c", &program]).current_dir(self.dir()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {text}{errors}");
        text
    }

    /// `leasefs status --json` of the mount.
    pub fn status(&self) -> serde_json::Value {
        let output = leasefs().args(["status", "--json"]).arg(self.dir()).output().unwrap();
        assert!(output.status.success(), "status: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        leasefs().args(["umount", "--lazy"]).arg(self.dir()).output().ok();
    }
}

/// Waits for something that comes by itself.
#[track_caller]
pub fn until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "it does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}
