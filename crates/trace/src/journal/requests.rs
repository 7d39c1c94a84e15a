//! Logs storage requests in the journal. A request is logged when it has ended.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::names::Kind;
use super::records::{self, Span};
use super::writer::{is_on, with_log};

/// Default outcome of a request.
const FAILED: &str = "failed";

static NEXT_REQUEST: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static ATTEMPT: Cell<u32> = const { Cell::new(0) };
    static QUEUED: Cell<Option<Instant>> = const { Cell::new(None) };
    static WAGON: RefCell<String> = const { RefCell::new(String::new()) };
    /// Completed requests of this thread, to be logged when its active throttle ends; None without a throttle.
    static HELD: RefCell<Option<Vec<Held>>> = const { RefCell::new(None) };
}

/// A completed request, with its journal and ranges.
struct Held {
    journal: u64,
    record: records::Request,
    span: Span,
    more: Vec<Span>,
}

/// Sets the attempt index, starting at 0, of the next requests of this thread.
pub fn set_attempt(attempt: u32) {
    if is_on() {
        ATTEMPT.with(|own| own.set(attempt));
    }
}

/// Sets the wagon for which this thread reads from now on; "" for none.
pub fn set_wagon(name: &str) {
    WAGON.with(|own| name.clone_into(&mut own.borrow_mut()));
}

/// While this exists, requests of this thread are recorded with the time when they were queued.
#[must_use]
pub struct QueuedSince(Option<Instant>);

/// Sets the time at which the next requests of this thread were queued; `None` means the current time. An earlier time
/// that is already set is kept.
pub fn queued_since(since: Option<Instant>) -> QueuedSince {
    let before = queued_at();
    if before.is_none() && is_on() {
        QUEUED.with(|own| own.set(since.or_else(|| Some(Instant::now()))));
    }
    QueuedSince(before)
}

/// Returns the time at which requests of this thread were queued. Pass this time to threads that send requests on
/// behalf of this thread.
pub fn queued_at() -> Option<Instant> {
    QUEUED.with(Cell::get)
}

impl Drop for QueuedSince {
    fn drop(&mut self) {
        let _ = QUEUED.try_with(|own| own.set(self.0));
    }
}

/// A request in flight, logged when it is dropped. File, store, call and wagon are string IDs.
pub struct Request {
    journal: u64,
    file: u32,
    store: u32,
    what: u32,
    wagon: u32,
    outcome: Cow<'static, str>,
    /// The first range, and the remaining ones.
    span: Span,
    more: Vec<Span>,
    connection: u32,
    attempt: u32,
    queued: Instant,
    sent: Instant,
    first_byte: Option<Instant>,
    got_bytes: u64,
}

/// Starts the record of a request for ranges of a file, which is sent to a store now. Returns None without a journal.
pub fn request(what: &'static str, file: &str, store: &str, mut spans: impl Iterator<Item = Span>) -> Option<Request> {
    with_log(|own| {
        let sent = Instant::now();
        Request {
            journal: own.journal.number,
            file: own.name(Kind::File, file),
            store: own.name(Kind::Store, store),
            what: own.name(Kind::What, what),
            wagon: WAGON.with(|wagon| own.name(Kind::Wagon, &wagon.borrow())),
            outcome: Cow::Borrowed(FAILED),
            span: spans.next().unwrap_or_default(),
            more: spans.collect(),
            connection: 0,
            attempt: ATTEMPT.with(Cell::get) + 1,
            queued: queued_at().map_or(sent, |since| since.min(sent)),
            sent,
            first_byte: None,
            got_bytes: 0,
        }
    })
}

impl Request {
    /// Sets the connection that carries the request: a file descriptor or a local port; 0 if unknown.
    pub fn over(&mut self, connection: u64) {
        self.connection = connection as u32;
    }

    /// Records the arrival of the first byte of the response.
    pub fn first_byte(&mut self) {
        self.first_byte.get_or_insert_with(Instant::now);
    }

    /// Records that some of the requested bytes have arrived.
    pub fn got(&mut self, bytes: u64) {
        self.got_bytes += bytes;
    }

    /// Sets the outcome, which is "failed" by default.
    pub fn ended(&mut self, outcome: impl Into<Cow<'static, str>>) {
        self.outcome = outcome.into();
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let last = Instant::now();
        with_log(|own| {
            // The request's string IDs are valid only in the journal in which the request started.
            if own.journal.number != self.journal {
                return;
            }
            let outcome = own.name(Kind::Outcome, &self.outcome);
            let journal = &*own.journal;
            let requested = self.more.iter().fold(self.span.1, |sum, (_, length)| sum.saturating_add(*length));
            let record = records::Request {
                number: NEXT_REQUEST.fetch_add(1, Ordering::Relaxed),
                texts: [self.file, self.store, self.what, outcome, self.wagon],
                connection: self.connection,
                attempt: self.attempt,
                offset: self.span.0,
                requested,
                got: self.got_bytes,
                times: [self.queued, self.sent, self.first_byte.unwrap_or(journal.start), last]
                    .map(|at| journal.ns(at)),
                has_first: self.first_byte.is_some(),
            };
            let held = Held { journal: self.journal, record, span: self.span, more: std::mem::take(&mut self.more) };
            if let Some(held) = hold(held) {
                own.log(|buffer| buffer.put_request(&held.record, held.span, &held.more));
            }
        });
    }
}

/// Holds back a completed request while this thread is throttled. Returns the request if the thread is not throttled.
fn hold(one: Held) -> Option<Held> {
    let kept = HELD.try_with(|held| match held.borrow_mut().as_mut() {
        Some(several) => {
            several.push(one);
            None
        }
        None => Some(one),
    });
    kept.ok().flatten()
}

/// An active throttle. Requests that this thread makes in the meantime are logged with the throttle's start and end.
pub struct Throttling {
    since: Instant,
}

/// Starts a throttle for this thread; None without a journal, or if a throttle is already active.
pub fn throttling() -> Option<Throttling> {
    let is_first = is_on() && HELD.with(|held| held.borrow().is_none());
    is_first.then(|| {
        HELD.with(|held| *held.borrow_mut() = Some(Vec::new()));
        Throttling { since: Instant::now() }
    })
}

impl Drop for Throttling {
    fn drop(&mut self) {
        let last = Instant::now();
        let held = HELD.try_with(|held| held.borrow_mut().take()).ok().flatten().unwrap_or_default();
        with_log(|own| {
            let (since, last) = (own.journal.ns(self.since), own.journal.ns(last));
            let journal = own.journal.number;
            for mut one in held.into_iter().filter(|one| one.journal == journal) {
                let [queued, sent, first, _] = one.record.times;
                one.record.times = [queued.min(since), sent.min(since), first, last];
                own.log(|buffer| buffer.put_request(&one.record, one.span, &one.more));
            }
        });
    }
}
