//! The load generator of `scripts/bench.sh files`: the same work over the Files protocol and over the Blob protocol.
//!
//! Usage: `bench_files ADDRESS files|blob WORKLOAD [CONNECTIONS] [SECONDS]`; the environment has BENCH_SAS, an account SAS.
//! Prints one number: operations or MiB per second; milliseconds for `list`.

mod load;

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::io::AsyncWriteExt;

use load::{Line, repeat};

const SMALL: usize = 4 << 10;
const LARGE: usize = 4 << 20;
/// Files that small reads choose from, and those that each connection writes.
const SMALL_FILES: usize = 1000;
const OWN_FILES: usize = 16;
const LARGE_PARTS: usize = 8;
const LISTED: usize = 10_000;
const CONNECTIONS: [usize; 3] = [1, 16, 64];

/// Which protocol is spoken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Files,
    Blob,
}

/// Where requests go and what lets them in.
struct Target {
    address: String,
    side: Side,
    sas: String,
}

impl Target {
    /// The bytes of a request on `name` (empty: the share or container).
    fn request(&self, method: &str, name: &str, query: &str, headers: &str, body: &[u8]) -> Vec<u8> {
        let slash = if name.is_empty() { "" } else { "/" };
        let place = match self.side {
            Side::Files => "files",
            Side::Blob => "blobs",
        };
        let mut request = format!(
            "{method} /devstoreaccount1/{place}{slash}{name}?{query}{sas} HTTP/1.1\r\nHost: {address}\r\n\
             x-ms-version: 2025-11-05\r\n{headers}Content-Length: {length}\r\n\r\n",
            sas = self.sas,
            address = self.address,
            length = body.len(),
        )
        .into_bytes();
        request.extend_from_slice(body);
        request
    }

    /// Makes the share or container.
    fn make(&self) -> Vec<u8> {
        let kind = if self.side == Side::Files { "share" } else { "container" };
        self.request("PUT", "", &format!("restype={kind}&"), "", b"")
    }

    /// Makes an empty file of a size; an empty blob.
    fn create(&self, name: &str, size: usize) -> Vec<u8> {
        let headers = match self.side {
            Side::Files => format!("x-ms-type: file\r\nx-ms-content-length: {size}\r\n"),
            Side::Blob => "x-ms-blob-type: BlockBlob\r\n".to_owned(),
        };
        self.request("PUT", name, "", &headers, b"")
    }

    /// Writes a part of a file; a whole blob.
    fn write(&self, name: &str, offset: usize, body: &[u8]) -> Vec<u8> {
        match self.side {
            Side::Files => {
                let end = offset + body.len() - 1;
                let headers = format!("x-ms-write: update\r\nx-ms-range: bytes={offset}-{end}\r\n");
                self.request("PUT", name, "comp=range&", &headers, body)
            }
            Side::Blob => self.request("PUT", name, "", "x-ms-blob-type: BlockBlob\r\n", body),
        }
    }

    fn read(&self, name: &str, offset: usize, length: usize) -> Vec<u8> {
        let headers = format!("x-ms-range: bytes={offset}-{}\r\n", offset + length - 1);
        self.request("GET", name, "", &headers, b"")
    }

    fn list(&self, marker: &str) -> Vec<u8> {
        let (kind, name) = if self.side == Side::Files { ("directory", "list") } else { ("container", "") };
        let prefix = if self.side == Side::Blob { "&prefix=list/&delimiter=/" } else { "" };
        let query = format!("restype={kind}&comp=list{prefix}&maxresults=5000&marker={marker}&");
        self.request("GET", name, &query, "", b"")
    }
}

/// Makes what is read later.
async fn prepare(target: &'static Target) -> io::Result<f64> {
    let mut line = Line::open(&target.address).await?;
    line.ask(&target.make(), 201).await?;
    for number in 0..SMALL_FILES {
        fill(&mut line, target, &format!("small-{number:04}"), SMALL, SMALL).await?;
    }
    let longest = CONNECTIONS.into_iter().max().unwrap_or(1);
    for connection in 0..longest {
        for number in 0..OWN_FILES {
            line.ask(&target.create(&format!("own-{connection}-{number}"), SMALL), 201).await?;
        }
        line.ask(&target.create(&format!("large-{connection}"), LARGE * LARGE_PARTS), 201).await?;
    }
    fill(&mut line, target, "large", LARGE, LARGE * LARGE_PARTS).await?;
    if target.side == Side::Files {
        line.ask(&target.request("PUT", "list", "restype=directory&", "", b""), 201).await?;
    }
    let mut made = 0;
    while made < LISTED {
        line.ask(&target.create(&format!("list/name-{made:05}"), 0), 201).await?;
        made += 1;
    }
    Ok(0.0)
}

/// A file of `size` bytes, all written.
async fn fill(line: &mut Line, target: &Target, name: &str, part: usize, size: usize) -> io::Result<()> {
    match target.side {
        Side::Files => {
            line.ask(&target.create(name, size), 201).await?;
            for offset in (0..size).step_by(part) {
                line.ask(&target.write(name, offset, &vec![b'x'; part]), 201).await?;
            }
            Ok(())
        }
        Side::Blob => line.ask(&target.write(name, 0, &vec![b'x'; size]), 201).await.map(drop),
    }
}

/// Lists everything in pages; the milliseconds it took.
async fn list(target: &'static Target) -> io::Result<f64> {
    let mut line = Line::open(&target.address).await?;
    line.buffer.resize(16 << 20, 0);
    let start = Instant::now();
    let (mut marker, mut names) = (String::new(), 0);
    loop {
        line.stream.write_all(&target.list(&marker)).await?;
        let (_, body) = line.answer(200, false).await?;
        let text = String::from_utf8_lossy(&body);
        names += text.matches("<Name>").count();
        match text.split_once("<NextMarker>").and_then(|(_, rest)| rest.split_once('<')) {
            Some((next, _)) if !next.is_empty() => {
                marker = utf8_percent_encode(next, NON_ALPHANUMERIC).to_string();
            }
            _ => break,
        }
    }
    if names != LISTED {
        return Err(io::Error::other(format!("{names} names were listed, not {LISTED}")));
    }
    Ok(start.elapsed().as_secs_f64() * 1000.0)
}

async fn measure(
    target: &'static Target,
    workload: &str,
    connections: usize,
    seconds: f64,
) -> io::Result<f64> {
    let mib = |turns: f64| turns * LARGE as f64 / f64::from(1 << 20);
    let address = target.address.as_str();
    match workload {
        "prepare" => prepare(target).await,
        "list" => list(target).await,
        "get4k" => {
            repeat(address, connections, seconds, async move |line: &mut Line, connection, number| {
                let name = format!("small-{:04}", (connection * 37 + number) % SMALL_FILES);
                line.ask(&target.read(&name, 0, SMALL), 206).await.map(drop)
            })
            .await
        }
        "get4m" => {
            let turn = async move |line: &mut Line, connection: usize, number: usize| {
                let offset = (connection + number) % LARGE_PARTS * LARGE;
                line.ask(&target.read("large", offset, LARGE), 206).await.map(drop)
            };
            repeat(address, connections, seconds, turn).await.map(mib)
        }
        "put4k" => {
            repeat(address, connections, seconds, async move |line: &mut Line, connection, number| {
                let name = format!("own-{connection}-{}", number % OWN_FILES);
                line.ask(&target.write(&name, 0, &[number as u8; SMALL]), 201).await.map(drop)
            })
            .await
        }
        "put4m" => {
            let turn = async move |line: &mut Line, connection: usize, number: usize| {
                let name = format!("large-{connection}");
                let offset = number % LARGE_PARTS * LARGE;
                line.ask(&target.write(&name, offset, &vec![number as u8; LARGE]), 201).await.map(drop)
            };
            repeat(address, connections, seconds, turn).await.map(mib)
        }
        "create" => {
            repeat(address, connections, seconds, async move |line: &mut Line, connection, number| {
                let name = format!("new-{connection}-{number}");
                line.ask(&target.create(&name, 0), 201).await?;
                line.ask(&target.request("DELETE", &name, "", "", b""), 202).await.map(drop)
            })
            .await
        }
        other => Err(io::Error::other(format!("there is no workload {other}"))),
    }
}

fn run() -> io::Result<f64> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, side, workload, rest @ ..] = words.as_slice() else {
        return Err(io::Error::other(
            "usage: bench_files ADDRESS files|blob WORKLOAD [CONNECTIONS] [SECONDS]",
        ));
    };
    let side = match side.as_str() {
        "files" => Side::Files,
        "blob" => Side::Blob,
        other => return Err(io::Error::other(format!("there is no side {other}"))),
    };
    let sas = std::env::var("BENCH_SAS").map_err(io::Error::other)?;
    let target: &'static Target = Box::leak(Box::new(Target { address: address.clone(), side, sas }));
    let connections = rest.first().map_or(Ok(1), |text| text.parse()).map_err(io::Error::other)?;
    let seconds = rest.get(1).map_or(Ok(1.0), |text| text.parse()).map_err(io::Error::other)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(target, workload, connections, seconds))
}

fn main() -> ExitCode {
    match run() {
        Ok(value) => {
            println!("{value}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
