//! TFile: a file's header and the keys of its records (ROOT's "TFile and TKey" format description).
//!
//! ```
//! use branchline_format::file::loaded_bytes::LoadedBytes;
//! use branchline_format::file::read_header;
//!
//! let loaded = LoadedBytes::whole(vec![0; 100].into());
//! assert!(read_header(&loaded).is_err(), "the magic bytes are missing");
//! ```

pub mod directory;
pub mod loaded_bytes;
pub mod recover;

use crate::compress::{check_declared_size, CompressError, Decompressor, COMPRESSION_FACTOR_MAX};
use crate::cursor::Cursor;
use crate::error::{ErrorKind, FormatError, Result};
use crate::marks::{BIG_FILE_VERSION, BIG_VERSION};
use loaded_bytes::{DecodeError, LoadedBytes};

/// Upper bound of the size of the file header, whose 64-bit form ends at byte 63.
const HEADER_SIZE_MAX: u64 = 100;
/// Size of a file identifier (TUUID).
const UUID_SIZE: usize = 16;
/// Bytes requested for a key of unknown length: enough for the fixed fields and three names.
const KEY_GUESS_SIZE: u64 = 512;
/// Maximum uncompressed size of a record, the limit of TBuffer. A larger size means that the file is damaged.
const OBJECT_SIZE_MAX: u64 = 1 << 30;
/// Minimum size of a key: a TKey with three empty names.
pub(crate) const KEY_SIZE_MIN: u64 = 29;

/// The header of a file (TFile::Init, TFile::WriteHeader).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHeader {
    /// Version of ROOT that wrote the file, e.g. 62206, without the offset added for large files.
    pub version: i32,
    /// Offset of the first record (TFile::fBEGIN).
    pub begin: u64,
    /// Size of the file in bytes, according to the header (TFile::fEND).
    pub end: u64,
    /// ROOT's integer code of the compression setting, 100 * algorithm + level.
    pub compress: i32,
    /// Offset of the record with the list of streamer infos; 0 if absent.
    pub seek_info: u64,
    /// Size of the record with the list of streamer infos.
    pub info_size: u64,
    /// Size of the key, name and title before the top directory (TFile::fNbytesName).
    name_size: u64,
    /// The identifier that ROOT assigned to the file on creation (TFile::fUUID); zeros if absent.
    pub uuid: [u8; UUID_SIZE],
}

/// A TKey: the type, name, size and position of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TKey {
    /// Size of the whole record, including the key.
    pub size: u64,
    /// Size of the object after decompression.
    pub object_size: u64,
    /// Size of the key.
    pub key_size: u64,
    /// Cycle number, which distinguishes keys of the same name.
    pub cycle: i16,
    /// Creation time, packed as in TDatime.
    pub date: u32,
    /// Offset of the record in the file.
    pub seek: u64,
    /// Class of the object.
    pub class_name: String,
    /// Name of the object.
    pub name: String,
    /// Title of the object.
    pub title: String,
}

impl FileHeader {
    /// Offset of the top directory's record.
    pub fn directory_offset(&self) -> u64 {
        self.begin.saturating_add(self.name_size)
    }
}

/// Parse the file header. Fails with [`ErrorKind::NotRoot`] if the file is not a ROOT file, and with
/// [`ErrorKind::Truncated`] if the file is shorter than the header declares.
pub fn read_header(loaded: &LoadedBytes) -> std::result::Result<FileHeader, DecodeError> {
    if loaded.file_size() == 0 {
        return Err(FormatError::new(ErrorKind::NotRoot, 0, "the file is empty").into());
    }
    let bytes = loaded.get_up_to(0, HEADER_SIZE_MAX)?;
    if bytes.starts_with(b"PAR1") {
        let reason = "expected a ROOT file, got a Parquet file; convert it with `branchline convert`";
        return Err(FormatError::new(ErrorKind::NotRoot, 0, reason).into());
    }
    if !bytes.starts_with(b"root") {
        return Err(FormatError::new(ErrorKind::NotRoot, 0, "not a ROOT file: it does not start with \"root\"").into());
    }
    let header = parse_header(bytes).map_err(|error| error.in_object("file header"))?;
    if header.end > loaded.file_size() {
        return Err(FormatError::new(
            ErrorKind::Truncated,
            header.end,
            format!(
                "the file is truncated: its header records {} bytes, but it has {}",
                header.end,
                loaded.file_size()
            ),
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
    // Skip the version before the identifier. A missing identifier is accepted, because reading does not need it.
    let at = cursor.position() + 2;
    let uuid = bytes.get(at..at + UUID_SIZE).and_then(|found| found.try_into().ok()).unwrap_or_default();
    let version = if big { version - BIG_FILE_VERSION } else { version };
    Ok(FileHeader { version, begin, end, compress, seek_info, info_size, name_size, uuid })
}

/// Parse a file offset: 64 bits in the large form of headers and keys, otherwise 32 bits.
pub(crate) fn seek(cursor: &mut Cursor<'_>, big: bool) -> Result<u64> {
    let position = cursor.position() as u64;
    let value = if big { cursor.i64()? } else { i64::from(cursor.i32()?) };
    u64::try_from(value).map_err(|_| FormatError::damaged(position, format!("negative file offset {value}")))
}

/// Parse the key of the record at this file offset.
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

/// Parse the TKey at the start of a record (TKey::ReadKeyBuffer).
pub fn parse_key(cursor: &mut Cursor<'_>) -> Result<TKey> {
    let start = cursor.position() as u64;
    let key = parse_detached_key(cursor)?;
    if key.size < key.key_size {
        return Err(shorter_than_key(start, key.size));
    }
    Ok(key)
}

/// Error for a record at this offset that is shorter than its key.
pub(crate) fn shorter_than_key(offset: u64, record_size: u64) -> FormatError {
    FormatError::damaged(offset, format!("a record of {record_size} bytes is shorter than its key"))
}

/// Parse the TKey of an object that may be stored inside another record. The record size in such a key may be 0.
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

/// The numeric fields of a TKey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySizes {
    /// Size of the whole record, including the key.
    pub size: u64,
    /// Size of the object after decompression.
    pub object_size: u64,
    /// Size of the key.
    pub key_size: u64,
    /// Cycle number, which distinguishes keys of the same name.
    pub cycle: i16,
    /// Creation time, packed as in TDatime.
    pub date: u32,
    /// Offset of the record in the file.
    pub seek: u64,
}

/// Parse the numeric fields of a TKey, which precede its class name, name and title.
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
        return Err(FormatError::damaged(start, format!("invalid record size of {size} bytes")));
    };
    Ok(KeySizes { size, object_size, key_size, cycle, date, seek: seek_key })
}

impl KeySizes {
    /// Size of the object as stored in the file.
    pub fn stored_size(&self) -> u64 {
        self.size.saturating_sub(self.key_size)
    }

    /// Whether the object is compressed.
    pub fn is_compressed(&self) -> bool {
        self.object_size > self.stored_size()
    }

    /// Validate the declared uncompressed size before memory is allocated. Rejects sizes that no codec can produce.
    pub fn check_plain_size(&self) -> Result<usize> {
        let most = self.stored_size().saturating_mul(COMPRESSION_FACTOR_MAX).min(OBJECT_SIZE_MAX);
        if self.object_size > most {
            let message =
                format!("{} bytes cannot be the plain size of {} stored bytes", self.object_size, self.stored_size());
            return Err(FormatError::damaged(0, message));
        }
        Ok(self.object_size as usize)
    }
}

impl TKey {
    /// The numeric fields of the key.
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

/// Read and decompress the object of a key.
///
/// Fails with [`DecodeError::MissingBytes`] if parts of the record are not in memory. Fails with a format error if the
/// record extends beyond the file, is shorter than its key, or does not decompress to the size in the key.
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
    let damaged = |error: CompressError| named(FormatError::not_decompressed(key.seek, error));
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
