//! A connection after login, with its requests and responses, waits, and open files.

use std::collections::{HashMap, HashSet};
use std::sync::Weak;
use std::time::{Duration, Instant};

use branchline_trace::environment::STORAGE_WAIT;

use super::link::Link;
use super::server::Server;
use super::streams::{BoundLink, Streams};
use super::wire::{self, number, Header, Opened, Request, Target};
use crate::limits::{ANSWER_BYTES_MAX, ATTENTIONS_MAX, READV_RANGES, READV_RANGE_BYTES};
use crate::servers::failure::{Fault, Result};
use crate::servers::failure_counts::note_wait;
use crate::settings::Settings;
use crate::StorageErrorKind;

/// A server's limits for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestLimits {
    /// Maximum number of ranges in a vector read.
    pub(super) ranges_max: usize,
    /// Maximum length of each range in a vector read.
    pub(super) range_bytes_max: u32,
    /// Whether the server supports reads with checksums.
    pub(super) pages: bool,
}

/// A file that stays open on a connection until no reader holds the file.
struct OpenFile {
    opened: Opened,
    holder: Weak<()>,
}

/// A connection after login. Only one thread at a time uses a connection.
pub(super) struct Session {
    pub(super) link: Link,
    pub(super) limits: RequestLimits,
    /// Whether the server is a data server, which stores files itself, rather than a redirector.
    pub(super) is_data_server: bool,
    /// Whether the connection can no longer be used, because it failed, or because unwanted responses may still arrive.
    pub(super) is_broken: bool,
    pub(super) last_used: Instant,
    /// Maximum wait that the server may request.
    pub(super) wait_max: Duration,
    /// Name of the storage element for which waits are counted.
    pub(super) element: String,
    /// Requests that the next connection to this server may send early.
    pub(super) early_requests: EarlyRequests,
    /// Session ID, which is used to bind data connections to this session.
    pub(super) login: [u8; 16],
    pub(super) streams: Streams,
    next_stream: u16,
    /// Stream on which the response with the server's limits will arrive; None once the limits have arrived.
    limits_due: Option<u16>,
    /// Streams whose responses will be ignored.
    pub(super) forgotten: HashSet<u16>,
    files: HashMap<u64, OpenFile>,
}

/// Requests that the client sends before the responses to earlier requests have arrived. Each early request saves a
/// round trip. If the server requires another step first, the client reconnects with fewer early requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum EarlyRequests {
    /// No early requests, because the server requires TLS.
    Nothing,
    /// Only the login, because the server requires authentication after the login.
    Login,
    /// The login and the caller's first request. Sufficient for most servers, which require neither TLS nor
    /// authentication.
    #[default]
    LoginAndFirst,
}

/// Properties of a server that were learned from earlier connections.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KnownServer {
    pub(super) early_requests: Option<EarlyRequests>,
    /// The server's limits for one request; None if not yet known.
    pub(super) limits: Option<RequestLimits>,
}

/// Complete response to a request other than a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Done(Vec<u8>),
    /// The server requests more credentials.
    MoreCredentials(Vec<u8>),
    Redirect(Target),
}

impl Session {
    /// Requests the server's limits without waiting for the response, which arrives together with the response to the
    /// open request.
    pub(super) fn request_limits(&mut self) -> Result<()> {
        self.limits_due = Some(self.send(&mut Request::settings("readv_iov_max readv_ior_max"))?);
        Ok(())
    }

    /// Returns the server's limits; None until they have arrived.
    pub(super) fn known_limits(&self) -> Option<RequestLimits> {
        self.limits_due.is_none().then_some(self.limits)
    }

    /// Creates a session over a connection that has not logged in yet.
    pub(super) fn over(link: Link, settings: &Settings) -> Self {
        Self {
            link,
            limits: RequestLimits { ranges_max: READV_RANGES, range_bytes_max: READV_RANGE_BYTES, pages: false },
            is_data_server: false,
            is_broken: false,
            last_used: Instant::now(),
            wait_max: settings.wait_max,
            element: settings.element.clone(),
            early_requests: EarlyRequests::default(),
            login: [0; 16],
            streams: Streams::default(),
            next_stream: 1,
            limits_due: None,
            forgotten: HashSet::new(),
            files: HashMap::new(),
        }
    }

    /// Waits until the server's limits for one request have arrived.
    pub(super) fn learn_limits(&mut self, deadline: Instant) -> Result<()> {
        for _ in 0..ATTENTIONS_MAX {
            if self.limits_due.is_none() {
                return Ok(());
            }
            if self.next_for_caller(deadline)?.is_some() {
                return Err(self.protocol_fault("an answer to another request"));
            }
        }
        Err(self.protocol_fault("too many unsolicited messages"))
    }

    /// Handles the response with the server's limits. If the response contains no limits, the protocol's defaults are
    /// kept.
    fn take_limits(&mut self, header: Header, deadline: Instant) -> Result<()> {
        let answer = self.body(header.length, deadline)?;
        match header.status {
            // The server will send the response later.
            wire::WAIT_FOR_ANSWER => return Ok(()),
            // The limits are two numbers, which fit into one part. A response in several parts is something else:
            // ignore the rest.
            wire::OK_SO_FAR => drop(self.forgotten.insert(header.stream)),
            wire::OK => {
                let text = String::from_utf8_lossy(&answer);
                let number_in = |line: &str| line.trim().parse::<u32>().ok().filter(|one| *one > 0);
                let mut lines = text.split(['\n', '\0']).map(number_in);
                if let Some(Some(ranges)) = lines.next() {
                    self.limits.ranges_max = self.limits.ranges_max.min(ranges as usize);
                }
                if let Some(Some(bytes)) = lines.next() {
                    self.limits.range_bytes_max = bytes;
                }
            }
            _ => {}
        }
        self.limits_due = None;
        Ok(())
    }

    /// Sends a request, and returns the stream on which the response will arrive.
    pub(super) fn send(&mut self, request: &mut Request) -> Result<u16> {
        let stream = self.next_stream;
        self.next_stream = if stream == u16::MAX { 1 } else { stream + 1 };
        // After all stream IDs have been used, a stream may be reused although its ignored response never arrived.
        self.forgotten.remove(&stream);
        self.resend(request, stream)?;
        Ok(stream)
    }

    /// Sends a request on the given stream, for example again after a wait that the server requested.
    pub(super) fn resend(&mut self, request: &mut Request, stream: u16) -> Result<()> {
        let sent = self.link.send(request.on_stream(stream));
        self.is_broken |= sent.is_err();
        sent
    }

    /// Returns the header of the next response that the caller must handle. A deferred response is unwrapped from its
    /// attention message.
    pub(super) fn next_header(&mut self, deadline: Instant) -> Result<Header> {
        for _ in 0..ATTENTIONS_MAX {
            if let Some(header) = self.next_for_caller(deadline)? {
                return Ok(header);
            }
        }
        Err(self.protocol_fault("too many unsolicited messages"))
    }

    /// Receives a message, and returns its header. Returns None if the session has handled the message itself.
    fn next_for_caller(&mut self, deadline: Instant) -> Result<Option<Header>> {
        if let Err(fault) = self.streams.choose(&self.link, deadline) {
            self.is_broken = true;
            return Err(fault);
        }
        let mut bytes = [0; wire::HEADER_BYTES];
        self.receive(&mut bytes, deadline)?;
        let mut header = Header::parse(bytes);
        if header.status == wire::ATTENTION {
            match self.attention(header.length, deadline)? {
                Some(late) => header = late,
                None => return Ok(None),
            }
        }
        if self.limits_due == Some(header.stream) {
            self.take_limits(header, deadline)?;
        } else if self.forgotten.contains(&header.stream) {
            self.body(header.length, deadline)?;
            if header.status != wire::OK_SO_FAR {
                self.forgotten.remove(&header.stream);
            }
        } else {
            return Ok(Some(header));
        }
        Ok(None)
    }

    /// Handles an attention message. Returns the header of a deferred response; skips all other messages and returns
    /// None.
    fn attention(&mut self, length: u32, deadline: Instant) -> Result<Option<Header>> {
        const BEFORE: u32 = 16;
        let mut kind = [0; 4];
        if length < 4 {
            self.body(length, deadline)?;
            return Ok(None);
        }
        self.receive(&mut kind, deadline)?;
        if u32::from_be_bytes(kind) != wire::LATE_ANSWER {
            self.body(length - 4, deadline)?;
            return Ok(None);
        }
        let mut rest = [0; 4 + wire::HEADER_BYTES];
        if length < BEFORE {
            return Err(self.protocol_fault("a deferred response that is too short"));
        }
        self.receive(&mut rest, deadline)?;
        let [_, _, _, _, header @ ..] = rest;
        let header = Header::parse(header);
        if header.length != length - BEFORE {
            return Err(self.protocol_fault("a deferred response with an inconsistent length"));
        }
        Ok(Some(header))
    }

    /// Opens the configured number of data connections, unless this was already done. Only the first connection is used
    /// over TLS, or if the server does not support data connections.
    pub(super) fn bind_streams(&mut self, server: &Server, settings: &Settings) {
        if !self.link.is_secure() {
            let login = self.login;
            self.streams.open(settings.streams, || Self::bound(server, settings, login));
        }
    }

    /// Opens a data connection, and binds it to the session with ID `login`.
    fn bound(server: &Server, settings: &Settings, login: [u8; 16]) -> Result<BoundLink> {
        let mut session = Self::over(Link::connect(server, settings)?, settings);
        let deadline = Instant::now() + settings.time_limit(0);
        session.link.send(&wire::HANDSHAKE)?;
        session.forgotten.insert(0);
        let mut protocol = Request::protocol(false);
        let stream = session.send(&mut protocol)?;
        let mut bind = Request::bind(login);
        let bind_stream = session.send(&mut bind)?;
        session.answer_to(&mut protocol, stream, deadline)?;
        let bound = session.answer_to(&mut bind, bind_stream, deadline)?;
        let path = session.done(bound)?.first().copied().filter(|path| *path > 0);
        let path = path.ok_or_else(|| session.protocol_fault("no path"))?;
        Ok(BoundLink { link: session.link, path })
    }

    /// Returns the ID of the connection on which the next response should arrive, in round-robin order.
    pub(super) fn next_path(&mut self) -> u8 {
        self.streams.next()
    }

    /// Fills `room` with received bytes. After a failure, the connection is marked as broken.
    pub(super) fn receive(&mut self, room: &mut [u8], deadline: Instant) -> Result<()> {
        let received = self.streams.chosen().unwrap_or(&mut self.link).receive(room, deadline);
        self.is_broken |= received.is_err();
        received
    }

    /// Receives the body of a response that is not file data.
    pub(super) fn body(&mut self, length: u32, deadline: Instant) -> Result<Vec<u8>> {
        self.body_up_to(ANSWER_BYTES_MAX as usize, length, deadline)
    }

    fn body_up_to(&mut self, bytes_max: usize, length: u32, deadline: Instant) -> Result<Vec<u8>> {
        if length as usize > bytes_max {
            return Err(self.protocol_fault("a response that is too long"));
        }
        let mut body = vec![0; length as usize];
        self.receive(&mut body, deadline)?;
        Ok(body)
    }

    /// Builds the failure for a server that violated the protocol. Marks the connection as broken, because the
    /// following bytes cannot be interpreted.
    pub(super) fn protocol_fault(&mut self, what: &str) -> Fault {
        self.is_broken = true;
        Fault::protocol(&self.link.server, what)
    }

    /// Sends a request, and waits for the complete response.
    pub(super) fn exchange(&mut self, mut request: Request, deadline: Instant) -> Result<Answer> {
        let stream = self.send(&mut request)?;
        self.answer_to(&mut request, stream, deadline)
    }

    /// Waits for the complete response to a request that was sent on `stream`.
    pub(super) fn answer_to(&mut self, request: &mut Request, stream: u16, mut deadline: Instant) -> Result<Answer> {
        let wait_end = Instant::now() + self.wait_max;
        let bytes_max = request.answer_bytes_max();
        let mut received: Vec<u8> = Vec::new();
        loop {
            let header = self.next_header(deadline)?;
            if header.stream != stream {
                return Err(self.protocol_fault("an answer to another request"));
            }
            let body = self.body_up_to(bytes_max, header.length, deadline)?;
            match header.status {
                wire::OK | wire::OK_SO_FAR => {
                    received.extend(body);
                    if header.status == wire::OK {
                        return Ok(Answer::Done(received));
                    }
                    if received.len() > bytes_max {
                        return Err(self.protocol_fault("a response that is too long"));
                    }
                }
                wire::AUTH_MORE => return Ok(Answer::MoreCredentials(body)),
                wire::ERROR => return Err(wire::fault_of(&self.link.server, &body)),
                wire::REDIRECT => {
                    let target = Target::parse(&body);
                    return target.map(Answer::Redirect).ok_or_else(|| self.protocol_fault("an invalid redirect"));
                }
                wire::WAIT if request.takes_no_wait() => {
                    let reason = format!("{} asks to wait", self.link.server);
                    return Err(Fault::new(StorageErrorKind::Timeout, reason).final_for_now());
                }
                wire::WAIT => {
                    deadline += self.wait(&body, wait_end)?;
                    self.resend(request, stream)?;
                }
                wire::WAIT_FOR_ANSWER => {
                    let pause = self.announced_wait(&body, wait_end)?;
                    self.link.allow_silence(pause)?;
                    deadline += pause;
                }
                _ => return Err(self.protocol_fault("a response of an unknown kind")),
            }
        }
    }

    /// Returns the wait that the server requests, or an error if the wait would end after `wait_end`.
    pub(super) fn announced_wait(&mut self, body: &[u8], wait_end: Instant) -> Result<Duration> {
        let seconds = number(body, 0).ok_or_else(|| self.protocol_fault("a wait without a time"))?;
        let pause = Duration::from_secs(u64::from(seconds));
        if Instant::now() + pause > wait_end {
            self.is_broken = true;
            let reason = format!(
                "{} asks to wait for longer than {} s; the file may have to be staged from tape: try again later, or \
                 set {STORAGE_WAIT} or --server-wait to a longer time in seconds",
                self.link.server,
                self.wait_max.as_secs()
            );
            return Err(Fault::new(StorageErrorKind::Timeout, reason).final_for_now());
        }
        Ok(pause)
    }

    /// Waits as long as the server requests, and returns the duration; fails if the wait would end after `wait_end`.
    pub(super) fn wait(&mut self, body: &[u8], wait_end: Instant) -> Result<Duration> {
        let pause = self.announced_wait(body, wait_end)?;
        note_wait(&self.element, pause);
        std::thread::sleep(pause);
        Ok(pause)
    }

    /// Returns the body of a response; a redirect is an error.
    pub(super) fn done(&mut self, answer: Answer) -> Result<Vec<u8>> {
        match answer {
            Answer::Done(body) => Ok(body),
            _ => Err(self.protocol_fault("an unexpected redirect")),
        }
    }

    /// Returns the response with which a file was opened; None if the file is not open on this connection.
    pub(super) fn opened(&self, file: u64) -> Option<&Opened> {
        self.files.get(&file).map(|open| &open.opened)
    }

    /// Remembers that a file is open on this connection. The file is closed after `holder` is dropped.
    pub(super) fn keep(&mut self, file: u64, opened: Opened, holder: Weak<()>) {
        self.files.insert(file, OpenFile { opened, holder });
    }

    /// Closes all files that no reader holds any more. The server's responses will be ignored.
    pub(super) fn close_unused(&mut self) {
        let left: Vec<u64> =
            self.files.iter().filter(|(_, open)| open.holder.strong_count() == 0).map(|(file, _)| *file).collect();
        for file in left {
            if let Some(open) = self.files.remove(&file)
                && let Ok(stream) = self.send(&mut Request::close(open.opened.handle))
            {
                self.forgotten.insert(stream);
            }
        }
    }
}
