//! Requests to HTTP servers over connections that are kept, with their redirects, tokens, certificates and deadlines.

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
    /// How many bytes the answer has at most; None if that is not known.
    pub(crate) bytes: Option<u64>,
    /// Whether the answer is to have no body.
    pub(crate) without_body: bool,
    /// The request in the trace, where one is made.
    pub(crate) traced: Option<journal::Request>,
}

/// An answer whose body is still to be read.
pub(crate) struct Answer {
    response: Response<Body>,
    /// The URL that answered, after redirects.
    url: String,
    /// Its host and port.
    host: String,
    /// The same with the server that redirected there, for messages.
    server: String,
    certificate_note: Option<String>,
    traced: Option<journal::Request>,
    /// The way to lend memory to the connection, if that receives the bytes of the answer as they are.
    loan: Option<Loan>,
}

/// A request as it is made of the first server.
struct Outgoing<'a> {
    method: &'static str,
    url: &'a str,
    headers: &'a [(&'a str, &'a str)],
    authorization: &'a dyn Authorization,
}

impl Outgoing<'_> {
    /// The same request of another URL, with the credentials that are for that.
    fn to(&self, method: &'static str, url: &str) -> Result<Builder> {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in self.headers {
            // XRootD up to 5.5 at least knows the names of headers only as they are written here.
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
        let outgoing = Outgoing { method, url: wanted.url, headers: range.as_slice(), authorization };
        let time_limit = wanted.bytes.map_or_else(|| settings.time_limit_of_list(), |bytes| settings.time_limit(bytes));
        self.send(&outgoing, (), time_limit, wanted.traced, settings)
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
        let outgoing = Outgoing { method, url, headers, authorization };
        self.send(&outgoing, (), settings.time_limit_of_list(), traced, settings)
    }

    /// Sends a form, of which no trace is made.
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

    /// Sends a request, and again to wherever its answer redirects. All of it together may take `time_limit`.
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
                    let reason = format!("{server} redirects again and again, to no end");
                    return Err(Fault::new(StorageErrorKind::Refused, reason));
                }
                let location = response.headers().get("location").map_or(&[][..], HeaderValue::as_bytes);
                let target = redirect_target(&url, location);
                url = target.ok_or_else(|| Fault::protocol(&server, "a redirect that leads nowhere"))?;
                method = if status == StatusCode::SEE_OTHER && method != "HEAD" { "GET" } else { method };
                // To its end, so that the connection is used again; one that has more to say is closed.
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

    /// Sends a request whose whole answer may take this long, with the other deadlines of the settings.
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

    /// The length of the body, where the server says it.
    pub(crate) fn length(&self) -> Option<u64> {
        self.header("content-length").and_then(|length| length.parse().ok())
    }

    /// The strong entity tag, or the time of the last change.
    pub(crate) fn entity(&self) -> Option<String> {
        let tag = self.header("etag").filter(|tag| !tag.starts_with("W/"));
        tag.or_else(|| self.header("last-modified")).map(str::to_owned)
    }

    /// Bytes of the file have come, for the trace.
    pub(crate) fn got(&mut self, bytes: u64) {
        if let Some(traced) = &mut self.traced {
            traced.got(bytes);
        }
    }

    /// The server that answered, for messages.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The URL that answered, after redirects.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Host and port of the server that answered, after redirects.
    pub(crate) fn host(&self) -> &str {
        &self.host
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

    /// Bytes of the body, in the order in which they come; 0 at its end.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.response.body_mut().as_reader().read(room)
    }

    /// Receives the bytes of one range, and checks that nothing follows them.
    pub(crate) fn fill(&mut self, read: &mut RangeRead) -> Result<()> {
        read.room_for(read.range.length).ok_or_else(Fault::no_memory)?;
        let result = self.receive(read).and_then(|()| self.read(&mut [0; 1]));
        match result {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.protocol_fault("more bytes than were requested")),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// An error if the bytes of the body are compressed, which no request allows.
    pub(crate) fn check_encoding(&self) -> Result<()> {
        const COMPRESSED: [&str; 7] = ["gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"];
        let encoding = self.header("content-encoding").unwrap_or_default().trim().to_ascii_lowercase();
        match encoding.split(',').map(str::trim).find(|one| COMPRESSED.contains(one)) {
            None => Ok(()),
            Some(one) => {
                let reason = format!(
                    "{} sends the file compressed by {one}, although the request excludes that: the server's settings \
                     must exempt these files (Content-Encoding), or copy the file to a local disk",
                    self.server
                );
                Err(Fault::new(StorageErrorKind::Refused, reason))
            }
        }
    }

    /// An error if this answer, whose body begins so, is a web page in place of a file.
    pub(crate) fn check_web_page(&self, start: &[u8], authorization: &dyn Authorization) -> Result<()> {
        if is_web_page(self.header("content-type"), start) {
            return Err(self.web_page(start, authorization));
        }
        Ok(())
    }

    fn web_page(&self, start: &[u8], authorization: &dyn Authorization) -> Fault {
        let title = title_of(start).map(|title| format!(" ({title:?})")).unwrap_or_default();
        // The query of a login page is long and may hold secrets.
        let url = without_secrets(self.url.split('?').next().unwrap_or_default());
        let reason = format!(
            "{} sent a web page{title} instead of the file, from {url}: it may be a login, for which {}; or there is \
             no such file: open the URL in a browser",
            self.server,
            authorization.advice()
        );
        Fault::new(StorageErrorKind::Permission, reason)
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
                // A file that comes from tape is accepted, and not there yet.
                let passes = status.is_server_error() || matches!(status.as_u16(), 202 | 408 | 425 | 429);
                let kind = if passes { StorageErrorKind::Unreachable } else { StorageErrorKind::Refused };
                let reason = status.canonical_reason().unwrap_or("a status without a name").to_owned();
                let (number, words) = (status.as_u16(), code.unwrap_or(reason));
                let note = self.certificate_note.as_ref().filter(|_| number == 400);
                let note = note.map(|note| format!("; {note}")).unwrap_or_default();
                let did = if status.is_success() { "did not send the file, but answered" } else { "refused" };
                let reason = format!("{server} {did} with status {number} ({}){note}", quoted(words.as_bytes()));
                let wait = self.retry_after(SystemTime::now()).filter(|_| passes);
                Fault { wait, ..Fault::new(kind, reason) }
            }
        }
    }

    /// How long the server asks to wait before the request is made again, in whole seconds: None for no time at all.
    fn retry_after(&self, now: SystemTime) -> Option<Duration> {
        let value = self.header("retry-after")?.trim();
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let wait = if is_number {
            Duration::from_secs(value.parse().unwrap_or(u64::MAX))
        } else {
            // By the clock of the server, which may be wrong.
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
