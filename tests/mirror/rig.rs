//! The service, the line to it, a mirror, and what an engine would do with it.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasefs::rest::auth::{Accounts, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use leasefs::rest::blobs::{BlobService, CopySources};
use leasefs::rest::server::{Answer, AnswerBody, Limits, Protocol, Request, Server, ServerConfig};
use leasefs::store::azure::{AzureConfig, AzureStore, Credential, RetryPolicy};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::mirror::{Mirror, MirrorOptions, Place};
use leasefs::store::{
    BlobName, BlobPath, BlobStore, Change, Changed, ContainerName, DeleteSnapshots, Fence, ListItem,
    ListQuery, LocalStore, Metadata, NewContent, Preconditions, PublicAccess, RenameMode, Result, StoreError,
    Upstream,
};
use leasefs::wire::signing::AccountKey;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// No condition.
pub(crate) fn always() -> Preconditions {
    Preconditions::default()
}

/// How a mount that checks versions pushes.
pub(crate) const CHECKED: Fence = Fence { lease: None, check_version: true };

/// What the service does to requests that fit.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// The beginning of `METHOD /path?query`, or a part of it.
    pub(crate) part: &'static str,
    /// How many are to go wrong.
    pub(crate) times: usize,
    /// Whether they are carried out before they go wrong.
    pub(crate) done: bool,
    pub(crate) status: u16,
}

/// The next request that fits is carried out, and answered when it may go on.
#[derive(Clone)]
pub(crate) struct Held {
    part: &'static str,
    pub(crate) done: Arc<Notify>,
    pub(crate) go_on: Arc<Notify>,
}

/// The service, watched.
pub(crate) struct Watched {
    service: Arc<BlobService>,
    asked: Mutex<Vec<(String, u64)>>,
    faults: Mutex<Vec<Fault>>,
    /// A request whose answer waits.
    held: Mutex<Option<Held>>,
    /// Requests before faults begin.
    countdown: Mutex<usize>,
}

impl Watched {
    fn fault(&self, what: &str) -> Option<Fault> {
        let mut faults = self.faults.lock();
        let mut countdown = self.countdown.lock();
        if *countdown > 0 {
            *countdown -= 1;
            return None;
        }
        let fault = faults.iter_mut().find(|fault| fault.times > 0 && what.contains(fault.part))?;
        fault.times -= 1;
        Some(fault.clone())
    }

    /// Whether everything has gone wrong that was to.
    pub(crate) fn is_well(&self) -> bool {
        self.faults.lock().iter().all(|fault| fault.times == 0)
    }
}

impl Protocol for Watched {
    async fn answer(self: Arc<Self>, request: Request) -> Answer {
        let what = format!("{} {}", request.head.method, request.head.uri);
        let length =
            request.head.headers.get("content-length").and_then(|text| text.to_str().ok()?.parse().ok());
        self.asked.lock().push((what.clone(), length.unwrap_or_default()));
        let held = self.held.lock().take_if(|held| what.contains(held.part));
        if let Some(held) = held {
            let answer = Arc::clone(&self.service).answer(request).await;
            held.done.notify_one();
            held.go_on.notified().await;
            return answer;
        }
        let Some(fault) = self.fault(&what) else { return Arc::clone(&self.service).answer(request).await };
        if fault.done {
            drop(Arc::clone(&self.service).answer(request).await);
        }
        let code = if fault.status == 403 { "AuthenticationFailed" } else { "InternalError" };
        let answer = http::Response::builder().status(fault.status).header("x-ms-error-code", code);
        answer.body(AnswerBody::empty()).unwrap()
    }
}

/// A service and a client of it that is nobody's mirror.
pub(crate) struct Service {
    pub(crate) watched: Arc<Watched>,
    pub(crate) client: Arc<AzureStore>,
    server: Mutex<Option<Server>>,
    _folder: tempfile::TempDir,
}

impl Service {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let service = BlobService::new(store.durable_user(), Accounts::development(), CopySources::Own);
        let watched = Arc::new(Watched {
            service: Arc::new(service),
            asked: Mutex::default(),
            faults: Mutex::default(),
            held: Mutex::default(),
            countdown: Mutex::default(),
        });
        let addr = "127.0.0.1:0".parse().unwrap();
        let config = ServerConfig { addr, tls: None, limits: Limits::default() };
        let server = Server::start(&config, Arc::clone(&watched)).unwrap();
        let client = Arc::new(client(&format!("http://{}/{DEVELOPMENT_ACCOUNT}", server.addr())));
        client.create_container(&share(), Metadata::new(), PublicAccess::None).await.unwrap();
        Self { watched, client, server: Mutex::new(Some(server)), _folder: folder }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> String {
        let server = self.server.lock();
        format!("http://{}/{DEVELOPMENT_ACCOUNT}", server.as_ref().unwrap().addr())
    }

    /// The service goes away for good.
    pub(crate) async fn stop(&self) {
        let server = self.server.lock().take();
        if let Some(server) = server {
            server.stop().await;
        }
    }

    /// Somebody else puts a blob.
    pub(crate) async fn put(&self, name: &str, content: &'static str) {
        self.put_with(name, content, &[]).await;
    }

    pub(crate) async fn put_with(&self, name: &str, content: &'static str, metadata: &[(&str, &str)]) {
        let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let new = NewContent { metadata, ..NewContent::default() };
        self.client.put_blob(&at(name), content.into(), new, &always()).await.unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.client.delete_blob(&at(name), DeleteSnapshots::Include, &always()).await.unwrap();
    }

    /// What the service has under a name.
    pub(crate) async fn bytes(&self, name: &str) -> Option<Bytes> {
        match self.client.get_blob(&at(name), None, None, &always()).await {
            Ok(download) => Some(download.body),
            Err(StoreError::BlobNotFound(_)) => None,
            Err(error) => panic!("{name}: {error}"),
        }
    }

    pub(crate) async fn text(&self, name: &str) -> Option<String> {
        Some(String::from_utf8(self.bytes(name).await?.to_vec()).unwrap())
    }

    /// All names that the service has.
    pub(crate) async fn names(&self) -> Vec<String> {
        list(&*self.client, &share(), None).await
    }

    /// What was asked since the last call, without what the background asks for.
    pub(crate) fn asked(&self) -> Vec<(String, u64)> {
        let asked = std::mem::take(&mut *self.watched.asked.lock());
        asked.into_iter().filter(|(what, _)| !what.contains("prefix=.leasefs")).collect()
    }

    pub(crate) fn asked_texts(&self) -> Vec<String> {
        let short = |what: String| what.replace("/devstoreaccount1", "");
        self.asked().into_iter().map(|(what, _)| short(what)).collect()
    }

    /// After so many requests, the next ones go wrong.
    pub(crate) fn fail_after(&self, requests: usize, times: usize, done: bool) {
        *self.watched.countdown.lock() = requests;
        self.fail("/share", times, done, 500);
    }

    /// Nothing goes wrong from now on. Answers whether everything did that was to.
    pub(crate) fn faults_end(&self) -> bool {
        *self.watched.countdown.lock() = 0;
        self.watched.faults.lock().drain(..).all(|fault| fault.times == 0)
    }

    /// Holds back the answer to the next request that fits.
    pub(crate) fn hold(&self, part: &'static str) -> Held {
        let held = Held { part, done: Arc::default(), go_on: Arc::default() };
        *self.watched.held.lock() = Some(held.clone());
        held
    }

    pub(crate) fn fail(&self, part: &'static str, times: usize, done: bool, status: u16) {
        self.watched.faults.lock().push(Fault { part, times, done, status });
    }
}

/// A mirror and the store it is in, as the engine's user sees it.
pub(crate) struct Rig {
    pub(crate) store: Arc<EmbeddedStore>,
    pub(crate) mirror: Arc<Mirror>,
}

impl Rig {
    pub(crate) async fn new(service: &Service, folder: &Path) -> Self {
        Self::with(service, folder, MirrorOptions::default()).await
    }

    pub(crate) async fn with(service: &Service, folder: &Path, options: MirrorOptions) -> Self {
        Self::of(Arc::clone(&service.client), folder, "", options).await
    }

    pub(crate) async fn of(
        client: Arc<AzureStore>,
        folder: &Path,
        prefix: &str,
        options: MirrorOptions,
    ) -> Self {
        let store = EmbeddedStore::open(folder, EmbeddedOptions::default()).unwrap();
        let place = Place::new(share(), prefix).unwrap();
        let mirror = Mirror::open(&store, home(), client, place, options).await.unwrap();
        Self { store, mirror }
    }

    /// The mount ends. Its background may be in the middle of something.
    pub(crate) async fn close(self) {
        let Self { store, mirror } = self;
        drop(mirror);
        let done = async {
            while Arc::strong_count(&store) > 1 || store.close().is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), done).await.expect("the mirror ends some time");
    }

    /// What a program that writes a small file does, before the push.
    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        let _changing = self.mirror.will_change(&blob(name), Changed::Everything).unwrap();
        let old = self.store.find(&here(name)).unwrap().blob;
        let metadata = old.map(|old| old.metadata.clone()).unwrap_or_default();
        self.put(name, content, metadata);
    }

    pub(crate) fn put(&self, name: &str, content: &[u8], metadata: Metadata) {
        let new = NewContent { metadata, ..NewContent::default() };
        if content.len() as u64 <= self.store.inline_max() {
            self.store.put_small(&here(name), Bytes::copy_from_slice(content), new, &always()).unwrap();
        } else {
            let scratch = self.store.scratch().unwrap();
            scratch.file().write_all_at(content, 0).unwrap();
            self.store.publish(&here(name), &scratch, content.len() as u64, new, &always()).unwrap();
        }
    }

    /// What a program that changes a part of a big file does, before the push.
    pub(crate) fn patch(&self, name: &str, start: u64, content: &[u8], size: u64) {
        let range = start..start + content.len() as u64;
        let ranges = if content.is_empty() { vec![] } else { vec![range.clone()] };
        let _changing = self.mirror.will_change(&blob(name), Changed::Ranges(&ranges)).unwrap();
        let base = self.store.reader(&here(name)).unwrap();
        let scratch = self.store.scratch().unwrap();
        scratch.file().write_all_at(content, start).unwrap();
        let changes: Vec<Change> = ranges.into_iter().map(Change::in_place).collect();
        let metadata = base.properties().metadata.clone();
        let new = NewContent { metadata, ..NewContent::default() };
        self.store.patch(&here(name), &base, &scratch, &changes, size, new, &always()).unwrap();
    }

    pub(crate) async fn push(&self, name: &str) -> Result<()> {
        self.mirror.push(&blob(name), CHECKED).await
    }

    pub(crate) async fn write_and_push(&self, name: &str, content: &[u8]) -> Result<()> {
        self.write(name, content);
        self.push(name).await
    }

    /// What `unlink` does.
    pub(crate) async fn remove(&self, name: &str) -> Result<()> {
        let _settling = self.mirror.remove(&blob(name), CHECKED).await?;
        self.store.delete_blob(&here(name), DeleteSnapshots::Include, &always()).await
    }

    /// What `rename` does.
    pub(crate) async fn rename(&self, from: &str, to: &str, mode: RenameMode) -> Result<()> {
        let local = if mode == RenameMode::Exchange { mode } else { RenameMode::Replace };
        let move_here = || self.store.rename(&here(from), &here(to), local);
        self.mirror.rename(&blob(from), &blob(to), mode, CHECKED, &move_here).await
    }

    /// The names in a directory, as a listing of the mount would show them.
    pub(crate) async fn list(&self, directory: &str) -> Vec<String> {
        let name = (!directory.is_empty()).then(|| blob(directory));
        self.mirror.refresh_directory(name.as_ref()).await.unwrap();
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let mut names = list(&*self.store, &home(), Some(prefix)).await;
        names.iter_mut().for_each(|name| *name = name.trim_end_matches('/').to_owned());
        names.dedup();
        names
    }

    /// The mirror's version of a name.
    pub(crate) fn here(&self, name: &str) -> Option<Arc<leasefs::store::BlobProperties>> {
        self.store.find(&here(name)).unwrap().blob
    }

    /// Waits until everything is pushed.
    pub(crate) async fn all_pushed(&self) {
        let done = async {
            while self.mirror.status().waiting_files > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), done).await.expect("everything is pushed some time");
    }
}

/// A client that does not wait long between attempts.
pub(crate) fn client(url: &str) -> AzureStore {
    let key = AccountKey::parse(DEVELOPMENT_KEY).unwrap();
    let credential = Credential::Key { account: DEVELOPMENT_ACCOUNT.to_owned(), key };
    let retry = RetryPolicy { attempts: 3, base: Duration::from_millis(10), ..RetryPolicy::default() };
    let (config, _) = AzureConfig::from_url(url, credential).unwrap();
    AzureStore::new(config.with_retry(retry)).unwrap()
}

async fn list(store: &dyn BlobStore, container: &ContainerName, prefix: Option<String>) -> Vec<String> {
    let delimiter = prefix.is_some().then(|| "/".to_owned());
    let prefix = prefix.unwrap_or_default();
    let mut query = ListQuery { prefix, delimiter, max: 1000, ..ListQuery::default() };
    let mut names = Vec::new();
    loop {
        let page = store.list_blobs(container, &query).await.unwrap();
        for item in page.items {
            let (ListItem::Blob { name, .. } | ListItem::Prefix { name, .. }) = item else { continue };
            names.push(name);
        }
        query.marker = page.next;
        if query.marker.is_none() {
            return names;
        }
    }
}

/// The container at the service, and the one of the mirror.
pub(crate) fn share() -> ContainerName {
    ContainerName::new("share").unwrap()
}

pub(crate) fn home() -> ContainerName {
    ContainerName::new("home").unwrap()
}

pub(crate) fn blob(name: &str) -> BlobName {
    BlobName::new(name).unwrap()
}

pub(crate) fn at(name: &str) -> BlobPath {
    BlobPath::new(share(), blob(name))
}

pub(crate) fn here(name: &str) -> BlobPath {
    BlobPath::new(home(), blob(name))
}

/// Content that differs from place to place.
pub(crate) fn noise(length: usize, seed: u8) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state >> 11).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A mirror that believes nothing.
pub(crate) fn curious() -> MirrorOptions {
    MirrorOptions { attr_ttl: Duration::ZERO, ..MirrorOptions::default() }
}
