//! Identities of Entra, at the level of the process: the program gets a token from an identity service of this test
//! and sends it to a blob service of this test. Both are on loopback; nothing here speaks to Azure.
//!
//! Managed identity (as in App Service), `az login`, and a service principal and workload identity (over TLS, because their
//! library insists) are played through. The endpoint of virtual machines has an address that cannot be changed, so it is not.

// A test that cannot go on stops. Helper modules of several tests.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

#[path = "share/rig.rs"]
mod rig;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use leasefs::rest::server::load_tls;
use rig::{command, err, succeeded};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What nobody may ever read in an error or on the command line.
const SECRETS: [&str; 3] = ["hush-client-secret", "hush-header", "hush-token"];

/// A service that answers by a function of the request, and remembers what it was asked.
struct Fake {
    addr: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    async fn start(tls: bool, answer: impl Fn(usize, &str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (remembered, answer) = (Arc::clone(&asked), Arc::new(answer));
        let acceptor = tls.then(|| {
            rustls::crypto::ring::default_provider().install_default().ok();
            TlsAcceptor::from(load_tls(&file("chain.pem"), &file("key.pem")).unwrap())
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (asked, answer) = (Arc::clone(&remembered), Arc::clone(&answer));
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    match acceptor {
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => converse(stream, &asked, &*answer).await,
                            Err(problem) => println!("no TLS: {problem}"),
                        },
                        None => converse(stream, &asked, &*answer).await,
                    }
                });
            }
        });
        Self { addr, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// One request and its answer.
async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    asked: &Mutex<Vec<String>>,
    answer: &(dyn Fn(usize, &str) -> String + Send + Sync),
) {
    let mut request = Vec::new();
    let whole = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
        });
        (body.len() >= length.unwrap_or(0)).then_some(text)
    };
    let text = loop {
        if let Some(text) = whole(&request) {
            break text;
        }
        if !matches!(stream.read_buf(&mut request).await, Ok(1..)) {
            return;
        }
    };
    let number = {
        let mut asked = asked.lock().unwrap();
        asked.push(text.clone());
        asked.len()
    };
    stream.write_all(answer(number, &text).as_bytes()).await.ok();
    stream.shutdown().await.ok();
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blob_service/tls").join(name)
}

fn json(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn in_seconds(seconds: u64) -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + seconds
}

/// A blob service that grants every lease to whoever shows this token.
async fn blobs() -> Fake {
    Fake::start(false, |_, request| {
        let known = request.to_ascii_lowercase().contains("authorization: bearer hush-token");
        let status = if known { "202 Accepted" } else { "403 No\r\nx-ms-error-code: AuthenticationFailed" };
        format!(
            "HTTP/1.1 {status}\r\netag: \"0x8DC0FFEE\"\r\nlast-modified: Tue, 17 Nov 2026 12:07:13 GMT\r\n\
             x-ms-lease-time: 0\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
    })
    .await
}

/// `leasefs break-lease` of a blob there, with no other identity than the variables given.
fn break_lease(service: &Fake) -> Command {
    let url = format!("http://{}/acct/jobs/nightly", service.addr);
    let mut command = command(&["break-lease", &url]);
    command.env_clear().env("PATH", "/nowhere").env("HOME", "/nowhere");
    command
}

async fn run(mut command: Command) -> std::process::Output {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    for secret in SECRETS {
        assert!(!err(&output).contains(secret), "{}", err(&output));
    }
    output
}

#[tokio::test(flavor = "multi_thread")]
async fn managed_identity_gives_the_token_that_the_service_sees() {
    let service = blobs().await;
    let identity = Fake::start(false, |_, _| {
        let until = in_seconds(3600);
        json(&format!(
            r#"{{"access_token":"hush-token-1","expires_on":"{until}","token_type":"Bearer","resource":"x"}}"#
        ))
    })
    .await;
    let mut command = break_lease(&service);
    command.env("IDENTITY_ENDPOINT", format!("http://{}/msi/token", identity.addr));
    command.env("IDENTITY_HEADER", "hush-header");
    succeeded(&run(command).await);
    let asked = identity.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].contains("resource=https%3A%2F%2Fstorage.azure.com"), "{}", asked[0]);
    assert!(asked[0].to_ascii_lowercase().contains("x-identity-header: hush-header"), "{}", asked[0]);
    assert!(service.asked()[0].contains("Bearer hush-token-1"), "{}", service.asked()[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_replaced_before_it_ends() {
    let service = blobs().await;
    // Each token lasts for another minute, which is less than the time before its end that asks for a new one.
    let identity = Fake::start(false, |number, _| {
        let until = in_seconds(60);
        json(&format!(r#"{{"access_token":"hush-token-{number}","expires_on":"{until}","token_type":"Bearer","resource":"x"}}"#))
    })
    .await;
    let url = format!("http://{}/acct/jobs/nightly", service.addr);
    let mut command = command(&["lease", "--duration", "15", &url, "--", "/bin/sleep", "1"]);
    command.env_clear().env("HOME", "/nowhere").env("PATH", "/bin:/usr/bin");
    command.env("IDENTITY_ENDPOINT", format!("http://{}/msi/token", identity.addr));
    command.env("IDENTITY_HEADER", "hush-header");
    succeeded(&run(command).await);
    let asked = service.asked();
    assert!(asked.len() >= 3, "acquire, renew, release: {asked:?}");
    assert!(asked[0].contains("hush-token-1") && asked[2].contains("hush-token-3"), "{asked:?}");
    assert_eq!(identity.asked().len(), asked.len(), "one new token per request, each of the last minute");
}

#[tokio::test(flavor = "multi_thread")]
async fn az_login_is_asked_when_nothing_else_is_there() {
    let service = blobs().await;
    let folder = tempfile::tempdir().unwrap();
    let az = folder.path().join("az");
    let until = in_seconds(3600);
    let answer = format!(r#"{{"accessToken":"hush-token-az","expires_on":{until},"tokenType":"Bearer"}}"#);
    std::fs::write(&az, format!("#!/bin/sh\necho '{answer}'\n")).unwrap();
    std::fs::set_permissions(&az, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = break_lease(&service);
    command.env("PATH", format!("{}:/bin:/usr/bin", folder.path().display()));
    succeeded(&run(command).await);
    assert!(service.asked()[0].contains("Bearer hush-token-az"), "{}", service.asked()[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_principal_signs_in_over_tls() {
    let service = blobs().await;
    let authority = Fake::start(true, |_, request| {
        if request.starts_with("POST /tenant-1/oauth2/v2.0/token")
            && request.contains("client_secret=hush-client-secret")
        {
            return json(r#"{"token_type":"Bearer","expires_in":3600,"access_token":"hush-token-sp"}"#);
        }
        "HTTP/1.1 404 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned()
    })
    .await;
    let mut command = break_lease(&service);
    command.env("SSL_CERT_FILE", file("ca.pem"));
    command.env("AZURE_AUTHORITY_HOST", format!("https://localhost:{}", authority.addr.port()));
    command.env("AZURE_TENANT_ID", "tenant-1").env("AZURE_CLIENT_ID", "client-1");
    command.env("AZURE_CLIENT_SECRET", "hush-client-secret");
    succeeded(&run(command).await);
    assert!(service.asked()[0].contains("Bearer hush-token-sp"), "{}", service.asked()[0]);
}

/// What Kubernetes gives a pod: a file with a token of the cluster, which is exchanged for one of Entra's.
#[tokio::test(flavor = "multi_thread")]
async fn workload_identity_exchanges_the_token_in_its_file() {
    let service = blobs().await;
    let authority = Fake::start(true, |_, request| {
        let asked = request.starts_with("POST /tenant-1/oauth2/v2.0/token")
            && request.contains("client_id=client-1")
            && request.contains("client_assertion=hush-token-of-the-cluster")
            && request.contains("jwt-bearer");
        if asked {
            return json(r#"{"token_type":"Bearer","expires_in":3600,"access_token":"hush-token-wi"}"#);
        }
        "HTTP/1.1 404 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned()
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "hush-token-of-the-cluster").unwrap();
    let command = |client: &str| {
        let mut command = break_lease(&service);
        command.env("SSL_CERT_FILE", file("ca.pem"));
        command.env("AZURE_AUTHORITY_HOST", format!("https://localhost:{}", authority.addr.port()));
        command.env("AZURE_TENANT_ID", "tenant-1").env("AZURE_CLIENT_ID", client);
        command.env("AZURE_FEDERATED_TOKEN_FILE", &token);
        command
    };
    succeeded(&run(command("client-1")).await);
    assert!(service.asked()[0].contains("Bearer hush-token-wi"), "{}", service.asked()[0]);
    // Somebody whom the authority does not know gets none, and the blob service is not asked.
    let output = run(command("client-2")).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("workload identity"), "{}", err(&output));
    assert_eq!(service.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_identity_the_error_names_what_was_tried() {
    let service = blobs().await;
    let output = run(break_lease(&service)).await;
    assert_eq!(output.status.code(), Some(1));
    for part in
        ["environment: AZURE_TENANT_ID is not set", "workload identity", "managed identity", "az login"]
    {
        assert!(err(&output).contains(part), "{part}: {}", err(&output));
    }
    assert!(service.asked().is_empty(), "nothing is sent without a token");
}
