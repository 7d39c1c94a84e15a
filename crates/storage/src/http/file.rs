//! A file at an HTTP or WebDAV server, read by ranges: several in one request where the server does that, and over
//! several connections at a time.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::vec::IntoIter;

use branchline_trace::journal;
use branchline_trace::panics::guarded;

use super::checksums::checksums;
use super::client::{client, Answer, Client, DataRequest};
use super::content_range::{range_header, ContentRange};
use super::folder::last_modified;
use super::location::{http_location, Location, Protocol};
use super::multipart::{boundary_of, PartRange, Parts};
use super::probe::{probe, Probed};
use super::web_page::is_html;
use super::webhdfs::{refusal, url_of_range, webhdfs_location, DataNodes};
use super::whole_file::{fill_from, receive, WholeFile};
use crate::limits::{AHEAD_REQUESTS_MAX, HTTP_RANGES_MAX, HTTP_REQUEST_BYTES, HTTP_THREADS, HTTP_TOGETHER_BYTES};
use crate::servers::failure::Result;
use crate::servers::retry::with_retries;
use crate::settings::Settings;
use crate::{ByteRange, RangeRead, ReadEffort, StorageError, Store};

/// A file at a server.
pub struct HttpFile {
    location: Location,
    size_bytes: u64,
    /// The server's identity of this version of the file.
    entity: Option<String>,
    /// What each server that answered first called this version: two servers may name the same one differently.
    entities: Mutex<HashMap<String, String>>,
    /// The time of its last change, requested once where the server gives no entity tag.
    modified: OnceLock<Option<String>>,
    /// The URL that the server redirected us to for the bytes, until that fails.
    direct: Mutex<Option<String>>,
    /// The same for each block of a file of HDFS.
    data_nodes: Option<DataNodes>,
    /// The copy of the file, where the server sends no parts of it.
    whole: WholeFile,
    /// The first bytes, which came when the file was opened, until they are read.
    first: Mutex<Option<Vec<u8>>>,
    client: Arc<Client>,
    settings: Settings,
}

impl HttpFile {
    /// Opens `path`, a URL of one of the schemes `http`, `https`, `dav` and `davs`.
    pub(crate) fn open(path: &str, settings: &Settings) -> crate::Result<Self> {
        let open = || Self::open_at(http_location(path)?, &client()?, settings.clone());
        open().map_err(|fault| fault.at(path, None))
    }

    /// Opens `path`, a URL of the scheme `webhdfs`.
    pub(crate) fn open_webhdfs(path: &str, settings: &Settings) -> crate::Result<Self> {
        let open = || Self::open_at(webhdfs_location(path)?, &client()?, settings.clone());
        open().map_err(|fault| fault.at(path, None))
    }

    /// Opens the file at a location.
    pub(crate) fn open_at(location: Location, client: &Arc<Client>, settings: Settings) -> Result<Self> {
        // Failures count for the server, as all that is read there does: a URL of S3 names only the bucket.
        let settings = settings.at(&location.element);
        let found = with_retries(&settings, |_| probe(client, &location, &settings))?;
        let Probed { size_bytes, entity, host, direct, data_nodes, first, whole } = found;
        let entities = Mutex::new(entity.iter().map(|entity| (host.clone(), entity.clone())).collect());
        let (direct, first) = (Mutex::new(direct), Mutex::new(first));
        let (modified, client) = (OnceLock::new(), Arc::clone(client));
        Ok(Self {
            location,
            size_bytes,
            entity,
            entities,
            modified,
            direct,
            data_nodes,
            whole,
            first,
            client,
            settings,
        })
    }

    /// Every server of S3 and WebHDFS answers one range at a time.
    fn takes_one_range_only(&self) -> bool {
        self.location.protocol != Protocol::Http || self.client.takes_one_range_only(&self.location.server)
    }

    /// The URL that a range was redirected to before.
    fn direct(&self, range: ByteRange) -> Option<String> {
        match &self.data_nodes {
            Some(nodes) => nodes.url(range),
            None => self.direct.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn set_direct(&self, range: ByteRange, url: Option<String>) {
        match &self.data_nodes {
            Some(nodes) => nodes.learn(range, url),
            None => *self.direct.lock().unwrap_or_else(PoisonError::into_inner) = url,
        }
    }

    fn take_first(&self) -> Option<Vec<u8>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Fills those reads that lie in the first bytes, which are given up then: the request that they came with counts
    /// here.
    fn fill_from_first(&self, wanted: &mut Vec<&mut RangeRead>) -> ReadEffort {
        let mut effort = ReadEffort::default();
        let Some(first) = self.take_first() else { return effort };
        wanted.retain_mut(|read| {
            let (start, length) = (read.range.offset, read.range.length);
            let range = start as usize..start.saturating_add(length) as usize;
            let (Some(bytes), Some(room)) = (first.get(range), read.room_for(length)) else { return true };
            room.copy_from_slice(bytes);
            effort = ReadEffort { calls_count: 1, read_bytes: first.len() as u64, ..effort };
            false
        });
        effort
    }

    /// The copy of the whole file, received now if it is not there.
    fn whole_file(&self) -> Result<Arc<File>> {
        self.whole.get_or(|| {
            let Location { path, element, url, authorization, .. } = &self.location;
            let bytes = self.size_bytes;
            let traced = journal::request("GET", path, element, std::iter::once((0, bytes)));
            let wanted = DataRequest { url, range: None, bytes: Some(bytes), without_body: false, traced };
            let mut answer = self.client.fetch(wanted, &**authorization, &self.settings)?;
            if !matches!(answer.status(), 200 | 203) {
                return Err(answer.refusal(&**authorization));
            }
            answer.check_encoding()?;
            let is_page = is_html(answer.header("content-type"));
            if !is_page {
                self.check_version(&answer, answer.length())?;
            }
            let received = receive(&mut answer, &**authorization, &self.settings.spool_dir)?;
            self.check_version(&answer, Some(received.size_bytes))?;
            Ok(received)
        })
    }

    /// Fills these reads from the copy of the whole file.
    fn fill_from_whole(&self, wanted: &mut [&mut RangeRead]) -> crate::Result<ReadEffort> {
        let range = wanted.first().map(|read| read.range);
        let fill = || fill_from(&*with_retries(&self.settings, |_| self.whole_file())?, wanted);
        let effort = { fill }().map_err(|fault| fault.at(&self.location.path, range))?;
        Ok(effort + self.whole.take_effort())
    }

    /// Requests these ranges, from where the server redirected us before, if it did.
    fn get(&self, reads: &[&mut RangeRead]) -> Result<Answer> {
        let header = range_header(reads.iter().map(|read| &read.range));
        // WebHDFS has the one range in its URL.
        let header = Some(&*header).filter(|_| self.data_nodes.is_none());
        let range = reads.first().map_or(ByteRange::new(0, 0), |read| read.range);
        let bytes = reads.iter().map(|read| read.range.length).fold(0, u64::saturating_add);
        let fetch = |url: &str| {
            let spans = reads.iter().map(|read| (read.range.offset, read.range.length));
            let traced = journal::request("GET", &self.location.path, &self.location.element, spans);
            let wanted = DataRequest { url, range: header, bytes: Some(bytes), without_body: false, traced };
            self.client.fetch(wanted, &*self.location.authorization, &self.settings)
        };
        if let Some(url) = &self.direct(range) {
            match fetch(url) {
                Ok(answer) if matches!(answer.status(), 200 | 206) => return Ok(answer),
                // A permission that has expired, or a server that is gone: the first server redirects us again.
                _ => self.set_direct(range, None),
            }
        }
        let of_range = self.data_nodes.as_ref().map(|_| url_of_range(&self.location, range));
        let first = of_range.as_ref().unwrap_or(&self.location.url);
        let answer = fetch(first)?;
        let url = answer.url().to_owned();
        if url != *first && matches!(answer.status(), 200 | 206) {
            self.set_direct(range, Some(url));
        }
        Ok(answer)
    }

    /// Fills these reads from one request, or from one for each where the server cannot do several.
    fn fill_group(&self, group: &mut [&mut RangeRead]) -> Result<ReadEffort> {
        let mut effort = ReadEffort::default();
        let mut filled = vec![false; group.len()];
        if group.len() > 1 && !self.takes_one_range_only() {
            with_retries(&self.settings, |_| self.fill_several(group, &mut filled, &mut effort))?;
        }
        for (read, is_filled) in group.iter_mut().zip(filled) {
            if !is_filled {
                with_retries(&self.settings, |_| self.fill_one(read, &mut effort))?;
            }
        }
        Ok(effort)
    }

    fn fill_one(&self, read: &mut RangeRead, effort: &mut ReadEffort) -> Result<()> {
        let mut answer = self.get(&[&mut *read])?;
        effort.calls_count += 1;
        let result = self.fill_from_answer(read, &mut answer);
        if result.is_err() {
            // The next try asks the first server, which may know a better place.
            self.set_direct(read.range, None);
        }
        if result? {
            effort.read_bytes += read.range.length;
            return Ok(());
        }
        // A large file takes longer than this answer may take.
        drop(answer);
        *effort = *effort + fill_from(&*self.whole_file()?, &mut [read])? + self.whole.take_effort();
        Ok(())
    }

    /// Fills a read; false if the server has sent the whole file instead.
    fn fill_from_answer(&self, read: &mut RangeRead, answer: &mut Answer) -> Result<bool> {
        let is_whole_file = read.range == ByteRange::new(0, self.size_bytes);
        let is_webhdfs = self.data_nodes.is_some();
        if matches!(answer.status(), 200 | 203 | 206) {
            answer.check_encoding()?;
        }
        match answer.status() {
            // It says no more of the bytes than how many there are, and a gateway not even that.
            200 if is_webhdfs && answer.length().is_none_or(|length| length == read.range.length) => {}
            200 | 206 if is_webhdfs => return Err(answer.changed("it has become shorter")),
            _ if is_webhdfs => return Err(refusal(answer, &self.location)),
            206 => self.check(answer, read.range)?,
            200 if is_whole_file && answer.length() == Some(self.size_bytes) => self.check_version(answer, None)?,
            200 | 203 => {
                self.whole.need();
                return Ok(false);
            }
            416 => return Err(answer.changed("it has become shorter")),
            _ => return Err(answer.refusal(&*self.location.authorization)),
        }
        answer.fill(read)?;
        answer.got(read.range.length);
        Ok(true)
    }

    /// Fills those reads for which the answer has a part, and notes which. The others are requested one by one.
    fn fill_several(&self, group: &mut [&mut RangeRead], filled: &mut [bool], effort: &mut ReadEffort) -> Result<()> {
        filled.fill(false);
        let mut answer = self.get(group)?;
        effort.calls_count += 1;
        let boundary = answer.header("content-type").and_then(boundary_of);
        let (206, Some(boundary)) = (answer.status(), boundary) else {
            return match answer.status() {
                // Refused, answered with the whole file, or with the first range alone: all these are allowed.
                200 | 206 | 400 | 413 | 414 | 416 | 431 | 501 => {
                    self.client.use_one_range_only(&self.location.server);
                    Ok(())
                }
                _ => Err(answer.refusal(&*self.location.authorization)),
            };
        };
        answer.check_encoding()?;
        self.check_version(&answer, None)?;
        let (mut got, mut has_other_size) = (0, false);
        let result = (|| {
            let mut parts = Parts::new(answer.body(), &boundary);
            // Overlapping ranges may come as one, so there may be fewer parts than ranges, but never more.
            for _ in 0..=group.len() {
                let Some(PartRange { range, size_bytes }) = parts.next_part()? else { return Ok(()) };
                has_other_size = size_bytes.is_some_and(|size| size != self.size_bytes);
                if has_other_size {
                    return Ok(());
                }
                let wanted = (0..group.len()).find(|index| group[*index].range == range && !filled[*index]);
                match wanted.and_then(|index| group[index].room_for(range.length).map(|room| (index, room))) {
                    Some((index, room)) => {
                        parts.body().read_exact(room)?;
                        filled[index] = true;
                    }
                    None => parts.skip(range.length)?,
                }
                // Not before they have come: a server may promise any number.
                got += range.length;
            }
            Err(io::Error::new(io::ErrorKind::InvalidData, "more parts than were requested"))
        })();
        effort.read_bytes += got;
        answer.got(got);
        if has_other_size {
            return Err(answer.changed("its size is another"));
        }
        result.map_err(|error| answer.broken(&error))
    }

    /// Checks that an answer is of the version of the file that was opened. A server that names versions is compared
    /// with the name that it gave before; one that answers for the first time is known by the size alone.
    fn check_version(&self, answer: &Answer, size_bytes: Option<u64>) -> Result<()> {
        if size_bytes.is_some_and(|size| size != self.size_bytes) {
            return Err(answer.changed("its size is another"));
        }
        let Some(found) = answer.entity() else { return Ok(()) };
        let mut entities = self.entities.lock().unwrap_or_else(PoisonError::into_inner);
        if *entities.entry(answer.host().to_owned()).or_insert_with(|| found.clone()) != found {
            return Err(answer.changed("the server says that it is another version"));
        }
        Ok(())
    }

    /// Checks that an answer is of the file that was opened, and has the requested range.
    fn check(&self, answer: &Answer, wanted: ByteRange) -> Result<()> {
        let found = answer.header("content-range").and_then(ContentRange::parse);
        let found = found.ok_or_else(|| answer.protocol_fault("a part that does not say which bytes it has"))?;
        self.check_version(answer, found.size_bytes)?;
        if found.range != Some(wanted) {
            return Err(answer.protocol_fault("other bytes than were requested"));
        }
        Ok(())
    }
}

/// Cuts the reads into groups, each for one request.
fn groups<'a>(mut reads: Vec<&'a mut RangeRead>, one_range_only: bool) -> Vec<Vec<&'a mut RangeRead>> {
    let all_bytes = reads.iter().map(|read| read.range.length).fold(0, u64::saturating_add);
    let is_little = all_bytes <= HTTP_TOGETHER_BYTES;
    if one_range_only || reads.len() <= HTTP_THREADS && !is_little {
        return reads.into_iter().map(|read| vec![read]).collect();
    }
    reads.sort_by_key(|read| read.range.offset);
    let share = if is_little { reads.len() } else { reads.len().div_ceil(HTTP_THREADS) };
    let ranges_max = share.min(HTTP_RANGES_MAX);
    let mut groups: Vec<Vec<&'a mut RangeRead>> = Vec::new();
    let mut bytes = 0;
    for read in reads {
        let length = read.range.length;
        match groups.last_mut() {
            Some(group) if group.len() < ranges_max && length <= HTTP_REQUEST_BYTES.saturating_sub(bytes) => {
                bytes += length;
                group.push(read);
            }
            _ => {
                bytes = length;
                groups.push(vec![read]);
            }
        }
    }
    groups
}

/// Groups that wait for a thread.
type Queue<'a> = Mutex<IntoIter<Vec<&'a mut RangeRead>>>;

impl Store for HttpFile {
    fn name(&self) -> &str {
        &self.location.element
    }

    fn path(&self) -> &str {
        &self.location.path
    }

    fn size_bytes(&self) -> crate::Result<u64> {
        Ok(self.size_bytes)
    }

    fn identity(&self) -> Option<String> {
        let modified = || self.modified.get_or_init(|| last_modified(&self.client, &self.location, &self.settings));
        let entity = match (&self.entity, self.location.protocol) {
            (None, Protocol::Http) => modified().as_ref(),
            (entity, _) => entity.as_ref(),
        };
        entity.map(|entity| format!("{} {entity}", self.size_bytes))
    }

    fn checksums(&self) -> Vec<String> {
        checksums(&self.client, &self.location, &self.settings)
    }

    fn gap_bytes(&self) -> u64 {
        self.location.gap_bytes
    }

    fn due_bytes(&self) -> u64 {
        if self.whole.is_due() {
            self.size_bytes
        } else {
            0
        }
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> crate::Result<ReadEffort> {
        let mut wanted = Vec::with_capacity(reads.len());
        for read in reads {
            if read.range.end().is_none_or(|end| end > self.size_bytes) {
                return Err(StorageError::truncated(&self.location.path, read.range, self.size_bytes));
            }
            if read.range.length > 0 {
                wanted.push(read);
            } else {
                read.room_for(0);
            }
        }
        let of_first = self.fill_from_first(&mut wanted);
        if self.whole.is_needed() && !wanted.is_empty() {
            return self.fill_from_whole(&mut wanted).map(|effort| of_first + effort);
        }
        let bytes = wanted.iter().map(|read| read.range.length).fold(0, u64::saturating_add);
        let groups = groups(wanted, self.takes_one_range_only());
        let mean_bytes = bytes / groups.len().max(1) as u64;
        let within = self.settings.requests_within(&self.location.element, mean_bytes, AHEAD_REQUESTS_MAX);
        let threads = groups.len().min(within);
        let queue: Queue<'_> = Mutex::new(groups.into_iter());
        let since = journal::queued_at();
        let thread = || {
            let _queued = journal::queued_since(since);
            guarded(|| self.read_queued(&queue))
                .unwrap_or_else(|panic| Err(StorageError::panicked(&self.location.path, &panic)))
        };
        std::thread::scope(|scope| {
            // The calling thread reads too, and alone where no other can be started.
            let start =
                |_| std::thread::Builder::new().name("branchline-read".to_owned()).spawn_scoped(scope, thread).ok();
            let others: Vec<_> = (1..threads).map_while(start).collect();
            let own = self.read_queued(&queue);
            let all = others.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            all.chain([own]).try_fold(of_first, |sum, thread| thread.map(|effort| sum + effort))
        })
    }

    fn read_again(&self, reads: &mut [RangeRead]) -> crate::Result<ReadEffort> {
        drop(self.take_first());
        self.whole.forget();
        self.read_ranges(reads)
    }
}

impl HttpFile {
    /// Reads groups until there are none. After an error the other threads find the queue empty.
    fn read_queued(&self, queue: &Queue<'_>) -> crate::Result<ReadEffort> {
        let mut sum = ReadEffort::default();
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(mut group) = next else { return Ok(sum) };
            match self.fill_group(&mut group) {
                Ok(effort) => sum = sum + effort,
                Err(fault) => {
                    queue.lock().unwrap_or_else(PoisonError::into_inner).by_ref().for_each(drop);
                    return Err(fault.at(&self.location.path, group.first().map(|read| read.range)));
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
