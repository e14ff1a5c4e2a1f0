//! A service with a line to it, and a mirror at the other end.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasefs::rest::auth::{Accounts, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use leasefs::rest::blobs::{BlobService, CopySources};
use leasefs::rest::server::{
    Answer, AnswerBody, Limits, Protocol, Request, Server, ServerConfig, Source as BodySource,
};
use leasefs::store::azure::{AzureConfig, AzureStore, Credential, RetryPolicy};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::mirror::{Mirror, MirrorOptions, Place};
use leasefs::store::{
    BlobName, BlobPath, BlobStore, Change, Changed, ContainerName, ContentReader, Fence, Fetch, LocalStore,
    Metadata, NewContent, Preconditions, PublicAccess, RenameMode, Result, Scratch, Upstream,
};
use leasefs::wire::signing::AccountKey;
use parking_lot::Mutex;

/// What a test waits for at most.
const PATIENCE: Duration = Duration::from_secs(60);
/// As much as the kernel reads at a time.
const READ: u64 = 128 << 10;

/// What can go wrong with one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The service is too busy.
    Busy,
    /// The body breaks off.
    Truncated,
}

/// A request that was made.
struct Asked {
    method: String,
    path: String,
    /// The bytes it asked for, clipped to the blob.
    range: Option<Range<u64>>,
}

/// The service, seen from outside.
pub(crate) struct Line {
    service: Arc<BlobService>,
    asked: Mutex<Vec<Asked>>,
    /// For the next requests that read content.
    faults: Mutex<VecDeque<Fault>>,
    delay: Mutex<Duration>,
}

impl Line {
    pub(crate) fn forget(&self) {
        self.asked.lock().clear();
    }

    pub(crate) fn delay(&self, delay: Duration) {
        *self.delay.lock() = delay;
    }

    pub(crate) fn fail(&self, fault: Fault) {
        self.faults.lock().push_back(fault);
    }

    pub(crate) fn heal(&self) {
        self.faults.lock().clear();
    }

    pub(crate) fn faults_left(&self) -> usize {
        self.faults.lock().len()
    }

    /// Methods of the requests so far.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.asked.lock().iter().map(|asked| asked.method.clone()).collect()
    }

    /// How many bytes of content were asked for.
    pub(crate) fn ranges_bytes(&self) -> u64 {
        self.ranges_bytes_of("")
    }

    pub(crate) fn ranges_bytes_of(&self, name: &str) -> u64 {
        let asked = self.asked.lock();
        let ranges = asked.iter().filter(|asked| asked.path.ends_with(name)).filter_map(|a| a.range.as_ref());
        ranges.map(|range| range.end - range.start).sum()
    }
}

/// Bytes that cannot be read to the end.
struct Broken;

impl BodySource for Broken {
    fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// A body of which the first piece comes.
struct BreaksOff(Vec<u8>, usize);

impl BodySource for BreaksOff {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        if offset >= self.1 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        buffer.copy_from_slice(&self.0[offset..offset + buffer.len()]);
        Ok(())
    }
}

impl Protocol for Line {
    async fn answer(self: Arc<Self>, request: Request) -> Answer {
        let method = request.head.method.to_string();
        let path = request.head.uri.path().to_owned();
        if request.head.uri.query().is_some_and(|query| query.contains("prefix=.leasefs")) {
            // The background looks for renames that were left: nothing a test asked for.
            return Arc::clone(&self.service).answer(request).await;
        }
        let reads = request.head.headers.contains_key("x-ms-range");
        let delay = *self.delay.lock();
        tokio::time::sleep(delay).await;
        let fault = if reads { self.faults.lock().pop_front() } else { None };
        if fault == Some(Fault::Busy) {
            return http::Response::builder().status(503).body(AnswerBody::empty()).unwrap();
        }
        let mut answer = Arc::clone(&self.service).answer(request).await;
        let text = answer.headers().get("content-range").and_then(|text| text.to_str().ok());
        let range = text.and_then(parse_range).filter(|_| reads);
        if fault == Some(Fault::Truncated)
            && let Some(range) = &range
        {
            let length = range.end - range.start;
            // Either nothing comes or half of it.
            let source: Arc<dyn BodySource> = if length <= 512 << 10 {
                Arc::new(Broken)
            } else {
                let name = path.rsplit('/').next().unwrap();
                let whole = bytes(name, range.end);
                Arc::new(BreaksOff(whole[range.start as usize..].to_vec(), length as usize / 2))
            };
            *answer.body_mut() = AnswerBody::from_source(source, 0, length);
            self.asked.lock().push(Asked { method, path, range: None });
            return answer;
        }
        self.asked.lock().push(Asked { method, path, range });
        answer
    }
}

/// `bytes 0-9/10`
fn parse_range(text: &str) -> Option<Range<u64>> {
    let (first, last) = text.strip_prefix("bytes ")?.split_once('/')?.0.split_once('-')?;
    Some(first.parse().ok()?..last.parse::<u64>().ok()? + 1)
}

/// A service, a line to it, and a mirror.
pub(crate) struct Rig {
    pub(crate) line: Arc<Line>,
    pub(crate) local: Arc<EmbeddedStore>,
    pub(crate) mirror: Arc<Mirror>,
    options: MirrorOptions,
    folder: PathBuf,
    service: Arc<EmbeddedStore>,
    server: Server,
    _folders: (tempfile::TempDir, tempfile::TempDir),
}

impl Rig {
    pub(crate) async fn new(options: MirrorOptions) -> Self {
        let here = tempfile::tempdir().unwrap();
        let folder = here.path().to_owned();
        Self::made(here, &folder, options).await
    }

    /// With the mirror on another disk.
    pub(crate) async fn on(folder: &Path, options: MirrorOptions) -> Self {
        Self::made(tempfile::tempdir().unwrap(), &folder.join("mirror"), options).await
    }

    async fn made(here: tempfile::TempDir, folder: &Path, options: MirrorOptions) -> Self {
        let there = tempfile::tempdir().unwrap();
        let service = EmbeddedStore::open(there.path(), EmbeddedOptions::default()).unwrap();
        service.create_container(&container(), Metadata::new(), PublicAccess::None).await.unwrap();
        let blobs = BlobService::new(service.durable_user(), Accounts::development(), CopySources::Own);
        let line = Arc::new(Line {
            service: Arc::new(blobs),
            asked: Mutex::default(),
            faults: Mutex::default(),
            delay: Mutex::default(),
        });
        let config =
            ServerConfig { addr: "127.0.0.1:0".parse().unwrap(), tls: None, limits: Limits::default() };
        let server = Server::start(&config, Arc::clone(&line)).unwrap();
        let (local, mirror) = open_mirror(folder, &server, &options).await;
        let _folders = (here, there);
        Self { line, local, mirror, options, folder: folder.to_owned(), service, server, _folders }
    }

    /// Ends the mirror and starts it again on what it left.
    pub(crate) async fn restart(&mut self) {
        // A store in a place of its own stands in while the old one goes.
        let spare = tempfile::tempdir().unwrap();
        let (local, mirror) = open_mirror(spare.path(), &self.server, &self.options).await;
        let old_store = std::mem::replace(&mut self.local, local);
        let old_mirror = std::mem::replace(&mut self.mirror, mirror);
        drop(old_mirror);
        limit("the old mirror ends", || Arc::strong_count(&old_store) == 1).await;
        limit("the old store is closed", || old_store.close().is_ok()).await;
        drop(old_store);
        (self.local, self.mirror) = open_mirror(&self.folder, &self.server, &self.options).await;
        self.mirror.refresh_directory(None).await.unwrap();
    }

    pub(crate) fn here(&self, blob: &str) -> BlobPath {
        BlobPath::new(ContainerName::new("share").unwrap(), name(blob))
    }

    /// Puts a blob of its own kind of bytes at the service.
    pub(crate) async fn put(&self, blob: &str, size: u64) -> Vec<u8> {
        self.put_bytes(blob, bytes(blob, size)).await
    }

    /// Puts other bytes under the same name.
    pub(crate) async fn put_other(&self, blob: &str, size: u64) -> Vec<u8> {
        self.put_bytes(blob, bytes("other", size)).await
    }

    async fn put_bytes(&self, blob: &str, content: Vec<u8>) -> Vec<u8> {
        let (at, always) = (BlobPath::new(container(), name(blob)), Preconditions::default());
        self.service.put_blob(&at, content.clone().into(), NewContent::default(), &always).await.unwrap();
        content
    }

    /// What the service has.
    pub(crate) async fn there(&self, blob: &str) -> Vec<u8> {
        let (at, always) = (BlobPath::new(container(), name(blob)), Preconditions::default());
        self.service.get_blob(&at, None, None, &always).await.unwrap().body.to_vec()
    }

    /// Commits a change of some bytes as the engine does for a big file.
    pub(crate) async fn change(&self, blob: &str, range: Range<u64>, byte: u8) {
        let ranges = std::slice::from_ref(&range);
        let _changing = self.mirror.will_change(&name(blob), Changed::Ranges(ranges)).unwrap();
        let base = self.local.reader(&self.here(blob)).unwrap();
        let scratch = self.local.scratch().unwrap();
        let bytes = vec![byte; (range.end - range.start) as usize];
        scratch.file().write_all_at(&bytes, range.start).unwrap();
        self.patch(blob, &base, &scratch, &[Change::in_place(range)], base.size());
    }

    /// Commits a new length.
    pub(crate) async fn resize(&self, blob: &str, size: u64) {
        let base = self.local.reader(&self.here(blob)).unwrap();
        let range = size.min(base.size())..size.max(base.size());
        let ranges = std::slice::from_ref(&range);
        let _changing = self.mirror.will_change(&name(blob), Changed::Ranges(ranges)).unwrap();
        self.patch(blob, &base, &self.local.scratch().unwrap(), &[], size);
    }

    fn patch(&self, blob: &str, base: &ContentReader, scratch: &Scratch, changes: &[Change], size: u64) {
        let (at, still) = (self.here(blob), Preconditions::if_version(base.properties().etag));
        self.local.patch(&at, base, scratch, changes, size, NewContent::default(), &still).unwrap();
    }

    pub(crate) async fn push(&self, blob: &str) -> Result<()> {
        self.mirror.push(&name(blob), Fence { lease: None, check_version: true }).await
    }

    /// There, then here.
    pub(crate) async fn rename(&self, from: &str, to: &str) {
        let fence = Fence { lease: None, check_version: false };
        let here = || self.local.rename(&self.here(from), &self.here(to), RenameMode::Replace);
        self.mirror.rename(&name(from), &name(to), RenameMode::NoReplace, fence, &here).await.unwrap();
    }

    /// As an open(2) does.
    pub(crate) async fn open(&self, blob: &str) -> Arc<dyn Fetch> {
        self.mirror.revalidate(&name(blob)).await.unwrap();
        self.mirror.content(&name(blob)).await.unwrap().fetch.unwrap()
    }

    /// Opens, reads from start to end, closes.
    pub(crate) async fn read(&self, blob: &str) -> Vec<u8> {
        let fetch = self.open(blob).await;
        read(&*fetch, &self.local, &self.here(blob), 0..u64::MAX).await.unwrap()
    }
}

async fn open_mirror(
    folder: &Path,
    server: &Server,
    options: &MirrorOptions,
) -> (Arc<EmbeddedStore>, Arc<Mirror>) {
    let local = EmbeddedStore::open(folder, EmbeddedOptions::default()).unwrap();
    let key = AccountKey::parse(DEVELOPMENT_KEY).unwrap();
    let credential = Credential::Key { account: DEVELOPMENT_ACCOUNT.to_owned(), key };
    let url = format!("http://{}/{DEVELOPMENT_ACCOUNT}", server.addr());
    let retry = RetryPolicy { attempts: 4, base: Duration::from_millis(5), ..RetryPolicy::default() };
    let (config, _) = AzureConfig::from_url(&url, credential).unwrap();
    let service = Arc::new(AzureStore::new(config.with_retry(retry)).unwrap());
    let place = Place::new(container(), "").unwrap();
    let home = ContainerName::new("share").unwrap();
    let mirror = Mirror::open(&local, home, service, place, options.clone()).await.unwrap();
    (local, mirror)
}

/// Reads as an engine does: what is not here is brought.
pub(crate) async fn read(
    fetch: &dyn Fetch,
    local: &EmbeddedStore,
    at: &BlobPath,
    range: Range<u64>,
) -> Result<Vec<u8>> {
    let reader = local.reader(at)?;
    let end = range.end.min(reader.size());
    let mut content = Vec::new();
    let mut start = range.start;
    while start < end {
        let stop = (start + READ).min(end);
        if !fetch.is_here(&(start..stop)) {
            fetch.bring(start..stop).await?;
            assert!(fetch.is_here(&(start..stop)));
        }
        let mut piece = vec![0; (stop - start) as usize];
        assert_eq!(reader.read_at(&mut piece, start).unwrap(), piece.len());
        content.extend_from_slice(&piece);
        start = stop;
    }
    Ok(content)
}

/// Bytes that differ at every place and for every name; a longer piece begins like a shorter one.
pub(crate) fn bytes(name: &str, size: u64) -> Vec<u8> {
    let mut state = name.bytes().fold(0x9E37_79B9_7F4A_7C15, |state: u64, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x1000_0000_01B3)
    });
    let mut bytes = Vec::with_capacity(size as usize + 8);
    while (bytes.len() as u64) < size {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state ^ (state >> 29)).to_le_bytes());
    }
    bytes.truncate(size as usize);
    bytes
}

pub(crate) fn name(text: &str) -> BlobName {
    BlobName::new(text).unwrap()
}

fn container() -> ContainerName {
    ContainerName::new("there").unwrap()
}

/// Waits until something is so.
pub(crate) async fn limit(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A file system of 96 MiB, unmounted when dropped.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    pub(crate) fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: only root can mount a small disk");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=96m", "tmpfs"])
            .arg(folder.path())
            .status();
        if !mount.is_ok_and(|status| status.success()) {
            eprintln!("skipped: this machine does not let us mount");
            return None;
        }
        Some(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
