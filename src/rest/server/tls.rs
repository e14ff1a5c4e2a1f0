//! Certificate and key from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why TLS cannot be used; complete sentences.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate file is not one.
    #[error("the TLS certificate {} cannot be read: {why}", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The key file is not one.
    #[error("the TLS key {} cannot be read: {why}", .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The two do not fit together.
    #[error("the TLS certificate and key cannot be used: {0}")]
    Pair(rustls::Error),
}

/// Reads a certificate chain and its key.
pub fn load_tls(certificate: &Path, key: &Path) -> Result<Arc<rustls::ServerConfig>, TlsError> {
    let bad_certificate = |why: String| TlsError::Certificate { path: certificate.to_owned(), why };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| bad_certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(bad_certificate("it holds no certificate".into()));
    }
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| TlsError::Key { path: key.to_owned(), why: error.to_string() })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Pair)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(TlsError::Pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
