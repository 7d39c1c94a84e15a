//! The anchor, the object of a `ROOT::RNTuple` key: format version and location of header and footer (section "Anchor
//! schema").
//!
//! ```
//! use branchline_format::ntuple::anchor::{read_anchor, Anchor};
//! use branchline_format::ntuple::envelope::{Link, Locator};
//! use branchline_format::ntuple::write::anchor::write_anchor;
//!
//! let link = Link { plain_size: 40, locator: Locator { offset: 100, size: 20 } };
//! let anchor = Anchor { version: [1, 0, 0, 0], header: link, footer: link, max_key_size: 1 << 30 };
//! assert_eq!(read_anchor(&write_anchor(&anchor))?, anchor);
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use xxhash_rust::xxh3::xxh3_64;

use crate::cursor::Cursor;
use crate::error::{FormatError, Result};

use super::envelope::{Link, Locator};

/// Class name of the key.
pub const CLASS_NAME: &str = "ROOT::RNTuple";
/// Class name of the key before format version 1.0.
pub const OLD_CLASS_NAME: &str = "ROOT::Experimental::RNTuple";
/// Size of the checksum at the end of the anchor.
const CHECKSUM_SIZE: usize = 8;

/// The anchor of an RNTuple.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    /// Epoch, major, minor and patch version of the format that the writer supports.
    pub version: [u16; 4],
    /// Location of the header envelope.
    pub header: Link,
    /// Location of the footer envelope.
    pub footer: Link,
    /// Maximum size of a key's payload; a larger blob is split into several keys.
    pub max_key_size: u64,
}

/// Parse the uncompressed bytes of the anchor and verify their checksum.
pub fn read_anchor(plain: &[u8]) -> Result<Anchor> {
    let mut cursor = Cursor::new(plain);
    let head = cursor.version_header()?;
    if head.version < 2 {
        let message =
            format!("version {} of ROOT::RNTuple predates the final format and is not supported", head.version);
        return Err(FormatError::unsupported(message));
    }
    let start = cursor.position();
    let version = [cursor.u16()?, cursor.u16()?, cursor.u16()?, cursor.u16()?];
    if version[0] != 1 {
        let written = version.map(|number| number.to_string()).join(".");
        let message = format!("RNTuple format {written} is not supported, only 1.x, which ROOT writes since 6.34");
        return Err(FormatError::unsupported(message));
    }
    let header = link(&mut cursor)?;
    let footer = link(&mut cursor)?;
    let max_key_size = cursor.u64()?;
    // Later format versions may add fields before the checksum.
    let end = plain.len().checked_sub(CHECKSUM_SIZE).filter(|end| *end >= cursor.position());
    let Some(end) = end else {
        return Err(FormatError::damaged(cursor.position() as u64, "the anchor has no checksum"));
    };
    let stored = Cursor::at(plain, end).u64()?;
    if xxh3_64(&plain[start..end]) != stored {
        return Err(FormatError::damaged(end as u64, "checksum mismatch in the anchor"));
    }
    Ok(Anchor { version, header, footer, max_key_size })
}

fn link(cursor: &mut Cursor<'_>) -> Result<Link> {
    let (offset, size) = (cursor.u64()?, cursor.u64()?);
    Ok(Link { plain_size: cursor.u64()?, locator: Locator { offset, size } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(epoch: u16, extra: &[u8]) -> Vec<u8> {
        let mut fields = Vec::new();
        for number in [epoch, 0, 1, 0] {
            fields.extend(number.to_be_bytes());
        }
        for number in [100u64, 20, 40, 200, 30, 60, 1 << 30] {
            fields.extend(number.to_be_bytes());
        }
        fields.extend(extra);
        let mut bytes = (crate::marks::BYTE_COUNT_MASK + 2 + fields.len() as u32).to_be_bytes().to_vec();
        bytes.extend(2u16.to_be_bytes());
        bytes.extend(&fields);
        bytes.extend(xxh3_64(&fields).to_be_bytes());
        bytes
    }

    #[test]
    fn an_anchor_says_where_header_and_footer_lie() {
        for extra in [&[][..], &[1, 2, 3]] {
            let read = read_anchor(&anchor(1, extra)).unwrap();
            assert_eq!(read.header, Link { plain_size: 40, locator: Locator { offset: 100, size: 20 } });
            assert_eq!(read.footer, Link { plain_size: 60, locator: Locator { offset: 200, size: 30 } });
            assert_eq!(read.max_key_size, 1 << 30);
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let bytes = anchor(1, &[]);
        for bit in 8 * 6..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read_anchor(&flipped).is_err(), "bit {bit}");
        }
        for size in 0..bytes.len() {
            assert!(read_anchor(&bytes[..size]).is_err(), "{size} bytes");
        }
    }

    #[test]
    fn another_epoch_is_refused_by_name() {
        let error = read_anchor(&anchor(0, &[])).unwrap_err();
        assert!(error.message.contains("format 0.0.1.0"), "{error}");
    }
}
