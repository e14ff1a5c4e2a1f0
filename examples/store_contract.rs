//! The contract of a blob store, run on a server that is running already.
//!
//! `store_contract URL` runs every case with an account of its own, `case0`, `case1` and so on, whose key is the
//! emulators' well-known one: `scripts/suites/contract.sh` starts Azurite with these accounts. Time is real here, so cases
//! that let much time pass are left out. Ends with 1 if a case ends otherwise than the table of differences says.

#![allow(clippy::unwrap_used, reason = "a case fails by panicking")]

#[path = "../tests/store_contract/appends.rs"]
mod appends;
#[path = "../tests/store_contract/blobs.rs"]
mod blobs;
#[path = "../tests/store_contract/blocks.rs"]
mod blocks;
#[path = "../tests/store_contract/cases.rs"]
mod cases;
#[path = "../tests/store_contract/conditions.rs"]
mod conditions;
#[path = "../tests/store_contract/containers.rs"]
mod containers;
#[path = "../tests/store_contract/copies.rs"]
mod copies;
#[path = "../tests/store_contract/differences.rs"]
#[allow(dead_code, reason = "the test uses the rest")]
mod differences;
#[path = "../tests/store_contract/leases.rs"]
mod leases;
#[path = "../tests/store_contract/listing.rs"]
mod listing;
#[path = "../tests/store_contract/pages.rs"]
mod pages;
#[path = "../tests/store_contract/settings.rs"]
mod settings;
#[path = "../tests/store_contract/support.rs"]
mod support;
#[path = "../tests/store_contract/tags.rs"]
mod tags;

use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use leasefs::store::azure::{AzureConfig, AzureStore, Credential};
use leasefs::wire::signing::{AccountKey, DEVELOPMENT_KEY};

use cases::every_case;
use support::Bench;

/// Cases at the same time; most of them wait.
const WORKERS: usize = 6;

/// Cases that would take too long without a clock that can be moved.
const TOO_LONG: &[(&str, &str)] =
    &[("leases::every_action_in_every_state", "lets a lease of 30 s run out a dozen times")];

type Running<'b> = Pin<Box<dyn Future<Output = ()> + 'b>>;

/// A case by its name.
struct Case {
    name: &'static str,
    run: fn(&Bench) -> Running<'_>,
}

macro_rules! list {
    ($($module:ident: $($case:ident)*;)*) => {
        &[$($(Case {
            name: concat!(stringify!($module), "::", stringify!($case)),
            run: |bench| Box::pin($module::$case(bench)),
        },)*)*]
    };
}

const CASES: &[Case] = every_case!(list);

thread_local! {
    /// What the last panic of this thread said.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

fn main() -> ExitCode {
    let Some(url) = std::env::args().nth(1) else {
        println!("{}", CASES.len());
        return ExitCode::SUCCESS;
    };
    std::panic::set_hook(Box::new(|panic| SAID.with(|said| *said.borrow_mut() = panic.to_string())));
    let (next, report) = (AtomicUsize::new(0), Mutex::new(Report::default()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some((index, case)) =
                    CASES.iter().enumerate().nth(next.fetch_add(1, Ordering::SeqCst))
                {
                    let verdict = judge(&url, index, case);
                    report.lock().unwrap().add(case.name, verdict);
                }
            });
        }
    });
    report.into_inner().unwrap().end()
}

enum Verdict {
    Holds,
    Differs(&'static str),
    LeftOut(&'static str),
    Wrong(String),
}

fn judge(url: &str, index: usize, case: &Case) -> Verdict {
    if let Some((_, reason)) = TOO_LONG.iter().find(|(name, _)| *name == case.name) {
        return Verdict::LeftOut(reason);
    }
    let listed = differences::AZURITE.iter().find(|difference| difference.case == case.name);
    match (listed, catch_unwind(AssertUnwindSafe(|| run(url, index, case)))) {
        (None, Ok(())) => Verdict::Holds,
        (Some(difference), Err(_)) => Verdict::Differs(difference.reason),
        (Some(_), Ok(())) => Verdict::Wrong("holds now; remove it from the table of differences".to_owned()),
        (None, Err(_)) => Verdict::Wrong(SAID.with(|said| said.borrow().chars().take(600).collect())),
    }
}

fn run(url: &str, index: usize, case: &Case) {
    let account = format!("case{index}");
    let key = AccountKey::parse(DEVELOPMENT_KEY).unwrap();
    let (config, _) =
        AzureConfig::from_url(&format!("{url}/{account}"), Credential::Key { account, key }).unwrap();
    let store = Arc::new(AzureStore::new(config).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bench = Bench::new(store, Box::new(std::thread::sleep), Box::new(|| {})).await;
        (case.run)(&bench).await;
        bench.end();
    });
}

#[derive(Default)]
struct Report {
    holds: usize,
    differs: usize,
    left_out: usize,
    wrong: usize,
}

impl Report {
    fn add(&mut self, name: &str, verdict: Verdict) {
        match verdict {
            Verdict::Holds => self.holds += 1,
            Verdict::Differs(reason) => {
                self.differs += 1;
                println!("differs   {name}: {reason}");
            }
            Verdict::LeftOut(reason) => {
                self.left_out += 1;
                println!("left out  {name}: {reason}");
            }
            Verdict::Wrong(what) => {
                self.wrong += 1;
                println!("WRONG     {name}: {what}");
            }
        }
    }

    fn end(self) -> ExitCode {
        let Report { holds, differs, left_out, wrong } = self;
        println!("{holds} hold, {differs} differ as listed, {left_out} left out, {wrong} wrong");
        if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
