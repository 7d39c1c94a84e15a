//! The bytes of a journal. It begins with a head: `BLJOURN2`, the process (4 bytes), when it began (8). Blocks follow,
//! of records of one kind by one thread each: a letter, three zeros, the thread (4), how many bytes of records follow
//! (4). All numbers have their lowest byte first; `python/branchline/tracing/journals.py` reads them.
//!
//! A process may be killed while it writes: a block that is cut has the records that are whole. Texts come before what
//! has their numbers, and the ranges of a request for several before the request.

/// Bytes of a file: offset and length.
pub type Span = (u64, u64);

/// A thread writes its buffer when it has this many bytes: some hundred records, so that memory is bounded and a call
/// of the system is shared by many.
pub(super) const BUFFER_MAX: usize = 32 << 10;

const MAGIC: &[u8; 8] = b"BLJOURN2";
/// A text: its number (4), its length (4), and its bytes.
pub(super) const NAMES: u8 = b'N';
const REQUESTS: u8 = b'R';
const RANGES: u8 = b'P';
const USES: u8 = b'U';
const PAGES: u8 = b'G';
const SPANS: u8 = b'W';

pub(super) fn head(process: u32, start_ns: u64) -> Vec<u8> {
    [&MAGIC[..], &process.to_le_bytes(), &start_ns.to_le_bytes()].concat()
}

/// Appends a block with these records, if there are any, and empties `records`.
pub(super) fn put_block(bytes: &mut Vec<u8>, letter: u8, thread: u32, records: &mut Vec<u8>) {
    if records.is_empty() {
        return;
    }
    bytes.extend_from_slice(&[letter, 0, 0, 0]);
    bytes.extend_from_slice(&thread.to_le_bytes());
    bytes.extend_from_slice(&(records.len() as u32).to_le_bytes());
    bytes.extend_from_slice(records);
    records.clear();
}

pub(super) fn put_name(bytes: &mut Vec<u8>, number: u32, text: &str) {
    // No name or URL is longer, and the length of a block has only four bytes.
    let text = &text.as_bytes()[..text.len().min(1 << 16)];
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(text);
}

/// The record of a request.
pub(super) struct Request {
    pub(super) number: u32,
    /// Numbers of texts: file, store, call, outcome, wagon.
    pub(super) texts: [u32; 5],
    pub(super) connection: u32,
    pub(super) attempt: u32,
    pub(super) offset: u64,
    pub(super) requested: u64,
    pub(super) got: u64,
    /// Queued, sent, first byte, last byte.
    pub(super) times: [u64; 4],
    pub(super) has_first: bool,
}

/// Records of a thread that are not written to the file yet.
pub(super) struct Buffer {
    thread: u32,
    requests: Vec<u8>,
    ranges: Vec<u8>,
    uses: Vec<u8>,
    pages: Vec<u8>,
    spans: Vec<u8>,
}

/// Appends a record of `BYTES` bytes: numbers of four bytes, then numbers of eight.
fn put<const BYTES: usize>(bytes: &mut Vec<u8>, small: &[u32], large: &[u64]) {
    let mut record = [0; BYTES];
    let (first, second) = record.split_at_mut(4 * small.len());
    first.chunks_exact_mut(4).zip(small).for_each(|(place, number)| place.copy_from_slice(&number.to_le_bytes()));
    second.chunks_exact_mut(8).zip(large).for_each(|(place, number)| place.copy_from_slice(&number.to_le_bytes()));
    bytes.extend_from_slice(&record);
}

impl Buffer {
    pub(super) fn of(thread: u32) -> Self {
        Self {
            thread,
            requests: Vec::new(),
            ranges: Vec::new(),
            uses: Vec::new(),
            pages: Vec::new(),
            spans: Vec::new(),
        }
    }

    pub(super) fn bytes_count(&self) -> usize {
        self.requests.len() + self.ranges.len() + self.uses.len() + self.pages.len() + self.spans.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes_count() == 0
    }

    /// Appends all records to `bytes`, as blocks, and empties the buffer.
    pub(super) fn take(&mut self, bytes: &mut Vec<u8>) {
        put_block(bytes, RANGES, self.thread, &mut self.ranges);
        put_block(bytes, REQUESTS, self.thread, &mut self.requests);
        put_block(bytes, USES, self.thread, &mut self.uses);
        put_block(bytes, PAGES, self.thread, &mut self.pages);
        put_block(bytes, SPANS, self.thread, &mut self.spans);
    }

    /// A request; the ranges of one for several have a record each.
    pub(super) fn put_request(&mut self, one: &Request, first: Span, more: &[Span]) {
        if !more.is_empty() {
            for (offset, length) in std::iter::once(&first).chain(more) {
                put::<20>(&mut self.ranges, &[one.number], &[*offset, *length]);
            }
        }
        let [file, store, what, outcome, wagon] = one.texts;
        let [queued, sent, first_byte, last] = one.times;
        let first_byte = if one.has_first { first_byte } else { 0 };
        let small = [one.number, file, store, what, outcome, wagon, one.connection, one.attempt];
        let large = [one.offset, one.requested, one.got, queued, sent, first_byte, last];
        put::<88>(&mut self.requests, &small, &large);
    }

    /// A basket that was used: file, tree and branch, its number; its first entry and that behind its last, its place
    /// and size, when it was decoded, and how long decompressing and decoding took.
    pub(super) fn put_used(&mut self, texts: [u32; 3], basket: u32, numbers: [u64; 7]) {
        let [file, tree, branch] = texts;
        put::<72>(&mut self.uses, &[file, tree, branch, basket], &numbers);
    }

    /// A page that was used: file, tree and field, its column and cluster; the entries of this, its place and size,
    /// when.
    pub(super) fn put_page(&mut self, texts: [u32; 3], column: u32, cluster: u32, numbers: [u64; 5]) {
        let [file, tree, branch] = texts;
        put::<60>(&mut self.pages, &[file, tree, branch, column, cluster], &numbers);
    }

    /// What the thread did, and for which wagon; when it began and when it ended.
    pub(super) fn put_span(&mut self, texts: [u32; 2], times: [u64; 2]) {
        put::<24>(&mut self.spans, &texts, &times);
    }
}
