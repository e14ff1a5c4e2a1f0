//! `leasefs lease` and `leasefs break-lease`: of URLs at a real service, and of files on real mounts.

// A test that cannot go on stops. Helper modules of several tests.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

mod common;
#[path = "share/rig.rs"]
mod rig;
#[path = "common/server.rs"]
mod server;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use leasefs::share::lease::{LeaseDuration, LeaseId, LeaseRefusal};
use leasefs::store::azure::AzureStore;
use leasefs::store::{
    BlobStore, LeaseRequest, Metadata, NewContent, Preconditions, PublicAccess, StoreError,
};

use common::Mount;
use rig::{command, err, leasefs, refused, succeeded};
use server::{Server, at, client};

/// A command that says when it runs, and goes on until its input ends.
const UNTIL_TOLD: &[&str] = &["sh", "-c", "echo running $LEASEFS_LEASE_ID; read line; exit 7"];

/// A `leasefs lease` whose command runs.
struct Running {
    child: Child,
    said: String,
}

impl Running {
    fn start(words: &[&str], command_words: &[&str]) -> Self {
        let mut words = words.to_vec();
        words.push("--");
        words.extend(command_words);
        let mut command = command(&words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert!(said.starts_with("running"), "{said:?} {:?}", child.wait_with_output());
        Self { child, said }
    }

    /// Lets the command end, or waits until it has ended: its exit code, and what was complained about.
    fn end(mut self, tell: bool) -> (Option<i32>, String) {
        if tell {
            drop(self.child.stdin.take());
        }
        let mut complaint = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        (self.child.wait().unwrap().code(), complaint)
    }
}

async fn put(store: &AzureStore, name: &str) -> Result<(), StoreError> {
    let always = Preconditions::default();
    store.put_blob(&at("jobs", name), "x".into(), NewContent::default(), &always).await.map(drop)
}

async fn with_container() -> (Server, AzureStore) {
    let server = Server::start();
    let store = client(server.addr);
    let jobs = at("jobs", "x").container;
    store.create_container(&jobs, Metadata::new(), PublicAccess::None).await.unwrap();
    (server, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_held_while_the_command_runs() {
    let (server, store) = with_container().await;
    let url = server.url("jobs/nightly");
    refused(&leasefs(&["lease", &url, "--", "true"]), 1, &[&url, "does not exist; --create"]);
    let held = Running::start(&["lease", "--create", &url], UNTIL_TOLD);
    let other = leasefs(&["lease", &url, "--", "true"]);
    refused(&other, 75, &[&url, "held by somebody else", "--wait"]);
    let stranger = put(&store, "nightly").await.unwrap_err();
    assert!(matches!(stranger, StoreError::Lease(LeaseRefusal::IdMissing)), "{stranger:?}");
    let id = held.said.trim_start_matches("running").trim().parse().unwrap();
    let with_id = Preconditions { lease: Some(id), ..Preconditions::default() };
    let new = NewContent::default();
    store.put_blob(&at("jobs", "nightly"), "mine".into(), new, &with_id).await.unwrap();
    let (code, complaint) = held.end(true);
    assert_eq!((code, complaint.as_str()), (Some(7), ""), "the command's own exit code");
    put(&store, "nightly").await.unwrap();
    // The next one gets it, and one that waits gets it as soon as it is free.
    let first = Running::start(&["lease", &url], UNTIL_TOLD);
    let second =
        command(&["lease", "--wait", "60", &url, "--", "true"]).stderr(Stdio::piped()).spawn().unwrap();
    first.end(true);
    let second = second.wait_with_output().unwrap();
    succeeded(&second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_ends_the_command() {
    let (server, store) = with_container().await;
    put(&store, "job").await.unwrap();
    let url = server.url("jobs/job");
    let held = Running::start(&["lease", "--duration", "15", &url], UNTIL_TOLD);
    let patient = Running::start(
        &["lease", "--create", "--keep-going", "--duration", "15", &server.url("jobs/other")],
        UNTIL_TOLD,
    );
    for name in [&url, &server.url("jobs/other")] {
        succeeded(&leasefs(&["break-lease", name]));
        refused(&leasefs(&["break-lease", "--after", "61", name]), 2, &["0..=60"]);
    }
    let (code, complaint) = held.end(false);
    assert_eq!(code, Some(143), "ended by SIGTERM: {complaint}");
    assert!(complaint.contains("is lost") && complaint.contains(&url), "{complaint}");
    // Breaking what is broken is done; what was never leased is told.
    put(&store, "free").await.unwrap();
    refused(&leasefs(&["break-lease", &server.url("jobs/free")]), 1, &["nobody holds a lease"]);
    refused(&leasefs(&["break-lease", &server.url("jobs/none")]), 1, &["does not exist"]);
    put(&store, "job").await.unwrap();
    let mut patient = patient;
    let mut line = String::new();
    BufReader::new(patient.child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("the command goes on"), "{line}");
    assert_eq!(patient.end(true).0, Some(7));
}

#[test]
fn wrong_urls_and_words_are_refused_without_their_secrets() {
    let signed = leasefs(&["lease", "http://127.0.0.1:1/acct/jobs/a?sv=1&sig=s3cret", "--", "true"]);
    refused(&signed, 2, &["AZURE_STORAGE_SAS_TOKEN"]);
    assert!(!err(&signed).contains("s3cret"));
    refused(&leasefs(&["lease", "http://127.0.0.1:1/acct/jobs", "--", "true"]), 2, &["names no blob"]);
    refused(
        &leasefs(&["lease", "--duration", "15", "/proc/self", "--", "true"]),
        2,
        &["--duration is for URLs"],
    );
    refused(&leasefs(&["lease", "/proc/version", "--", "true"]), 1, &["is not on a mount"]);
    refused(&leasefs(&["break-lease", "/proc/version"]), 1, &["is not on a mount"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_on_a_mount_is_leased_by_opening_it() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let Some(mount) = Mount::new(&["--share", "jobs", "--blob-addr", &free.to_string()]) else { return };
    let store = client(free);
    let file = mount.path("job");
    std::fs::write(&file, "x").unwrap();
    let file = file.to_str().unwrap();
    let held = Running::start(&["lease", file], UNTIL_TOLD);
    let stranger = put(&store, "job").await.unwrap_err();
    assert!(matches!(stranger, StoreError::Lease(LeaseRefusal::IdMissing)), "{stranger:?}");
    refused(&leasefs(&["lease", file, "--", "true"]), 75, &[file, "is held by sh (pid"]);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "x", "others may read");
    assert_eq!(held.end(true).0, Some(7));
    let held = Running::start(&["lease", file], UNTIL_TOLD);
    succeeded(&leasefs(&["break-lease", file]));
    put(&store, "job").await.unwrap();
    let (code, complaint) = held.end(false);
    assert_eq!(code, Some(143), "{complaint}");
    assert!(complaint.contains("is lost"), "{complaint}");
    refused(&leasefs(&["break-lease", mount.path("none").to_str().unwrap()]), 1, &["does not exist"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_open_tells_of_a_lease_that_somebody_elsewhere_holds() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let Some(mount) = Mount::new(&["--share", "jobs", "--blob-addr", &free.to_string()]) else { return };
    let store = client(free);
    put(&store, "job").await.unwrap();
    let file = mount.path("job");
    let file = file.to_str().unwrap();
    let (always, id) = (Preconditions::default(), LeaseId(7));
    let timed = LeaseDuration::seconds(60).unwrap();
    for (duration, words) in
        [(LeaseDuration::INFINITE, "does not end by itself"), (timed, "ends a minute after")]
    {
        let acquire = LeaseRequest::Acquire { proposed: id, duration };
        store.lease_blob(&at("jobs", "job"), acquire, &always).await.unwrap();
        let told = ["job is leased to another mount or another client", words, "leasefs break-lease"];
        refused(&leasefs(&["open", file, "--", "true"]), 75, &told);
        store.lease_blob(&at("jobs", "job"), LeaseRequest::Release { id }, &always).await.unwrap();
        succeeded(&leasefs(&["open", file, "--", "true"]));
    }
}
