//! The contract of a blob store, run on the embedded store and on the same store behind HTTP.
//!
//! The cases in `store_contract/` know only the trait and a clock they can move. What a backend does differently, and
//! why, is in `store_contract/differences.rs`. `examples/store_contract.rs` runs the cases on a server that is
//! running already, such as Azurite.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "store_contract/appends.rs"]
mod appends;
#[path = "store_contract/blobs.rs"]
mod blobs;
#[path = "store_contract/blocks.rs"]
mod blocks;
#[path = "store_contract/cases.rs"]
mod cases;
#[path = "store_contract/conditions.rs"]
mod conditions;
#[path = "store_contract/containers.rs"]
mod containers;
#[path = "store_contract/copies.rs"]
mod copies;
#[path = "store_contract/differences.rs"]
mod differences;
#[path = "store_contract/leases.rs"]
mod leases;
#[path = "store_contract/listing.rs"]
mod listing;
#[path = "store_contract/pages.rs"]
mod pages;
#[path = "store_contract/settings.rs"]
mod settings;
#[path = "store_contract/support.rs"]
mod support;

#[path = "store_contract/tags.rs"]
mod tags;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use leasefs::rest::auth::{Accounts, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use leasefs::rest::blobs::{BlobService, CopySources};
use leasefs::rest::server::{Limits, Server, ServerConfig};
use leasefs::share::Moment;
use leasefs::store::azure::{AzureConfig, AzureStore, Credential};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::wire::signing::AccountKey;

use cases::every_case;
use support::Bench;

/// A new embedded store whose clock only the test moves. Content above 64 bytes is in files, so that both ways of
/// keeping it are used.
async fn embedded() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let time = Arc::new(AtomicI64::new(1_790_000_000_000_000_000));
    let clock = {
        let time = Arc::clone(&time);
        Arc::new(move || Moment(time.load(Ordering::SeqCst)))
    };
    let options = EmbeddedOptions { inline_max: 64, clock, ..EmbeddedOptions::default() };
    let store = EmbeddedStore::open(folder.path(), options).unwrap();
    let advance = move |duration: std::time::Duration| {
        time.fetch_add(i64::try_from(duration.as_nanos()).unwrap(), Ordering::SeqCst);
    };
    let checked = Arc::clone(&store);
    let at_end = move || {
        let report = checked.check().unwrap();
        assert!(report.is_clean(), "{:#?}", report.problems);
        drop(folder);
    };
    Bench::new(store, Box::new(advance), Box::new(at_end)).await
}

/// The same store behind `leasefs serve`, in this process and over a real socket. The clock starts with the machine's,
/// because requests are dated, and then only the test moves it.
async fn served() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let time = Arc::new(AtomicI64::new(Moment::from(SystemTime::now()).0));
    let clock: Arc<dyn Fn() -> Moment + Send + Sync> = {
        let time = Arc::clone(&time);
        Arc::new(move || Moment(time.load(Ordering::SeqCst)))
    };
    let options = EmbeddedOptions { inline_max: 64, clock: clock.clone(), ..EmbeddedOptions::default() };
    let store = EmbeddedStore::open(folder.path(), options).unwrap();
    let service = BlobService::new(store.durable_user(), Accounts::development(), CopySources::Loopback);
    let config = ServerConfig { addr: "127.0.0.1:0".parse().unwrap(), tls: None, limits: Limits::default() };
    let server = Server::start(&config, Arc::new(service.with_clock(clock))).unwrap();
    let key = AccountKey::parse(DEVELOPMENT_KEY).unwrap();
    let credential = Credential::Key { account: DEVELOPMENT_ACCOUNT.to_owned(), key };
    let url = format!("http://{}/{DEVELOPMENT_ACCOUNT}", server.addr());
    let (config, _) = AzureConfig::from_url(&url, credential).unwrap();
    let client = Arc::new(AzureStore::new(config).unwrap());
    let advance = move |duration: std::time::Duration| {
        time.fetch_add(i64::try_from(duration.as_nanos()).unwrap(), Ordering::SeqCst);
    };
    let at_end = move || {
        drop(server);
        let report = store.check().unwrap();
        assert!(report.is_clean(), "{:#?}", report.problems);
        drop(folder);
    };
    Bench::new(client, Box::new(advance), Box::new(at_end)).await
}

macro_rules! on_embedded {
    ($($module:ident: $($case:ident)*;)*) => {
        $(mod $module { $(
            #[tokio::test]
            async fn $case() {
                let bench = crate::embedded().await;
                crate::$module::$case(&bench).await;
                bench.end();
            }
        )* })*
    };
}

macro_rules! over_http {
    ($($module:ident: $($case:ident)*;)*) => {
        $(mod $module { $(
            #[test]
            fn $case() {
                let name = concat!(stringify!($module), "::", stringify!($case));
                crate::differences::judge(crate::differences::SERVED, name, || {
                    let runtime = tokio::runtime::Runtime::new().unwrap();
                    runtime.block_on(async {
                        let bench = crate::served().await;
                        crate::$module::$case(&bench).await;
                        bench.end();
                    });
                });
            }
        )* })*
    };
}

mod on_embedded {
    crate::every_case!(on_embedded);
}

mod over_http {
    crate::every_case!(over_http);
}

macro_rules! names {
    ($($module:ident: $($case:ident)*;)*) => {
        &[$($(concat!(stringify!($module), "::", stringify!($case)),)*)*]
    };
}

#[test]
fn differences_name_cases_that_exist() {
    let names: &[&str] = every_case!(names);
    for difference in differences::SERVED.iter().chain(differences::AZURITE) {
        assert!(names.contains(&difference.case), "there is no case {}", difference.case);
        assert!(difference.reason.len() > 20, "{} is not explained", difference.case);
    }
}
