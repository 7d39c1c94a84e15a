//! A file on an XRootD server or redirector. If a server fails during a read, another server takes over.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::folder::checksum_at;
use super::plan::requests;
use super::pool::{pool, Taken};
use super::server::{entry_of, Server};
use super::session::Answer;
use super::transfer::{FileNames, Transfer};
use super::wire::{Handle, Opened, Request, Target};
use crate::limits::{REDIRECTS_MAX, REMOTE_GAP_BYTES, REQUESTS_DUE_MAX, STREAMS_BYTES_MIN};
use crate::secrets::without_secrets;
use crate::servers::failure::{Fault, Result};
use crate::servers::retry::with_retries;
use crate::servers::url::Url;
use crate::settings::Settings;
use crate::{ByteRange, RangeRead, ReadEffort, StorageError, StorageErrorKind, Store};

/// A file on an XRootD server, opened for reading.
pub struct XrootdFile {
    /// Path as given by the user, without secrets.
    path: String,
    name: String,
    /// Server named in the user's URL.
    entry: Server,
    /// Path on the entry server, without the query of the user's URL.
    start_url: String,
    query: Option<String>,
    /// ID that identifies the file on connections.
    id: u64,
    /// Marks that the file has a reader. Connections close the file once this marker is dropped.
    alive: Arc<()>,
    /// Server from which the file is currently read.
    place: Mutex<Place>,
    size_bytes: u64,
    settings: Settings,
}

/// A server that has the file, and the path and version of the file on that server.
#[derive(Debug, Clone)]
struct Place {
    server: Server,
    target: String,
    version: String,
}

/// A connection on which the file has been opened.
struct OpenAt {
    session: Taken,
    opened: Opened,
    target: String,
}

impl XrootdFile {
    /// Opens a URL with the scheme `root`, `roots`, `xroot` or `xroots`.
    pub(crate) fn open(path: &str, settings: &Settings) -> crate::Result<Self> {
        Self::try_open(path, settings).map_err(|fault| fault.at(path, None))
    }

    fn try_open(path: &str, settings: &Settings) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let url = Url::parse(path)?;
        let (entry, start_url) = entry_of(path)?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let settings = settings.clone();
        let first =
            with_retries(&settings, |_| open_from(&entry, &start_url, url.query.as_deref(), None, id, &settings))?;
        let alive = Arc::new(());
        let place = Place {
            server: first.session.server().clone(),
            target: first.target,
            version: first.opened.version.clone(),
        };
        let mut session = first.session;
        session.keep(id, first.opened.clone(), Arc::downgrade(&alive));
        Ok(Self {
            path: without_secrets(path),
            name: format!("{}://{}", url.scheme, url.address()),
            entry,
            start_url,
            query: url.query,
            id,
            alive,
            place: Mutex::new(place),
            size_bytes: first.opened.size_bytes,
            settings,
        })
    }

    fn place(&self) -> Place {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a connection on which the file is open. Uses the current server, or, if the server `failed` did not
    /// work, the server to which the entry server redirects the request.
    fn connection(&self, failed: Option<&Server>) -> Result<(Taken, Handle)> {
        let place = self.place();
        if failed.is_none() || place.server == self.entry {
            let (mut session, answer) =
                pool().take(&place.server, self.id, Request::open(&place.target), &self.settings)?;
            if let (None, Some(opened)) = (&answer, session.opened(self.id)) {
                let handle = opened.handle;
                return Ok((session, handle));
            }
            match found_open(&mut session, self.id, answer)? {
                Found::Open(opened) => return self.keep(OpenAt { session, opened, target: place.target }),
                Found::Redirect(_) => {}
            }
        }
        let query = self.query.as_deref();
        self.keep(open_from(&self.entry, &self.start_url, query, failed, self.id, &self.settings)?)
    }

    /// Checks that a newly opened file is the same file as before, and remembers the server on which it is open now.
    fn keep(&self, mut at: OpenAt) -> Result<(Taken, Handle)> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let server = at.session.server().clone();
        // Versions of different servers cannot be compared, because servers may identify the same file differently.
        let is_same = place.server != server || place.version == at.opened.version;
        if at.opened.size_bytes != self.size_bytes || !is_same {
            let reason = format!("the file at {server} was changed since it was opened");
            return Err(Fault::new(StorageErrorKind::Changed, reason));
        }
        *place = Place { server, target: at.target, version: at.opened.version.clone() };
        let handle = at.opened.handle;
        at.session.keep(self.id, at.opened, Arc::downgrade(&self.alive));
        Ok((at.session, handle))
    }

    fn try_read(&self, wanted: &mut [&mut RangeRead], failed: Option<&Server>) -> std::result::Result<u64, Failed> {
        let (mut session, handle) = self.connection(failed).map_err(|fault| Failed { fault, server: None })?;
        let server = session.server().clone();
        let ranges: Vec<ByteRange> = wanted.iter().map(|read| read.range).collect();
        let bytes = ranges.iter().map(|range| range.length).sum();
        let known = session.learn_limits(Instant::now() + self.settings.time_limit(0));
        known.map_err(|fault| Failed { fault, server: Some(server.clone()) })?;
        if self.settings.streams > 1 && bytes >= STREAMS_BYTES_MIN {
            session.bind_streams(&server, &self.settings);
        }
        let requests = requests(&ranges, &session.limits);
        let mean_bytes = bytes / requests.len().max(1) as u64;
        let requests_max = self.settings.requests_within(&self.name, mean_bytes, REQUESTS_DUE_MAX);
        let mut reads: Vec<&mut RangeRead> = wanted.iter_mut().map(|read| &mut **read).collect();
        let names = FileNames { path: &self.path, name: &self.name };
        let time_limit = self.settings.time_limit(bytes);
        let mut transfer = Transfer::new(&mut session, handle, &mut reads, requests, requests_max, time_limit, names);
        match transfer.run() {
            Ok(()) => Ok(transfer.calls_count),
            Err(fault) => {
                // The connection is closed, because a retry cannot use a handle that the server has forgotten.
                session.is_broken |= fault.retry_may_help;
                Err(Failed { fault, server: Some(server) })
            }
        }
    }
}

/// A failed read, and the server on which it failed, if a server was reached.
struct Failed {
    fault: Fault,
    server: Option<Server>,
}

impl Store for XrootdFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn size_bytes(&self) -> crate::Result<u64> {
        Ok(self.size_bytes)
    }

    fn identity(&self) -> Option<String> {
        let Place { server, version, .. } = self.place();
        // The servers of a redirector identify a file differently, but may agree on its modification time.
        let version =
            if server == self.entry { version.as_str() } else { version.split(' ').nth(1).unwrap_or_default() };
        Some(format!("{} {version}", self.size_bytes))
    }

    fn checksums(&self) -> Vec<String> {
        let Place { server, target, .. } = self.place();
        checksum_at(&server, &target, &self.settings).into_iter().collect()
    }

    fn gap_bytes(&self) -> u64 {
        REMOTE_GAP_BYTES
    }

    fn expect_reads(&self, count: usize) {
        let Place { server, target, version } = self.place();
        // The loop starts at 1, because the file is already open on one connection.
        for _ in 1..count {
            let (id, size_bytes, version) = (self.id, self.size_bytes, version.clone());
            let (holder, settings) = (Arc::downgrade(&self.alive), self.settings.clone());
            let (server, open) = (server.clone(), Request::open(&target));
            let Some(mut pending) = pool().expect(&server, count) else { return };
            let connect = move || {
                // Errors are ignored, because the reader will report any problem.
                let Ok((mut session, Some(Answer::Done(answer)))) = pending.start(id, open, &settings) else { return };
                match Opened::parse(&answer) {
                    Some(opened) if opened.size_bytes == size_bytes && opened.version == version => {
                        session.keep(id, opened, holder);
                    }
                    // The connection is closed, because the file has changed. The reader will report the change.
                    _ => session.is_broken = true,
                }
            };
            // If no thread can be started, each reader opens its own connection.
            let _ = std::thread::Builder::new().name("branchline-connect".to_owned()).spawn(connect);
        }
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> crate::Result<ReadEffort> {
        for read in reads.iter() {
            if read.range.end().is_none_or(|end| end > self.size_bytes) {
                return Err(StorageError::truncated(&self.path, read.range, self.size_bytes));
            }
        }
        let mut wanted = Vec::with_capacity(reads.len());
        for read in reads.iter_mut() {
            let range = read.range;
            read.room_for(range.length).ok_or_else(|| Fault::no_memory().at(&self.path, Some(range)))?;
            if range.length > 0 {
                wanted.push(read);
            }
        }
        let Some(first) = wanted.first().map(|read| read.range) else { return Ok(ReadEffort::default()) };
        let read_bytes = wanted.iter().map(|read| read.range.length).sum();
        let mut failed = None;
        let mut calls_count = 0;
        let result = with_retries(&self.settings, |_| {
            let tried = self.try_read(&mut wanted, failed.as_ref());
            calls_count += *tried.as_ref().unwrap_or(&0);
            tried.map(|_| ()).map_err(|Failed { fault, server }| {
                // Remember the failed server, so that the redirector does not send the request back to it.
                failed = server.or_else(|| Some(self.place().server));
                fault
            })
        });
        result.map_err(|fault| fault.at(&self.path, Some(first)))?;
        Ok(ReadEffort { calls_count, read_bytes, ..ReadEffort::default() })
    }
}

impl Drop for XrootdFile {
    fn drop(&mut self) {
        self.alive = Arc::new(());
        pool().close_unused(&self.place().server);
    }
}

/// Outcome of an open request to one server.
enum Found {
    Open(Opened),
    Redirect(Target),
}

/// Interprets the response to an open request. Without a response, the file `id` is already open on this connection.
fn found_open(session: &mut Taken, id: u64, answer: Option<Answer>) -> Result<Found> {
    match (answer, session.opened(id)) {
        (Some(Answer::Done(answer)), _) => match Opened::parse(&answer) {
            Some(opened) => Ok(Found::Open(opened)),
            None => Err(Fault::protocol(&session.server().to_string(), "no size of the file")),
        },
        (Some(Answer::Redirect(target)), _) => Ok(Found::Redirect(target)),
        (None, Some(opened)) => Ok(Found::Open(opened.clone())),
        (Some(Answer::MoreCredentials(_)) | None, _) => Err(session.protocol_fault("an authentication request")),
    }
}

/// Opens a file on the server named by the user, or on a server to which the request is redirected. The server that
/// failed is excluded.
fn open_from(
    entry: &Server,
    path: &str,
    query: Option<&str>,
    failed: Option<&Server>,
    id: u64,
    settings: &Settings,
) -> Result<OpenAt> {
    let avoid = failed.filter(|failed| *failed != entry).map(|failed| format!("tried={}", failed.host));
    let mut path = path.to_owned();
    let mut server = entry.clone();
    let mut added: Option<String> = None;
    for _ in 0..=REDIRECTS_MAX {
        let parts: Vec<&str> = [query, avoid.as_deref(), added.as_deref()].into_iter().flatten().collect();
        let target = if parts.is_empty() { path.clone() } else { format!("{path}?{}", parts.join("&")) };
        let (mut session, answer) = pool().take(&server, id, Request::open(&target), settings)?;
        match found_open(&mut session, id, answer)? {
            Found::Open(opened) => return Ok(OpenAt { session, opened, target }),
            Found::Redirect(Target { host, port, query, secure, path: other }) => {
                // After TLS, a redirect never leads to an unencrypted connection.
                let secure = server.secure || secure.unwrap_or(false);
                server = Server { host, port, secure, user: entry.user.clone() };
                added = query;
                path = other.unwrap_or(path);
            }
        }
    }
    let reason = format!("too many redirects from {entry}");
    Err(Fault::new(StorageErrorKind::Refused, reason))
}
