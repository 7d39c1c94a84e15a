//! A connection after its login: requests and their answers, waits, and the files that are open on it.

use std::collections::{HashMap, HashSet};
use std::sync::Weak;
use std::time::{Duration, Instant};

use super::identify::{identify, user_name};
use super::link::Link;
use super::pool::Server;
use super::wire::{self, flags, number, Handle, Header, Request, Target};
use crate::fault::{Fault, Result};
use crate::limits::{ANSWER_BYTES_MAX, ATTENTIONS_MAX, READV_RANGES, READV_RANGE_BYTES};
use crate::settings::Settings;
use crate::StorageErrorKind;

/// What the server takes in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Takes {
    /// Ranges of a vector read.
    pub(super) ranges_max: usize,
    /// Bytes of each of them.
    pub(super) range_bytes_max: u32,
    /// Whether it reads with checksums.
    pub(super) pages: bool,
}

/// A file that is open on this connection, as long as somebody holds it.
struct OpenFile {
    handle: Handle,
    holder: Weak<()>,
}

/// A connection after its login. One thread at a time uses it.
pub(super) struct Session {
    pub(super) link: Link,
    pub(super) takes: Takes,
    /// Nothing can be asked any more: the connection failed, or answers are due that nobody would know.
    pub(super) is_broken: bool,
    pub(super) last_used: Instant,
    /// How long the server may make us wait.
    pub(super) wait_max: Duration,
    next_stream: u16,
    /// Streams whose answers nobody waits for.
    forgotten: HashSet<u16>,
    files: HashMap<u64, OpenFile>,
}

/// What a server says to a request that has no data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Done(Vec<u8>),
    /// It wants to know more of who we are.
    More(Vec<u8>),
    Elsewhere(Target),
}

impl Session {
    /// Connects and logs in.
    pub(super) fn start(server: &Server, settings: &Settings) -> Result<Self> {
        let mut session = Self {
            link: Link::connect(server, settings)?,
            takes: Takes { ranges_max: READV_RANGES, range_bytes_max: READV_RANGE_BYTES, pages: false },
            is_broken: false,
            last_used: Instant::now(),
            wait_max: settings.wait_max,
            next_stream: 1,
            forgotten: HashSet::new(),
            files: HashMap::new(),
        };
        let deadline = Instant::now() + settings.patience(0);
        session.link.send(&wire::HANDSHAKE)?;
        // Its answer comes on stream 0, which no request of ours has.
        session.forgotten.insert(0);
        let about = session.done(Request::protocol(server.secure), deadline)?;
        let can =
            number(&about, 4).ok_or_else(|| Fault::protocol(&session.link.server, "no list of what it can do"))?;
        session.takes.pages = can & flags::PAGES != 0;
        if server.secure && can & flags::TLS_THERE == 0 {
            let reason = format!("{} does not do TLS, which roots:// asks for", session.link.server);
            return Err(Fault::new(StorageErrorKind::Refused, reason));
        }
        if can & flags::TLS_NOW != 0 || server.secure {
            session.link.secure(&server.host, deadline)?;
        }
        let login = session.done(Request::login(&user_name(server)), deadline)?;
        if can & flags::TLS_AFTER_LOGIN != 0 && !session.link.is_secure() {
            session.link.secure(&server.host, deadline)?;
        }
        // A session's number of 16 bytes, and what the server wants to know of us.
        let wanted = login.get(16..).unwrap_or_default();
        if !wanted.is_empty() {
            identify(&mut session, server, wanted, deadline)?;
        }
        session.learn_limits(deadline)?;
        Ok(session)
    }

    /// How much the server takes in one vector read. One that does not tell has the protocol's defaults.
    fn learn_limits(&mut self, deadline: Instant) -> Result<()> {
        let answer = match self.ask(Request::settings("readv_iov_max readv_ior_max"), deadline) {
            Ok(Answer::Done(answer)) => answer,
            Ok(_) => return Ok(()),
            Err(_) if !self.is_broken => return Ok(()),
            Err(fault) => return Err(fault),
        };
        let text = String::from_utf8_lossy(&answer);
        let mut lines = text.split(['\n', '\0']).map(|line| line.trim().parse::<u32>().ok().filter(|one| *one > 0));
        if let Some(Some(ranges)) = lines.next() {
            self.takes.ranges_max = self.takes.ranges_max.min(ranges as usize);
        }
        if let Some(Some(bytes)) = lines.next() {
            self.takes.range_bytes_max = bytes;
        }
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

    /// The header of the next answer that somebody waits for. A late answer is taken out of the attention it comes in.
    pub(super) fn next_header(&mut self, deadline: Instant) -> Result<Header> {
        for _ in 0..ATTENTIONS_MAX {
            let mut bytes = [0; wire::HEADER_BYTES];
            self.receive(&mut bytes, deadline)?;
            let header = Header::parse(bytes);
            if header.status == wire::ATTENTION {
                if let Some(late) = self.attention(header.length, deadline)? {
                    return Ok(late);
                }
            } else if self.forgotten.contains(&header.stream) {
                self.body(header.length, deadline)?;
                if header.status != wire::OK_SO_FAR {
                    self.forgotten.remove(&header.stream);
                }
            } else {
                return Ok(header);
            }
        }
        self.is_broken = true;
        Err(Fault::protocol(&self.link.server, "one message after the other that nobody asked for"))
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
            return Err(self.nonsense("a late answer that is none"));
        }
        self.receive(&mut rest, deadline)?;
        let [_, _, _, _, header @ ..] = rest;
        let header = Header::parse(header);
        if header.length != length - BEFORE {
            return Err(self.nonsense("a late answer of another length than it says"));
        }
        Ok(Some(header))
    }

    /// Receives exactly so many bytes; a failure is the end of the connection.
    pub(super) fn receive(&mut self, room: &mut [u8], deadline: Instant) -> Result<()> {
        let received = self.link.receive(room, deadline);
        self.is_broken |= received.is_err();
        received
    }

    /// The rest of an answer that is no data.
    pub(super) fn body(&mut self, length: u32, deadline: Instant) -> Result<Vec<u8>> {
        if length > ANSWER_BYTES_MAX {
            return Err(self.nonsense("more than such an answer can have"));
        }
        let mut body = vec![0; length as usize];
        self.receive(&mut body, deadline)?;
        Ok(body)
    }

    /// The server does not keep to the protocol: what follows would not be understood.
    pub(super) fn nonsense(&mut self, what: &str) -> Fault {
        self.is_broken = true;
        Fault::protocol(&self.link.server, what)
    }

    /// Asks and waits for the whole answer.
    pub(super) fn ask(&mut self, mut request: Request, deadline: Instant) -> Result<Answer> {
        let stream = self.send(&mut request)?;
        let mut deadline = deadline;
        let wait_end = Instant::now() + self.wait_max;
        let mut sofar: Vec<u8> = Vec::new();
        loop {
            let header = self.next_header(deadline)?;
            if header.stream != stream {
                return Err(self.nonsense("an answer to another request"));
            }
            let body = self.body(header.length, deadline)?;
            match header.status {
                wire::OK | wire::OK_SO_FAR => {
                    sofar.extend(body);
                    if header.status == wire::OK {
                        return Ok(Answer::Done(sofar));
                    }
                    if sofar.len() > ANSWER_BYTES_MAX as usize {
                        return Err(self.nonsense("more than such an answer can have"));
                    }
                }
                wire::AUTH_MORE => return Ok(Answer::More(body)),
                wire::ERROR => return Err(wire::fault_of(&self.link.server, &body)),
                wire::REDIRECT => {
                    let target = Target::parse(&body);
                    return target.map(Answer::Elsewhere).ok_or_else(|| self.nonsense("a redirect to nowhere"));
                }
                wire::WAIT => {
                    let pause = self.wait_asked(&body, wait_end)?;
                    std::thread::sleep(pause);
                    deadline += pause;
                    self.resend(&mut request, stream)?;
                }
                wire::WAIT_FOR_ANSWER => {
                    let pause = self.wait_asked(&body, wait_end)?;
                    self.link.set_silence(pause.max(Duration::from_secs(1)))?;
                    deadline += pause;
                }
                _ => return Err(self.nonsense("an answer of an unknown kind")),
            }
        }
    }

    /// How long the server wants us to wait, unless that is longer than anybody would.
    pub(super) fn wait_asked(&mut self, body: &[u8], wait_end: Instant) -> Result<Duration> {
        let seconds = number(body, 0).ok_or_else(|| self.nonsense("a wait without a time"))?;
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

    /// Asks what has to be answered here and now.
    pub(super) fn done(&mut self, request: Request, deadline: Instant) -> Result<Vec<u8>> {
        match self.ask(request, deadline)? {
            Answer::Done(body) => Ok(body),
            _ => Err(self.nonsense("a redirect where there is none")),
        }
    }

    /// The handle of a file, if it is open here.
    pub(super) fn handle(&self, file: u64) -> Option<Handle> {
        self.files.get(&file).map(|open| open.handle)
    }

    /// Remembers that a file is open here, until nobody holds it.
    pub(super) fn keep(&mut self, file: u64, handle: Handle, holder: Weak<()>) {
        self.files.insert(file, OpenFile { handle, holder });
    }

    /// Closes the files that nobody holds any more. Their answers are passed over when they come.
    pub(super) fn close_left(&mut self) {
        let left: Vec<u64> =
            self.files.iter().filter(|(_, open)| open.holder.strong_count() == 0).map(|(file, _)| *file).collect();
        for file in left {
            if let Some(open) = self.files.remove(&file) {
                if let Ok(stream) = self.send(&mut Request::close(open.handle)) {
                    self.forgotten.insert(stream);
                }
            }
        }
    }
}
