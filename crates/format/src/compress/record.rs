//! Headers of compression records (R__unzip_header), and the sizes in these headers.

use std::ops::Range;

use super::{Codec, CompressError, CompressFault};

pub(super) const HEADER_BYTES: usize = 9;

/// Memory needed to decompress `records`, excluding the result of `plain_bytes` bytes. Estimated from the headers.
pub fn working_bytes(records: &[u8], plain_bytes: usize) -> u64 {
    let mut most = 0;
    let visit = |record: &Record<'_>, _: Range<usize>| {
        // The decoder uses no more of its dictionary than the record's uncompressed size.
        most = most.max(record.codec.working_bytes(record.payload).min(record.plain_bytes as u64));
        Ok(())
    };
    // Ignore damaged records: decompression reports them.
    drop(walk(records, plain_bytes, visit));
    most
}

/// Reject records whose headers show that they cannot decompress to `plain_bytes` bytes. Call this before allocating
/// that much memory.
pub fn check_declared_size(records: &[u8], plain_bytes: usize) -> Result<(), CompressError> {
    walk(records, plain_bytes, |record, _| record.check_declared_size()).map(|_| ())
}

/// Visit each record with the range of its decompressed bytes in the result. Returns the codec of the first record.
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

/// A record whose payload is complete.
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

    /// Reject a declared uncompressed size that this payload cannot decompress to.
    fn check_declared_size(&self) -> Result<(), CompressFault> {
        let promised_bytes = self.plain_bytes;
        if promised_bytes > self.payload.len().saturating_mul(self.codec.factor_max()) {
            return Err(CompressFault::Implausible { promised_bytes, payload_bytes: self.payload.len() });
        }
        match self.codec.declared_bytes(self.payload) {
            Some(size) if size != promised_bytes as u64 => {
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
