//! A thousand clients at one blob: one wins, the others are told.

use std::sync::Arc;

use crate::rig::{Line, Rig, signed};
use leasefs::rest::server::Limits;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

const PUT: (&str, &str) = ("x-ms-blob-type", "BlockBlob");
const CLIENTS: usize = 1_000;
const ROUNDS: usize = 3;

/// Both ends of every connection are in this process. As many clients as it may have descriptors for.
fn clients() -> usize {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).ok();
    let limit = hard.max(soft);
    CLIENTS.min(usize::try_from(limit / 2).unwrap_or(CLIENTS).saturating_sub(100))
}

/// Sends one request per client, all at once, and counts the statuses.
async fn all_at_once(lines: &mut Vec<Line>, message: impl Fn(usize) -> Vec<u8>) -> Vec<u16> {
    let gate = Arc::new(tokio::sync::Barrier::new(lines.len()));
    let mut running = Vec::new();
    for (number, mut line) in lines.drain(..).enumerate() {
        let (gate, message) = (Arc::clone(&gate), message(number));
        running.push(tokio::spawn(async move {
            gate.wait().await;
            line.send(&message).await;
            let reply = line.reply(false).await.expect("an answer");
            (line, reply.status)
        }));
    }
    let mut statuses = Vec::new();
    for client in running {
        let (line, status) = client.await.unwrap();
        lines.push(line);
        statuses.push(status);
    }
    statuses
}

#[track_caller]
fn one_winner(statuses: &[u16], won: u16, lost: u16) {
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert_eq!((count(won), count(lost)), (1, statuses.len() - 1), "{statuses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_thousand_clients_one_wins_each_round() {
    let rig = Rig::with_container(Limits::default()).await;
    let mut lines = Vec::new();
    for _ in 0..clients() {
        lines.push(Line::open(rig.addr).await);
    }
    let created = all_at_once(&mut lines, |number| {
        signed("PUT", "/box1/prize", &[PUT, ("if-none-match", "*")], number.to_string().as_bytes())
    });
    one_winner(&created.await, 201, 409);
    for _ in 0..ROUNDS {
        let etag = rig.call("HEAD", "/box1/prize", &[], b"").await.header("etag").to_owned();
        let statuses = all_at_once(&mut lines, |number| {
            signed("PUT", "/box1/prize", &[PUT, ("if-match", &etag)], number.to_string().as_bytes())
        });
        one_winner(&statuses.await, 201, 412);
        let leased = all_at_once(&mut lines, |_| {
            let headers = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "-1")];
            signed("PUT", "/box1/prize?comp=lease", &headers, b"")
        });
        one_winner(&leased.await, 201, 409);
        let refused = all_at_once(&mut lines, |_| signed("PUT", "/box1/prize", &[PUT], b"x")).await;
        assert!(refused.iter().all(|status| *status == 412), "{refused:?}");
        let headers = [("x-ms-lease-action", "break"), ("x-ms-lease-break-period", "0")];
        assert_eq!(rig.call("PUT", "/box1/prize?comp=lease", &headers, b"").await.status, 202);
    }
}
