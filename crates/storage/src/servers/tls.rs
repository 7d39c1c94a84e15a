//! TLS certificates of trusted authorities (the system's and the grid's), and the certificates and proxies of users.

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

/// Default folder of grid authorities' certificates.
const GRID_AUTHORITIES: &str = "/etc/grid-security/certificates";
/// Environment variables that determine which certificates are used.
const VARIABLES: &[&str] =
    &["X509_CERT_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY"];

/// A certificate with its chain and private key.
pub(crate) struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// Contents of the key file.
    pub(crate) key_pem: Vec<u8>,
}

/// Returns a crypto provider that does not validate the user's certificate before sending it, because validation is the
/// server's task.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.key_provider = &KeysAsTheyAre;
    Arc::new(provider)
}

/// Loads private keys, and hides the corresponding public keys from rustls. Otherwise rustls would parse the user's
/// certificate to compare the public keys, and reject a grid proxy (RFC 3820) because of an unknown critical extension.
/// Only the server needs to understand that extension.
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

/// Returns a string that changes when the certificates to use change, for example after a proxy was renewed.
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

/// Returns the certificates of trusted authorities: those of the system (overridden by `SSL_CERT_FILE` and
/// `SSL_CERT_DIR`), and those of the grid in `X509_CERT_DIR`. Files without certificates are skipped.
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

/// Returns whether a file has the name of a certificate: `<hash>.0` as in OpenSSL, `.pem` or `.crt`.
fn is_certificate(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    matches!(ending, "pem" | "crt") || (!ending.is_empty() && ending.bytes().all(|byte| byte.is_ascii_digit()))
}

fn default_proxy() -> PathBuf {
    Path::new("/tmp").join(format!("x509up_u{}", rustix::process::geteuid().as_raw()))
}

/// The user's certificate, if any, and a note for the error message if a server refuses access. For example, the note
/// tells why the certificate was not sent. Most servers do not ask for a certificate.
pub(crate) struct Own {
    pub(crate) identity: Option<Identity>,
    pub(crate) note: Option<String>,
}

/// Finds the user's proxy or certificate. Uses the proxy in `X509_USER_PROXY`, the certificate in `X509_USER_CERT` with
/// the key in `X509_USER_KEY`, or the proxy at its default path.
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
        let reason = format!("your certificate could not be sent: {}: {reason}", path.display());
        Fault::new(StorageErrorKind::Permission, reason)
    };
    let pem = read_small(certificate, CERTIFICATE_BYTES_MAX).map_err(|error| unusable(certificate, &error))?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem).flatten().collect();
    if chain.is_empty() {
        return Err(unusable(certificate, &"it contains no certificate"));
    }
    let key_pem = read_small(key, CERTIFICATE_BYTES_MAX).map_err(|error| unusable(key, &error))?;
    let parsed = PrivateKeyDer::from_pem_slice(&key_pem);
    let parsed = parsed.map_err(|_| unusable(key, &"it contains no unencrypted key"))?;
    // Check here that the certificate and the key match, since the libraries expect a matching pair. A proxy fails this
    // check, but is sent anyway.
    match CertifiedKey::from_der(chain.clone(), parsed, &rustls::crypto::ring::default_provider()) {
        Ok(_) => Ok((Identity { chain, key_pem }, None)),
        Err(rustls::Error::InvalidCertificate(_)) => {
            let note = format!("the proxy {} was sent, which some servers do not accept", certificate.display());
            Ok((Identity { chain, key_pem }, Some(note)))
        }
        Err(other) => Err(unusable(certificate, &other)),
    }
}

impl Identity {
    /// Returns the parsed private key, for libraries that do not parse keys.
    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(&self.key_pem).map_err(|_| no_key())
    }
}

/// Builds the failure for a TLS error. If a certificate is not trusted, the reason names the variables that set the
/// trusted authorities.
pub(crate) fn fault_of(server: &str, error: &rustls::Error) -> Fault {
    let mut reason = format!("no secure connection to {server}: {}", quoted(error.to_string().as_bytes()));
    if matches!(error, rustls::Error::InvalidCertificate(_)) {
        reason += "; trusted authorities are read from X509_CERT_DIR, SSL_CERT_FILE and SSL_CERT_DIR";
    }
    Fault::new(StorageErrorKind::Refused, reason)
}

/// Creates the failure for a user's certificate whose key has an unsupported type.
pub(crate) fn no_key() -> Fault {
    Fault::new(StorageErrorKind::Permission, "your certificate could not be sent: its key type is not supported")
}
