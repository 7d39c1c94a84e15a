//! Requests to HTTP servers over connections that are kept, with their redirects, tokens, certificates and deadlines.

use std::collections::HashSet;
use std::io::{self, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use branchline_trace::journal;
use ureq::http::request::Builder;
use ureq::http::{Request, Response, StatusCode};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, RustlsConnector};
use ureq::{Agent, AsSendBody, Body, BodyReader, ResponseExt};
use ureq_proto::client::header_raw;

use super::authorization::{means_bad_keys, Authorization};
use super::connect::FirstReachable;
use super::connection_numbers::{self, Numbering};
use super::loan::Loan;
use super::proxies::{self, Proxies};
use super::tcp;
use crate::limits::HTTP_BUFFER_BYTES;
use crate::secrets::quoted;
use crate::servers::failure::{Fault, Result};
use crate::servers::tls;
use crate::servers::url::Url;
use crate::settings::Settings;
use crate::{limits, RangeRead, StorageErrorKind};

/// The connections of this process.
pub(crate) struct Client {
    agent: Agent,
    proxies: Proxies,
    /// Why the user's certificate is not shown, if there is one.
    certificate_note: Option<String>,
    /// Servers that answer a request for several ranges with something else.
    one_range_only: Mutex<HashSet<String>>,
}

/// The client, and what it was made for.
struct CachedClient {
    process: u32,
    fingerprint: String,
    client: Arc<Client>,
}

static CACHED_CLIENT: Mutex<Option<CachedClient>> = Mutex::new(None);

/// The client of this process. Another one is made when certificates or proxies have changed.
pub(crate) fn client() -> Result<Arc<Client>> {
    let (process, fingerprint) = (std::process::id(), tls::fingerprint() + &proxies::fingerprint());
    let mut cached = CACHED_CLIENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(one) = cached.as_ref().filter(|one| one.process == process && one.fingerprint == fingerprint) {
        return Ok(Arc::clone(&one.client));
    }
    let own = tls::own();
    let (agent, certificate_note) = (new_agent(own.identity)?, own.note);
    let client = Arc::new(Client {
        agent,
        proxies: Proxies::from_environment(),
        certificate_note,
        one_range_only: Mutex::default(),
    });
    let new = CachedClient { process, fingerprint, client: Arc::clone(&client) };
    if let Some(old) = cached.replace(new).filter(|old| old.process != process) {
        // After a fork its connections are the parent's: closing them here would end them at the servers.
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
    let connector = ConnectProxyConnector::default().chain(FirstReachable).chain(RustlsConnector::default());
    Ok(Agent::with_parts(config, connector.chain(Numbering), DefaultResolver::default()))
}

/// The content of a request.
pub(crate) struct DataRequest<'a> {
    pub(crate) url: &'a str,
    /// The value of the header, if not all is wanted.
    pub(crate) range: Option<&'a str>,
    /// How many bytes the answer may have.
    pub(crate) bytes: u64,
    /// Whether the answer is to have no body.
    pub(crate) without_body: bool,
    /// The request in the trace, where one is made.
    pub(crate) traced: Option<journal::Request>,
}

/// An answer whose body is still to be read.
pub(crate) struct Answer {
    response: Response<Body>,
    server: String,
    certificate_note: Option<String>,
    traced: Option<journal::Request>,
    /// The way to lend memory to the connection, if that receives the bytes of the answer as they are.
    loan: Option<Loan>,
}

impl Client {
    /// Makes a GET or HEAD request. A token goes to its own host, and not to where that redirects to; a request
    /// that is signed is for one host, and is not redirected.
    pub(crate) fn fetch(
        &self,
        wanted: DataRequest<'_>,
        authorization: &dyn Authorization,
        settings: &Settings,
    ) -> Result<Answer> {
        let method = if wanted.without_body { "HEAD" } else { "GET" };
        let range = wanted.range.map(|range| ("Range", range));
        let request =
            self.request(method, wanted.url, range.as_slice(), authorization)?.body(()).map_err(|_| bad_url())?;
        self.send(request, authorization, settings.time_limit(wanted.bytes), wanted.traced, settings)
    }

    /// Sends a request of a method other than GET and HEAD, with these header lines and no body.
    pub(crate) fn call(
        &self,
        method: &'static str,
        url: &str,
        headers: &[(&str, &str)],
        authorization: &dyn Authorization,
        traced: Option<journal::Request>,
        settings: &Settings,
    ) -> Result<Answer> {
        let request = self.request(method, url, headers, authorization)?.body(()).map_err(|_| bad_url())?;
        self.send(request, authorization, settings.time_limit_of_list(), traced, settings)
    }

    /// Sends a form, of which no trace is made.
    pub(crate) fn post(
        &self,
        url: &str,
        form: &str,
        authorization: &dyn Authorization,
        settings: &Settings,
    ) -> Result<Answer> {
        let headers = [("Content-Type", "application/x-www-form-urlencoded")];
        let request = self.request("POST", url, &headers, authorization)?.body(form).map_err(|_| bad_url())?;
        self.send(request, authorization, settings.time_limit_of_list(), None, settings)
    }

    fn request(
        &self,
        method: &'static str,
        url: &str,
        headers: &[(&str, &str)],
        authorization: &dyn Authorization,
    ) -> Result<Builder> {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            // XRootD up to 5.5 at least knows the names of headers only as they are written here.
            request = header_raw(request, name, value.as_bytes());
        }
        for (name, value) in authorization.headers(method, url, headers)? {
            request = header_raw(request, name, value.as_bytes());
        }
        Ok(request)
    }

    /// Sends a request whose whole answer may take this long, with the other deadlines of the settings.
    fn send<S: AsSendBody>(
        &self,
        request: Request<S>,
        authorization: &dyn Authorization,
        time_limit: Duration,
        mut traced: Option<journal::Request>,
        settings: &Settings,
    ) -> Result<Answer> {
        let server = Url::parse(&request.uri().to_string())?.address();
        let proxy = self.proxies.of(&request.uri().to_string());
        let redirects = if authorization.follows_redirects() { limits::REDIRECTS_MAX } else { 0 };
        let request = self
            .agent
            .configure_request(request)
            .proxy(proxy)
            .allow_non_standard_methods(true)
            .max_redirects(redirects)
            .max_redirects_will_error(redirects > 0)
            .timeout_connect(Some(settings.connect_timeout))
            .timeout_resolve(Some(settings.connect_timeout))
            .timeout_recv_response(Some(settings.silence))
            .timeout_per_read(Some(settings.silence))
            .timeout_per_write(Some(settings.silence))
            .timeout_global(Some(time_limit))
            .build();
        connection_numbers::forget_last();
        tcp::forget_last();
        let response = self.agent.run(request);
        if let Some(traced) = &mut traced {
            traced.over(connection_numbers::last());
        }
        let response = response.map_err(|error| from_ureq(&server, error))?;
        if let Some(traced) = &mut traced {
            traced.first_byte();
            let status = response.status();
            traced.ended(if status.is_success() { "ok".to_owned() } else { status.as_str().to_owned() });
        }
        let loan = tcp::last();
        Ok(Answer { response, server, certificate_note: self.certificate_note.clone(), traced, loan })
    }

    /// Whether this server answered a request for several ranges with one.
    pub(crate) fn takes_one_range_only(&self, server: &str) -> bool {
        self.one_range_only.lock().unwrap_or_else(PoisonError::into_inner).contains(server)
    }

    /// Remembers that it does.
    pub(crate) fn use_one_range_only(&self, server: &str) {
        self.one_range_only.lock().unwrap_or_else(PoisonError::into_inner).insert(server.to_owned());
    }
}

fn bad_url() -> Fault {
    Fault::new(StorageErrorKind::UnsupportedScheme, "this is no valid URL")
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// Bytes of the file have come, for the trace.
    pub(crate) fn got(&mut self, bytes: u64) {
        if let Some(traced) = &mut self.traced {
            traced.got(bytes);
        }
    }

    /// Host and port of the request.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The URL that answered, after redirections.
    pub(crate) fn url(&self) -> String {
        self.response.get_uri().to_string()
    }

    /// Host and port of the server that answered, after redirections.
    pub(crate) fn answering_server(&self) -> String {
        let uri = self.response.get_uri();
        let port = uri.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}{port}", uri.host().unwrap_or_default())
    }

    pub(crate) fn body(&mut self) -> BufReader<BodyReader<'_>> {
        BufReader::with_capacity(64 << 10, self.response.body_mut().as_reader())
    }

    /// Receives these bytes, which are the body, straight to their place where that is possible.
    pub(crate) fn receive(&mut self, read: &mut RangeRead) -> io::Result<()> {
        let bytes = self.header("content-length").and_then(|length| length.parse().ok());
        let is_plain = bytes == Some(read.range.length) && self.header("transfer-encoding").is_none();
        let is_worth_it = read.range.length >= HTTP_BUFFER_BYTES as u64;
        let loan = self.loan.take().filter(|_| is_plain && is_worth_it);
        let mut body = self.response.body_mut().as_reader();
        match loan {
            Some(loan) => loan.receive(read, &mut body),
            None => body.read_exact(read.room()),
        }
    }

    /// The error for an answer with another status than the expected ones.
    pub(crate) fn refusal(&mut self, authorization: &dyn Authorization) -> Fault {
        let status = self.response.status();
        let code = self.error_code();
        let said = code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
        let server = &self.server;
        if code.as_deref().is_some_and(means_bad_keys) {
            return Fault::new(StorageErrorKind::Permission, self.forbidden(&said, authorization));
        }
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                Fault::new(StorageErrorKind::NotFound, format!("there is no such file at {server}{said}"))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let said = if said.is_empty() { format!(" ({status})") } else { said };
                Fault::new(StorageErrorKind::Permission, self.forbidden(&said, authorization))
            }
            _ => {
                let passes = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
                let kind = if passes { StorageErrorKind::Unreachable } else { StorageErrorKind::Refused };
                let reason = status.canonical_reason().unwrap_or("a status without a name").to_owned();
                let (number, words) = (status.as_u16(), code.unwrap_or(reason));
                let note = self.certificate_note.as_ref().filter(|_| number == 400);
                let note = note.map(|note| format!("; {note}")).unwrap_or_default();
                Fault::new(kind, format!("{server} refused with status {number} ({}){note}", quoted(words.as_bytes())))
            }
        }
    }

    fn forbidden(&self, said: &str, authorization: &dyn Authorization) -> String {
        let mut reason = format!("{} does not let you read it{said}; {}", self.server, authorization.advice());
        if let Some(note) = &self.certificate_note {
            reason += &format!("; {note}");
        }
        reason
    }

    /// The word for what is wrong in an answer of S3, `<Error><Code>NoSuchBucket</Code>...`, if it has one.
    pub(crate) fn error_code(&mut self) -> Option<String> {
        if !self.header("content-type").is_some_and(|kind| kind.contains("xml")) {
            return None;
        }
        let mut text = Vec::new();
        // A part of it is enough: it only makes the message better.
        let _ = self.body().take(limits::PART_LINE_BYTES_MAX as u64).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let (_, rest) = text.split_once("<Code>")?;
        let (code, _) = rest.split_once("</Code>")?;
        let is_word = !code.is_empty() && code.len() < 100 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_word.then(|| code.to_owned())
    }

    /// An answer that is not as the protocol wants it.
    pub(crate) fn protocol_fault(&self, what: &str) -> Fault {
        Fault::protocol(&self.server, what)
    }

    /// The file is another one than was opened.
    pub(crate) fn changed(&self, how: &str) -> Fault {
        let reason = format!("the file at {} was changed since it was opened: {how}", self.server);
        Fault::new(StorageErrorKind::Changed, reason)
    }

    /// Reading the body failed.
    pub(crate) fn broken(&mut self, error: &io::Error) -> Fault {
        if let Some(traced) = &mut self.traced {
            traced.ended("broken");
        }
        from_io(&self.server, error)
    }
}

const DOING: &str = "in a request over HTTP";

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
