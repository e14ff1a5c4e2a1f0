//! The load generator of `scripts/bench.sh blob`: one thread, many connections, prepared requests, no HTTP library, so that
//! the server is the slower side.
//!
//! Usage: `bench_blob ADDRESS WORKLOAD [CONNECTIONS] [SECONDS]`; the environment has BENCH_SAS (an account SAS) and, for the
//! memory workloads, BENCH_PID (the server's process). Prints one number: operations, MiB or cycles per second; milliseconds
//! for `list`; MiB of memory for `idle` and `upload`.

mod load;

use std::fmt::Display;
use std::io;
use std::process::ExitCode;
use std::time::Instant;

use base64::prelude::{BASE64_STANDARD, Engine};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use load::{Line, PATIENCE, repeat};

const SMALL: usize = 4 << 10;
const BLOCK: usize = 4 << 20;
/// Blobs that small reads choose from.
const SMALL_BLOBS: usize = 1000;
const LISTED: usize = 10_000;
const BIG_BLOCKS: usize = 64;
/// A block blob of 4 GiB in one request.
const UPLOAD: usize = 4 << 30;
const IDLE: usize = 10_000;
/// Different block ids per connection: staged blocks replace each other, so the disk does not fill.
const BLOCK_IDS: usize = 16;
const ACCOUNT: &str = "devstoreaccount1";
const CONTAINER: &str = "bench";

/// Where requests go and what lets them in.
struct Target {
    address: String,
    sas: String,
}

impl Target {
    /// The head of a request on `name` (empty: the container).
    fn head(&self, method: &str, name: &str, query: &str, headers: &str, length: usize) -> Vec<u8> {
        let slash = if name.is_empty() { "" } else { "/" };
        format!(
            "{method} /{ACCOUNT}/{CONTAINER}{slash}{name}?{query}{sas} HTTP/1.1\r\nHost: {address}\r\n\
             x-ms-version: 2025-11-05\r\n{headers}Content-Length: {length}\r\n\r\n",
            sas = self.sas,
            address = self.address,
        )
        .into_bytes()
    }

    fn put(&self, name: &str, body: &[u8]) -> Vec<u8> {
        let mut request = self.head("PUT", name, "", "x-ms-blob-type: BlockBlob\r\n", body.len());
        request.extend_from_slice(body);
        request
    }
}

/// Makes the container; it may be there.
async fn prepare(target: &'static Target) -> io::Result<()> {
    let mut line = Line::open(&target.address).await?;
    let request = target.head("PUT", "", "restype=container&", "", 0);
    match line.ask(&request, 201).await {
        Err(error) if !error.to_string().contains("409") => Err(error),
        _ => Ok(()),
    }
}

/// Puts `count` blobs named `{prefix}{number:06}` over some connections.
async fn fill(target: &'static Target, prefix: &'static str, count: usize, size: usize) -> io::Result<()> {
    const LINES: usize = 16;
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async move {
            let tasks: Vec<_> = (0..LINES)
                .map(|first| {
                    tokio::task::spawn_local(async move {
                        let mut line = Line::open(&target.address).await?;
                        for number in (first..count).step_by(LINES) {
                            line.ask(&target.put(&format!("{prefix}{number:06}"), &vec![b'x'; size]), 201)
                                .await?;
                        }
                        Ok::<(), io::Error>(())
                    })
                })
                .collect();
            for task in tasks {
                task.await.map_err(io::Error::other)??;
            }
            Ok(())
        })
        .await
}

fn block_id(number: usize) -> String {
    BASE64_STANDARD.encode(format!("{number:08}"))
}

/// A value as an address may hold it.
fn escaped(value: &str) -> impl Display {
    utf8_percent_encode(value, NON_ALPHANUMERIC)
}

fn block_query(number: usize) -> String {
    format!("comp=block&blockid={}&", escaped(&block_id(number)))
}

async fn put_block(
    line: &mut Line,
    target: &Target,
    name: &str,
    number: usize,
    body: &[u8],
) -> io::Result<()> {
    let mut request = target.head("PUT", name, &block_query(number), "", body.len());
    request.extend_from_slice(body);
    line.ask(&request, 201).await.map(drop)
}

/// A blob of 256 MiB in blocks, made once.
async fn make_big(target: &'static Target) -> io::Result<()> {
    let mut line = Line::open(&target.address).await?;
    if line.ask(&target.head("HEAD", "big", "", "", 0), 200).await.is_ok() {
        return Ok(());
    }
    let mut line = Line::open(&target.address).await?;
    let body = vec![b'b'; BLOCK];
    let mut list = String::from("<BlockList>");
    for number in 0..BIG_BLOCKS {
        put_block(&mut line, target, "big", number, &body).await?;
        list += &format!("<Latest>{}</Latest>", block_id(number));
    }
    list += "</BlockList>";
    let mut request = target.head("PUT", "big", "comp=blocklist&", "", list.len());
    request.extend_from_slice(list.as_bytes());
    line.ask(&request, 201).await.map(drop)
}

/// Lists everything below `list-` in pages and returns the milliseconds it took.
async fn list(target: &'static Target) -> io::Result<f64> {
    let mut line = Line::open(&target.address).await?;
    let start = Instant::now();
    let (mut marker, mut names) = (String::new(), 0);
    loop {
        let query = format!("restype=container&comp=list&prefix=list-&maxresults=5000&marker={marker}&");
        line.stream.write_all(&target.head("GET", "", &query, "", 0)).await?;
        line.buffer.resize(16 << 20, 0);
        let (_, body) = line.answer(200, false).await?;
        let text = String::from_utf8_lossy(&body);
        names += text.matches("<Name>").count();
        let Some((next, _)) = text.split_once("<NextMarker>").and_then(|(_, rest)| rest.split_once('<'))
        else {
            break;
        };
        if next.is_empty() {
            break;
        }
        marker = escaped(next).to_string();
    }
    if names != LISTED {
        return Err(io::Error::other(format!("{names} names were listed, not {LISTED}")));
    }
    Ok(start.elapsed().as_secs_f64() * 1000.0)
}

/// Resident memory of the server's process in MiB; `what` is VmRSS or VmHWM.
fn memory(what: &str) -> io::Result<f64> {
    let pid = std::env::var("BENCH_PID").map_err(io::Error::other)?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find(|line| line.starts_with(what))
        .ok_or_else(|| io::Error::other("no memory line"))?;
    let kib = line.split_whitespace().nth(1).and_then(|word| word.parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0).ok_or_else(|| io::Error::other("no memory value"))
}

/// What the server's memory grows by when so many connections have asked once and then stay open.
async fn idle(target: &'static Target) -> io::Result<f64> {
    let before = memory("VmRSS")?;
    let request = target.head("HEAD", "get-000000", "", "", 0);
    let mut lines = Vec::new();
    for _ in 0..IDLE {
        let mut stream = TcpStream::connect(&target.address).await?;
        stream.write_all(&request).await?;
        let mut buffer = [0; 4096];
        if tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await.map_err(io::Error::other)?? == 0 {
            return Err(io::Error::other("a connection was closed"));
        }
        lines.push(stream);
    }
    Ok(memory("VmRSS")? - before)
}

/// What the server's memory grows by at most while 4 GiB are uploaded in one request.
async fn upload(target: &'static Target) -> io::Result<f64> {
    let before = memory("VmRSS")?;
    let mut line = Line::open(&target.address).await?;
    line.stream.write_all(&target.head("PUT", "upload", "", "x-ms-blob-type: BlockBlob\r\n", UPLOAD)).await?;
    let part = vec![b'u'; 1 << 20];
    let mut most = before;
    for number in 0..UPLOAD / part.len() {
        line.stream.write_all(&part).await?;
        if number % 64 == 0 {
            most = most.max(memory("VmRSS")?);
        }
    }
    line.answer(201, false).await?;
    most = most.max(memory("VmRSS")?);
    line.ask(&target.head("DELETE", "upload", "", "", 0), 202).await?;
    Ok(most - before)
}

async fn measure(
    target: &'static Target,
    workload: &str,
    connections: usize,
    seconds: f64,
) -> io::Result<f64> {
    prepare(target).await?;
    let mib = |turns: f64, size: usize| turns * size as f64 / f64::from(1 << 20);
    match workload {
        "put" => {
            let stamp = std::process::id();
            repeat(&target.address, connections, seconds, async move |line: &mut Line, connection, number| {
                line.ask(&target.put(&format!("put-{stamp}-{connection}-{number}"), &[b'p'; SMALL]), 201)
                    .await
                    .map(drop)
            })
            .await
        }
        "fill" => {
            fill(target, "get-", SMALL_BLOBS, SMALL).await?;
            fill(target, "list-", LISTED, 0).await?;
            make_big(target).await?;
            Ok(0.0)
        }
        "get" | "head" => {
            let method = if workload == "get" { "GET" } else { "HEAD" };
            repeat(&target.address, connections, seconds, async move |line: &mut Line, connection, number| {
                let name = format!("get-{:06}", (connection * 37 + number) % SMALL_BLOBS);
                let length = line.ask(&target.head(method, &name, "", "", 0), 200).await?;
                if method == "GET" && length != SMALL {
                    Err(io::Error::other("wrong length"))
                } else {
                    Ok(())
                }
            })
            .await
        }
        "block" => {
            let turns = repeat(
                &target.address,
                connections,
                seconds,
                async move |line: &mut Line, connection, number| {
                    let body = vec![b'b'; BLOCK];
                    put_block(line, target, &format!("block-{connection}"), number % BLOCK_IDS, &body).await
                },
            )
            .await?;
            Ok(mib(turns, BLOCK))
        }
        "getbig" => {
            let turns = repeat(&target.address, connections, seconds, async move |line: &mut Line, _, _| {
                let length = line.ask(&target.head("GET", "big", "", "", 0), 200).await?;
                if length == BIG_BLOCKS * BLOCK { Ok(()) } else { Err(io::Error::other("wrong length")) }
            })
            .await?;
            Ok(mib(turns, BIG_BLOCKS * BLOCK))
        }
        "list" => list(target).await,
        "lease" => {
            repeat(&target.address, connections, seconds, async move |line: &mut Line, connection, _| {
                let id = format!("{connection:08x}-0000-4000-8000-000000000000");
                let name = format!("get-{connection:06}");
                for (action, status) in [("acquire", 201), ("renew", 200), ("release", 200)] {
                    let extra = if action == "acquire" {
                        format!("x-ms-proposed-lease-id: {id}\r\nx-ms-lease-duration: 60\r\n")
                    } else {
                        format!("x-ms-lease-id: {id}\r\n")
                    };
                    let headers = format!("x-ms-lease-action: {action}\r\n{extra}");
                    line.ask(&target.head("PUT", &name, "comp=lease&", &headers, 0), status).await?;
                }
                Ok(())
            })
            .await
        }
        "idle" => idle(target).await,
        "upload" => upload(target).await,
        other => Err(io::Error::other(format!("there is no workload {other}"))),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, workload, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: bench_blob ADDRESS WORKLOAD [CONNECTIONS] [SECONDS]");
        return ExitCode::from(2);
    };
    let number =
        |index: usize, default: f64| rest.get(index).and_then(|word| word.parse().ok()).unwrap_or(default);
    let sas = std::env::var("BENCH_SAS").unwrap_or_default();
    // One per process, used by every connection until its end.
    let target: &'static Target = Box::leak(Box::new(Target { address: address.clone(), sas }));
    let done = tokio::runtime::Builder::new_current_thread().enable_all().build().and_then(|runtime| {
        runtime.block_on(measure(target, workload, number(0, 1.0) as usize, number(1, 1.0)))
    });
    match done {
        Ok(value) => {
            println!("{value:.3}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{workload}: {error}");
            ExitCode::FAILURE
        }
    }
}
