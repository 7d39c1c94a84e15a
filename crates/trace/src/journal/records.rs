//! Binary format of a journal. It starts with a header: `BLJOURN2`, the process ID (4 bytes), and the start time (8).
//! Blocks follow, each with records of one kind from one thread: a letter, three zeros, the thread ID (4), the size of
//! the records (4), and the records. All numbers are little-endian; `python/branchline/tracing/journals.py` reads them.
//! A process may be killed while writing: the complete records of a truncated block are valid. Strings precede the
//! records that refer to them. A request for several ranges is preceded by one record for each range.

/// Range of a file: offset and length.
pub type Span = (u64, u64);

/// Size at which a thread writes its buffer: a few hundred records, which limits the memory and needs few system calls.
pub(super) const BUFFER_MAX: usize = 32 << 10;

const MAGIC: &[u8; 8] = b"BLJOURN2";
/// A string: its ID (4 bytes), its length (4 bytes), and its bytes.
pub(super) const NAMES: u8 = b'N';
const REQUESTS: u8 = b'R';
const RANGES: u8 = b'P';
const USES: u8 = b'U';
const PAGES: u8 = b'G';
const SPANS: u8 = b'W';

pub(super) fn head(process: u32, start_ns: u64) -> Vec<u8> {
    [&MAGIC[..], &process.to_le_bytes(), &start_ns.to_le_bytes()].concat()
}

/// Appends a block with these records, if there are any, and clears `records`.
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
    // Truncated, so that the length of a block fits into four bytes. Real names and URLs are shorter.
    let text = &text.as_bytes()[..text.len().min(1 << 16)];
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(text);
}

/// Record of a request.
pub(super) struct Request {
    pub(super) number: u32,
    /// String IDs of file, store, call, outcome and wagon.
    pub(super) texts: [u32; 5],
    pub(super) connection: u32,
    pub(super) attempt: u32,
    pub(super) offset: u64,
    pub(super) requested: u64,
    pub(super) got: u64,
    /// Times when the request was queued and sent, and when its first and last byte arrived.
    pub(super) times: [u64; 4],
    pub(super) has_first: bool,
}

/// Records of a thread that have not been written yet.
pub(super) struct Buffer {
    thread: u32,
    requests: Vec<u8>,
    ranges: Vec<u8>,
    uses: Vec<u8>,
    pages: Vec<u8>,
    spans: Vec<u8>,
}

/// Appends a record of `BYTES` bytes: 4-byte numbers, then 8-byte numbers.
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

    /// Moves all records to `bytes`, as blocks.
    pub(super) fn take(&mut self, bytes: &mut Vec<u8>) {
        put_block(bytes, RANGES, self.thread, &mut self.ranges);
        put_block(bytes, REQUESTS, self.thread, &mut self.requests);
        put_block(bytes, USES, self.thread, &mut self.uses);
        put_block(bytes, PAGES, self.thread, &mut self.pages);
        put_block(bytes, SPANS, self.thread, &mut self.spans);
    }

    /// Adds a request. If it has several ranges, each gets its own record.
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

    /// Adds a used basket: string IDs of file, tree and branch; basket index; entry range; offset and size; time of
    /// decoding; durations of decompression and decoding.
    pub(super) fn put_used(&mut self, texts: [u32; 3], basket: u32, numbers: [u64; 7]) {
        let [file, tree, branch] = texts;
        put::<72>(&mut self.uses, &[file, tree, branch, basket], &numbers);
    }

    /// Adds a used page. `texts` are the string IDs of file, tree and field. `numbers` are the entry range of the
    /// cluster (2 numbers), the offset and the size of the page, and the time of use.
    pub(super) fn put_page(&mut self, texts: [u32; 3], column: u32, cluster: u32, numbers: [u64; 5]) {
        let [file, tree, branch] = texts;
        put::<60>(&mut self.pages, &[file, tree, branch, column, cluster], &numbers);
    }

    /// Adds an activity of the thread: string IDs of activity and wagon, start and end time.
    pub(super) fn put_span(&mut self, texts: [u32; 2], times: [u64; 2]) {
        put::<24>(&mut self.spans, &texts, &times);
    }
}
