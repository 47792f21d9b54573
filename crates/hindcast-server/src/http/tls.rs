//! The certificate: the operator's, or one of our own making.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{ServerConfig, crypto::ring};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum TlsError {
    #[error("cannot read `{}`: {reason} · hint: give a PEM file", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("cannot write the certificate to `{}`: {source} · hint: check the data folder with `hindcast doctor`", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("cannot make a certificate: {0}")]
    Generation(#[from] rcgen::Error),
    #[error(
        "the certificate and the private key cannot be used: {0} · hint: check that they belong together"
    )]
    Unusable(#[from] rustls::Error),
}

/// A certificate and its key, as files.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The chain, PEM.
    pub cert: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
}

impl Certificate {
    /// The one in `folder`, made there the first time: for this machine only, trusted by nobody
    /// until told to.
    pub fn self_signed(folder: &Path, host_names: &[String]) -> Result<Self, TlsError> {
        let found = Self { cert: folder.join("cert.pem"), key: folder.join("key.pem") };
        if found.cert.exists() && found.key.exists() {
            return Ok(found);
        }
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".into(), "::1".into()];
        names.extend(host_names.iter().cloned());
        let made = rcgen::generate_simple_self_signed(names)?;
        let write = |path: &Path, text: &str| {
            write_private(path, text).map_err(|source| TlsError::Unwritable { path: path.into(), source })
        };
        write(&found.key, &made.signing_key.serialize_pem())?;
        write(&found.cert, &made.cert.pem())?;
        Ok(found)
    }

    pub(super) fn server_config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let unreadable = |path: &Path, reason: String| TlsError::Unreadable { path: path.into(), reason };
        let chain: Vec<_> = CertificateDer::pem_file_iter(&self.cert)
            .and_then(Iterator::collect)
            .map_err(|error| unreadable(&self.cert, error.to_string()))?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| unreadable(&self.key, error.to_string()))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Writes a file that only its owner can read, whole or not at all.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    io::Write::write_all(&mut options.open(&beside)?, text.as_bytes())?;
    std::fs::rename(beside, path)
}
