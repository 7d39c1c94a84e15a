//! TFile: its header, and the keys of its records (ROOT's "TFile and TKey" format description).

pub mod directory;
pub mod loaded_bytes;
pub mod recover;

use crate::compress::{check_declared_size, CompressError, Decompressor, COMPRESSION_FACTOR_MAX};
use crate::cursor::Cursor;
use crate::error::{ErrorKind, FormatError, Result};
use crate::marks::{BIG_FILE_VERSION, BIG_VERSION};
use loaded_bytes::{DecodeError, LoadedBytes};

/// Bytes that hold any file header: the 64-bit form ends at 63.
const HEADER_SIZE_MAX: u64 = 100;
/// Bytes of an identifier (TUUID).
const UUID_SIZE: usize = 16;
/// Bytes requested for a key whose length is not known yet: its fixed fields and three names.
const KEY_GUESS_SIZE: u64 = 512;
/// A record that says it decompresses to more than this is damaged: TBuffer's own limit is 1 GiB.
const OBJECT_SIZE_MAX: u64 = 1 << 30;
/// Bytes of the numbers of a TKey and of three empty names: no key is shorter.
pub(crate) const KEY_SIZE_MIN: u64 = 29;

/// The header of a file (TFile::Init, TFile::WriteHeader).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHeader {
    /// Version of ROOT that wrote it, e.g. 62206; without the mark of big files.
    pub version: i32,
    /// Offset of the first record (TFile::fBEGIN).
    pub begin: u64,
    /// Size of the file in bytes, by the header (TFile::fEND).
    pub end: u64,
    /// Compression setting, 100 * algorithm + level.
    pub compress: i32,
    /// Offset of the record with the list of streamer infos; 0 if there is none.
    pub seek_info: u64,
    /// Bytes of that record.
    pub info_size: u64,
    /// Bytes of the name record in front of the top directory.
    name_size: u64,
    /// The identifier that ROOT gave the file when it was made (TFile::fUUID); zeros if there is none.
    pub uuid: [u8; UUID_SIZE],
}

/// A TKey: what a record is and where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TKey {
    /// Bytes of the whole record, key included.
    pub size: u64,
    /// Bytes of the object after decompression.
    pub object_size: u64,
    /// Bytes of the key.
    pub key_size: u64,
    /// Version number of this name.
    pub cycle: i16,
    /// When it was made, as TDatime packs it.
    pub date: u32,
    /// Where the record lies.
    pub seek: u64,
    /// Class of the object.
    pub class_name: String,
    /// Its name.
    pub name: String,
    /// Its title.
    pub title: String,
}

impl FileHeader {
    /// Where the record of the top directory lies.
    pub fn directory_offset(&self) -> u64 {
        self.begin.saturating_add(self.name_size)
    }
}

/// Reads the header of a file. Fails with [`ErrorKind::NotRoot`] for other files, and with [`ErrorKind::Truncated`] if
/// the file is shorter than its header says.
pub fn read_header(loaded: &LoadedBytes) -> std::result::Result<FileHeader, DecodeError> {
    if loaded.file_size() == 0 {
        return Err(FormatError::new(ErrorKind::NotRoot, 0, "the file is empty").into());
    }
    let bytes = loaded.get_up_to(0, HEADER_SIZE_MAX)?;
    if bytes.starts_with(b"PAR1") {
        let reason = "a Parquet file, where only ROOT files are taken: `branchline convert` makes one of it";
        return Err(FormatError::new(ErrorKind::NotRoot, 0, reason).into());
    }
    if !bytes.starts_with(b"root") {
        return Err(FormatError::new(ErrorKind::NotRoot, 0, "not a ROOT file: it does not begin with \"root\"").into());
    }
    let header = parse_header(bytes).map_err(|error| error.in_object("file header"))?;
    if header.end > loaded.file_size() {
        return Err(FormatError::new(
            ErrorKind::Truncated,
            header.end,
            format!("cut short: the header says {} bytes, the file has {}", header.end, loaded.file_size()),
        )
        .into());
    }
    Ok(header)
}

fn parse_header(bytes: &[u8]) -> Result<FileHeader> {
    let mut cursor = Cursor::at(bytes, 4);
    let version = cursor.i32()?;
    let big = version >= BIG_FILE_VERSION;
    let begin = u64::from(cursor.u32()?);
    let end = seek(&mut cursor, big)?;
    let _seek_free = seek(&mut cursor, big)?;
    let _free_size = cursor.i32()?;
    let _free_count = cursor.i32()?;
    let name_size = u64::from(cursor.u32()?);
    let _units = cursor.u8()?;
    let compress = cursor.i32()?;
    let seek_info = seek(&mut cursor, big)?;
    let info_size = u64::from(cursor.u32()?);
    // A version, and the identifier, of which nothing that is read depends.
    let at = cursor.position() + 2;
    let uuid = bytes.get(at..at + UUID_SIZE).and_then(|found| found.try_into().ok()).unwrap_or_default();
    let version = if big { version - BIG_FILE_VERSION } else { version };
    Ok(FileHeader { version, begin, end, compress, seek_info, info_size, name_size, uuid })
}

/// Reads an offset in the file, of 64 bits in the large form of headers and keys, else of 32.
pub(crate) fn seek(cursor: &mut Cursor<'_>, big: bool) -> Result<u64> {
    let position = cursor.position() as u64;
    let value = if big { cursor.i64()? } else { i64::from(cursor.i32()?) };
    u64::try_from(value).map_err(|_| FormatError::damaged(position, format!("a negative seek of {value}")))
}

/// Reads the key of the record at this offset of the file.
pub fn read_key_at(loaded: &LoadedBytes, offset: u64) -> std::result::Result<TKey, DecodeError> {
    let bytes = loaded.get_up_to(offset, KEY_GUESS_SIZE)?;
    let key = match parse_key(&mut Cursor::new(bytes)) {
        Err(error) if error.kind == ErrorKind::Truncated => {
            let size = Cursor::at(bytes, 14).u16().map_err(DecodeError::from)?;
            parse_key(&mut Cursor::new(loaded.get(offset, u64::from(size))?))
        }
        other => other,
    };
    key.map_err(|error| error.in_object(format!("key at {offset}")).into())
}

/// Reads the TKey at the start of a record (TKey::ReadKeyBuffer).
pub fn parse_key(cursor: &mut Cursor<'_>) -> Result<TKey> {
    let start = cursor.position() as u64;
    let key = parse_detached_key(cursor)?;
    if key.size < key.key_size {
        return Err(shorter_than_key(start, key.size));
    }
    Ok(key)
}

/// The error of a record at this offset that ends within its key.
pub(crate) fn shorter_than_key(offset: u64, record_size: u64) -> FormatError {
    FormatError::damaged(offset, format!("a record of {record_size} bytes is shorter than its key"))
}

/// Reads the TKey of an object that has no record of its own; its size may be 0.
pub fn parse_detached_key(cursor: &mut Cursor<'_>) -> Result<TKey> {
    let sizes = parse_key_sizes(cursor)?;
    let class_name = cursor.string()?;
    let name = cursor.string()?;
    let title = cursor.string()?;
    Ok(TKey {
        size: sizes.size,
        object_size: sizes.object_size,
        key_size: sizes.key_size,
        cycle: sizes.cycle,
        date: sizes.date,
        seek: sizes.seek,
        class_name,
        name,
        title,
    })
}

/// The numbers of a TKey, without its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySizes {
    /// Bytes of the whole record, key included.
    pub size: u64,
    /// Bytes of the object after decompression.
    pub object_size: u64,
    /// Bytes of the key.
    pub key_size: u64,
    /// Version number of its name.
    pub cycle: i16,
    /// When it was made, as TDatime packs it.
    pub date: u32,
    /// Where the record lies.
    pub seek: u64,
}

/// Reads the numbers of a TKey; its three names follow.
pub fn parse_key_sizes(cursor: &mut Cursor<'_>) -> Result<KeySizes> {
    let start = cursor.position() as u64;
    let size = cursor.i32()?;
    let version = cursor.i16()?;
    let object_size = cursor.i32()?;
    let date = cursor.u32()?;
    let key_size = u64::from(cursor.u16()?);
    let cycle = cursor.i16()?;
    let big = version > BIG_VERSION;
    let seek_key = seek(cursor, big)?;
    let _seek_directory = seek(cursor, big)?;
    let (Ok(size), Ok(object_size)) = (u64::try_from(size), u64::try_from(object_size)) else {
        return Err(FormatError::damaged(start, format!("a record of {size} bytes is impossible")));
    };
    Ok(KeySizes { size, object_size, key_size, cycle, date, seek: seek_key })
}

impl KeySizes {
    /// Bytes of the object as they lie in the file.
    pub fn stored_size(&self) -> u64 {
        self.size.saturating_sub(self.key_size)
    }

    /// Whether the object is compressed.
    pub fn is_compressed(&self) -> bool {
        self.object_size > self.stored_size()
    }

    /// Refuses sizes after decompression that no codec can produce, before memory is taken for them.
    pub fn check_plain_size(&self) -> Result<usize> {
        let most = self.stored_size().saturating_mul(COMPRESSION_FACTOR_MAX).min(OBJECT_SIZE_MAX);
        if self.object_size > most {
            let message = format!("{} bytes cannot come from {} stored ones", self.object_size, self.stored_size());
            return Err(FormatError::damaged(0, message));
        }
        Ok(self.object_size as usize)
    }
}

impl TKey {
    /// Its numbers.
    pub fn sizes(&self) -> KeySizes {
        KeySizes {
            size: self.size,
            object_size: self.object_size,
            key_size: self.key_size,
            cycle: self.cycle,
            date: self.date,
            seek: self.seek,
        }
    }
}

/// The plain bytes of the object of a key.
///
/// Returns [`DecodeError::MissingBytes`] while parts of its record are not in memory, and an error of the format where
/// the record is not in the file, is shorter than its key, or does not decompress to the size that the key says.
pub fn read_object(
    loaded: &LoadedBytes,
    key: &TKey,
    decompressor: &mut Decompressor,
) -> std::result::Result<Vec<u8>, DecodeError> {
    let record = loaded.get(key.seek, key.size)?;
    let named = |error: FormatError| DecodeError::from(error.in_object(format!("{} {}", key.class_name, key.name)));
    let stored = usize::try_from(key.key_size).ok().and_then(|key_size| record.get(key_size..));
    let stored = stored.ok_or_else(|| named(shorter_than_key(key.seek, key.size)))?;
    let sizes = key.sizes();
    if !sizes.is_compressed() {
        return Ok(stored.to_vec());
    }
    let plain_size = sizes.check_plain_size().map_err(named)?;
    let damaged = |error: CompressError| named(FormatError::damaged(key.seek, error.to_string()));
    check_declared_size(stored, plain_size).map_err(damaged)?;
    let mut plain = vec![0; plain_size];
    decompressor.decompress_into(stored, &mut plain).map_err(damaged)?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_ends_within_its_key_is_damaged() {
        let loaded = LoadedBytes::whole(vec![0; 100].into());
        let key = TKey {
            size: 10,
            object_size: 5,
            key_size: 20,
            cycle: 1,
            date: 0,
            seek: 50,
            class_name: "TH1F".to_string(),
            name: "h".to_string(),
            title: String::new(),
        };
        let Err(DecodeError::Format(error)) = read_object(&loaded, &key, &mut Decompressor::new()) else {
            panic!("a record of 10 bytes was read with a key of 20");
        };
        assert_eq!((error.kind, error.object.as_str()), (ErrorKind::Damaged, "TH1F h"));
    }
}
