//! Whom we trust and who we are in TLS: the system's authorities and the grid's, certificates and proxies of users.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::fault::{Fault, Result};
use crate::url::quoted;
use crate::StorageErrorKind;

/// Where grids keep the certificates of their authorities.
const GRID_AUTHORITIES: &str = "/etc/grid-security/certificates";
/// What decides which certificates are taken.
const VARIABLES: &[&str] =
    &["X509_CERT_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY"];

/// A certificate, those that vouch for it, and its key.
pub(crate) struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// As it stands in the file.
    pub(crate) key_pem: Vec<u8>,
}

/// The implementation of the algorithms.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Changes when other certificates would be found, as when a proxy was renewed.
pub(crate) fn fingerprint() -> String {
    let mut fingerprint = String::new();
    for name in VARIABLES {
        let value = std::env::var_os(name).unwrap_or_default();
        fingerprint += &format!("{name}={};", value.display());
    }
    let files = [std::env::var_os("X509_USER_PROXY").map(PathBuf::from), Some(default_proxy())];
    for file in files.into_iter().flatten() {
        let written = fs::metadata(file).and_then(|about| about.modified()).ok();
        fingerprint += &format!("{written:?};");
    }
    fingerprint
}

/// The certificates of the authorities: the system's (or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`) and the grid's, of
/// `X509_CERT_DIR`. What is no certificate there is passed over.
pub(crate) fn authorities() -> Vec<CertificateDer<'static>> {
    let mut found = rustls_native_certs::load_native_certs().certs;
    let folder = std::env::var_os("X509_CERT_DIR").map_or_else(|| PathBuf::from(GRID_AUTHORITIES), PathBuf::from);
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = file.path();
        if is_certificate(&path) {
            let pem = fs::read(&path).unwrap_or_default();
            found.extend(CertificateDer::pem_slice_iter(&pem).flatten());
        }
    }
    found
}

/// Named as OpenSSL looks them up, `<hash>.0`, or as people do.
fn is_certificate(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    matches!(ending, "pem" | "crt") || (!ending.is_empty() && ending.bytes().all(|byte| byte.is_ascii_digit()))
}

fn default_proxy() -> PathBuf {
    Path::new("/tmp").join(format!("x509up_u{}", rustix::process::geteuid().as_raw()))
}

/// The certificate of the user, or why it is not shown to servers. Most do not ask for one.
pub(crate) struct Own {
    pub(crate) identity: Option<Identity>,
    pub(crate) why_not: Option<String>,
}

/// The user's proxy or certificate: of `X509_USER_PROXY`, of `X509_USER_CERT` and `X509_USER_KEY`, or the proxy at its
/// usual place.
pub(crate) fn own() -> Own {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let usual = Some(default_proxy()).filter(|proxy| proxy.exists());
    let pair = named("X509_USER_CERT").zip(named("X509_USER_KEY"));
    let proxy = named("X509_USER_PROXY").or_else(|| if pair.is_none() { usual } else { None });
    let files = proxy.map(|proxy| (proxy.clone(), proxy)).or(pair);
    match files.map(|(certificate, key)| read_identity(&certificate, &key)) {
        None => Own { identity: None, why_not: None },
        Some(Ok(identity)) => Own { identity: Some(identity), why_not: None },
        Some(Err(fault)) => Own { identity: None, why_not: Some(fault.reason) },
    }
}

fn read_identity(certificate: &Path, key: &Path) -> Result<Identity> {
    let unusable = |path: &Path, reason: &dyn std::fmt::Display| {
        let reason = format!("your certificate could not be shown: {}: {reason}", path.display());
        Fault::new(StorageErrorKind::Permission, reason)
    };
    let pem = fs::read(certificate).map_err(|error| unusable(certificate, &error))?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem).flatten().collect();
    if chain.is_empty() {
        return Err(unusable(certificate, &"it holds no certificate"));
    }
    let key_pem = fs::read(key).map_err(|error| unusable(key, &error))?;
    let parsed = PrivateKeyDer::from_pem_slice(&key_pem);
    let parsed = parsed.map_err(|_| unusable(key, &"it holds no key without a password"))?;
    // Here, because some who take it expect that it is right. Proxies of grids (RFC 3820) have an extension that is
    // critical and unknown to rustls.
    let made = CertifiedKey::from_der(chain.clone(), parsed, &provider());
    made.map_err(|error| match error {
        rustls::Error::InvalidCertificate(_) => unusable(certificate, &"proxies are not taken here, use a token"),
        other => unusable(certificate, &other),
    })?;
    Ok(Identity { chain, key_pem })
}

impl Identity {
    /// The key, for whoever does not read it by themselves.
    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(&self.key_pem).map_err(|_| no_key())
    }
}

/// TLS failed; what to do about it if it is about whom to trust.
pub(crate) fn fault_of(server: &str, error: &rustls::Error) -> Fault {
    let mut reason = format!("no secure connection to {server}: {}", quoted(error.to_string().as_bytes()));
    if matches!(error, rustls::Error::InvalidCertificate(_)) {
        reason += "; authorities to trust are looked for in X509_CERT_DIR, SSL_CERT_FILE and SSL_CERT_DIR";
    }
    Fault::new(StorageErrorKind::Refused, reason)
}

/// The key of the user's certificate is of no kind that TLS knows.
pub(crate) fn no_key() -> Fault {
    Fault::new(StorageErrorKind::Permission, "your certificate could not be shown: its key is of another kind")
}
