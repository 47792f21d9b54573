//! The cryptography behind HTTPS requests.

/// reqwest takes the process's provider; there is one in this program, and whoever comes first installs it.
pub(crate) fn ensure_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
