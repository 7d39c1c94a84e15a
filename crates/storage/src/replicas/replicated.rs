//! A file with one or more replicas. Opens the first replica that answers, and switches to another replica when reading
//! fails.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use branchline_trace::journal;

use super::checksum_query::ChecksumQuery;
use super::health;
use super::pace::Pace;
use super::preference::rank_of;
use super::samples::Samples;
use crate::limits::{CHECKSUM_WAIT, MOUNT_BYTES_PER_SECOND_MIN};
use crate::local::mounted::read_within;
use crate::secrets::without_secrets;
use crate::servers::deadline::within;
use crate::servers::failure::Fault;
use crate::servers::failure_counts::{note, note_failure};
use crate::servers::retry::pause;
use crate::servers::url::element_of;
use crate::settings::Settings;
use crate::{ByteRange, RangeRead, ReadEffort, ReplicaRead, Result, StorageError, StorageErrorKind, Store};

/// Separator between the replicas in a path.
const SEPARATOR: &str = " | ";

/// Splits a path into its replicas.
pub(crate) fn replicas_in(path: &str) -> Vec<&str> {
    path.split(SEPARATOR).map(str::trim).filter(|one| !one.is_empty()).collect()
}

/// Returns whether a server did not answer, rather than asking the client to wait.
pub(crate) fn is_silence(error: &StorageError) -> bool {
    error.kind == StorageErrorKind::Timeout && error.retry_may_help()
}

/// Opens a store with `open`. If the storage element recently did not answer, it first has to open the file in less
/// time.
pub(crate) fn open_patiently<T>(
    element: &str,
    settings: &Settings,
    open: impl Fn(&Settings) -> Result<T>,
) -> Result<T> {
    let short = health::patience(element, settings.clone());
    if short != *settings {
        open(&short)?;
        health::trust(element);
    }
    // The store keeps its settings for reading, so it is opened with the usual ones.
    open(settings)
}

/// Sorts replicas by distance, nearest first.
fn by_nearness<'a>(locations: &[&'a str]) -> Vec<&'a str> {
    let mut sorted = locations.to_vec();
    sorted.sort_by_key(|location| rank_of(location, &element_of(location)));
    sorted
}

/// Returns the replica in `path` that is nearest, and therefore tried first.
pub(crate) fn nearest_in(path: &str) -> &str {
    by_nearness(&replicas_in(path)).first().copied().unwrap_or(path)
}

/// Function that opens a replica.
type OpenOne = Arc<dyn Fn(&str, &Settings) -> Result<Arc<dyn Store>> + Send + Sync>;

/// A file with one or more replicas.
pub(crate) struct Replicated {
    /// Path of the first replica that the user listed, without secrets.
    path: String,
    name: String,
    /// Identity of the replica that was opened first; empty until requested.
    identity: OnceLock<Option<String>>,
    /// Query for the checksums of the replica that was opened first. Reading other replicas does not wait for the
    /// query.
    checksums: ChecksumQuery,
    gap_bytes: u64,
    is_near: bool,
    size_bytes: u64,
    replicas: Vec<Replica>,
    /// Store of the replica that was opened first; None if the file has only one replica.
    first: Option<Arc<dyn Store>>,
    /// Index of the replica that is being read.
    current: AtomicUsize,
    samples: Samples,
    settings: Settings,
    open_one: OpenOne,
}

struct Replica {
    location: String,
    element: String,
    state: Mutex<State>,
    pace: Mutex<Pace>,
    read: Mutex<ReplicaRead>,
}

enum State {
    Closed,
    Open(Arc<dyn Store>),
    /// The replica was rejected because its content differs; contains the error with the reason.
    Refused(StorageError),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Replicated {
    /// Opens the nearest replica that answers. Replicas on storage elements that failed recently are tried last.
    pub(crate) fn open(locations: &[&str], settings: &Settings, open_one: OpenOne) -> Result<Self> {
        let replica = |location: &&str| Replica {
            location: (*location).to_owned(),
            element: element_of(location),
            state: Mutex::new(State::Closed),
            pace: Mutex::default(),
            read: Mutex::new(ReplicaRead { path: without_secrets(location), ..ReplicaRead::default() }),
        };
        let path = without_secrets(locations.first().copied().unwrap_or_default());
        let settings = settings.clone();
        let settings = if locations.len() > 1 { settings.for_one_of_several() } else { settings };
        let mut own = Self {
            path,
            name: String::new(),
            identity: OnceLock::new(),
            checksums: ChecksumQuery::default(),
            gap_bytes: 0,
            is_near: false,
            size_bytes: 0,
            replicas: by_nearness(locations).iter().map(replica).collect(),
            first: None,
            current: AtomicUsize::new(0),
            samples: Samples::default(),
            settings,
            open_one,
        };
        let mut order: Vec<usize> = (0..own.replicas.len()).collect();
        order.sort_by_key(|index| health::is_avoided(&own.replicas[*index].element));
        let (index, store) = own.first_of(&order, None, |own, index, round| own.open_first(index, round))?;
        own.current = AtomicUsize::new(index);
        (own.name, own.gap_bytes) = (store.name().to_owned(), store.gap_bytes());
        if own.replicas.len() == 1 {
            own.identity = OnceLock::from(store.identity());
            own.is_near = store.is_near();
        } else {
            own.first = Some(Arc::clone(&store));
        }
        own.size_bytes = store.size_bytes()?;
        *lock(&own.replicas[index].state) = State::Open(store);
        Ok(own)
    }

    /// Returns the store of the current replica, if it is open.
    fn current_store(&self) -> Option<Arc<dyn Store>> {
        match &*lock(&self.replicas[self.current.load(Ordering::Relaxed)].state) {
            State::Open(store) => Some(Arc::clone(store)),
            State::Closed | State::Refused(_) => None,
        }
    }

    fn open_first(&self, index: usize, round: u32) -> Result<Arc<dyn Store>> {
        let store = self.open_in_time(index, round)?;
        store.size_bytes()?;
        Ok(store)
    }

    /// Opens a replica. If the file has several replicas, fails when the time limit is exceeded.
    fn open_in_time(&self, index: usize, round: u32) -> Result<Arc<dyn Store>> {
        let replica = &self.replicas[index];
        if self.replicas.len() == 1 {
            return (self.open_one)(&replica.location, &self.settings);
        }
        let (open_one, location) = (Arc::clone(&self.open_one), replica.location.clone());
        let settings = Settings { wait_max: self.wait_max(round), ..self.settings.clone() };
        let (limit, element) = (self.last_limit(0, round), replica.element.clone());
        within(limit, move || open_patiently(&element, &settings, |settings| open_one(&location, settings)))
            .unwrap_or_else(|error| Err(self.silence_error(index, &error, limit, None)))
    }

    /// Returns the time after which a store must have failed because of its own timeouts. In the last round, this time
    /// includes waits requested by servers.
    fn last_limit(&self, bytes: u64, round: u32) -> Duration {
        let wait = self.wait_max(round);
        let one = self.settings.silence * 2 + Duration::from_secs(bytes / MOUNT_BYTES_PER_SECOND_MIN);
        one * self.settings.tries_max + wait
    }

    /// Returns the maximum wait that a server may request. Before the last round the maximum is the silence timeout,
    /// because another replica may answer.
    fn wait_max(&self, round: u32) -> Duration {
        let Settings { wait_max, silence, .. } = self.settings;
        if round + 1 == self.rounds_max() {
            wait_max
        } else {
            wait_max.min(silence)
        }
    }

    /// Builds the error for a replica that did not answer in time.
    fn silence_error(
        &self,
        index: usize,
        error: &io::Error,
        limit: Duration,
        range: Option<ByteRange>,
    ) -> StorageError {
        let Replica { element, location, .. } = &self.replicas[index];
        let fault = if error.kind() == io::ErrorKind::TimedOut {
            let reason = format!(
                "{element} sent nothing for {:.1} s, longer than expected; reading from another replica",
                limit.as_secs_f64()
            );
            Fault::new(StorageErrorKind::Timeout, reason)
        } else {
            Fault::io(error)
        };
        fault.at(&without_secrets(location), range)
    }

    /// Returns the maximum number of rounds in which all replicas are tried.
    fn rounds_max(&self) -> u32 {
        self.settings.tries_max.max(1)
    }

    /// Calls `work` with these replicas in order until a call succeeds. The last argument of `work` is the number of
    /// completed rounds.
    fn first_of<T>(
        &self,
        order: &[usize],
        range: Option<ByteRange>,
        mut work: impl FnMut(&Self, usize, u32) -> Result<T>,
    ) -> Result<(usize, T)> {
        let mut errors: Vec<StorageError> = Vec::new();
        for round in 0..self.rounds_max() {
            if round > 0 {
                std::thread::sleep(pause(self.settings.pause, round));
            }
            errors.clear();
            for index in order {
                let started = Instant::now();
                let replica = &self.replicas[*index];
                journal::set_attempt(round);
                let result = work(self, *index, round);
                journal::set_attempt(0);
                let error = match result {
                    Ok(done) => {
                        health::trust(&replica.element);
                        return Ok((*index, done));
                    }
                    Err(error) => error,
                };
                self.note_failed(replica, &error, started);
                errors.push(error);
            }
            // A timeout is worth another round, since only the last round accepts the full waits that servers request.
            let is_late = |error: &StorageError| error.kind == StorageErrorKind::Timeout && self.replicas.len() > 1;
            let again = errors.iter().any(|error| error.retry_may_help() || is_late(error));
            if !again || round + 1 == self.rounds_max() {
                self.note_silences(order, &errors);
                return Err(self.none_left(errors, range, round + 1));
            }
            let first = order.first().map_or("", |index| &self.replicas[*index].element);
            note(first, |troubles| troubles.retries_count += 1);
        }
        Err(self.none_left(errors, range, 1))
    }

    fn note_failed(&self, replica: &Replica, error: &StorageError, started: Instant) {
        use StorageErrorKind::{Changed, Timeout, Unreachable};
        let is_trouble = error.retry_may_help() || self.replicas.len() > 1 || error.kind == Timeout;
        if is_trouble && !error.is_counted && error.kind != Changed {
            note_failure(&replica.element, error.kind, started.elapsed());
        }
        if matches!(error.kind, Timeout | Unreachable) {
            health::avoid(&replica.element, is_silence(error));
        }
        let mut read = lock(&replica.read);
        read.failures_count += 1;
        read.error.clone_from(&error.message);
        drop(read);
        // The replica is closed, so that the next attempt opens it again on a new connection.
        let mut state = lock(&replica.state);
        if let State::Open(_) = *state {
            *state = State::Closed;
        }
    }

    /// Records which storage elements did not answer. `errors` are those of the replicas in `order`.
    fn note_silences(&self, order: &[usize], errors: &[StorageError]) {
        if self.replicas.len() > 1 {
            let silent = order.iter().zip(errors).filter(|(_, error)| is_silence(error));
            silent.for_each(|(index, _)| health::note_silence(&self.replicas[*index].element));
        }
    }

    /// Builds the error for a file whose replicas all failed.
    fn none_left(&self, mut errors: Vec<StorageError>, range: Option<ByteRange>, rounds: u32) -> StorageError {
        let tries = if rounds > 1 { format!(" ({rounds} tries)") } else { String::new() };
        if errors.len() == 1
            && let Some(mut error) = errors.pop()
        {
            if !error.is_counted {
                error.message = format!("{}{tries}.", error.message.trim_end_matches('.'));
            }
            return StorageError { is_counted: true, ..error };
        }
        let retry_may_help = errors.iter().any(StorageError::retry_may_help);
        let kind = errors.iter().find(|error| error.retry_may_help()).or(errors.first());
        let kind = kind.map_or(StorageErrorKind::NotFound, |error| error.kind);
        let reasons: Vec<&str> = errors.iter().map(|error| error.message.trim_end_matches('.')).collect();
        let reason = format!("none of its {} replicas can be read{tries}: {}", reasons.len(), reasons.join("; "));
        let fault = Fault { retry_may_help, is_counted: true, ..Fault::new(kind, reason) };
        fault.at(&self.path, range)
    }

    /// Returns the store of a replica. A newly opened replica is compared with the bytes read earlier, and rejected if
    /// they differ.
    fn store(&self, index: usize, round: u32) -> Result<Arc<dyn Store>> {
        let replica = &self.replicas[index];
        let mut state = lock(&replica.state);
        match &*state {
            State::Open(store) => return Ok(Arc::clone(store)),
            State::Refused(error) => return Err(error.clone()),
            State::Closed => {}
        }
        let store = self.open_in_time(index, round)?;
        if let Some(how) = self.differs(index, &store, round)? {
            let shown = without_secrets(&replica.location);
            let reason = format!("it differs from the file that was opened first: {how}");
            let error = Fault::new(StorageErrorKind::Changed, reason).at(&shown, None);
            note(&replica.element, |troubles| troubles.replicas_refused_count += 1);
            *state = State::Refused(error.clone());
            return Err(error);
        }
        *state = State::Open(Arc::clone(&store));
        Ok(store)
    }

    /// Describes how this store's file differs from the file that was opened first; None if no difference is found.
    fn differs(&self, index: usize, store: &Arc<dyn Store>, round: u32) -> Result<Option<String>> {
        let size_bytes = store.size_bytes()?;
        if size_bytes != self.size_bytes {
            return Ok(Some(format!("it has {size_bytes} bytes instead of {}", self.size_bytes)));
        }
        if self.replicas.len() == 1 {
            let changed = self.identity.get().is_some_and(|identity| store.identity() != *identity);
            return Ok(changed.then(|| "it was modified since".to_owned()));
        }
        if let Some(how) = self.has_another_checksum(store) {
            return Ok(Some(how));
        }
        let limit = self.last_limit(0, round);
        let compared = self.samples.differs(store, limit);
        let offset = compared.unwrap_or_else(|error| Err(self.silence_error(index, &error, limit, None)))?;
        Ok(offset.map(|offset| format!("its bytes at offset {offset} differ from those read at {}", self.name)))
    }

    /// Describes the difference if both replicas have a checksum of the same kind with different values; None
    /// otherwise.
    fn has_another_checksum(&self, store: &Arc<dyn Store>) -> Option<String> {
        let ours = self.checksums.answer();
        if ours.is_empty() {
            return None;
        }
        let other = Arc::clone(store);
        let theirs = within(CHECKSUM_WAIT, move || other.checksums()).ok()?;
        let kind = |checksum: &str| checksum.split(':').next().map(str::to_owned);
        let pairs = theirs.iter().flat_map(|their| ours.iter().map(move |our| (their, our)));
        let (their, our) = pairs.into_iter().find(|(their, our)| kind(their) == kind(our) && their != our)?;
        Some(format!("its checksum is {their}, but the replica at {} has {our}", self.name))
    }

    /// Reads from one replica. If the file has other replicas, fails early when this replica stalls.
    fn read_from(&self, index: usize, reads: &mut [RangeRead], round: u32) -> Result<ReadEffort> {
        let store = self.store(index, round)?;
        if self.replicas.len() == 1 {
            return store.read_ranges(reads);
        }
        let replica = &self.replicas[index];
        let bytes = reads.iter().map(|read| read.range.length).fold(store.due_bytes(), u64::saturating_add);
        let limit = lock(&replica.pace).stalls_after(bytes, self.settings.silence);
        // Each round allows a replica more time, in case it was abandoned too early. The last round allows at least the
        // time that the replica's own timeouts may take.
        let limit = limit.saturating_mul(1 << (2 * round).min(16));
        let started = Instant::now();
        let limit = if round + 1 == self.rounds_max() { limit.max(self.last_limit(bytes, round)) } else { limit };
        let effort = read_within(limit, &store, reads).unwrap_or_else(|error| {
            Err(self.silence_error(index, &error, limit, reads.first().map(|read| read.range)))
        })?;
        lock(&replica.pace).measure(bytes, started.elapsed());
        lock(&replica.read).read_bytes += effort.read_bytes;
        self.samples.add(reads);
        // Query the checksums in the background now, because they are needed if reading switches to another replica.
        if let Some(first) = &self.first {
            self.checksums.send(first);
        }
        Ok(effort)
    }

    /// Reads from the replica `first`, or from the replicas after it if reading fails.
    fn read_beginning_with(&self, first: usize, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        if let Some(read) = reads.iter().find(|read| read.range.end().is_none_or(|end| end > self.size_bytes)) {
            return Err(StorageError::truncated(&self.path, read.range, self.size_bytes));
        }
        let count = self.replicas.len();
        let order: Vec<usize> = (0..count).map(|step| (first + step) % count).collect();
        let range = reads.first().map(|read| read.range);
        let (index, effort) = self.first_of(&order, range, |own, index, round| own.read_from(index, reads, round))?;
        let before = self.current.swap(index, Ordering::Relaxed);
        if before != index {
            note(&self.replicas[before].element, |troubles| troubles.replicas_left_count += 1);
        }
        Ok(effort)
    }
}

impl Store for Replicated {
    fn name(&self) -> &str {
        &self.name
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn size_bytes(&self) -> Result<u64> {
        Ok(self.size_bytes)
    }

    fn identity(&self) -> Option<String> {
        self.identity.get_or_init(|| self.first.as_ref().and_then(|store| store.identity())).clone()
    }

    fn checksums(&self) -> Vec<String> {
        self.checksums.answer().to_vec()
    }

    fn gap_bytes(&self) -> u64 {
        self.gap_bytes
    }

    fn is_near(&self) -> bool {
        self.is_near
    }

    fn expect_reads(&self, count: usize) {
        if let Some(store) = self.current_store() {
            store.expect_reads(count);
        }
    }

    fn expect_all(&self) {
        if let Some(store) = self.current_store() {
            store.expect_all();
        }
    }

    fn remarks(&self) -> Vec<String> {
        let of = |replica: &Replica| match &*lock(&replica.state) {
            State::Open(store) => store.remarks(),
            _ => Vec::new(),
        };
        self.replicas.iter().flat_map(of).collect()
    }

    fn replicas(&self) -> Vec<ReplicaRead> {
        if self.replicas.len() == 1 {
            return Vec::new();
        }
        self.replicas.iter().map(|replica| lock(&replica.read).clone()).collect()
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        self.read_beginning_with(self.current.load(Ordering::Relaxed), reads)
    }

    fn read_again(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        let current = self.current.load(Ordering::Relaxed);
        let mut state = lock(&self.replicas[current].state);
        if let State::Open(_) = *state {
            *state = State::Closed;
        }
        drop(state);
        self.read_beginning_with((current + 1) % self.replicas.len(), reads)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
