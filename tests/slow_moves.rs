//! Directories that are renamed and removed at a slow service: everything outside of them goes on meanwhile, and what is
//! inside waits and goes on where it is then.
//!
//! A line to the service holds the requests of the move back until the test lets them go, so nothing here depends on how
//! fast anything is.

// Helper modules of several tests.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

#[path = "common/fault_proxy/mod.rs"]
#[allow(unused_imports, reason = "others use the rest")]
mod fault_proxy;
#[path = "remote/machine.rs"]
mod machine;
#[path = "files_remote/world.rs"]
mod world;

use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use fault_proxy::FaultProxy;
use leasefs::fs::nodes::{Ino, ROOT};
use leasefs::fs::strategy::{Concurrency, Fencing};
use leasefs::fs::{Engine, FsError, RenameRule};
use leasefs::share::lease::LeaseDuration;
use leasefs::store::StoreError;
use machine::{PATIENCE, Remote, Sdk, Service, can_mount};
use tokio::task::JoinHandle;
use world::{DOCS, Here, PROGRAM, READ, There, WRITE, path, refusal, segment};

/// What a rename sends for every blob, and a removal.
const COPY: &str = "PUT copy";
const DELETE: &str = "DELETE blob";

/// A line to a service, and the URL of a container behind it.
async fn line_to(service: &Service, container: &str) -> (FaultProxy, String) {
    let addr = service.url.split('/').nth(2).unwrap().to_owned();
    let line = FaultProxy::start("127.0.0.1:0".parse().unwrap(), addr.parse().unwrap()).await.unwrap();
    let url = service.container(container).replace(&addr, &line.addr.to_string());
    (line, url)
}

/// Waits until requests are held on the line.
async fn held(line: &FaultProxy) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while line.waiting() == 0 {
        assert!(tokio::time::Instant::now() < deadline, "nothing is asked for");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What must not wait for the move.
async fn at_once<T>(what: &str, work: impl Future<Output = T>) -> T {
    let Ok(done) = tokio::time::timeout(PATIENCE / 2, work).await else { panic!("{what}: it waits") };
    done
}

/// A while later it still waits.
async fn still_waits<T>(what: &str, task: &JoinHandle<T>) {
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!task.is_finished(), "{what}: it does not wait");
}

async fn finished<T>(task: JoinHandle<T>) -> T {
    tokio::time::timeout(PATIENCE, task).await.expect("it goes on").unwrap()
}

/// An engine with `in/d/f`, `in/d/g`, `in/e` (empty), `in/x` and `out/a`, `out/b`, `out/empty`.
struct Rig {
    line: FaultProxy,
    there: There,
    here: Here,
}

impl Rig {
    async fn new() -> Self {
        let there = There::start().await;
        for (name, text) in [("in/d/f", "f"), ("in/d/g", "g"), ("in/x", "x"), ("out/a", "a"), ("out/b", "b")]
        {
            there.sdk.put(name, text.as_bytes()).await.unwrap();
        }
        let (line, url) = line_to(&there.service, DOCS).await;
        let here = there.mirrored_by(&Sdk::new(&url, &[]), Fencing::default()).await;
        let rig = Self { line, there, here };
        for (parent, name) in [("in", "e"), ("out", "empty")] {
            let parent = rig.ino(parent).await;
            rig.engine().make_directory(parent, &segment(name), 0o755, PROGRAM).await.unwrap();
        }
        rig
    }

    fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.here.engine)
    }

    async fn ino(&self, path: &str) -> Ino {
        let mut at = ROOT;
        for name in path.split('/') {
            at = self.here.engine.lookup(at, &segment(name)).await.unwrap().ino;
        }
        at
    }

    async fn exists(&self, path: &str) -> bool {
        let mut at = ROOT;
        for name in path.split('/') {
            match self.here.engine.lookup(at, &segment(name)).await {
                Ok(stat) => at = stat.ino,
                Err(FsError::NotFound) => return false,
                Err(error) => panic!("{path}: {error}"),
            }
        }
        true
    }

    /// Makes a file, writes it and closes it.
    async fn make(&self, parent: Ino, name: &str) {
        let engine = &self.here.engine;
        let (_, opened) = engine.create(parent, &segment(name), 0o644, WRITE, PROGRAM).await.unwrap();
        engine.write(opened.handle, 0, name.as_bytes()).await.unwrap();
        self.here.close(opened.handle).await.unwrap();
    }

    async fn names_in(&self, directory: Ino) -> Vec<String> {
        let handle = self.here.engine.open_directory(directory);
        let mut names = Vec::new();
        let take = |_, entry: &leasefs::fs::DirectoryEntry| {
            names.push(entry.segment.file_name());
            true
        };
        self.here.engine.read_directory(handle, 0, take).await.unwrap();
        self.here.engine.release_directory(handle);
        names
    }

    /// Everyday work in directories that are not being moved.
    async fn work_outside(&self, round: &str, removes: bool) {
        let (engine, out, within) = (&self.here.engine, self.ino("out").await, self.ino("in").await);
        let a = self.ino("out/a").await;
        assert_eq!(engine.stat(a).await.unwrap().size, 1);
        engine.set_xattr(a, b"user.round", round.as_bytes(), leasefs::fs::XattrMode::Set).await.unwrap();
        // Also beside the directory itself.
        for parent in [out, within] {
            self.make(parent, round).await;
            let made = self.names_in(parent).await;
            assert!(made.iter().any(|name| name == round), "{made:?}");
            if removes {
                engine.unlink(parent, &segment(round)).await.unwrap();
            }
            let directory = format!("{round}-directory");
            engine.make_directory(parent, &segment(&directory), 0o755, PROGRAM).await.unwrap();
            if removes {
                engine.remove_directory(parent, &segment(&directory)).await.unwrap();
            }
        }
        let handle = engine.open(a, READ, PROGRAM).await.unwrap().handle;
        assert_eq!(engine.read_elsewhere(handle, 0, 8).await.unwrap(), b"a");
        self.here.close(handle).await.unwrap();
        // Calls by path.
        self.here.put(&format!("out/{round}-put"), b"put").await;
        assert_eq!(self.here.get(&format!("out/{round}-put")).await, b"put");
        if removes {
            self.here.rest.delete_file(&path(&format!("out/{round}-put")), None).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_being_renamed_keeps_nobody_outside_waiting() {
    let rig = Rig::new().await;
    let (within, d, f) = (rig.ino("in").await, rig.ino("in/d").await, rig.ino("in/d/f").await);
    let writer = rig.engine().open(f, WRITE, PROGRAM).await.unwrap().handle;
    rig.engine().write(writer, 0, b"changed").await.unwrap();
    rig.line.hold(Some(COPY));
    let engine = rig.engine();
    let renaming = tokio::spawn(async move {
        engine.rename((within, &segment("d")), (within, &segment("m")), RenameRule::Replace).await
    });
    held(&rig.line).await;
    at_once("work outside", rig.work_outside("rename", true)).await;
    assert!(!renaming.is_finished());
    // Inside, and at both names, one waits.
    let engine = rig.engine();
    let looking = tokio::spawn(async move { engine.lookup(d, &segment("g")).await });
    let engine = rig.engine();
    let statting = tokio::spawn(async move { engine.stat(f).await });
    let engine = rig.engine();
    let making = tokio::spawn(async move { engine.create(d, &segment("new"), 0o644, WRITE, PROGRAM).await });
    let engine = rig.engine();
    let syncing = tokio::spawn(async move { engine.fsync(writer).await });
    let engine = rig.engine();
    let finding = tokio::spawn(async move { engine.lookup(within, &segment("d")).await });
    let engine = rig.engine();
    let taking =
        tokio::spawn(async move { engine.make_directory(within, &segment("m"), 0o755, PROGRAM).await });
    let rest = rig.here.rest.clone();
    let calling = tokio::spawn(async move { rest.delete_file(&path("in/d/g"), None).await });
    // One that moves what is moved, and one that moves what it is in.
    let engine = rig.engine();
    let inner = tokio::spawn(async move { engine.remove_directory(within, &segment("d")).await });
    let engine = rig.engine();
    let outer = tokio::spawn(async move {
        engine.rename((ROOT, &segment("in")), (ROOT, &segment("on")), RenameRule::Replace).await
    });
    still_waits("look-up", &looking).await;
    still_waits("stat", &statting).await;
    still_waits("create", &making).await;
    still_waits("fsync", &syncing).await;
    still_waits("the old name", &finding).await;
    still_waits("the new name", &taking).await;
    still_waits("a call by path", &calling).await;
    still_waits("rmdir", &inner).await;
    still_waits("a rename above", &outer).await;
    at_once("work outside, beside those that wait", rig.engine().stat(rig.ino("out/a").await)).await.unwrap();
    rig.line.hold(None);
    finished(renaming).await.unwrap();
    let g = finished(looking).await.unwrap().ino;
    assert_eq!(finished(statting).await.unwrap().ino, f);
    let (_, made) = finished(making).await.unwrap();
    rig.here.close(made.handle).await.unwrap();
    finished(syncing).await.unwrap();
    rig.here.close(writer).await.unwrap();
    assert!(matches!(finished(finding).await, Err(FsError::NotFound)));
    assert!(matches!(finished(taking).await, Err(FsError::Exists)));
    assert!(matches!(refusal(finished(calling).await), FsError::NotFound | FsError::NoParent));
    let refused = finished(inner).await;
    assert!(matches!(refused, Err(FsError::NotFound | FsError::Stale | FsError::NotEmpty)), "{refused:?}");
    finished(outer).await.unwrap();
    // All of it is where both renames have put it, here and there.
    assert_eq!(rig.ino("on/m/g").await, g);
    assert_eq!(rig.there.sdk.get("on/m/f").await.as_deref(), Some(&b"changed"[..]));
    assert_eq!(rig.there.sdk.get("on/m/new").await.as_deref(), Some(&b""[..]));
    let names = rig.there.sdk.names().await;
    assert!(!names.iter().any(|name| name.starts_with("in")), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_being_removed_keeps_nobody_outside_waiting() {
    let rig = Rig::new().await;
    let (within, out, e) = (rig.ino("in").await, rig.ino("out").await, rig.ino("in/e").await);
    rig.line.hold(Some(DELETE));
    let engine = rig.engine();
    let removing = tokio::spawn(async move { engine.remove_directory(within, &segment("e")).await });
    held(&rig.line).await;
    at_once("work outside", rig.work_outside("rmdir", false)).await;
    let engine = rig.engine();
    let making = tokio::spawn(async move { engine.create(e, &segment("new"), 0o644, WRITE, PROGRAM).await });
    still_waits("create", &making).await;
    // A slow unlink, and an rmdir that has to wait for it, stop nobody either.
    let engine = rig.engine();
    let unlinking = tokio::spawn(async move { engine.unlink(out, &segment("b")).await });
    while rig.line.waiting() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let engine = rig.engine();
    let waiting = tokio::spawn(async move { engine.remove_directory(out, &segment("empty")).await });
    still_waits("rmdir beside a slow unlink", &waiting).await;
    at_once("work beside both", rig.work_outside("both", false)).await;
    rig.line.hold(None);
    finished(removing).await.unwrap();
    finished(unlinking).await.unwrap();
    finished(waiting).await.unwrap();
    let refused = finished(making).await;
    assert!(matches!(refused, Err(FsError::NotFound | FsError::Stale)), "{refused:?}");
    for (name, there) in [("in/e", false), ("out/b", false), ("out/empty", false), ("out/a", true)] {
        assert_eq!(rig.exists(name).await, there, "{name}");
        assert_eq!(rig.there.sdk.names().await.iter().any(|known| known == name), there, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_elsewhere_are_renewed_while_a_directory_with_leases_is_moved() {
    let there = There::start().await;
    for name in ["in/d/f", "out/a"] {
        there.sdk.put(name, b"text").await.unwrap();
    }
    let (line, url) = line_to(&there.service, DOCS).await;
    let lease = LeaseDuration::seconds(15).unwrap();
    let fencing = Fencing { concurrency: Concurrency::Pessimistic, lease, ..Fencing::default() };
    let here = there.mirrored_by(&Sdk::new(&url, &[]), fencing).await;
    let (engine, mut opened) = (&here.engine, Vec::new());
    let look = async |parent, name| engine.lookup(parent, &segment(name)).await.unwrap().ino;
    let (within, out) = (look(ROOT, "in").await, look(ROOT, "out").await);
    let (inside, outside) = (look(look(within, "d").await, "f").await, look(out, "a").await);
    for ino in [inside, outside] {
        opened.push(engine.open(ino, WRITE, PROGRAM).await.unwrap().handle);
    }
    line.hold(Some(COPY));
    let mover = Arc::clone(engine);
    let renaming = tokio::spawn(async move {
        mover.rename((within, &segment("d")), (within, &segment("m")), RenameRule::Replace).await
    });
    held(&line).await;
    line.plan().reset();
    // A third of a lease is five seconds. The one inside was given up for the move and cannot be renewed now; if it kept
    // the other one waiting, that would be renewed once at most.
    let renewals = || line.plan().counts().get("PUT lease renew").map_or(0, |tally| tally.requests);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(14);
    while renewals() < 2 {
        assert!(tokio::time::Instant::now() < deadline, "{:?}", line.plan().counts());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!renaming.is_finished());
    line.hold(None);
    finished(renaming).await.unwrap();
    // Both are held, wherever the files are now.
    for name in ["in/m/f", "out/a"] {
        let refused = there.sdk.put(name, b"stranger").await;
        assert!(matches!(refused, Err(StoreError::Lease(_))), "{name}: {refused:?}");
    }
    for handle in opened {
        here.close(handle).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_goes_on_while_a_directory_is_renamed() {
    if !can_mount() {
        return;
    }
    let service = Service::start();
    let (line, url) = line_to(&service, "team").await;
    let mount = Arc::new(Remote::new(&url, &[]));
    mount.shell(
        "mkdir -p in/d out; echo f >in/d/f; echo g >in/d/g; echo a >out/a; echo b >out/b; echo c >out/c",
    );
    let directory = fs::File::open(mount.path("in/d")).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(mount.path("in/d/f")).unwrap();
    line.hold(Some(COPY));
    let (from, to) = (mount.path("in/d"), mount.path("in/m"));
    let renaming = tokio::task::spawn_blocking(move || fs::rename(from, to));
    held(&line).await;
    let working = Arc::clone(&mount);
    let work = tokio::task::spawn_blocking(move || {
        working.shell(
            "stat out/a >/dev/null; cat out/a; echo new >out/new; cat out/new; rm out/b; ls out
             echo more >>out/a; mkdir out/sub; rmdir out/sub; chmod 600 out/a; ls; echo top >top; rm top",
        )
    });
    let said = at_once("work outside", work).await.unwrap();
    assert_eq!(said, "a\nnew\na\nc\nnew\nin\nout\n");
    assert!(!renaming.is_finished());
    let inside = format!("/proc/self/fd/{}/g", directory.as_raw_fd());
    let reading = tokio::task::spawn_blocking(move || fs::read_to_string(inside));
    let writing = tokio::task::spawn_blocking(move || {
        file.write_all(b"more\n")?;
        file.sync_all()
    });
    still_waits("read inside", &reading).await;
    still_waits("fsync inside", &writing).await;
    line.hold(None);
    finished(renaming).await.unwrap();
    assert_eq!(finished(reading).await.unwrap(), "g\n");
    finished(writing).await.unwrap();
    assert_eq!(mount.shell("cat in/m/f in/m/g; ls in"), "f\nmore\ng\nm\n");
    let sdk = service.sdk("team");
    assert_eq!(sdk.get("in/m/f").await.as_deref(), Some(&b"f\nmore\n"[..]));
    drop(directory);
    mount.stop();
}

/// The kernel takes no news of names in a directory where it waits for a rename. Others must not wait for that.
#[tokio::test(flavor = "multi_thread")]
async fn a_mount_takes_news_of_others_while_a_directory_is_renamed() {
    if !can_mount() {
        return;
    }
    let service = Service::start();
    let (line, url) = line_to(&service, "team").await;
    let mount = Arc::new(Remote::new(&url, &["--attr-ttl", "0"]));
    mount.shell("mkdir -p in/d out; echo f >in/d/f; echo x >in/x; echo a >out/a; cat in/x out/a; ls in out");
    line.hold(Some(COPY));
    let (from, to) = (mount.path("in/d"), mount.path("in/m"));
    let renaming = tokio::task::spawn_blocking(move || fs::rename(from, to));
    held(&line).await;
    let sdk = service.sdk("team");
    for round in 0..3 {
        // A new name in the directory of the rename, of which the mount hears when it looks at another name there.
        sdk.put(&format!("in/late-{round}"), b"late").await.unwrap();
        sdk.put("out/a", format!("news {round}").as_bytes()).await.unwrap();
        let working = Arc::clone(&mount);
        let work = tokio::task::spawn_blocking(move || working.shell("stat in/x >/dev/null; cat out/a"));
        assert_eq!(at_once("news", work).await.unwrap(), format!("news {round}"));
    }
    assert!(!renaming.is_finished());
    line.hold(None);
    finished(renaming).await.unwrap();
    assert_eq!(mount.shell("ls in; cat in/m/f"), "late-0\nlate-1\nlate-2\nm\nx\nf\n");
    mount.stop();
}
