//! The client for blobs that are elsewhere, through a line with faults at every request: dropped before and after, 500,
//! 503, cut answers, delays. Whatever happens on the line, an answer of success means done exactly once, and what the
//! service has afterwards equals the model.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/fault_proxy/mod.rs"]
#[allow(dead_code, unused_imports, reason = "others use the rest")]
mod fault_proxy;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fault_proxy::{Dice, Fault, FaultProxy};
use leasefs::rest::auth::Accounts;
use leasefs::rest::blobs::{BlobService, CopySources};
use leasefs::rest::server::{Limits, Server, ServerConfig};
use leasefs::share::lease::{LeaseDuration, LeaseId, LeaseRefusal};
use leasefs::store::azure::{AzureConfig, AzureStore, Environment, RetryPolicy, ServiceUrl};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::{
    AppendConditions, BlobBody, BlobName, BlobPath, BlobStore, BlockId, BlockKind, BlockListEntry,
    ContainerName, CopyRequest, CopySource, DeleteSnapshots, ETag, LeaseRequest, ListItem, ListQuery,
    Metadata, NewContent, Preconditions, PublicAccess, Result, StoreError,
};

const ALWAYS: Preconditions = Preconditions {
    if_match: None,
    if_none_match: None,
    if_modified_since: None,
    if_unmodified_since: None,
    lease: None,
    if_tags: None,
};

/// A service, a line to it, a client behind the line, and one beside it.
struct Rig {
    line: FaultProxy,
    lossy: AzureStore,
    clean: AzureStore,
    _server: Server,
    _folder: tempfile::TempDir,
}

impl Rig {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let service = BlobService::new(store.durable_user(), Accounts::development(), CopySources::Loopback);
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let config = ServerConfig { addr: any, tls: None, limits: Limits::default() };
        let server = Server::start(&config, Arc::new(service)).unwrap();
        let line = FaultProxy::start(any, server.addr()).await.unwrap();
        let (lossy, clean) = (client(line.addr), client(server.addr()));
        clean.create_container(&share(), Metadata::new(), PublicAccess::None).await.unwrap();
        Self { line, lossy, clean, _server: server, _folder: folder }
    }

    async fn text(&self, name: &str) -> Option<String> {
        match self.clean.get_blob(&at(name), None, None, &ALWAYS).await {
            Ok(found) => Some(String::from_utf8(found.body.to_vec()).unwrap()),
            Err(StoreError::BlobNotFound(_)) => None,
            Err(other) => panic!("{other}"),
        }
    }

    async fn etag(&self, name: &str) -> ETag {
        self.clean.blob_properties(&at(name), None, &ALWAYS).await.unwrap().etag
    }

    async fn put(&self, name: &str, text: &'static str) -> ETag {
        self.clean.put_blob(&at(name), text.into(), NewContent::default(), &ALWAYS).await.unwrap().etag
    }
}

fn client(addr: SocketAddr) -> AzureStore {
    let (service, _) = ServiceUrl::split(&format!("http://{addr}/devstoreaccount1")).unwrap();
    let config = AzureConfig::from_environment(&service, &Environment::new(|_| None)).unwrap();
    let retry = RetryPolicy { attempts: 8, base: Duration::from_millis(5), ..RetryPolicy::default() };
    AzureStore::new(config.with_retry(retry)).unwrap()
}

fn share() -> ContainerName {
    ContainerName::new("share").unwrap()
}

fn at(name: &str) -> BlobPath {
    BlobPath::new(share(), BlobName::new(name).unwrap())
}

/// Runs `action` with every fault at its first, second, … request, each time with a name of its own.
async fn at_every_request(rig: &Rig, requests: u64, mut action: impl AsyncFnMut(String)) {
    for fault in Fault::PASSING {
        for number in 1..=requests {
            rig.line.plan().reset();
            rig.line.plan().order(number, fault);
            println!("{fault:?} at request {number}");
            action(format!("{fault:?}-{number}").replace(['(', ')'], "")).await;
        }
    }
    rig.line.plan().reset();
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_and_replacements_happen_once() {
    let rig = &Rig::new().await;
    at_every_request(rig, 2, async |name| {
        let new = NewContent::default;
        let put = async |text: &'static str, conditions: &Preconditions| {
            rig.lossy.put_blob(&at(&name), text.into(), new(), conditions).await
        };
        let made = put("one", &Preconditions::if_absent()).await.unwrap();
        assert_eq!((rig.text(&name).await.as_deref(), rig.etag(&name).await), (Some("one"), made.etag));
        let next = put("two", &Preconditions::if_version(made.etag)).await.unwrap();
        assert_eq!((rig.text(&name).await.as_deref(), rig.etag(&name).await), (Some("two"), next.etag));
        let stale = put("three", &Preconditions::if_version(made.etag)).await;
        assert!(matches!(stale, Err(StoreError::ConditionNotMet)), "{stale:?}");
        assert_eq!(rig.text(&name).await.as_deref(), Some("two"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_of_blocks_happen_once() {
    let rig = &Rig::new().await;
    // Under a condition, and without one: then the blocks that are used up look like an error.
    for conditional in [true, false] {
        at_every_request(rig, 5, async |name| {
            let before = rig.put(&name, "old").await;
            let id = |text: &str| BlockId(text.as_bytes().to_vec());
            for block in ["b1", "b2"] {
                rig.lossy
                    .put_block(&at(&name), &id(block), block.to_owned().into_bytes().into(), None)
                    .await
                    .unwrap();
            }
            let entry = |block: &str| BlockListEntry { kind: BlockKind::Uncommitted, id: id(block) };
            let conditions = if conditional { Preconditions::if_version(before) } else { ALWAYS };
            let list = [entry("b2"), entry("b1")];
            let new = NewContent::default();
            let made = rig.lossy.put_block_list(&at(&name), &list, new, &conditions).await.unwrap();
            assert_eq!(rig.text(&name).await.as_deref(), Some("b2b1"));
            assert_eq!((made.etag, made.size), (rig.etag(&name).await, 4));
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_was_changed_on_its_way_is_sent_again() {
    let rig = Rig::new().await;
    let (id, text) = (BlockId(b"b1".to_vec()), "every byte counts");
    let stage = async |body: BlobBody| rig.lossy.put_block(&at("file"), &id, body, None).await.unwrap();
    let commit = async || {
        let list = [BlockListEntry { kind: BlockKind::Uncommitted, id: id.clone() }];
        rig.clean.put_block_list(&at("file"), &list, NewContent::default(), &ALWAYS).await.unwrap();
        rig.text("file").await
    };
    // Without a sum nobody can tell.
    rig.line.plan().order(1, Fault::Garble);
    stage(text.into()).await;
    assert_ne!(commit().await.as_deref(), Some(text));
    rig.line.plan().reset();
    rig.line.plan().order(1, Fault::Garble);
    stage(BlobBody::summed(text.into())).await;
    assert_eq!(commit().await.as_deref(), Some(text));
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_deletes_and_copies_happen_once() {
    let rig = &Rig::new().await;
    at_every_request(rig, 3, async |name| {
        let before = rig.put(&name, "text").await;
        let metadata: Metadata = [("mode".to_owned(), "420".to_owned())].into_iter().collect();
        let if_before = Preconditions::if_version(before);
        let set = rig.lossy.set_blob_metadata(&at(&name), metadata.clone(), &if_before).await.unwrap();
        let seen = rig.clean.blob_properties(&at(&name), None, &ALWAYS).await.unwrap();
        assert_eq!((set.etag, &seen.metadata), (seen.etag, &metadata), "the token is not shown");
        let again = rig.lossy.set_blob_metadata(&at(&name), metadata, &if_before).await;
        assert!(matches!(again, Err(StoreError::ConditionNotMet)), "{again:?}");
    })
    .await;
    at_every_request(rig, 3, async |name| {
        let (from, to) = (format!("from/{name}"), format!("to/{name}"));
        let before = rig.put(&from, "text").await;
        let mut source = CopySource::of(&at(&from));
        source.conditions = Preconditions::if_version(before);
        let absent = Preconditions::if_absent();
        let request = || CopyRequest { metadata: Some(Metadata::new()), ..CopyRequest::default() };
        rig.lossy.copy_blob(&source, &at(&to), request(), &absent).await.unwrap();
        let that = Preconditions::if_version(before);
        rig.lossy.delete_blob(&at(&from), DeleteSnapshots::Refuse, &that).await.unwrap();
        assert_eq!((rig.text(&from).await, rig.text(&to).await.as_deref()), (None, Some("text")));
        // A copy that was refused stays refused, although what is there came from the same place.
        rig.put(&from, "other").await;
        let exists = rig.lossy.copy_blob(&CopySource::of(&at(&from)), &at(&to), request(), &absent).await;
        assert!(matches!(exists, Err(StoreError::BlobExists(_))), "{exists:?}");
        assert_eq!(rig.text(&to).await.as_deref(), Some("text"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_and_appends_happen_once() {
    let rig = &Rig::new().await;
    at_every_request(rig, 4, async |name| {
        rig.put(&name, "text").await;
        let id = LeaseId(uuid::Uuid::new_v4().as_u128());
        let act = async |request| rig.lossy.lease_blob(&at(&name), request, &ALWAYS).await;
        let duration = LeaseDuration::seconds(60).unwrap();
        act(LeaseRequest::Acquire { proposed: id, duration }).await.unwrap();
        act(LeaseRequest::Renew { id }).await.unwrap();
        let stranger = rig.clean.put_blob(&at(&name), "x".into(), NewContent::default(), &ALWAYS).await;
        assert!(matches!(stranger, Err(StoreError::Lease(LeaseRefusal::IdMissing))), "{stranger:?}");
        act(LeaseRequest::Release { id }).await.unwrap();
        rig.put(&name, "free").await;
    })
    .await;
    at_every_request(rig, 2, async |name| {
        let name = format!("log/{name}");
        rig.clean.create_append_blob(&at(&name), NewContent::default(), &ALWAYS).await.unwrap();
        for (position, text) in [(0, "one "), (4, "two ")] {
            let append = AppendConditions { position: Some(position), max_size: None };
            rig.lossy.append_block(&at(&name), text.into(), append, &ALWAYS).await.unwrap();
        }
        assert_eq!(rig.text(&name).await.as_deref(), Some("one two "));
    })
    .await;
}

/// What the service ought to have.
#[derive(Default)]
struct Model {
    blobs: BTreeMap<String, (String, ETag)>,
}

/// One random change through the bad line, and its verdict.
async fn random_step(rig: &Rig, model: &mut Model, roll: u64) {
    let name = format!("f{}", roll % 6);
    let text = format!("text {roll}");
    let known = model.blobs.get(&name).cloned();
    let new = NewContent::default();
    match (roll / 6 % 4, &known) {
        (0, None) | (1, _) => {
            let conditions = known
                .as_ref()
                .map_or_else(Preconditions::if_absent, |(_, etag)| Preconditions::if_version(*etag));
            let body = text.clone().into_bytes().into();
            let made = rig.lossy.put_blob(&at(&name), body, new, &conditions).await.unwrap();
            model.blobs.insert(name, (text, made.etag));
        }
        (0, Some(_)) => {
            let refused = rig.lossy.put_blob(&at(&name), "x".into(), new, &Preconditions::if_absent()).await;
            assert!(matches!(refused, Err(StoreError::BlobExists(_))), "{refused:?}");
        }
        (2, Some((_, etag))) => {
            let that = Preconditions::if_version(*etag);
            rig.lossy.delete_blob(&at(&name), DeleteSnapshots::Refuse, &that).await.unwrap();
            model.blobs.remove(&name);
        }
        (_, Some((content, _))) => {
            let found = rig.lossy.get_blob(&at(&name), None, None, &ALWAYS).await.unwrap();
            assert_eq!(found.body, content.as_bytes());
        }
        (_, None) => {
            let absent = rig.lossy.blob_properties(&at(&name), None, &ALWAYS).await;
            assert!(matches!(absent, Err(StoreError::BlobNotFound(_))), "{absent:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_random_faults_the_store_equals_the_model() {
    let rig = Rig::new().await;
    let seed = 20_261_117;
    rig.line.plan().throw(Some(Dice { per_mille: 200, faults: Fault::PASSING.to_vec(), seed }));
    let mut model = Model::default();
    let mut roll = seed;
    for _ in 0..600 {
        roll = roll.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random_step(&rig, &mut model, roll >> 33).await;
    }
    let happened = rig.line.plan().happened();
    assert!(happened > 60, "only {happened} faults happened");
    let page = rig.lossy.list_blobs(&share(), &ListQuery { max: 100, ..ListQuery::default() }).await.unwrap();
    let listed: Vec<String> = page.items.iter().filter_map(blob_name).collect();
    assert_eq!(listed, model.blobs.keys().cloned().collect::<Vec<_>>());
    for (name, (content, etag)) in &model.blobs {
        assert_eq!((rig.text(name).await.as_ref(), rig.etag(name).await), (Some(content), *etag), "{name}");
    }
}

fn blob_name(item: &ListItem) -> Option<String> {
    match item {
        ListItem::Blob { name, .. } => Some(name.to_string()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_line_passes_nothing_and_a_mended_one_everything() -> Result<()> {
    let rig = Rig::new().await;
    rig.put("f", "text").await;
    rig.line.cut(true);
    let place = at("f");
    let asked = rig.lossy.blob_properties(&place, None, &ALWAYS);
    assert!(tokio::time::timeout(Duration::from_millis(300), asked).await.is_err(), "nothing passes");
    rig.line.cut(false);
    assert_eq!(rig.lossy.blob_properties(&at("f"), None, &ALWAYS).await?.size, 4);
    let counts = rig.line.plan().counts();
    assert!(counts["HEAD blob"].requests >= 1 && counts["HEAD blob"].sent > 0, "{counts:?}");
    Ok(())
}
