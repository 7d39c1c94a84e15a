//! Trust and identity in TLS: the system's authorities and the grid's, certificates and proxies of users.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, KeyProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

use crate::limits::CERTIFICATE_BYTES_MAX;
use crate::secrets::quoted;
use crate::servers::failure::{Fault, Result};
use crate::servers::small_file::read_small;
use crate::StorageErrorKind;

/// Where grids keep the certificates of their authorities.
const GRID_AUTHORITIES: &str = "/etc/grid-security/certificates";
/// The settings that decide which certificates are used.
const VARIABLES: &[&str] =
    &["X509_CERT_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY"];

/// A certificate, those that vouch for it, and its key.
pub(crate) struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// The text of the file.
    pub(crate) key_pem: Vec<u8>,
}

/// The implementation of the algorithms. With it a certificate of the user's own is shown as it is.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.key_provider = &KeysAsTheyAre;
    Arc::new(provider)
}

/// Reads keys, and does not say which public key belongs to them. If it did, rustls would compare that with the
/// certificate's, for which it would take the certificate apart, and refuse proxies of grids (RFC 3820): they have an
/// extension that is critical and unknown to it. But it is the server that has to understand our certificate.
#[derive(Debug)]
struct KeysAsTheyAre;

impl KeyProvider for KeysAsTheyAre {
    fn load_private_key(&self, der: PrivateKeyDer<'static>) -> std::result::Result<Arc<dyn SigningKey>, rustls::Error> {
        let key = rustls::crypto::ring::default_provider().key_provider.load_private_key(der)?;
        Ok(Arc::new(KeyAsItIs(key)))
    }
}

#[derive(Debug)]
struct KeyAsItIs(Arc<dyn SigningKey>);

impl SigningKey for KeyAsItIs {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        self.0.choose_scheme(offered)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

/// Changes when other certificates would be found, as when a proxy or a certificate was renewed.
pub(crate) fn fingerprint() -> String {
    let mut fingerprint = String::new();
    for name in VARIABLES {
        let value = std::env::var_os(name).unwrap_or_default();
        fingerprint += &format!("{name}={};", value.display());
    }
    let named = ["X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY"].map(std::env::var_os);
    let named = named.into_iter().flatten().map(PathBuf::from);
    for file in named.chain([default_proxy()]) {
        let written = fs::metadata(file).and_then(|about| about.modified()).ok();
        fingerprint += &format!("{written:?};");
    }
    fingerprint
}

/// The certificates of the authorities: the system's (or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`) and the grid's,
/// of `X509_CERT_DIR`. Files there that are no certificates are skipped.
pub(crate) fn authorities() -> Vec<CertificateDer<'static>> {
    let mut found = rustls_native_certs::load_native_certs().certs;
    let folder = std::env::var_os("X509_CERT_DIR").map_or_else(|| PathBuf::from(GRID_AUTHORITIES), PathBuf::from);
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = file.path();
        if is_certificate(&path) {
            let pem = read_small(&path, CERTIFICATE_BYTES_MAX).unwrap_or_default();
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

/// The certificate of the user, and a note for the error where a server refuses: why it is not sent, for instance. Most
/// servers do not ask for one.
pub(crate) struct Own {
    pub(crate) identity: Option<Identity>,
    pub(crate) note: Option<String>,
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
        None => Own { identity: None, note: None },
        Some(Ok((identity, note))) => Own { identity: Some(identity), note },
        Some(Err(fault)) => Own { identity: None, note: Some(fault.reason) },
    }
}

fn read_identity(certificate: &Path, key: &Path) -> Result<(Identity, Option<String>)> {
    let unusable = |path: &Path, reason: &dyn std::fmt::Display| {
        let reason = format!("your certificate could not be shown: {}: {reason}", path.display());
        Fault::new(StorageErrorKind::Permission, reason)
    };
    let pem = read_small(certificate, CERTIFICATE_BYTES_MAX).map_err(|error| unusable(certificate, &error))?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem).flatten().collect();
    if chain.is_empty() {
        return Err(unusable(certificate, &"it holds no certificate"));
    }
    let key_pem = read_small(key, CERTIFICATE_BYTES_MAX).map_err(|error| unusable(key, &error))?;
    let parsed = PrivateKeyDer::from_pem_slice(&key_pem);
    let parsed = parsed.map_err(|_| unusable(key, &"it holds no key without a password"))?;
    // Checked here, since the libraries expect a valid pair. A proxy fails this check, and is sent all the same.
    match CertifiedKey::from_der(chain.clone(), parsed, &rustls::crypto::ring::default_provider()) {
        Ok(_) => Ok((Identity { chain, key_pem }, None)),
        Err(rustls::Error::InvalidCertificate(_)) => {
            let note = format!("shown was the proxy {}, which some servers do not take", certificate.display());
            Ok((Identity { chain, key_pem }, Some(note)))
        }
        Err(other) => Err(unusable(certificate, &other)),
    }
}

impl Identity {
    /// The private key, for libraries that do not read the file themselves.
    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(&self.key_pem).map_err(|_| no_key())
    }
}

/// The error of TLS, with what to do if a certificate is not trusted.
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
