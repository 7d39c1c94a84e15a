//! The journal of a merge: which inputs are surely on the disk, and where their baskets lie. It lies beside the output
//! while this has not its name, so that a merge that was killed can be gone on with.
//!
//! It is a list of records: the number of their bytes, the bytes, and a checksum. The first says of which merge it is,
//! each other one what became of an input. What follows a record that is not whole counts for nothing.

pub(crate) mod resume;
pub(crate) mod writer;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::write::baskets::copy::Copied;
use crate::write::baskets::rewrite::{Flushed, LaidBasket};

const MAGIC: &[u8] = b"branchline merge 3";
/// Bytes that say how long a record is, and bytes of its checksum.
const NUMBER_BYTES: usize = 8;
/// Bytes of what is said of a basket.
const BASKET_BYTES: usize = 4 * NUMBER_BYTES;
/// Bytes of what is said of a new basket.
const LAID_BYTES: usize = 6 * NUMBER_BYTES;
/// What a record is begins it.
const DONE: u8 = 1;
const LAYING: u8 = 2;

/// Of which merge a journal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Merging {
    /// Of the list of its inputs.
    pub(crate) inputs: u128,
    /// Of all that decides how they are laid down.
    pub(crate) options: u128,
    /// Since when the machine runs, if what is noted may not outlive that; else 0.
    pub(crate) start: u128,
}

/// What became of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    /// Tells it from others, and from itself when it was changed; 0 if it could not be opened.
    pub(crate) identity: u128,
    /// In which of the outputs it is.
    pub(crate) volume: u64,
    /// Where this ended behind it.
    pub(crate) end: u64,
    /// Why it is not in the output.
    pub(crate) skipped: Option<String>,
    /// Of each of its trees where the baskets lie, branch by branch.
    pub(crate) trees: Vec<Vec<Copied>>,
}

/// New baskets of a tree that lie in an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Laying {
    /// The input that was being added, and what tells it from others.
    pub(crate) input: u64,
    pub(crate) identity: u128,
    pub(crate) volume: u64,
    pub(crate) path: String,
    pub(crate) flushed: Flushed,
}

/// What a record of a journal is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Noted {
    Done(Done),
    Laying(Laying),
}

/// What is read of a journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) merging: Merging,
    /// What was noted, and where in the journal its record ends.
    pub(crate) noted: Vec<(Noted, u64)>,
}

impl Noted {
    /// In which output this was, and what surely lies in it then.
    pub(crate) fn reaches(&self) -> (u64, u64) {
        match self {
            Self::Done(done) => (done.volume, done.end),
            Self::Laying(laying) => {
                let last = laying.flushed.baskets.last();
                (laying.volume, last.map_or(0, |(_, basket)| basket.seek.saturating_add(basket.size)))
            }
        }
    }

    /// Its record.
    pub(crate) fn record(&self) -> Vec<u8> {
        match self {
            Self::Done(done) => done.record(),
            Self::Laying(laying) => laying.record(),
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        match *tag {
            DONE => Done::read(rest).map(Self::Done),
            LAYING => Laying::read(rest).map(Self::Laying),
            _ => None,
        }
    }
}

impl Laying {
    fn record(&self) -> Vec<u8> {
        let Self { input, identity, volume, path, flushed } = self;
        let mut bytes = vec![LAYING];
        bytes.extend(identity.to_be_bytes());
        let mut put = |number: u64| bytes.extend(number.to_be_bytes());
        [*input, *volume, flushed.entries_count, flushed.baskets.len() as u64].into_iter().for_each(&mut put);
        for (branch, basket) in &flushed.baskets {
            let LaidBasket { first_entry, seek, size, plain_size, digest } = *basket;
            [*branch as u64, first_entry, seek, size, plain_size, digest].into_iter().for_each(&mut put);
        }
        bytes.extend(path.as_bytes());
        record(&bytes)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let (identity, input, volume) = (cursor.identity()?, cursor.number()?, cursor.number()?);
        let (entries_count, count) = (cursor.number()?, usize::try_from(cursor.number()?).ok()?);
        let rows = cursor.take(count.checked_mul(LAID_BYTES)?)?;
        let row = |row: &[u8]| {
            let mut row = Cursor(row);
            let branch = usize::try_from(row.number()?).ok()?;
            let (first_entry, seek, size) = (row.number()?, row.number()?, row.number()?);
            Some((branch, LaidBasket { first_entry, seek, size, plain_size: row.number()?, digest: row.number()? }))
        };
        let baskets = rows.chunks_exact(LAID_BYTES).map(row).collect::<Option<_>>()?;
        let path = String::from_utf8(cursor.0.to_vec()).ok()?;
        Some(Self { input, identity, volume, path, flushed: Flushed { entries_count, baskets } })
    }
}

/// A journal that is being written.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Whether it stays when the merge fails.
    is_kept: bool,
}

impl Journal {
    /// Begins one.
    pub(crate) fn begin(path: &Path, merging: Merging, waits: bool) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        file.try_lock().ok();
        let mut begun = Self { path: path.to_owned(), file, is_kept: false };
        begun.append(&record(&merging.bytes()), waits)?;
        if waits {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        Ok(begun)
    }

    /// Goes on with one behind so many bytes of it.
    pub(crate) fn go_on(path: &Path, end: u64) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.try_lock()?;
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
        Ok(Self { path: path.to_owned(), file, is_kept: true })
    }

    /// Adds records; they are on the disk then, if that is waited for.
    pub(crate) fn append(&mut self, records: &[u8], waits: bool) -> io::Result<()> {
        self.file.write_all(records)?;
        if waits {
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Removes it: the merge is whole.
    pub(crate) fn end(mut self) {
        self.is_kept = false;
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if !self.is_kept {
            // One that stays without its output means nothing, and goes with the next merge.
            drop(fs::remove_file(&self.path));
        }
    }
}

impl Merging {
    fn bytes(self) -> Vec<u8> {
        let [inputs, options, start] = [self.inputs, self.options, self.start].map(u128::to_be_bytes);
        [MAGIC, &inputs, &options, &start].concat()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes.strip_prefix(MAGIC)?);
        let merging = Self { inputs: cursor.identity()?, options: cursor.identity()?, start: cursor.identity()? };
        cursor.0.is_empty().then_some(merging)
    }
}

impl Done {
    /// Its record.
    pub(crate) fn record(&self) -> Vec<u8> {
        let mut bytes = vec![DONE];
        bytes.extend(self.identity.to_be_bytes());
        let mut put = |number: u64| bytes.extend_from_slice(&number.to_be_bytes());
        put(self.volume);
        put(self.end);
        put(self.trees.len() as u64);
        for tree in &self.trees {
            put(tree.len() as u64);
            for Copied { seek, size, plain_size, digest } in tree {
                [*seek, *size, *plain_size, *digest].into_iter().for_each(&mut put);
            }
        }
        put(u64::from(self.skipped.is_some()));
        bytes.extend_from_slice(self.skipped.as_deref().unwrap_or_default().as_bytes());
        record(&bytes)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let (identity, volume, end) = (cursor.identity()?, cursor.number()?, cursor.number()?);
        let mut trees = Vec::new();
        for _ in 0..cursor.number()? {
            let count = usize::try_from(cursor.number()?).ok()?;
            let rows = cursor.take(count.checked_mul(BASKET_BYTES)?)?;
            let row = |row: &[u8]| {
                let mut row = Cursor(row);
                let (seek, size) = (row.number()?, row.number()?);
                Some(Copied { seek, size, plain_size: row.number()?, digest: row.number()? })
            };
            trees.push(rows.chunks_exact(BASKET_BYTES).map(row).collect::<Option<_>>()?);
        }
        let is_skipped = cursor.number()? != 0;
        let skipped = is_skipped.then(|| String::from_utf8_lossy(cursor.0).into_owned());
        Some(Self { identity, volume, end, skipped, trees })
    }
}

impl Contents {
    /// What a journal says up to the first record that is not whole; None if not even the first is.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let merging = Merging::read(cursor.record()?)?;
        let mut noted = Vec::new();
        while let Some(one) = cursor.record().and_then(Noted::read) {
            noted.push((one, (bytes.len() - cursor.0.len()) as u64));
        }
        Some(Self { merging, noted })
    }
}

fn record(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_be_bytes()[..], bytes, &xxh3_64(bytes).to_be_bytes()].concat()
}

/// Bytes that were not read yet.
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

    fn identity(&mut self) -> Option<u128> {
        self.take(2 * NUMBER_BYTES)?.try_into().ok().map(u128::from_be_bytes)
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

    fn written() -> (Merging, Vec<Noted>, Vec<u8>) {
        let merging = Merging { inputs: 1 << 100, options: 7, start: 1 << 90 };
        let basket = |seek| Copied { seek, size: 20, plain_size: 30, digest: seek * 99 };
        let laid = LaidBasket { first_entry: 1, seek: 2, size: 3, plain_size: 4, digest: 5 };
        let flushed = Flushed { entries_count: 8, baskets: vec![(0, laid), (3, laid)] };
        let done = vec![
            Noted::Done(Done { identity: 5, volume: 0, end: 9, skipped: None, trees: vec![vec![basket(3)], vec![]] }),
            Noted::Laying(Laying { input: 1, identity: 7, volume: 1, path: "deep/er".to_string(), flushed }),
            Noted::Done(Done { identity: 0, volume: 1, end: 0, skipped: Some("cut".to_string()), trees: vec![] }),
        ];
        let mut bytes = record(&merging.bytes());
        done.iter().for_each(|one| bytes.extend(one.record()));
        (merging, done, bytes)
    }

    #[test]
    fn what_was_written_is_read() {
        let (merging, done, bytes) = written();
        let read = Contents::read(&bytes).unwrap();
        assert_eq!(read.merging, merging);
        assert_eq!(read.noted.last().unwrap().1, bytes.len() as u64);
        assert_eq!(read.noted.into_iter().map(|(one, _)| one).collect::<Vec<_>>(), done);
    }

    #[test]
    fn of_a_journal_that_is_cut_anywhere_whole_records_are_read() {
        let (_, done, bytes) = written();
        let whole = Contents::read(&bytes).unwrap().noted;
        for end in 0..bytes.len() {
            let expected = whole.iter().filter(|(_, behind)| *behind <= end as u64).count();
            let read = Contents::read(&bytes[..end]).map_or(Vec::new(), |read| read.noted);
            assert_eq!(read.len(), expected, "cut at {end}");
            assert!(read.iter().map(|(one, _)| one).eq(&done[..expected]));
        }
    }

    #[test]
    fn nothing_behind_a_wrong_byte_is_believed() {
        let (_, _, bytes) = written();
        let whole = Contents::read(&bytes).unwrap().noted;
        for place in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[place] ^= 0xff;
            let read = Contents::read(&wrong).map_or(Vec::new(), |read| read.noted);
            assert_eq!(read.len(), whole.iter().filter(|(_, behind)| *behind <= place as u64).count(), "at {place}");
        }
    }
}
