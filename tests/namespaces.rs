//! Two mounts of one container on two machines, as far as the network goes: each mount and the server in a network
//! namespace of its own, with cables (veth) between the server and each mount.
//!
//! Needs root, /dev/fuse and the right to make network namespaces; says which is missing and passes without them.

// A test that cannot go on stops. Helper modules of several tests.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

#[path = "share/holder.rs"]
mod holder;
#[path = "remote/late.rs"]
mod late;
#[path = "remote/machine.rs"]
mod machine;

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use holder::Holder;
use late::too_late;
use leasefs::store::StoreError;
use machine::{PATIENCE, Remote, Sdk, Service, can_mount};

const ACCOUNT: &str = "acct";
const KEY: &str = "bmFtZXNwYWNlcy1uYW1lc3BhY2VzLW5hbWVzcGFjZXM=";
const RIGHT: [(&str, &str); 2] = [("AZURE_STORAGE_ACCOUNT", ACCOUNT), ("AZURE_STORAGE_KEY", KEY)];

/// Three namespaces: the server's, and those of two machines that are each connected to it and not to each other.
struct Network {
    /// What the names begin with.
    name: String,
}

fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split_whitespace()).output();
    let output = output.map_err(|error| format!("ip cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

impl Network {
    /// Makes it, or says why that is impossible here.
    fn new() -> Result<Self, String> {
        // Names of interfaces have 15 characters at most.
        let network = Self { name: format!("lf{}", std::process::id() % 1_000_000) };
        network.make()?;
        Ok(network)
    }

    fn make(&self) -> Result<(), String> {
        let name = &self.name;
        for machine in ["s", "a", "b"] {
            ip(&format!("netns add {name}{machine}"))?;
            ip(&format!("-n {name}{machine} link set lo up"))?;
        }
        for (number, machine) in [(1, "a"), (2, "b")] {
            ip(&format!(
                "link add {name}s{machine} netns {name}s type veth peer name {name}{machine} netns {name}{machine}"
            ))?;
            ip(&format!("-n {name}s addr add 10.213.{number}.1/24 dev {name}s{machine}"))?;
            ip(&format!("-n {name}{machine} addr add 10.213.{number}.2/24 dev {name}{machine}"))?;
            ip(&format!("-n {name}s link set {name}s{machine} up"))?;
            ip(&format!("-n {name}{machine} link set {name}{machine} up"))?;
        }
        Ok(())
    }

    /// Pulls or plugs the cable of a machine, at the server's end.
    fn plug(&self, machine: &str, up: bool) {
        let (name, state) = (&self.name, if up { "up" } else { "down" });
        ip(&format!("-n {name}s link set {name}s{machine} {state}")).unwrap();
    }

    /// Runs something on a machine: what it connects to and the processes that it starts are there.
    fn on<T: Send>(&self, machine: &str, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}{machine}", self.name)).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: setns changes this thread only, which ends with `work`, and keeps nothing of the descriptor.
                let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(entered, 0, "{}", std::io::Error::last_os_error());
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The same for work that waits.
    fn on_async<T: Send>(&self, machine: &str, work: impl AsyncFnOnce() -> T + Send) -> T {
        self.on(machine, || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(work())
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for machine in ["a", "b", "s"] {
            ip(&format!("netns del {}{machine}", self.name)).ok();
        }
    }
}

/// The service, and a mount on each machine.
struct World {
    one: Remote,
    two: Remote,
    url: String,
    _service: Service,
    _keys: tempfile::TempDir,
    network: Network,
}

impl World {
    fn new() -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let network = match Network::new() {
            Ok(network) => network,
            Err(why) => {
                println!("skipped: network namespaces cannot be made here: {why}");
                return None;
            }
        };
        let keys = tempfile::tempdir().unwrap();
        let file = keys.path().join("key");
        fs::write(&file, KEY).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let options = ["--account", ACCOUNT, "--account-key-file", file.to_str().unwrap()];
        let service = network.on("s", || Service::start_at("0.0.0.0:0", &options));
        let port = service.url.split('/').nth(2).unwrap().rsplit(':').next().unwrap().to_owned();
        let url = |number: u8| format!("http://10.213.{number}.1:{port}/{ACCOUNT}/team");
        let mount = |machine: &str, number: u8| {
            let mut mount = Remote::prepared(&url(number), &["--lease", "15"]);
            for (name, value) in RIGHT {
                mount = mount.with(name, value);
            }
            network.on(machine, || mount.start());
            mount
        };
        let (one, two) = (mount("a", 1), mount("b", 2));
        let url = url(2);
        Some(Self { one, two, url, _service: service, _keys: keys, network })
    }
}

#[test]
fn machines_on_a_network_keep_each_other_out_and_a_cut_one_is_fenced_off() {
    let Some(world) = World::new() else { return };
    let World { one, two, url, network, .. } = &world;
    fs::write(one.path("plan"), "begin").unwrap();
    assert_eq!(fs::read_to_string(two.path("plan")).unwrap(), "begin");
    let mut holder = Holder::start();
    let descriptor = holder.open_shared(&one.path("plan"), "rw", "r").unwrap();
    // Nobody else writes: not the other machine, and no program that knows nothing of leasefs.
    let refused = OpenOptions::new().write(true).open(two.path("plan")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
    let refused = network.on_async("b", async || Sdk::new(url, &RIGHT).put("plan", b"stranger").await);
    assert!(matches!(refused, Err(StoreError::Lease(_))), "{refused:?}");
    assert_eq!(fs::read_to_string(two.path("plan")).unwrap(), "begin");
    // The cable of the first is pulled, and its lease runs out.
    holder.act(&["write", &descriptor, "ours"]).unwrap();
    network.plug("a", false);
    let deadline = Instant::now() + 2 * PATIENCE;
    while let Err(error) = fs::write(two.path("plan"), "theirs") {
        assert_eq!(error.raw_os_error(), Some(libc::EBUSY), "{error}");
        assert!(Instant::now() < deadline, "the lease never runs out");
        std::thread::sleep(Duration::from_millis(200));
    }
    network.plug("a", true);
    network.on_async("b", async || too_late(&mut holder, &descriptor, &Sdk::new(url, &RIGHT)).await);
    drop(holder);
    // Both agree, and work goes on from both.
    machine::until(|| fs::read_to_string(one.path("plan")).is_ok_and(|text| text == "theirs"));
    machine::until(|| fs::write(one.path("later"), "again").is_ok());
    assert_eq!(fs::read_to_string(two.path("later")).unwrap(), "again");
    one.stop();
    two.stop();
}
