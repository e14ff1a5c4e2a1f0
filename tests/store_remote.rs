//! The client for blobs that are elsewhere, on a bad line: answers that get lost, servers that are busy or away.
//!
//! A real service in this process stands behind a line that loses the answer to a request after the request was
//! carried out. What is not answered is repeated, and nothing happens twice.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use leasefs::rest::auth::{Accounts, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use leasefs::rest::blobs::{BlobService, CopySources};
use leasefs::rest::server::{Limits, Server, ServerConfig};
use leasefs::share::lease::{LeaseDuration, LeaseId, LeaseState};
use leasefs::store::azure::{AzureConfig, AzureStore, Credential, Reread, RetryPolicy};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::{
    AppendConditions, BlobName, BlobPath, BlobStore, ContainerName, DeleteSnapshots, ETag, LeaseRequest,
    Metadata, NewContent, Preconditions, PublicAccess, StoreError,
};
use leasefs::wire::signing::AccountKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const A: LeaseId = LeaseId(0xA);
const ALWAYS: Preconditions = Preconditions {
    if_match: None,
    if_none_match: None,
    if_modified_since: None,
    if_unmodified_since: None,
    lease: None,
    if_tags: None,
};

/// A service, a line to it, and a client at the other end.
struct Rig {
    store: AzureStore,
    /// Where the line begins.
    line: SocketAddr,
    /// How many answers the line will lose.
    lose: Arc<AtomicUsize>,
    _server: Server,
    _folder: tempfile::TempDir,
}

impl Rig {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let service = BlobService::new(store.durable_user(), Accounts::development(), CopySources::Own);
        let config =
            ServerConfig { addr: "127.0.0.1:0".parse().unwrap(), tls: None, limits: Limits::default() };
        let server = Server::start(&config, Arc::new(service)).unwrap();
        let lose = Arc::new(AtomicUsize::new(0));
        let line = line_to(server.addr(), Arc::clone(&lose)).await;
        let rig = Self { store: client(line), line, lose, _server: server, _folder: folder };
        rig.store.create_container(&share(), Metadata::new(), PublicAccess::None).await.unwrap();
        rig
    }

    /// The line will lose the next answers.
    fn lose(&self, answers: usize) {
        self.lose.store(answers, Ordering::SeqCst);
    }

    /// All answers that were to be lost were.
    fn all_lost(&self) {
        assert_eq!(self.lose.load(Ordering::SeqCst), 0, "an answer that was to be lost was never sent");
    }

    async fn text(&self, name: &str) -> String {
        let body = self.store.get_blob(&at(name), None, None, &ALWAYS).await.unwrap().body;
        String::from_utf8(body.to_vec()).unwrap()
    }
}

/// Forwards connections; the first piece of an answer that is to be lost ends the connection instead.
async fn line_to(server: SocketAddr, lose: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let lose = Arc::clone(&lose);
            tokio::spawn(async move {
                let far = TcpStream::connect(server).await.unwrap();
                let ((mut near_in, mut near_out), (mut far_in, mut far_out)) =
                    (near.into_split(), far.into_split());
                let there = tokio::spawn(async move { tokio::io::copy(&mut near_in, &mut far_out).await });
                let mut piece = vec![0; 64 * 1024];
                while let Ok(size @ 1..) = far_in.read(&mut piece).await {
                    let less = |left: usize| left.checked_sub(1);
                    if lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
                        || near_out.write_all(&piece[..size]).await.is_err()
                    {
                        break;
                    }
                }
                there.abort();
            });
        }
    });
    addr
}

/// A client that does not wait long between attempts.
fn client(addr: SocketAddr) -> AzureStore {
    let key = AccountKey::parse(DEVELOPMENT_KEY).unwrap();
    client_with(addr, Credential::Key { account: DEVELOPMENT_ACCOUNT.to_owned(), key })
}

fn client_with(addr: SocketAddr, credential: Credential) -> AzureStore {
    let url = format!("http://{addr}/{DEVELOPMENT_ACCOUNT}");
    let retry = RetryPolicy { attempts: 5, base: Duration::from_millis(10), ..RetryPolicy::default() };
    let (config, _) = AzureConfig::from_url(&url, credential).unwrap();
    AzureStore::new(config.with_retry(retry)).unwrap()
}

fn share() -> ContainerName {
    ContainerName::new("share").unwrap()
}

fn at(name: &str) -> BlobPath {
    BlobPath::new(share(), BlobName::new(name).unwrap())
}

fn new() -> NewContent {
    NewContent::default()
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_survive_lost_answers() {
    let rig = Rig::new().await;
    rig.store.put_blob(&at("f"), "x".into(), new(), &ALWAYS).await.unwrap();
    let lease = async |request| rig.store.lease_blob(&at("f"), request, &ALWAYS).await;
    rig.lose(2);
    let taken =
        lease(LeaseRequest::Acquire { proposed: A, duration: LeaseDuration::INFINITE }).await.unwrap();
    assert_eq!(taken.id, Some(A));
    rig.lose(1);
    lease(LeaseRequest::Renew { id: A }).await.unwrap();
    rig.lose(1);
    let changed = lease(LeaseRequest::Change { id: A, proposed: LeaseId(0xB) }).await.unwrap();
    assert_eq!(changed.id, Some(LeaseId(0xB)));
    rig.lose(1);
    lease(LeaseRequest::Release { id: LeaseId(0xB) }).await.unwrap();
    rig.all_lost();
    let blob = rig.store.blob_properties(&at("f"), None, &ALWAYS).await.unwrap();
    assert_eq!(blob.lease.state(blob.modified), LeaseState::Available);
    let not_ours = lease(LeaseRequest::Release { id: A }).await;
    assert!(matches!(not_ours, Err(StoreError::Lease(_))), "a release that was never lost is refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn conditional_writes_know_their_own_success() {
    let rig = Rig::new().await;
    rig.lose(1);
    let made = rig.store.put_blob(&at("f"), "one".into(), new(), &Preconditions::if_absent()).await.unwrap();
    rig.all_lost();
    let seen = rig.store.blob_properties(&at("f"), None, &ALWAYS).await.unwrap();
    assert_eq!((made.etag, made.metadata.len()), (seen.etag, 0), "the token is not shown");
    rig.lose(1);
    let if_made = Preconditions::if_version(made.etag);
    let next = rig.store.put_blob(&at("f"), "two".into(), new(), &if_made).await.unwrap();
    assert_ne!(next.etag, made.etag);
    assert_eq!(rig.text("f").await, "two");
    // A refusal whose answer was lost stays a refusal.
    rig.lose(1);
    let stale = rig.store.put_blob(&at("f"), "three".into(), new(), &if_made).await;
    assert!(matches!(stale, Err(StoreError::ConditionNotMet)), "{stale:?}");
    rig.lose(1);
    let exists = rig.store.put_blob(&at("f"), "three".into(), new(), &Preconditions::if_absent()).await;
    assert!(matches!(exists, Err(StoreError::BlobExists(_))), "{exists:?}");
    rig.all_lost();
    assert_eq!(rig.text("f").await, "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_and_containers_survive_lost_answers() {
    let rig = Rig::new().await;
    let other = ContainerName::new("other").unwrap();
    rig.lose(1);
    rig.store.create_container(&other, Metadata::new(), PublicAccess::None).await.unwrap();
    rig.lose(1);
    rig.store.delete_container(&other, &ALWAYS).await.unwrap();
    rig.all_lost();
    assert!(matches!(
        rig.store.delete_container(&other, &ALWAYS).await,
        Err(StoreError::ContainerNotFound(_))
    ));
    let put = rig.store.put_blob(&at("f"), "x".into(), new(), &ALWAYS).await.unwrap();
    rig.lose(1);
    let that = Preconditions::if_version(put.etag);
    rig.store.delete_blob(&at("f"), DeleteSnapshots::Refuse, &that).await.unwrap();
    rig.all_lost();
    let again = rig.store.delete_blob(&at("f"), DeleteSnapshots::Refuse, &ALWAYS).await;
    assert!(matches!(again, Err(StoreError::BlobNotFound(_))), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_never_happens_twice() {
    let rig = Rig::new().await;
    rig.store.create_append_blob(&at("log"), new(), &ALWAYS).await.unwrap();
    let append = async |text: &'static str, position| {
        let append = AppendConditions { position, max_size: None };
        rig.store.append_block(&at("log"), text.into(), append, &ALWAYS).await
    };
    rig.lose(1);
    assert_eq!(append("one ", Some(0)).await.unwrap().offset, 0);
    rig.lose(1);
    let unknown = append("two ", None).await;
    assert!(
        matches!(unknown, Err(StoreError::Io { .. })),
        "nobody can tell, so it is not repeated: {unknown:?}"
    );
    rig.all_lost();
    assert_eq!(rig.text("log").await, "one two ");
}

/// Answers every connection with the next of these texts, then with the last one for ever.
async fn script(answers: &'static [&'static str]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (addr, asked) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 64 * 1024];
            if !matches!(stream.read(&mut head).await, Ok(1..)) {
                continue;
            }
            let number = count.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
            stream.write_all(answers[number].as_bytes()).await.ok();
            stream.shutdown().await.ok();
        }
    });
    (addr, asked)
}

const BUSY: &str = "HTTP/1.1 503 Busy\r\nx-ms-error-code: ServerBusy\r\nretry-after: 0\r\ncontent-length: 0\r\n\
    connection: close\r\n\r\n";
const FOUND: &str = "HTTP/1.1 200 OK\r\netag: \"0x8DC0FFEE\"\r\nlast-modified: Tue, 17 Nov 2026 12:07:13 GMT\r\n\
    x-ms-blob-type: BlockBlob\r\ncontent-length: 7\r\nconnection: close\r\n\r\n";
const DENIED: &str = "HTTP/1.1 403 No\r\nx-ms-error-code: AuthenticationFailed\r\nx-ms-request-id: r77\r\n\
    content-length: 0\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn a_busy_server_is_asked_again_and_a_refusal_is_final() {
    let (addr, asked) = script(&[BUSY, BUSY, FOUND]).await;
    let blob = client(addr).blob_properties(&at("f"), None, &ALWAYS).await.unwrap();
    assert_eq!((blob.etag, blob.size, asked.load(Ordering::SeqCst)), (ETag(0x8DC0_FFEE), 7, 3));
    let (addr, asked) = script(&[BUSY]).await;
    let refused = client(addr).blob_properties(&at("f"), None, &ALWAYS).await.unwrap_err();
    assert!(refused.to_string().contains("503"), "{refused}");
    assert_eq!(asked.load(Ordering::SeqCst), 5, "as often as the policy says");
    let (addr, asked) = script(&[DENIED]).await;
    let refused = client(addr).blob_properties(&at("f"), None, &ALWAYS).await.unwrap_err();
    assert!(refused.to_string().contains("request r77"), "{refused}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_rotated_is_read_again() {
    let rig = Rig::new().await;
    let old = AccountKey::parse("YW4gb2xkIGtleSwgbm90IHZhbGlkIGFueSBtb3Jl").unwrap();
    let with = |key| Credential::Key { account: DEVELOPMENT_ACCOUNT.to_owned(), key };
    let url = format!("http://{}/{DEVELOPMENT_ACCOUNT}", rig.line);
    let reads = Arc::new(AtomicUsize::new(0));
    let (count, valid) = (Arc::clone(&reads), AccountKey::parse(DEVELOPMENT_KEY).unwrap());
    let reread: Reread = {
        let old = old.clone();
        Arc::new(move || match count.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(with(old.clone())),
            _ => Ok(with(valid.clone())),
        })
    };
    let (config, _) = AzureConfig::from_url(&url, with(old)).unwrap();
    let store = AzureStore::new(config.with_reread(reread)).unwrap();
    let refused = store.container_properties(&share(), None).await.unwrap_err();
    let told = format!("{refused} {refused:?}");
    assert!(
        matches!(&refused, StoreError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied),
        "{told}"
    );
    assert_eq!(reads.load(Ordering::SeqCst), 1, "the right was asked for once more, and was the same");
    let deadline = Instant::now() + Duration::from_secs(60);
    while store.container_properties(&share(), None).await.is_err() {
        assert!(Instant::now() < deadline, "the new key is never used");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(reads.load(Ordering::SeqCst), 2, "one that works is not asked for again");
}

#[tokio::test]
async fn errors_name_the_request_and_no_secret() {
    let away = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let store = client_with(away, Credential::Sas("sv=2026-06-06&sig=s3cret".to_owned()));
    assert!(!format!("{store:?}").contains("s3cret"));
    let error = store.blob_properties(&at("f"), None, &ALWAYS).await.unwrap_err();
    let told = format!("{error} {error:?}");
    assert!(told.contains("HEAD /devstoreaccount1/share/f (client request "), "{told}");
    assert!(!told.contains("s3cret"), "{told}");
    let (addr, _) = script(&[DENIED]).await;
    let store = client_with(addr, Credential::Sas("sv=2026-06-06&sig=s3cret".to_owned()));
    let refused = store.blob_properties(&at("f"), None, &ALWAYS).await.unwrap_err();
    assert!(!format!("{refused} {refused:?}").contains("s3cret"), "{refused}");
}
