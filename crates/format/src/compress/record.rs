//! A sequence of compression records (R__unzip_header): their headers, and the sizes in them.

use std::ops::Range;

use super::{Codec, CompressError, CompressFault};

pub(super) const HEADER_BYTES: usize = 9;

/// Bytes of memory that decompressing `records` needs in addition to the `plain_bytes` of the result, by their headers.
pub fn working_bytes(records: &[u8], plain_bytes: usize) -> u64 {
    let mut most = 0;
    let visit = |record: &Record<'_>, _: Range<usize>| {
        if record.codec == Codec::Lzma {
            // Only as much of a dictionary is touched as there are bytes.
            most = most.max(xz_dictionary_bytes(record.payload).unwrap_or(0).min(record.plain_bytes as u64));
        }
        Ok(())
    };
    // Decompressing damaged records returns the error.
    drop(walk(records, plain_bytes, visit));
    most
}

/// The dictionary size that an xz stream needs, from the header of its first block (sections 3.1 and 5.3.1 of its
/// format).
fn xz_dictionary_bytes(payload: &[u8]) -> Option<u64> {
    const STREAM_HEADER_BYTES: usize = 12;
    const LZMA2: u8 = 0x21;
    let (size, flags) = (*payload.get(STREAM_HEADER_BYTES)?, *payload.get(STREAM_HEADER_BYTES + 1)?);
    let header = payload.get(STREAM_HEADER_BYTES..)?.get(..4 * (usize::from(size) + 1))?;
    let mut rest = header.get(2..)?;
    let skip_number = |rest: &mut &[u8]| -> Option<()> {
        let length = rest.iter().position(|byte| byte & 0x80 == 0)? + 1;
        *rest = rest.get(length..)?;
        Some(())
    };
    for given in [0x40, 0x80] {
        if flags & given != 0 {
            skip_number(&mut rest)?; // compressed and plain size
        }
    }
    for _filter in 0..=(flags & 3) {
        let id = *rest.first()?;
        skip_number(&mut rest)?;
        let properties_size = usize::from(*rest.first()?);
        let properties = rest.get(1..)?.get(..properties_size)?;
        if id == LZMA2 {
            let bits = u32::from(*properties.first()?);
            return Some(u64::from(2 | (bits & 1)) << (bits.min(40) / 2 + 11));
        }
        rest = rest.get(1 + properties_size..)?;
    }
    None
}

/// Refuses records that cannot decompress to `plain_bytes` bytes, by their headers. Callers do so before they take
/// memory for these.
pub fn check_declared_size(records: &[u8], plain_bytes: usize) -> Result<(), CompressError> {
    walk(records, plain_bytes, |record, _| record.check_declared_size()).map(|_| ())
}

/// Visits the records of a sequence with the place of each in the plain bytes, and returns the first one's codec.
pub(super) fn walk(
    records: &[u8],
    plain_bytes: usize,
    mut visit: impl FnMut(&Record<'_>, Range<usize>) -> Result<(), CompressFault>,
) -> Result<Codec, CompressError> {
    let mut first_codec = None;
    let mut offset = 0;
    let mut filled = 0;
    while filled < plain_bytes {
        if offset == records.len() {
            let fault = CompressFault::EndsEarly { plain_bytes: filled, wanted_bytes: plain_bytes };
            return Err(CompressError { offset, codec: first_codec, fault });
        }
        let record = Record::at(records, offset)?;
        let fail = |fault| CompressError { offset, codec: Some(record.codec), fault };
        let room_bytes = plain_bytes - filled;
        if record.plain_bytes > room_bytes {
            return Err(fail(CompressFault::TooLong { plain_bytes: record.plain_bytes, room_bytes }));
        }
        visit(&record, filled..filled + record.plain_bytes).map_err(fail)?;
        first_codec.get_or_insert(record.codec);
        filled += record.plain_bytes;
        offset += HEADER_BYTES + record.payload.len();
    }
    if offset < records.len() {
        let fault = CompressFault::TrailingBytes { count: records.len() - offset };
        return Err(CompressError { offset, codec: first_codec, fault });
    }
    Ok(first_codec.unwrap_or(Codec::None))
}

/// One record, its sizes checked against the bytes there are.
pub(super) struct Record<'a> {
    pub(super) codec: Codec,
    pub(super) plain_bytes: usize,
    pub(super) payload: &'a [u8],
}

impl<'a> Record<'a> {
    fn at(records: &'a [u8], offset: usize) -> Result<Self, CompressError> {
        let rest = &records[offset..];
        let codec = Codec::of_record(rest);
        let fail = |fault| CompressError { offset, codec, fault };
        let Some((header, rest)) = rest.split_first_chunk::<HEADER_BYTES>() else {
            return Err(fail(CompressFault::ShortHeader { count: rest.len() }));
        };
        let [magic_0, magic_1, method, compressed @ .., plain_0, plain_1, plain_2] = *header;
        let codec = codec.ok_or_else(|| fail(CompressFault::UnknownMagic([magic_0, magic_1])))?;
        if method != codec.method() {
            return Err(fail(CompressFault::UnknownMethod(method)));
        }
        let wanted_bytes = little_endian(compressed);
        let payload = rest
            .get(..wanted_bytes)
            .ok_or_else(|| fail(CompressFault::Truncated { wanted_bytes, payload_bytes: rest.len() }))?;
        Ok(Self { codec, plain_bytes: little_endian([plain_0, plain_1, plain_2]), payload })
    }

    /// Refuses a plain size that this payload cannot have.
    fn check_declared_size(&self) -> Result<(), CompressFault> {
        let promised_bytes = self.plain_bytes;
        if promised_bytes > self.payload.len().saturating_mul(self.codec.factor_max()) {
            return Err(CompressFault::Implausible { promised_bytes, payload_bytes: self.payload.len() });
        }
        // Most zstd frames record their plain size.
        match (self.codec, zstd_safe::get_frame_content_size(self.payload)) {
            (Codec::Zstd, Ok(Some(size))) if size != promised_bytes as u64 => {
                let plain_bytes = usize::try_from(size).unwrap_or(usize::MAX);
                Err(CompressFault::WrongLength { plain_bytes, promised_bytes })
            }
            _ => Ok(()),
        }
    }
}

fn little_endian(bytes: [u8; 3]) -> usize {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}
