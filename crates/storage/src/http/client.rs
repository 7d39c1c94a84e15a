//! Requests to HTTP servers over connections that are kept, with their redirects, tokens, certificates and deadlines.

use std::collections::HashSet;
use std::io::{self, BufReader};
use std::sync::{Arc, Mutex, PoisonError};

use ureq::http::{Response, StatusCode};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::{Agent, Body, BodyReader, ResponseExt};

use crate::fault::{Fault, Result};
use crate::settings::Settings;
use crate::url::{quoted, Url};
use crate::{limits, tls, token, StorageErrorKind};

/// The connections of this process.
pub(super) struct Client {
    agent: Agent,
    /// Why the user's certificate is not shown, if there is one.
    certificate_note: Option<String>,
    /// Servers that answer a request for several ranges with something else.
    one_range_only: Mutex<HashSet<String>>,
}

/// The client, and what it was made for.
struct Kept {
    process: u32,
    fingerprint: String,
    client: Arc<Client>,
}

static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

/// The client of this process. Another one is made when certificates have changed.
pub(super) fn client() -> Result<Arc<Client>> {
    let (process, fingerprint) = (std::process::id(), tls::fingerprint());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(one) = kept.as_ref().filter(|one| one.process == process && one.fingerprint == fingerprint) {
        return Ok(Arc::clone(&one.client));
    }
    let own = tls::own();
    let (agent, certificate_note) = (new_agent(own.identity)?, own.why_not);
    let client = Arc::new(Client { agent, certificate_note, one_range_only: Mutex::default() });
    let new = Kept { process, fingerprint, client: Arc::clone(&client) };
    if let Some(old) = kept.replace(new).filter(|old| old.process != process) {
        // After a fork its connections are the parent's: to close them here would say goodbye in its name.
        std::mem::forget(old);
    }
    Ok(client)
}

fn new_agent(identity: Option<tls::Identity>) -> Result<Agent> {
    let own = match identity {
        None => None,
        Some(identity) => {
            let chain: Vec<_> = identity.chain.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
            let key = PrivateKey::from_pem(&identity.key_pem).map_err(|_| tls::no_key())?;
            Some(ClientCert::new_with_certs(&chain, key))
        }
    };
    let authorities: Vec<_> = tls::authorities().iter().map(|one| Certificate::from_der(one).to_owned()).collect();
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&authorities))
        .client_cert(own)
        .unversioned_rustls_crypto_provider(tls::provider())
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .max_redirects(limits::REDIRECTS_MAX)
        .max_response_header_size(limits::HTTP_HEADERS_BYTES_MAX)
        .max_idle_connections_per_host(limits::IDLE_CONNECTIONS_MAX)
        .max_idle_age(limits::IDLE_TIME_MAX)
        .accept_encoding("identity")
        .user_agent(concat!("branchline/", env!("CARGO_PKG_VERSION")))
        .build();
    Ok(Agent::new_with_config(config))
}

/// An answer whose body is still to be read.
pub(super) struct Answer {
    pub(super) response: Response<Body>,
    server: String,
    certificate_note: Option<String>,
}

impl Client {
    /// Asks for ranges (the value of the header) of a file; `bytes` is how many the answer may have. The user's token goes
    /// to `token_host` alone, host and port, and not to where that redirects to.
    pub(super) fn get(
        &self,
        url: &str,
        range: &str,
        bytes: u64,
        token_host: &str,
        settings: &Settings,
    ) -> Result<Answer> {
        let parsed = Url::parse(url)?;
        let server = parsed.address();
        let mut request = self
            .agent
            .get(url)
            .config()
            .timeout_connect(Some(settings.connect_timeout))
            .timeout_resolve(Some(settings.connect_timeout))
            .timeout_recv_response(Some(settings.silence))
            .timeout_per_read(Some(settings.silence))
            .timeout_per_write(Some(settings.silence))
            .timeout_global(Some(settings.patience(bytes)))
            .build()
            // XRootD up to 5.5 at least knows the names of headers only as they are written here.
            .header_raw("Range", range.as_bytes());
        // Over a connection that others can listen to, a token would soon be theirs.
        if server == token_host && (parsed.scheme == "https" || parsed.is_loopback()) {
            if let Some(token) = token::bearer_token()? {
                request = request.header_raw("Authorization", format!("Bearer {token}").as_bytes());
            }
        }
        let response = request.call().map_err(|error| from_ureq(&server, error))?;
        Ok(Answer { response, server, certificate_note: self.certificate_note.clone() })
    }

    /// Whether this server is known to do one range at a time.
    pub(super) fn takes_one_range_only(&self, server: &str) -> bool {
        self.one_range_only.lock().unwrap_or_else(PoisonError::into_inner).contains(server)
    }

    /// Remembers that it does.
    pub(super) fn ask_for_one_range_only(&self, server: &str) {
        self.one_range_only.lock().unwrap_or_else(PoisonError::into_inner).insert(server.to_owned());
    }
}

impl Answer {
    pub(super) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// A header as text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// The host and port that were asked.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Where the answer came from in the end.
    pub(super) fn url(&self) -> String {
        self.response.get_uri().to_string()
    }

    pub(super) fn body(&mut self) -> BufReader<BodyReader<'_>> {
        BufReader::with_capacity(64 << 10, self.response.body_mut().as_reader())
    }

    /// What to make of an answer that is none of those that were hoped for.
    pub(super) fn refusal(&self) -> Fault {
        let status = self.response.status();
        let said = status.canonical_reason().unwrap_or("a status without a name");
        let server = &self.server;
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                Fault::new(StorageErrorKind::NotFound, format!("there is no such file at {server}"))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let mut reason = format!(
                    "{server} does not let you read it ({status}); it may want a token (BEARER_TOKEN or \
                     BEARER_TOKEN_FILE, sent over https only) or a certificate (X509_USER_CERT), or yours has expired"
                );
                if let Some(note) = &self.certificate_note {
                    reason += &format!("; {note}");
                }
                Fault::new(StorageErrorKind::Permission, reason)
            }
            _ => {
                let passes = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
                let kind = if passes { StorageErrorKind::Unreachable } else { StorageErrorKind::Refused };
                let code = status.as_u16();
                Fault::new(kind, format!("{server} refused with status {code} ({})", quoted(said.as_bytes())))
            }
        }
    }

    /// An answer that is not as the protocol wants it.
    pub(super) fn nonsense(&self, what: &str) -> Fault {
        Fault::protocol(&self.server, what)
    }

    /// Reading the body failed.
    pub(super) fn broken(&self, error: &io::Error) -> Fault {
        from_io(&self.server, error)
    }
}

const DOING: &str = "asked for a part of the file";

fn from_ureq(server: &str, error: ureq::Error) -> Fault {
    use ureq::Error;
    match error {
        Error::Io(error) => from_io(server, &error),
        Error::Timeout(_) => Fault::connection(server, DOING, &io::ErrorKind::TimedOut.into()),
        Error::HostNotFound => Fault::new(StorageErrorKind::Unreachable, format!("the host of {server} is not known")),
        Error::ConnectionFailed => Fault::connection(server, DOING, &io::ErrorKind::ConnectionRefused.into()),
        Error::Rustls(error) => tls::fault_of(server, &error),
        Error::Tls(what) => Fault::new(StorageErrorKind::Refused, format!("no secure connection to {server}: {what}")),
        Error::TooManyRedirects => {
            Fault::new(StorageErrorKind::Refused, format!("{server} redirects again and again, to no end"))
        }
        Error::RedirectFailed => Fault::protocol(server, "a redirect that leads nowhere"),
        Error::BadUri(_) | Error::Http(_) => Fault::new(StorageErrorKind::UnsupportedScheme, "this is no valid URL"),
        Error::LargeResponseHeader(..) => Fault::protocol(server, "header lines without end"),
        Error::Protocol(error) => Fault::protocol(server, &format!("what is no HTTP: {}", quoted_error(&error))),
        other => Fault::new(StorageErrorKind::Unreachable, format!("{server}: {}", quoted_error(&other))),
    }
}

fn from_io(server: &str, error: &io::Error) -> Fault {
    let inner = error.get_ref();
    if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return tls::fault_of(server, error);
    }
    if let Some(ureq::Error::Timeout(_)) = inner.and_then(|inner| inner.downcast_ref::<ureq::Error>()) {
        return Fault::connection(server, DOING, &io::ErrorKind::TimedOut.into());
    }
    if error.kind() == io::ErrorKind::InvalidData {
        return Fault::protocol(server, &quoted_error(error));
    }
    Fault::connection(server, DOING, error)
}

fn quoted_error(error: &dyn std::error::Error) -> String {
    quoted(error.to_string().as_bytes())
}
