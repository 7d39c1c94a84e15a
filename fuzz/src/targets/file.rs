//! A whole file: its header, its directories with their keys, and the plain bytes of their objects; once with all bytes
//! at hand and once fetched as the decoders ask for them.

use crate::memory::bounded;
use branchline_format::compress::Decompressor;
use branchline_format::error::Result;
use branchline_format::file::directory::{Directories, Entry};
use branchline_format::file::loaded_bytes::{DecodeError, LoadedBytes};
use branchline_format::file::{read_header, read_object, FileHeader};
use bytes::Bytes;

/// Keys and paths may take a multiple of the file's bytes.
const FACTOR: usize = 64;
/// Small, so that many requests are needed.
const PIECE_BYTES: u64 = 64;

/// Bytes that were fetched, of a file that is all there.
struct Fetched {
    file: Bytes,
    loaded: LoadedBytes,
    requests_count: u64,
}

impl Fetched {
    fn fetch(&mut self, offset: u64, wanted: u64) {
        let size = self.file.len() as u64;
        assert!(offset < size && wanted > 0 && wanted <= size - offset, "bytes outside the file are needed");
        let end = (offset + wanted.max(PIECE_BYTES)).min(size);
        self.loaded.add(offset, self.file.slice(offset as usize..end as usize));
        self.requests_count += 1;
        assert!(self.requests_count <= size + 1, "more is needed than the file has");
    }

    fn until_known<T>(
        &mut self,
        mut decoder: impl FnMut(&LoadedBytes) -> std::result::Result<T, DecodeError>,
    ) -> Result<T> {
        loop {
            match decoder(&self.loaded) {
                Ok(known) => return Ok(known),
                Err(DecodeError::Format(error)) => return Err(error),
                Err(DecodeError::MissingBytes { offset, size }) => self.fetch(offset, size),
            }
        }
    }

    /// Header and all keys.
    fn known(&mut self) -> Result<(FileHeader, Vec<Entry>)> {
        let header = self.until_known(read_header)?;
        let mut directories = Directories::new(&header, self.loaded.file_size());
        loop {
            let missing = directories.read_below("", &self.loaded)?;
            if missing.is_empty() {
                return Ok((header, directories.entries_below("", &self.loaded)?));
            }
            missing.into_iter().for_each(|range| self.fetch(range.offset, range.size));
        }
    }
}

pub fn run(input: &[u8]) {
    let file = Bytes::copy_from_slice(input);
    let mut whole = Fetched { file: file.clone(), loaded: LoadedBytes::whole(file.clone()), requests_count: 0 };
    let known = bounded(input.len(), FACTOR, || whole.known());
    assert_eq!(whole.requests_count, 0, "all bytes are at hand");
    let loaded = LoadedBytes::new(input.len() as u64);
    let known_in_pieces = Fetched { file, loaded, requests_count: 0 }.known();
    match (&known, &known_in_pieces) {
        (Ok((header, entries)), Ok((again, more))) => {
            assert_eq!(header, again);
            assert!(entries.iter().map(|one| (&one.path, &one.key)).eq(more.iter().map(|one| (&one.path, &one.key))));
        }
        // Which of several wrong directories is met first depends on what is fetched first.
        (Err(_), Err(_)) => {}
        _ => panic!("the whole file gives {known:?}, its pieces {known_in_pieces:?}"),
    }
    if let Ok((header, entries)) = known {
        check_found(&header, &entries, &mut whole);
    }
}

/// What lists have is found by its path, too; and its object is read.
fn check_found(header: &FileHeader, entries: &[Entry], whole: &mut Fetched) {
    let mut directories = Directories::new(header, whole.loaded.file_size());
    let mut decompressor = Decompressor::new();
    for entry in entries.iter().take(16) {
        let found =
            whole.until_known(|loaded| directories.find(&entry.path, loaded)).expect("what was listed is found");
        assert!(found.contains(&entry.key), "{:?} is not found by its path", entry.path);
        drop(whole.until_known(|loaded| read_object(loaded, &entry.key, &mut decompressor)));
    }
    assert_eq!(whole.requests_count, 0, "all bytes are at hand");
}
