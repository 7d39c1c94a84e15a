//! Opens a file on a server: determines the file's size and version, and whether the server supports ranges.

use std::io::Read;

use branchline_trace::journal;

use super::client::{Answer, Client, DataRequest};
use super::content_range::{range_header, ContentRange};
use super::location::{Location, Protocol};
use super::webhdfs::{status_of, DataNodes};
use super::whole_file::{receive, WholeFile};
use crate::limits::{PART_LINE_BYTES_MAX, WEB_PAGE_BYTES, WHOLE_FILE_AT_ONCE_BYTES};
use crate::servers::failure::Result;
use crate::settings::Settings;
use crate::{ByteRange, RangeRead};

/// Properties of a file, as reported by the server when it was opened.
pub(super) struct Probed {
    pub(super) size_bytes: u64,
    pub(super) entity: Option<String>,
    /// Host and port of the server that answered.
    pub(super) host: String,
    /// URL to which the first server redirected the request; None without a redirect.
    pub(super) direct: Option<String>,
    pub(super) data_nodes: Option<DataNodes>,
    /// First bytes of the file, if requested and contained in the response.
    pub(super) first: Option<Vec<u8>>,
    pub(super) whole: WholeFile,
}

impl Probed {
    fn of(answer: &Answer, location: &Location, size_bytes: u64) -> Self {
        Self {
            size_bytes,
            entity: answer.entity(),
            host: answer.host().to_owned(),
            direct: Some(answer.url()).filter(|found| *found != location.url).map(str::to_owned),
            data_nodes: None,
            first: None,
            whole: WholeFile::default(),
        }
    }
}

/// Client, location and settings of the requests that open a file.
struct Query<'a> {
    client: &'a Client,
    location: &'a Location,
    settings: &'a Settings,
}

/// Opens a file by requesting its first bytes. HEAD is not enough, because some servers omit the size from its
/// response, and some refuse HEAD.
pub(super) fn probe(client: &Client, location: &Location, settings: &Settings) -> Result<Probed> {
    let query = Query { client, location, settings };
    if location.protocol == Protocol::WebHdfs {
        return query.webhdfs();
    }
    let first_bytes = settings.first_bytes.max(1);
    let what = if settings.first_bytes > 0 { "GET" } else { "GET about" };
    let mut answer = query.request(what, Some(ByteRange::new(0, first_bytes)), Some(first_bytes))?;
    let range = answer.header("content-range").and_then(ContentRange::parse);
    match answer.status() {
        206 => query.part(answer, range),
        416 if range.is_some_and(|range| range.size_bytes == Some(0)) => Ok(Probed::of(&answer, location, 0)),
        // With this status, S3 sends no size if the object is empty. Other servers refuse every range.
        416 if range.is_none() => query.without_ranges(),
        200 | 203 => query.whole(answer),
        _ => Err(answer.refusal(&*location.authorization)),
    }
}

impl Query<'_> {
    fn request(&self, what: &'static str, range: Option<ByteRange>, bytes: Option<u64>) -> Result<Answer> {
        let Location { path, element, url, authorization, .. } = self.location;
        let traced = journal::request(what, path, element, range.iter().map(|range| (range.offset, range.length)));
        let header = range.map(|range| range_header(std::iter::once(&range)));
        let wanted = DataRequest { url, range: header.as_deref(), bytes, without_body: what == "HEAD", traced };
        self.client.fetch(wanted, &**authorization, self.settings)
    }

    /// Handles a response that contains the requested part of the file.
    fn part(&self, mut answer: Answer, range: Option<ContentRange>) -> Result<Probed> {
        answer.check_encoding()?;
        let Some(ContentRange { range: Some(found), size_bytes }) = range else {
            return Err(answer.protocol_fault("a part without a valid Content-Range"));
        };
        let first_bytes = self.settings.first_bytes.max(1);
        let expected = ByteRange::new(0, size_bytes.map_or(found.length, |size| first_bytes.min(size)));
        let mut start = Vec::new();
        if found == expected && found.length > 0 && found.length <= first_bytes {
            let mut read = RangeRead::new(expected);
            answer.fill(&mut read)?;
            start.extend(read.bytes());
        } else if size_bytes != Some(0) {
            // The body is read completely, so that the connection can be reused, but only up to a limited length.
            let rest = answer.body().take(PART_LINE_BYTES_MAX as u64).read_to_end(&mut start);
            rest.map_err(|error| answer.broken(&error))?;
        }
        answer.got(start.len() as u64);
        if !start.is_empty() {
            answer.check_web_page(&start, &*self.location.authorization)?;
        }
        let mut probed = match size_bytes {
            Some(size_bytes) => Probed::of(&answer, self.location, size_bytes),
            None => self.size_elsewhere(&answer, found)?,
        };
        // If the size of the file is unknown, the response may contain fewer bytes than requested although the file
        // continues.
        let is_first = self.settings.first_bytes > 0 && found == expected && start.len() as u64 == expected.length;
        probed.first = is_first.then_some(start);
        Ok(probed)
    }

    /// Determines the size of a file if the server's partial responses omit the size. Sends a HEAD request and, if its
    /// response has no size either, a request for the whole file.
    fn size_elsewhere(&self, part: &Answer, found: ByteRange) -> Result<Probed> {
        let is_possible = |size: &u64| found.end().is_some_and(|end| end <= *size);
        let head = self.request("HEAD", None, Some(0));
        let with_size = |answer: &Answer| answer.length().filter(is_possible).filter(|_| answer.status() == 200);
        let (answer, size_bytes) = match head.ok().and_then(|head| with_size(&head).map(|size| (head, size))) {
            Some(found) => found,
            None => {
                let whole = self.request("GET", None, Some(0))?;
                match with_size(&whole) {
                    Some(size) => (whole, size),
                    None => return self.whole(whole),
                }
            }
        };
        let (before, now) = (part.entity(), answer.entity());
        if part.host() == answer.host() && before.is_some() && now.is_some() && before != now {
            return Err(part.protocol_fault("two versions of the file"));
        }
        Ok(Probed::of(part, self.location, size_bytes))
    }

    /// Handles a server that does not support ranges: determines the size with HEAD, or else requests the whole file.
    fn without_ranges(&self) -> Result<Probed> {
        let head = self.request("HEAD", None, Some(0))?;
        if head.status() == 200
            && let Some(size_bytes) = head.length()
        {
            let mut probed = Probed::of(&head, self.location, size_bytes);
            probed.whole = WholeFile::needed(size_bytes > 0);
            return Ok(probed);
        }
        self.whole(self.request("GET", None, Some(0))?)
    }

    /// Handles a response that contains the whole file. A small file is kept. A large file is requested again when it
    /// is read, because that request has a time limit that depends on the file's size.
    fn whole(&self, mut answer: Answer) -> Result<Probed> {
        let authorization = &*self.location.authorization;
        if !matches!(answer.status(), 200 | 203) {
            return Err(answer.refusal(authorization));
        }
        answer.check_encoding()?;
        let length = answer.length();
        let is_size_only = self.settings.is_size_only;
        let is_small = !is_size_only && length.is_some_and(|length| length <= WHOLE_FILE_AT_ONCE_BYTES);
        if length == Some(0) {
            return Ok(Probed::of(&answer, self.location, 0));
        }
        if !is_small {
            let mut start = Vec::new();
            let read = answer.body().take(WEB_PAGE_BYTES).read_to_end(&mut start);
            read.map_err(|error| answer.broken(&error))?;
            answer.check_web_page(&start, authorization)?;
        }
        if let Some(size_bytes) = length.filter(|_| !is_small) {
            let mut probed = Probed::of(&answer, self.location, size_bytes);
            probed.whole = WholeFile::needed(true);
            return Ok(probed);
        }
        if length.is_none() {
            if is_size_only {
                return Err(answer.protocol_fault("a file without its size").final_for_now());
            }
            answer = self.request("GET", None, None)?;
        }
        let received = receive(&mut answer, authorization, &self.settings.spool_dir)?;
        let mut probed = Probed::of(&answer, self.location, received.size_bytes);
        probed.whole = WholeFile::received(received);
        Ok(probed)
    }

    fn webhdfs(&self) -> Result<Probed> {
        let (status, answer) = status_of(self.client, self.location, self.settings)?;
        Ok(Probed {
            entity: Some(format!("modified {}", status.modified)),
            direct: None,
            data_nodes: Some(DataNodes::of(&status)),
            ..Probed::of(&answer, self.location, status.size_bytes)
        })
    }
}
