//! The floor of the Blob benchmark: an HTTP server made of the same libraries that answers every request with the same
//! 4 KiB and does nothing else. What a request costs here is the client, the kernel and the libraries.
//!
//! ```text
//! http_floor ADDRESS [current]      `current`: all on one thread
//! ```

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

static BODY: [u8; 4096] = [b'f'; 4096];

async fn serve(address: String) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        tokio::spawn(async move {
            let service = service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                let mut answer = http::Response::new(Full::new(Bytes::from_static(&BODY)));
                // The load generator makes its container first.
                if request.method() == http::Method::PUT {
                    *answer.status_mut() = http::StatusCode::CREATED;
                }
                Ok::<_, Infallible>(answer)
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new());
            // A client that goes away is no reason to end.
            builder.serve_connection(TokioIo::new(socket), service).await.ok();
        });
    }
}

fn main() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let address = words.next().ok_or_else(|| io::Error::other("usage: http_floor ADDRESS [current]"))?;
    let mut builder = match words.next().as_deref() {
        Some("current") => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.enable_all().build()?.block_on(serve(address))
}
