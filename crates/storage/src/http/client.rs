//! HTTP client with persistent connections, redirects, tokens, certificates and timeouts.

use std::collections::HashSet;
use std::io::{self, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use branchline_trace::journal;
use ureq::http::request::Builder;
use ureq::http::{HeaderValue, Request, Response, StatusCode};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, RustlsConnector};
use ureq::{Agent, AsSendBody, Body, BodyReader};
use ureq_proto::client::header_raw;

use super::authorization::{means_bad_keys, Authorization};
use super::connect::FirstReachable;
use super::connection_numbers::{self, Numbering};
use super::loan::Loan;
use super::proxies::{self, Proxies};
use super::redirect::redirect_target;
use super::tcp;
use super::web_page::{is_web_page, title_of};
use crate::limits::HTTP_BUFFER_BYTES;
use crate::secrets::{quoted, without_secrets};
use crate::servers::failure::{Fault, Result};
use crate::servers::tls;
use crate::servers::url::Url;
use crate::settings::Settings;
use crate::{limits, RangeRead, StorageErrorKind};

/// HTTP client with a connection pool, shared by all files of this process.
pub(crate) struct Client {
    agent: Agent,
    proxies: Proxies,
    /// Reason why the user's certificate is not sent, if any.
    certificate_note: Option<String>,
    /// Servers that do not support several ranges in one request.
    one_range_only: Mutex<HashSet<String>>,
}

/// The current client, and the process and settings for which it was created.
struct CachedClient {
    process: u32,
    fingerprint: String,
    client: Arc<Client>,
}

static CACHED_CLIENT: Mutex<Option<CachedClient>> = Mutex::new(None);

/// Returns the client of this process. A new client is created when certificates or proxies have changed.
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
        // After a fork, the connections belong to the parent process. Dropping them here would close them on the
        // servers.
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
        .max_response_header_size(limits::HTTP_HEADERS_BYTES_MAX)
        .max_idle_connections_per_host(limits::IDLE_CONNECTIONS_MAX)
        .max_idle_age(limits::IDLE_TIME_MAX)
        .accept_encoding("identity")
        .user_agent(concat!("branchline/", env!("CARGO_PKG_VERSION")))
        .build();
    let connector = ConnectProxyConnector::default().chain(FirstReachable).chain(RustlsConnector::default());
    Ok(Agent::with_parts(config, connector.chain(Numbering), DefaultResolver::default()))
}

/// A GET or HEAD request.
pub(crate) struct DataRequest<'a> {
    pub(crate) url: &'a str,
    /// Value of the `Range` header, unless the whole file is requested.
    pub(crate) range: Option<&'a str>,
    /// Maximum number of bytes in the response; None if the size is unknown.
    pub(crate) bytes: Option<u64>,
    /// Whether to send HEAD instead of GET.
    pub(crate) without_body: bool,
    /// Trace entry of the request; None if no trace is recorded.
    pub(crate) traced: Option<journal::Request>,
}

/// A response whose body has not been read yet.
pub(crate) struct Answer {
    response: Response<Body>,
    /// URL of the response, after redirects.
    url: String,
    /// Host and port of the server that answered.
    host: String,
    /// Host and port for messages, with the server that redirected the request, if any.
    server: String,
    certificate_note: Option<String>,
    traced: Option<journal::Request>,
    /// Loan of the connection, if it can receive the body directly into the reader's buffer.
    loan: Option<Loan>,
}

/// A request as sent to the first server, before any redirect.
struct Outgoing<'a> {
    method: &'static str,
    url: &'a str,
    headers: &'a [(&'a str, &'a str)],
    authorization: &'a dyn Authorization,
}

impl Outgoing<'_> {
    /// Builds the same request for another URL, with the credentials for that URL.
    fn to(&self, method: &'static str, url: &str) -> Result<Builder> {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in self.headers {
            // Header names keep their case, because XRootD treats them as case-sensitive, at least up to version 5.5.
            request = header_raw(request, name, value.as_bytes());
        }
        for (name, value) in self.authorization.headers(method, url, self.headers)? {
            request = header_raw(request, name, value.as_bytes());
        }
        Ok(request)
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 300..=303 | 307 | 308)
}

impl Client {
    /// Sends a GET or HEAD request for a file. A token is sent only to the host that the token belongs to, not to a
    /// redirect target. A signed request is bound to one host and never redirected.
    pub(crate) fn fetch(
        &self,
        wanted: DataRequest<'_>,
        authorization: &dyn Authorization,
        settings: &Settings,
    ) -> Result<Answer> {
        let method = if wanted.without_body { "HEAD" } else { "GET" };
        let range = wanted.range.map(|range| ("Range", range));
        let outgoing = Outgoing { method, url: wanted.url, headers: range.as_slice(), authorization };
        let time_limit = wanted.bytes.map_or_else(|| settings.time_limit_of_list(), |bytes| settings.time_limit(bytes));
        self.send(&outgoing, (), time_limit, wanted.traced, settings)
    }

    /// Sends a request with these headers and no body. The time limit is that for responses of unknown size.
    pub(crate) fn call(
        &self,
        method: &'static str,
        url: &str,
        headers: &[(&str, &str)],
        authorization: &dyn Authorization,
        traced: Option<journal::Request>,
        settings: &Settings,
    ) -> Result<Answer> {
        let outgoing = Outgoing { method, url, headers, authorization };
        self.send(&outgoing, (), settings.time_limit_of_list(), traced, settings)
    }

    /// Sends a form with POST. The request is not traced.
    pub(crate) fn post(
        &self,
        url: &str,
        form: &str,
        authorization: &dyn Authorization,
        settings: &Settings,
    ) -> Result<Answer> {
        let headers = &[("Content-Type", "application/x-www-form-urlencoded")];
        let outgoing = Outgoing { method: "POST", url, headers, authorization };
        self.send(&outgoing, form, settings.time_limit_of_list(), None, settings)
    }

    /// Sends a request and follows redirects, all within `time_limit`.
    fn send(
        &self,
        outgoing: &Outgoing<'_>,
        body: impl AsSendBody + Copy,
        time_limit: Duration,
        mut traced: Option<journal::Request>,
        settings: &Settings,
    ) -> Result<Answer> {
        let deadline = Instant::now() + time_limit;
        let first = Url::parse(outgoing.url)?.address();
        let redirects_max = if outgoing.authorization.follows_redirects() { limits::REDIRECTS_MAX } else { 0 };
        let (mut method, mut url) = (outgoing.method, outgoing.url.to_owned());
        for redirects_count in 0..=redirects_max {
            let host = Url::parse(&url)?.address();
            let server = if host == first { host.clone() } else { format!("{host} (redirected by {first})") };
            let request = outgoing.to(method, &url)?.body(body).map_err(|_| bad_url())?;
            connection_numbers::forget_last();
            tcp::forget_last();
            let left = deadline.saturating_duration_since(Instant::now());
            let response = self.send_once(request, &url, left, settings);
            if let Some(traced) = &mut traced {
                traced.over(connection_numbers::last());
            }
            let mut response = response.map_err(|error| from_ureq(&server, error))?;
            let status = response.status();
            if is_redirect(status) && redirects_max > 0 {
                if redirects_count == redirects_max {
                    let reason = format!("too many redirects from {server}");
                    return Err(Fault::new(StorageErrorKind::Refused, reason));
                }
                let location = response.headers().get("location").map_or(&[][..], HeaderValue::as_bytes);
                let target = redirect_target(&url, location);
                url = target.ok_or_else(|| Fault::protocol(&server, "a redirect without a valid target"))?;
                method = if status == StatusCode::SEE_OTHER && method != "HEAD" { "GET" } else { method };
                // A short body is read completely, so that the connection can be reused. A connection with a longer
                // body is closed.
                let short = response.body_mut().as_reader().take(limits::PART_LINE_BYTES_MAX as u64);
                let _ = io::copy(&mut { short }, &mut io::sink());
                continue;
            }
            if let Some(traced) = &mut traced {
                traced.first_byte();
                traced.ended(if status.is_success() { "ok".to_owned() } else { status.as_str().to_owned() });
            }
            let (loan, certificate_note) = (tcp::last(), self.certificate_note.clone());
            return Ok(Answer { response, url, host, server, certificate_note, traced, loan });
        }
        Err(Fault::new(StorageErrorKind::Internal, "a request was never sent"))
    }

    /// Sends a request without following redirects. The response must be complete within `time_limit`; the other
    /// timeouts come from the settings.
    fn send_once<S: AsSendBody>(
        &self,
        request: Request<S>,
        url: &str,
        time_limit: Duration,
        settings: &Settings,
    ) -> std::result::Result<Response<Body>, ureq::Error> {
        let request = self
            .agent
            .configure_request(request)
            .proxy(self.proxies.of(url))
            .allow_non_standard_methods(true)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(settings.connect_timeout))
            .timeout_resolve(Some(settings.connect_timeout))
            .timeout_recv_response(Some(settings.silence))
            .timeout_per_read(Some(settings.silence))
            .timeout_per_write(Some(settings.silence))
            .timeout_global(Some(time_limit))
            .build();
        self.agent.run(request)
    }

    /// Returns whether this server is known to support only one range per request.
    pub(crate) fn takes_one_range_only(&self, server: &str) -> bool {
        self.one_range_only.lock().unwrap_or_else(PoisonError::into_inner).contains(server)
    }

    /// Remembers that this server supports only one range per request.
    pub(crate) fn use_one_range_only(&self, server: &str) {
        self.one_range_only.lock().unwrap_or_else(PoisonError::into_inner).insert(server.to_owned());
    }
}

fn bad_url() -> Fault {
    Fault::new(StorageErrorKind::UnsupportedScheme, "this is not a valid URL")
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// Returns the value of a header; None if the header is missing or contains non-ASCII characters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns the length of the body, if the server reports it.
    pub(crate) fn length(&self) -> Option<u64> {
        self.header("content-length").and_then(|length| length.parse().ok())
    }

    /// Returns the strong entity tag, or the modification time if there is no strong entity tag.
    pub(crate) fn entity(&self) -> Option<String> {
        let tag = self.header("etag").filter(|tag| !tag.starts_with("W/"));
        tag.or_else(|| self.header("last-modified")).map(str::to_owned)
    }

    /// Records the number of received bytes in the trace.
    pub(crate) fn got(&mut self, bytes: u64) {
        if let Some(traced) = &mut self.traced {
            traced.got(bytes);
        }
    }

    /// Returns the name of the server that answered, for messages.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Returns the URL of the response, after redirects.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the host and port of the server that answered, after redirects.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn body(&mut self) -> BufReader<BodyReader<'_>> {
        BufReader::with_capacity(64 << 10, self.response.body_mut().as_reader())
    }

    /// Receives the body into the read's buffer, without an intermediate copy where possible.
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

    /// Reads the next bytes of the body; returns 0 at the end of the body.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.response.body_mut().as_reader().read(room)
    }

    /// Receives the bytes of one range, and checks that the body ends after these bytes.
    pub(crate) fn fill(&mut self, read: &mut RangeRead) -> Result<()> {
        read.room_for(read.range.length).ok_or_else(Fault::no_memory)?;
        let result = self.receive(read).and_then(|()| self.read(&mut [0; 1]));
        match result {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.protocol_fault("more bytes than requested")),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// Fails if the body is compressed, since no request allows compression.
    pub(crate) fn check_encoding(&self) -> Result<()> {
        const COMPRESSED: [&str; 7] = ["gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"];
        let encoding = self.header("content-encoding").unwrap_or_default().trim().to_ascii_lowercase();
        match encoding.split(',').map(str::trim).find(|one| COMPRESSED.contains(one)) {
            None => Ok(()),
            Some(one) => {
                let reason = format!(
                    "{} sent the file with Content-Encoding {one}, which the request excludes: disable compression for \
                     these files on the server, or copy the file to a local disk",
                    self.server
                );
                Err(Fault::new(StorageErrorKind::Refused, reason))
            }
        }
    }

    /// Fails if this response is a web page instead of the file. `start` contains the first bytes of the body.
    pub(crate) fn check_web_page(&self, start: &[u8], authorization: &dyn Authorization) -> Result<()> {
        if is_web_page(self.header("content-type"), start) {
            return Err(self.web_page(start, authorization));
        }
        Ok(())
    }

    fn web_page(&self, start: &[u8], authorization: &dyn Authorization) -> Fault {
        let title = title_of(start).map(|title| format!(" ({title:?})")).unwrap_or_default();
        // The query is omitted, because the query of a login page is long and may contain secrets.
        let url = without_secrets(self.url.split('?').next().unwrap_or_default());
        let reason = format!(
            "{} sent a web page{title} instead of the file, from {url}: it may be a login page, for which {}; or the \
             file does not exist: open the URL in a browser",
            self.server,
            authorization.advice()
        );
        Fault::new(StorageErrorKind::Permission, reason)
    }

    /// Builds the error for an unexpected status code.
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
                // Status 202 means that the file is being staged from tape.
                let passes = status.is_server_error() || matches!(status.as_u16(), 202 | 408 | 425 | 429);
                let kind = if passes { StorageErrorKind::Unreachable } else { StorageErrorKind::Refused };
                let reason = status.canonical_reason().unwrap_or("a status without a name").to_owned();
                let (number, words) = (status.as_u16(), code.unwrap_or(reason));
                let note = self.certificate_note.as_ref().filter(|_| number == 400);
                let note = note.map(|note| format!("; {note}")).unwrap_or_default();
                let did = if status.is_success() { "sent no file, but answered" } else { "refused the request" };
                let reason = format!("{server} {did} with status {number} ({}){note}", quoted(words.as_bytes()));
                let wait = self.retry_after(SystemTime::now()).filter(|_| passes);
                Fault { wait, ..Fault::new(kind, reason) }
            }
        }
    }

    /// Returns how long the server asks the client to wait before a retry, in whole seconds; None if the server does
    /// not ask.
    fn retry_after(&self, now: SystemTime) -> Option<Duration> {
        let value = self.header("retry-after")?.trim();
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let wait = if is_number {
            Duration::from_secs(value.parse().unwrap_or(u64::MAX))
        } else {
            // Compare the date with the server's own clock, because that clock may be wrong.
            let date = |text: &str| httpdate::parse_http_date(text.trim()).ok();
            let now = self.header("date").and_then(date).unwrap_or(now);
            Duration::from_secs(date(value)?.duration_since(now).ok()?.as_secs())
        };
        Some(wait).filter(|wait| !wait.is_zero())
    }

    fn forbidden(&self, said: &str, authorization: &dyn Authorization) -> String {
        let mut reason = format!("{} does not let you read it{said}; {}", self.server, authorization.advice());
        if let Some(note) = &self.certificate_note {
            reason += &format!("; {note}");
        }
        reason
    }

    /// Returns the error code of an S3 response, such as `NoSuchBucket` in `<Error><Code>NoSuchBucket</Code>...`; None
    /// if the response has no error code.
    pub(crate) fn error_code(&mut self) -> Option<String> {
        if !self.header("content-type").is_some_and(|kind| kind.contains("xml")) {
            return None;
        }
        let mut text = Vec::new();
        // A truncated body is sufficient, because the code only improves the message.
        let _ = self.body().take(limits::PART_LINE_BYTES_MAX as u64).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let (_, rest) = text.split_once("<Code>")?;
        let (code, _) = rest.split_once("</Code>")?;
        let is_word = !code.is_empty() && code.len() < 100 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_word.then(|| code.to_owned())
    }

    /// Builds the error for a response that violates the protocol.
    pub(crate) fn protocol_fault(&self, what: &str) -> Fault {
        Fault::protocol(&self.server, what)
    }

    /// Builds the error for a file that has changed since it was opened.
    pub(crate) fn changed(&self, how: &str) -> Fault {
        let reason = format!("the file at {} was changed since it was opened: {how}", self.server);
        Fault::new(StorageErrorKind::Changed, reason)
    }

    /// Builds the error for a failure while reading the body.
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
        Error::HostNotFound => Fault::new(StorageErrorKind::Unreachable, format!("the host of {server} is unknown")),
        Error::ConnectionFailed => Fault::connection(server, DOING, &io::ErrorKind::ConnectionRefused.into()),
        Error::Rustls(error) => tls::fault_of(server, &error),
        Error::Tls(what) => Fault::new(StorageErrorKind::Refused, format!("no secure connection to {server}: {what}")),
        Error::BadUri(_) | Error::Http(_) => Fault::new(StorageErrorKind::UnsupportedScheme, "this is not a valid URL"),
        Error::LargeResponseHeader(..) => Fault::protocol(server, "too many header lines"),
        Error::Protocol(error) => Fault::protocol(server, &format!("invalid HTTP: {}", quoted_error(&error))),
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
