//! A connection after its login: requests and their answers, waits, and the files that are open on it.

use std::collections::{HashMap, HashSet};
use std::sync::Weak;
use std::time::{Duration, Instant};

use super::link::Link;
use super::server::Server;
use super::streams::{BoundLink, Streams};
use super::wire::{self, number, Header, Opened, Request, Target};
use crate::limits::{ANSWER_BYTES_MAX, ATTENTIONS_MAX, READV_RANGES, READV_RANGE_BYTES};
use crate::servers::failure::{Fault, Result};
use crate::servers::failure_counts::note_wait;
use crate::settings::Settings;
use crate::StorageErrorKind;

/// The server's limits for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestLimits {
    /// Ranges of a vector read.
    pub(super) ranges_max: usize,
    /// Bytes of each of them.
    pub(super) range_bytes_max: u32,
    /// Whether it reads with checksums.
    pub(super) pages: bool,
}

/// A file that is open on this connection, as long as a reader holds it.
struct OpenFile {
    opened: Opened,
    holder: Weak<()>,
}

/// A connection after its login. One thread at a time uses it.
pub(super) struct Session {
    pub(super) link: Link,
    pub(super) limits: RequestLimits,
    /// It has files itself, and is no redirector.
    pub(super) is_data_server: bool,
    /// The connection is of no use any more: it failed, or answers will come that no request waits for.
    pub(super) is_broken: bool,
    pub(super) last_used: Instant,
    /// How long the server may make us wait.
    pub(super) wait_max: Duration,
    /// The storage element for which waits are counted.
    pub(super) element: String,
    /// What the next connection to this server may send before the answers.
    pub(super) early_requests: EarlyRequests,
    /// The number of the session, which binds further connections to it.
    pub(super) login: [u8; 16],
    pub(super) streams: Streams,
    next_stream: u16,
    /// The stream on which the server is to send its limits, until it has.
    limits_due: Option<u16>,
    /// Streams whose answers are ignored.
    pub(super) forgotten: HashSet<u16>,
    files: HashMap<u64, OpenFile>,
}

/// What is sent to a server before it has answered: each step saves a round trip. A server that turns out to want
/// something else first is connected to again, with fewer early requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum EarlyRequests {
    /// None: it wants TLS.
    Nothing,
    /// The login: the server wants an authentication after it.
    Login,
    /// The login and the first request of the caller: most servers want no more than a login without TLS.
    #[default]
    LoginAndFirst,
}

/// Facts of a server that earlier connections learned.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KnownServer {
    pub(super) early_requests: Option<EarlyRequests>,
    /// Its limits for one request, if it has sent them.
    pub(super) limits: Option<RequestLimits>,
}

/// The answer to a request that reads no data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Done(Vec<u8>),
    /// It wants more credentials.
    MoreCredentials(Vec<u8>),
    Redirect(Target),
}

impl Session {
    /// Requests the server's limits, without waiting: the answer comes together with that to the open.
    pub(super) fn request_limits(&mut self) -> Result<()> {
        self.limits_due = Some(self.send(&mut Request::settings("readv_iov_max readv_ior_max"))?);
        Ok(())
    }

    /// The server's limits, once they have come.
    pub(super) fn known_limits(&self) -> Option<RequestLimits> {
        self.limits_due.is_none().then_some(self.limits)
    }

    /// A connection before its login.
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

    /// Waits for the server's limits of one vector read.
    pub(super) fn learn_limits(&mut self, deadline: Instant) -> Result<()> {
        for _ in 0..ATTENTIONS_MAX {
            if self.limits_due.is_none() {
                return Ok(());
            }
            if self.next_for_caller(deadline)?.is_some() {
                return Err(self.protocol_fault("an answer to another request"));
            }
        }
        Err(self.protocol_fault("one message after the other without a request"))
    }

    /// Takes the answer with the server's limits. A server without an answer has the protocol's defaults.
    fn take_limits(&mut self, header: Header, deadline: Instant) -> Result<()> {
        let answer = self.body(header.length, deadline)?;
        match header.status {
            // The answer comes later.
            wire::WAIT_FOR_ANSWER => return Ok(()),
            // An answer in several parts is none of the two numbers.
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

    /// Sends a request and returns the stream of its answer.
    pub(super) fn send(&mut self, request: &mut Request) -> Result<u16> {
        let stream = self.next_stream;
        self.next_stream = if stream == u16::MAX { 1 } else { stream + 1 };
        // After a lap of all numbers a forgotten one that was never answered is free again.
        self.forgotten.remove(&stream);
        self.resend(request, stream)?;
        Ok(stream)
    }

    /// Sends a request again, as a server wants it after a wait.
    pub(super) fn resend(&mut self, request: &mut Request, stream: u16) -> Result<()> {
        let sent = self.link.send(request.on_stream(stream));
        self.is_broken |= sent.is_err();
        sent
    }

    /// The header of the next answer that the caller may wait for. A late answer is taken out of the attention it comes
    /// in.
    pub(super) fn next_header(&mut self, deadline: Instant) -> Result<Header> {
        for _ in 0..ATTENTIONS_MAX {
            if let Some(header) = self.next_for_caller(deadline)? {
                return Ok(header);
            }
        }
        Err(self.protocol_fault("one message after the other without a request"))
    }

    /// Receives a message. None if it was for the session itself, and for no caller.
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

    /// An attention: messages to all, which are passed over, or a late answer, whose header is given.
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
            return Err(self.protocol_fault("a late answer that is none"));
        }
        self.receive(&mut rest, deadline)?;
        let [_, _, _, _, header @ ..] = rest;
        let header = Header::parse(header);
        if header.length != length - BEFORE {
            return Err(self.protocol_fault("a late answer of another length than it says"));
        }
        Ok(Some(header))
    }

    /// Binds as many further connections as the settings want, once. Where the server does not take them, or not over
    /// TLS, it is read without.
    pub(super) fn bind_streams(&mut self, server: &Server, settings: &Settings) {
        if !self.link.is_secure() {
            let login = self.login;
            self.streams.open(settings.streams, || Self::bound(server, settings, login));
        }
    }

    /// A connection that is bound to a login.
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

    /// The path over which the next answer is to come, in turns.
    pub(super) fn next_path(&mut self) -> u8 {
        self.streams.next()
    }

    /// Receives exactly this number of bytes; a failure is the end of the connection.
    pub(super) fn receive(&mut self, room: &mut [u8], deadline: Instant) -> Result<()> {
        let received = self.streams.chosen().unwrap_or(&mut self.link).receive(room, deadline);
        self.is_broken |= received.is_err();
        received
    }

    /// The rest of an answer that is no data.
    pub(super) fn body(&mut self, length: u32, deadline: Instant) -> Result<Vec<u8>> {
        self.body_up_to(ANSWER_BYTES_MAX as usize, length, deadline)
    }

    fn body_up_to(&mut self, bytes_max: usize, length: u32, deadline: Instant) -> Result<Vec<u8>> {
        if length as usize > bytes_max {
            return Err(self.protocol_fault("more than such an answer can have"));
        }
        let mut body = vec![0; length as usize];
        self.receive(&mut body, deadline)?;
        Ok(body)
    }

    /// The server breaks the protocol: what follows cannot be understood, so the connection is not used any more.
    pub(super) fn protocol_fault(&mut self, what: &str) -> Fault {
        self.is_broken = true;
        Fault::protocol(&self.link.server, what)
    }

    /// Sends a request and waits for the whole answer.
    pub(super) fn exchange(&mut self, mut request: Request, deadline: Instant) -> Result<Answer> {
        let stream = self.send(&mut request)?;
        self.answer_to(&mut request, stream, deadline)
    }

    /// Waits for the whole answer to a request that was sent on this stream.
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
                        return Err(self.protocol_fault("more than such an answer can have"));
                    }
                }
                wire::AUTH_MORE => return Ok(Answer::MoreCredentials(body)),
                wire::ERROR => return Err(wire::fault_of(&self.link.server, &body)),
                wire::REDIRECT => {
                    let target = Target::parse(&body);
                    return target.map(Answer::Redirect).ok_or_else(|| self.protocol_fault("a redirect to nowhere"));
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
                _ => return Err(self.protocol_fault("an answer of an unknown kind")),
            }
        }
    }

    /// How long the server wants us to wait, up to a limit.
    pub(super) fn announced_wait(&mut self, body: &[u8], wait_end: Instant) -> Result<Duration> {
        let seconds = number(body, 0).ok_or_else(|| self.protocol_fault("a wait without a time"))?;
        let pause = Duration::from_secs(u64::from(seconds));
        if Instant::now() + pause > wait_end {
            self.is_broken = true;
            let reason = format!(
                "{} asks to wait for longer than {} s; the file may have to come from tape: try later, or set \
                 BRANCHLINE_STORAGE_WAIT to the seconds that you would wait",
                self.link.server,
                self.wait_max.as_secs()
            );
            return Err(Fault::new(StorageErrorKind::Timeout, reason).final_for_now());
        }
        Ok(pause)
    }

    /// Waits as long as the server wants, up to a limit, and returns that time.
    pub(super) fn wait(&mut self, body: &[u8], wait_end: Instant) -> Result<Duration> {
        let pause = self.announced_wait(body, wait_end)?;
        note_wait(&self.element, pause);
        std::thread::sleep(pause);
        Ok(pause)
    }

    /// The bytes of an answer that may not be a redirect.
    pub(super) fn done(&mut self, answer: Answer) -> Result<Vec<u8>> {
        match answer {
            Answer::Done(body) => Ok(body),
            _ => Err(self.protocol_fault("a redirect where none is allowed")),
        }
    }

    /// The answer to the open of a file that is open here.
    pub(super) fn opened(&self, file: u64) -> Option<&Opened> {
        self.files.get(&file).map(|open| &open.opened)
    }

    /// Remembers that a file is open here, until no reader holds it.
    pub(super) fn keep(&mut self, file: u64, opened: Opened, holder: Weak<()>) {
        self.files.insert(file, OpenFile { opened, holder });
    }

    /// Closes the files that no reader holds any more. The answers are skipped when they come.
    pub(super) fn close_unused(&mut self) {
        let left: Vec<u64> =
            self.files.iter().filter(|(_, open)| open.holder.strong_count() == 0).map(|(file, _)| *file).collect();
        for file in left {
            if let Some(open) = self.files.remove(&file) {
                if let Ok(stream) = self.send(&mut Request::close(open.opened.handle)) {
                    self.forgotten.insert(stream);
                }
            }
        }
    }
}
