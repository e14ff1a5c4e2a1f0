//! A slow, lossy or cut line to a blob service, as a program: the proxy of `tests/common/fault_proxy` with a control
//! address, for the benchmark and the shell scenarios.
//!
//! ```text
//! fault_proxy LISTEN UPSTREAM CONTROL [DELAY_MS]      such as 127.0.0.1:11400 127.0.0.1:10000 127.0.0.1:11401 20
//! curl CONTROL/counts                                 requests and bytes by kind, as tab-separated lines
//! curl CONTROL/reset                                  counts begin anew
//! curl CONTROL/delay/20                               every request takes 20 ms longer
//! curl CONTROL/fault/3/drop-after                     the third request from now loses its answer
//! curl CONTROL/random/50/7/busy,drop-after            5 % of the requests, seed 7; curl CONTROL/random/0/0/ ends it
//! curl CONTROL/cut/on    curl CONTROL/cut/off         nothing passes; passes again
//! ```

#[path = "../tests/common/fault_proxy/mod.rs"]
#[allow(dead_code, unused_imports, reason = "tests use the rest")]
mod fault_proxy;

use std::net::SocketAddr;
use std::time::Duration;

use fault_proxy::{Dice, Fault, FaultProxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [listen, upstream, control, rest @ ..] = words.as_slice() else {
        return Err("usage: fault_proxy LISTEN UPSTREAM CONTROL [DELAY_MS]".into());
    };
    let proxy = FaultProxy::start(listen.parse()?, upstream.parse()?).await?;
    if let Some(delay) = rest.first() {
        proxy.delay(Duration::from_millis(delay.parse()?));
    }
    let listener = TcpListener::bind(control.parse::<SocketAddr>()?).await?;
    println!("listening at {}, control at {}", proxy.addr, listener.local_addr()?);
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut request = vec![0; 8 * 1024];
        let size = stream.read(&mut request).await.unwrap_or(0);
        let text = String::from_utf8_lossy(&request[..size]).into_owned();
        let path = text.split(' ').nth(1).unwrap_or_default();
        let (status, body) = match obey(&proxy, path) {
            Ok(body) => ("200 OK", body),
            Err(problem) => ("400 No", format!("{problem}\n")),
        };
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        // A caller that does not wait for the answer is no reason to end.
        stream.write_all(format!("{head}{body}").as_bytes()).await.ok();
    }
}

/// Does what a path says; the answer's body.
fn obey(proxy: &FaultProxy, path: &str) -> Result<String, Failure> {
    let words: Vec<&str> = path.trim_matches('/').split('/').collect();
    match words.as_slice() {
        ["counts"] => {
            let counts = proxy.plan().counts();
            let line = |(kind, tally): (String, fault_proxy::Tally)| {
                format!("{kind}\t{}\t{}\t{}\n", tally.requests, tally.sent, tally.received)
            };
            return Ok(counts.into_iter().map(line).collect());
        }
        ["reset"] => proxy.plan().reset(),
        ["delay", milliseconds] => proxy.delay(Duration::from_millis(milliseconds.parse()?)),
        ["fault", number, fault] => proxy.plan().order(number.parse()?, fault.parse::<Fault>()?),
        ["random", "0", ..] => proxy.plan().throw(None),
        ["random", per_mille, seed, faults] => {
            let faults: Result<Vec<Fault>, String> = faults.split(',').map(str::parse).collect();
            let dice = Dice { per_mille: per_mille.parse()?, seed: seed.parse()?, faults: faults? };
            proxy.plan().throw(Some(dice));
        }
        ["cut", "on"] => proxy.cut(true),
        ["cut", "off"] => proxy.cut(false),
        _ => return Err(format!("{path} is not known; {} faults happened", proxy.plan().happened()).into()),
    }
    Ok(String::new())
}
