//! The service over TLS, with a certificate made for this test (`tests/blob_service/tls`).

use std::path::Path;
use std::sync::Arc;

use crate::rig::{PATIENCE, signed};
use leasefs::rest::auth::Accounts;
use leasefs::rest::blobs::{BlobService, CopySources};
use leasefs::rest::server::{Limits, Server, ServerConfig, load_tls};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

fn file(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blob_service/tls").join(name)
}

/// A client that trusts the test's authority, and nobody else.
fn connector() -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_spoken_with_the_certificate_given() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let service = BlobService::new(store.durable_user(), Accounts::development(), CopySources::Own);
    let tls = load_tls(&file("chain.pem"), &file("key.pem")).unwrap();
    let config =
        ServerConfig { addr: "127.0.0.1:0".parse().unwrap(), tls: Some(tls), limits: Limits::default() };
    let server = Server::start(&config, Arc::new(service)).unwrap();
    let socket = TcpStream::connect(server.addr()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut line = connector().connect(name, socket).await.unwrap();
    let mut request = signed("PUT", "/box1?restype=container", &[("connection", "close")], b"");
    line.write_all(&request).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, line.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    // Who does not speak TLS is hung up on, and learns nothing.
    let mut plain = TcpStream::connect(server.addr()).await.unwrap();
    request = signed("GET", "/?comp=list", &[], b"");
    plain.write_all(&request).await.unwrap();
    let mut bytes = Vec::new();
    tokio::time::timeout(PATIENCE, plain.read_to_end(&mut bytes)).await.unwrap().ok();
    assert!(!String::from_utf8_lossy(&bytes).contains("HTTP/"), "{bytes:?}");
}

#[test]
fn files_that_are_no_certificate_or_key_are_refused_by_name() {
    let mixed_up = load_tls(&file("key.pem"), &file("chain.pem")).unwrap_err().to_string();
    assert!(mixed_up.contains("key.pem"), "{mixed_up}");
    let missing = load_tls(&file("chain.pem"), Path::new("/nowhere")).unwrap_err().to_string();
    assert!(missing.contains("/nowhere"), "{missing}");
    let other = load_tls(&file("ca.pem"), &file("key.pem")).unwrap_err().to_string();
    assert!(other.contains("cannot be used"), "{other}");
}
