//! A remote mount whose daemon is meant to die: our own child in the foreground, on a service that lives on.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, umount2};

use crate::daemon::{Daemon, LEASEFS};
use crate::fault_proxy::FaultProxy;
use crate::machine::{PATIENCE, Sdk, Service, can_mount};
use crate::tree::{self, SeenKind};

const CONTAINER: &str = "team";

pub struct Rig {
    pub service: Service,
    pub sdk: Sdk,
    runtime: tokio::runtime::Runtime,
    /// What the mount's requests go through, if that is slow.
    line: Option<FaultProxy>,
    options: Vec<String>,
    daemon: Daemon,
}

impl Deref for Rig {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        &self.daemon
    }
}

impl DerefMut for Rig {
    fn deref_mut(&mut self) -> &mut Daemon {
        &mut self.daemon
    }
}

impl Rig {
    /// A service and a place for a mount with these options; nothing is mounted yet. None where this machine cannot.
    pub fn new(options: &[&str]) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let daemon = Daemon::new();
        let service = Service::start();
        let sdk = service.sdk(CONTAINER);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Some(Self { service, sdk, runtime, line: None, options, daemon })
    }

    /// The same over a line on which every request takes so long. What was sent before a death arrives after it.
    pub fn over_a_line(options: &[&str], delay: Duration) -> Option<Self> {
        let mut rig = Self::new(options)?;
        let service = rig.service.url.split('/').nth(2).unwrap().parse().unwrap();
        let line = rig.wait(FaultProxy::start("127.0.0.1:0".parse().unwrap(), service)).unwrap();
        line.delay(delay);
        rig.line = Some(line);
        Some(rig)
    }

    /// What is mounted.
    fn source(&self) -> String {
        let direct = self.service.container(CONTAINER);
        let Some(line) = &self.line else { return direct };
        let service = direct.split('/').nth(2).unwrap().to_owned();
        direct.replacen(&service, &line.addr.to_string(), 1)
    }

    /// Waits for what a client of the service does.
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// What the daemons said last.
    pub fn log(&self) -> String {
        let log = self.daemon.log();
        let lines: Vec<&str> = log.lines().collect();
        let mut told = lines[lines.len().saturating_sub(60)..].join("\n");
        told.push_str("\nat the service:");
        for name in self.wait(self.sdk.all_names()) {
            let size = self.wait(self.sdk.get(&name)).map(|bytes| bytes.len());
            told.push_str(&format!("\n  {name}: {size:?}"));
        }
        told
    }

    /// Mounts, over a dead mount if there is one.
    pub fn start(&mut self) {
        assert!(self.spawn(None), "the mount does not start:\n{}", self.log());
    }

    /// Mounts with a daemon that dies at `point`. Says whether it lived long enough to serve.
    pub fn start_doomed(&mut self, point: &str) -> bool {
        self.spawn(Some(point))
    }

    fn spawn(&mut self, point: Option<&str>) -> bool {
        // The dead mount below would only pile up.
        umount2(&self.dir(), MntFlags::MNT_DETACH).ok();
        let cache = self.folder.path().join("cache").to_str().unwrap().to_owned();
        let mut arguments = ["--log", "debug", "--cache-dir"].map(str::to_owned).to_vec();
        arguments.push(cache);
        arguments.extend_from_slice(&self.options);
        arguments.push(self.source());
        self.daemon.spawn(point, &arguments)
    }

    /// Runs the store's own check on the mirror. Nothing may be mounted.
    pub fn check(&self) {
        let mirrors: Vec<_> = fs::read_dir(self.folder.path().join("cache")).unwrap().collect();
        assert_eq!(mirrors.len(), 1, "{mirrors:?}");
        self.daemon.check(&mirrors[0].as_ref().unwrap().path());
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < deadline, "{what} does not come:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until no rename is half done.
    pub fn finish_renames(&self) {
        self.until("the end of all renames", || {
            let names = self.wait(self.sdk.all_names());
            !names
                .iter()
                .any(|name| name.starts_with(".leasefs/renames/") || name.starts_with(".leasefs/aside/"))
        });
    }

    /// Waits until the service has everything.
    pub fn drained(&self) {
        self.drained_but(0);
    }

    /// Waits until only so many files wait, such as those that are open and written in place.
    pub fn drained_but(&self, files: u64) {
        self.until("the end of the queue", || {
            let output = Command::new(LEASEFS).args(["status", "--json"]).arg(self.dir()).output().unwrap();
            let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            status["mounts"][0]["service"]["waiting_files"].as_u64() == Some(files)
        });
    }

    /// Once everything is pushed, the service has what the mount shows, and nothing else.
    pub fn same_at_the_service(&self, when: &str) {
        self.drained();
        let seen = tree::look(&self.dir()).unwrap();
        for (path, node) in &seen {
            if let SeenKind::File(bytes) = &node.kind {
                let there = self.wait(self.sdk.get(path));
                let size = there.as_ref().map(Vec::len);
                let (here, log) = (bytes.len(), self.log());
                assert!(
                    there.as_ref() == Some(bytes),
                    "{when}: {path}: the mount has {here} bytes, the service {size:?}\n{log}"
                );
            }
        }
        let names = self.wait(self.sdk.names());
        let extra: Vec<_> = names.iter().filter(|name| !seen.contains_key(name.as_str())).collect();
        assert!(extra.is_empty(), "{when}: only the service has {extra:?}\n{}", self.log());
        assert!(
            !names.iter().any(|name| name.contains(".conflict-")),
            "{when}: nobody was in the way: {names:?}\n{}",
            self.log()
        );
    }
}

/// Whether the process ended itself.
pub fn crashed(status: Option<ExitStatus>) -> bool {
    status.is_some_and(|status| status.signal() == Some(libc::SIGABRT))
}

/// Whether anything is at a path.
pub fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
