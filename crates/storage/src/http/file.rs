//! A file on an HTTP or WebDAV server. Reads use several connections in parallel, and request several ranges at a time
//! if the server supports requests for several ranges.

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

/// A file on an HTTP server, opened for reading.
pub struct HttpFile {
    location: Location,
    size_bytes: u64,
    /// Entity tag or modification time of this version of the file.
    entity: Option<String>,
    /// Entity tag or modification time of this version of the file on each server that has answered, by host. Two
    /// servers may use different values for the same version.
    entities: Mutex<HashMap<String, String>>,
    /// Modification time of the file, requested once if the server sends no entity tag.
    modified: OnceLock<Option<String>>,
    /// URL to which the server redirected reads. The URL is used until a read from it fails.
    direct: Mutex<Option<String>>,
    /// URLs to which reads of each block were redirected, for an HDFS file.
    data_nodes: Option<DataNodes>,
    /// Copy of the whole file, used if the server does not support ranges.
    whole: WholeFile,
    /// First bytes of the file, if the response that opened the file contained them; None once they have been read.
    first: Mutex<Option<Vec<u8>>>,
    client: Arc<Client>,
    settings: Settings,
}

impl HttpFile {
    /// Opens a URL with the scheme `http`, `https`, `dav` or `davs`.
    pub(crate) fn open(path: &str, settings: &Settings) -> crate::Result<Self> {
        let open = || Self::open_at(http_location(path)?, &client()?, settings.clone());
        open().map_err(|fault| fault.at(path, None))
    }

    /// Opens a URL with the scheme `webhdfs`.
    pub(crate) fn open_webhdfs(path: &str, settings: &Settings) -> crate::Result<Self> {
        let open = || Self::open_at(webhdfs_location(path)?, &client()?, settings.clone());
        open().map_err(|fault| fault.at(path, None))
    }

    /// Opens the file at an HTTP, WebDAV, S3 or WebHDFS location.
    pub(crate) fn open_at(location: Location, client: &Arc<Client>, settings: Settings) -> Result<Self> {
        // Failures are counted per server. An S3 URL names only the bucket, so take the server from the location.
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

    /// Returns whether a request may contain only one range, as for all S3 and WebHDFS servers.
    fn takes_one_range_only(&self) -> bool {
        self.location.protocol != Protocol::Http || self.client.takes_one_range_only(&self.location.server)
    }

    /// Returns the URL to which an earlier request for the same file, or the same block of an HDFS file, was
    /// redirected.
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

    /// Fills reads from the first bytes of the file, which arrived in the opening response, and then drops these bytes.
    /// If any read was filled, the opening request is counted as one call.
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

    /// Returns the copy of the whole file, after downloading the file if necessary.
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

    /// Fills reads from the copy of the whole file.
    fn fill_from_whole(&self, wanted: &mut [&mut RangeRead]) -> crate::Result<ReadEffort> {
        let range = wanted.first().map(|read| read.range);
        let fill = || fill_from(&*with_retries(&self.settings, |_| self.whole_file())?, wanted);
        let effort = { fill }().map_err(|fault| fault.at(&self.location.path, range))?;
        Ok(effort + self.whole.take_effort())
    }

    /// Requests ranges, preferably from the URL to which an earlier request was redirected.
    fn get(&self, reads: &[&mut RangeRead]) -> Result<Answer> {
        let header = range_header(reads.iter().map(|read| &read.range));
        // In WebHDFS, the URL contains the range, so there is no `Range` header.
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
                // The permission has expired or the server is gone. The first server will redirect the request again.
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

    /// Fills reads with one request, or with one request per read if the server does not support several ranges.
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
            // The retry goes to the first server, which may redirect it to a working server.
            self.set_direct(read.range, None);
        }
        if result? {
            effort.read_bytes += read.range.length;
            return Ok(());
        }
        // The response is dropped, because downloading a large file takes longer than the response's time limit.
        drop(answer);
        *effort = *effort + fill_from(&*self.whole_file()?, &mut [read])? + self.whole.take_effort();
        Ok(())
    }

    /// Fills a read from a response. Returns false if the server sent the whole file instead of the range.
    fn fill_from_answer(&self, read: &mut RangeRead, answer: &mut Answer) -> Result<bool> {
        let is_whole_file = read.range == ByteRange::new(0, self.size_bytes);
        let is_webhdfs = self.data_nodes.is_some();
        if matches!(answer.status(), 200 | 203 | 206) {
            answer.check_encoding()?;
        }
        match answer.status() {
            // WebHDFS servers report only the number of bytes, and some gateways not even this number.
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

    /// Fills the reads that the response contains, and marks them in `filled`. The caller requests the other reads one
    /// by one.
    fn fill_several(&self, group: &mut [&mut RangeRead], filled: &mut [bool], effort: &mut ReadEffort) -> Result<()> {
        filled.fill(false);
        let mut answer = self.get(group)?;
        effort.calls_count += 1;
        let boundary = answer.header("content-type").and_then(boundary_of);
        let (206, Some(boundary)) = (answer.status(), boundary) else {
            return match answer.status() {
                // The server refused several ranges, or sent the whole file or only the first range. Servers may do any
                // of these.
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
            // The number of parts cannot exceed the number of ranges. It may be lower, since the server may merge
            // overlapping ranges.
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
                // Bytes are counted after they have arrived, since a server may announce any number.
                got += range.length;
            }
            Err(io::Error::new(io::ErrorKind::InvalidData, "more parts than requested"))
        })();
        effort.read_bytes += got;
        answer.got(got);
        if has_other_size {
            return Err(answer.changed("its size differs"));
        }
        result.map_err(|error| answer.broken(&error))
    }

    /// Checks that a response belongs to the version of the file that was opened. The entity tag or modification time
    /// must equal the value that the same server sent before. For the first response of a server, only the size is
    /// checked.
    fn check_version(&self, answer: &Answer, size_bytes: Option<u64>) -> Result<()> {
        if size_bytes.is_some_and(|size| size != self.size_bytes) {
            return Err(answer.changed("its size differs"));
        }
        let Some(found) = answer.entity() else { return Ok(()) };
        let mut entities = self.entities.lock().unwrap_or_else(PoisonError::into_inner);
        if *entities.entry(answer.host().to_owned()).or_insert_with(|| found.clone()) != found {
            return Err(answer.changed("its entity tag or modification time differs"));
        }
        Ok(())
    }

    /// Checks that a response belongs to the version of the file that was opened, and contains the requested range.
    fn check(&self, answer: &Answer, wanted: ByteRange) -> Result<()> {
        let found = answer.header("content-range").and_then(ContentRange::parse);
        let found = found.ok_or_else(|| answer.protocol_fault("a part without a valid Content-Range"))?;
        self.check_version(answer, found.size_bytes)?;
        if found.range != Some(wanted) {
            return Err(answer.protocol_fault("other bytes than requested"));
        }
        Ok(())
    }
}

/// Splits reads into groups, so that each group is one request.
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

/// Queue of groups that are waiting for a thread.
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
            // The calling thread reads too, on its own if no other thread can be started.
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
    /// Reads groups from the queue until the queue is empty. After an error, the queue is emptied to stop the other
    /// threads.
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
