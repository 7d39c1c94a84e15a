//! The records of a journal. Each record consists of its length, its content and a checksum. The first record describes
//! the merge, and each of the following records describes an input or a cluster in an output. An incomplete record and
//! everything after it are ignored.

use xxhash_rust::xxh3::xxh3_64;

use crate::error::ReadErrorKind;
use crate::write::placed::{Placed, PlacedBasket, PlacedCluster};

const MAGIC: &[u8] = b"branchline merge 5";
/// Size of a number, or of the checksum of a record.
const NUMBER_BYTES: usize = 8;
/// Size of an encoded location, which consists of five numbers.
const PLACE_BYTES: usize = 5 * NUMBER_BYTES;
/// First byte of a record about an input.
const INPUT: u8 = 1;
const CLUSTER: u8 = 2;

/// Identifies the merge to which a journal belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalHeader {
    /// Digest of the list of inputs.
    pub(crate) inputs: u128,
    /// Digest of all options that affect the layout of the outputs.
    pub(crate) options: u128,
    /// Identifies the boot of the machine if the journal is only valid until a restart; else 0.
    pub(crate) machine_start: u128,
}

/// How an input was added, or why it was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct InputRecord {
    /// A digest that changes when the input changes; 0 if the input could not be opened.
    pub(crate) identity: u128,
    /// The index of the output that contains the input, and the end of the output after the input was added.
    pub(crate) position: Position,
    /// Why the input was skipped.
    pub(crate) skipped: Option<SkipReason>,
    /// For each tree of the input, the locations of its baskets, branch by branch.
    pub(crate) trees: Vec<Vec<Placed>>,
}

/// Why an input was skipped. Contains those parts of the error that are needed to report it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkipReason {
    pub(crate) kind: ReadErrorKind,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) retry_may_help: bool,
}

/// New baskets of a tree in an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClusterRecord {
    /// The index of the input that was being added; `identity` is the identity of that input.
    pub(crate) input: u64,
    pub(crate) identity: u128,
    /// The index of the output.
    pub(crate) volume: u64,
    /// The path of the tree.
    pub(crate) path: String,
    pub(crate) cluster: PlacedCluster,
}

/// The index of an output, and an offset in that output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position {
    pub(crate) volume: u64,
    pub(crate) end: u64,
}

/// A record after the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    Input(InputRecord),
    Cluster(ClusterRecord),
}

/// The content of a journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct JournalContents {
    pub(crate) header: JournalHeader,
    pub(crate) records: Vec<ReadRecord>,
}

/// A record, with its end offset in the journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReadRecord {
    pub(crate) record: Record,
    pub(crate) end: u64,
}

impl Record {
    /// The end of the output at the time of the record.
    pub(crate) fn position(&self) -> Position {
        match self {
            Self::Input(input) => input.position,
            Self::Cluster(ClusterRecord { volume, cluster, .. }) => {
                let last = cluster.baskets.last();
                let end = last.map_or(0, |basket| basket.place.seek.saturating_add(basket.place.size));
                Position { volume: *volume, end }
            }
        }
    }

    /// Encodes the record.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Input(input) => input.bytes(),
            Self::Cluster(cluster) => cluster.bytes(),
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        match *kind {
            INPUT => InputRecord::read(rest).map(Self::Input),
            CLUSTER => ClusterRecord::read(rest).map(Self::Cluster),
            _ => None,
        }
    }
}

impl JournalHeader {
    /// Encodes the header.
    pub(crate) fn bytes(self) -> Vec<u8> {
        let [inputs, options, start] = [self.inputs, self.options, self.machine_start].map(u128::to_be_bytes);
        framed(&[MAGIC, &inputs, &options, &start].concat())
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes.strip_prefix(MAGIC)?);
        let (inputs, options, machine_start) = (cursor.identity()?, cursor.identity()?, cursor.identity()?);
        cursor.0.is_empty().then_some(Self { inputs, options, machine_start })
    }
}

impl ClusterRecord {
    fn bytes(&self) -> Vec<u8> {
        let Self { input, identity, volume, path, cluster } = self;
        let mut bytes = vec![CLUSTER];
        bytes.extend(identity.to_be_bytes());
        put(&mut bytes, &[*input, *volume, cluster.entries_count, cluster.baskets.len() as u64]);
        for PlacedBasket { branch, place } in &cluster.baskets {
            put(&mut bytes, &[*branch as u64]);
            put_place(&mut bytes, place);
        }
        bytes.extend(path.as_bytes());
        framed(&bytes)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let (identity, input, volume) = (cursor.identity()?, cursor.number()?, cursor.number()?);
        let (entries_count, count) = (cursor.number()?, usize::try_from(cursor.number()?).ok()?);
        let row_bytes = NUMBER_BYTES + PLACE_BYTES;
        let rows = cursor.take(count.checked_mul(row_bytes)?)?;
        let row = |row: &[u8]| {
            let mut row = Cursor(row);
            Some(PlacedBasket { branch: usize::try_from(row.number()?).ok()?, place: row.place()? })
        };
        let baskets = rows.chunks_exact(row_bytes).map(row).collect::<Option<_>>()?;
        let path = String::from_utf8(cursor.0.to_vec()).ok()?;
        Some(Self { input, identity, volume, path, cluster: PlacedCluster { entries_count, baskets } })
    }
}

impl InputRecord {
    fn bytes(&self) -> Vec<u8> {
        let Self { identity, position, skipped, trees } = self;
        let mut bytes = vec![INPUT];
        bytes.extend(identity.to_be_bytes());
        put(&mut bytes, &[position.volume, position.end, trees.len() as u64]);
        for tree in trees {
            put(&mut bytes, &[tree.len() as u64]);
            tree.iter().for_each(|place| put_place(&mut bytes, place));
        }
        put(&mut bytes, &[u64::from(skipped.is_some())]);
        if let Some(SkipReason { kind, message, hint, retry_may_help }) = skipped {
            put(&mut bytes, &[number_of(*kind), u64::from(*retry_may_help), u64::from(hint.is_some())]);
            for text in [Some(message), hint.as_ref()].into_iter().flatten() {
                put(&mut bytes, &[text.len() as u64]);
                bytes.extend_from_slice(text.as_bytes());
            }
        }
        framed(&bytes)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let identity = cursor.identity()?;
        let position = Position { volume: cursor.number()?, end: cursor.number()? };
        let mut trees = Vec::new();
        for _ in 0..cursor.number()? {
            let count = usize::try_from(cursor.number()?).ok()?;
            let rows = cursor.take(count.checked_mul(PLACE_BYTES)?)?;
            trees.push(rows.chunks_exact(PLACE_BYTES).map(|row| Cursor(row).place()).collect::<Option<_>>()?);
        }
        let skipped = if cursor.number()? == 0 { None } else { Some(SkipReason::read(&mut cursor)?) };
        Some(Self { identity, position, skipped, trees })
    }
}

impl SkipReason {
    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let kind = kind_of(cursor.number()?)?;
        let (retry_may_help, has_hint) = (cursor.number()? != 0, cursor.number()? != 0);
        let message = cursor.text()?;
        let hint = if has_hint { Some(cursor.text()?) } else { None };
        Some(Self { kind, message, hint, retry_may_help })
    }
}

/// All kinds of errors. The index of a kind is its number in a journal.
const ERROR_KINDS: [ReadErrorKind; 11] = [
    ReadErrorKind::Missing,
    ReadErrorKind::BadFile,
    ReadErrorKind::Storage,
    ReadErrorKind::Output,
    ReadErrorKind::NoSuchKey,
    ReadErrorKind::Unsupported,
    ReadErrorKind::MemoryLimit,
    ReadErrorKind::Stuck,
    ReadErrorKind::Option,
    ReadErrorKind::Internal,
    ReadErrorKind::Refused,
];

/// Returns the number that stands for a kind of error in a journal. The match is exhaustive, so that a new kind without
/// a number causes a compile error.
fn number_of(kind: ReadErrorKind) -> u64 {
    match kind {
        ReadErrorKind::Missing => 0,
        ReadErrorKind::BadFile => 1,
        ReadErrorKind::Storage => 2,
        ReadErrorKind::Output => 3,
        ReadErrorKind::NoSuchKey => 4,
        ReadErrorKind::Unsupported => 5,
        ReadErrorKind::MemoryLimit => 6,
        ReadErrorKind::Stuck => 7,
        ReadErrorKind::Option => 8,
        ReadErrorKind::Internal => 9,
        ReadErrorKind::Refused => 10,
    }
}

fn kind_of(number: u64) -> Option<ReadErrorKind> {
    ERROR_KINDS.get(usize::try_from(number).ok()?).copied()
}

impl JournalContents {
    /// Reads a journal up to the first incomplete record. Returns None if even the header is incomplete.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let header = JournalHeader::read(cursor.record()?)?;
        let mut records = Vec::new();
        while let Some(record) = cursor.record().and_then(Record::read) {
            records.push(ReadRecord { record, end: (bytes.len() - cursor.0.len()) as u64 });
        }
        Some(Self { header, records })
    }
}

/// Frames a record: puts its size before it and its checksum after it.
fn framed(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_be_bytes()[..], bytes, &xxh3_64(bytes).to_be_bytes()].concat()
}

fn put(bytes: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
}

fn put_place(bytes: &mut Vec<u8>, place: &Placed) {
    let Placed { first_entry, seek, size, plain_size, digest } = *place;
    put(bytes, &[first_entry, seek, size, plain_size, digest]);
}

/// The bytes that have not been read yet.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take(NUMBER_BYTES)?.try_into().ok().map(u64::from_be_bytes)
    }

    fn text(&mut self) -> Option<String> {
        let size = usize::try_from(self.number()?).ok()?;
        String::from_utf8(self.take(size)?.to_vec()).ok()
    }

    fn identity(&mut self) -> Option<u128> {
        self.take(2 * NUMBER_BYTES)?.try_into().ok().map(u128::from_be_bytes)
    }

    fn place(&mut self) -> Option<Placed> {
        let (first_entry, seek, size) = (self.number()?, self.number()?, self.number()?);
        Some(Placed { first_entry, seek, size, plain_size: self.number()?, digest: self.number()? })
    }

    fn record(&mut self) -> Option<&'a [u8]> {
        let size = usize::try_from(self.number()?).ok()?;
        let bytes = self.take(size)?;
        (self.number()? == xxh3_64(bytes)).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Written {
        header: JournalHeader,
        records: Vec<Record>,
        bytes: Vec<u8>,
    }

    fn written() -> Written {
        let header = JournalHeader { inputs: 1 << 100, options: 7, machine_start: 1 << 90 };
        let copied = |seek| Placed { first_entry: 6, seek, size: 20, plain_size: 30, digest: seek * 99 };
        let place = Placed { first_entry: 1, seek: 2, size: 3, plain_size: 4, digest: 5 };
        let baskets = vec![PlacedBasket { branch: 0, place }, PlacedBasket { branch: 3, place }];
        let cluster = PlacedCluster { entries_count: 8, baskets };
        let at = |volume, end| Position { volume, end };
        let (message, hint) = ("cut".to_string(), Some("copy it".to_string()));
        let skipped = SkipReason { kind: ReadErrorKind::Storage, message, hint, retry_may_help: true };
        let records = vec![
            Record::Input(InputRecord {
                identity: 5,
                position: at(0, 9),
                skipped: None,
                trees: vec![vec![copied(3)], vec![]],
            }),
            Record::Cluster(ClusterRecord { input: 1, identity: 7, volume: 1, path: "deep/er".to_string(), cluster }),
            Record::Input(InputRecord { position: at(1, 0), skipped: Some(skipped), ..Default::default() }),
        ];
        let mut bytes = header.bytes();
        records.iter().for_each(|record| bytes.extend(record.bytes()));
        Written { header, records, bytes }
    }

    #[test]
    fn what_was_written_is_read() {
        let Written { header, records, bytes } = written();
        let read = JournalContents::read(&bytes).unwrap();
        assert_eq!(read.header, header);
        assert_eq!(read.records.last().unwrap().end, bytes.len() as u64);
        assert_eq!(read.records.into_iter().map(|one| one.record).collect::<Vec<_>>(), records);
    }

    #[test]
    fn each_kind_of_error_has_its_number() {
        for (number, kind) in ERROR_KINDS.into_iter().enumerate() {
            assert_eq!((number_of(kind), kind_of(number as u64)), (number as u64, Some(kind)));
        }
        assert_eq!(kind_of(ERROR_KINDS.len() as u64), None);
    }

    #[test]
    fn of_a_journal_that_is_cut_anywhere_whole_records_are_read() {
        let Written { records, bytes, .. } = written();
        let whole = JournalContents::read(&bytes).unwrap().records;
        for end in 0..bytes.len() {
            let expected = whole.iter().filter(|one| one.end <= end as u64).count();
            let read = JournalContents::read(&bytes[..end]).map_or(Vec::new(), |read| read.records);
            assert_eq!(read.len(), expected, "cut at {end}");
            assert!(read.iter().map(|one| &one.record).eq(&records[..expected]));
        }
    }

    #[test]
    fn nothing_behind_a_wrong_byte_is_believed() {
        let bytes = written().bytes;
        let whole = JournalContents::read(&bytes).unwrap().records;
        for place in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[place] ^= 0xff;
            let read = JournalContents::read(&wrong).map_or(Vec::new(), |read| read.records);
            assert_eq!(read.len(), whole.iter().filter(|one| one.end <= place as u64).count(), "at {place}");
        }
    }
}
