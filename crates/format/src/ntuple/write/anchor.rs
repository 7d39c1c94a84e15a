//! Encoding of the anchor, the object of a `ROOT::RNTuple` key (section "Anchor schema").
//!
//! ```
//! use branchline_format::ntuple::anchor::{read_anchor, Anchor};
//! use branchline_format::ntuple::envelope::{Link, Locator};
//! use branchline_format::ntuple::write::anchor::write_anchor;
//!
//! let link = Link { plain_size: 40, locator: Locator { offset: 100, size: 20 } };
//! let mut bytes = write_anchor(&Anchor { version: [1, 0, 0, 0], header: link, footer: link, max_key_size: 1 << 30 });
//! bytes[20] ^= 1;
//! assert!(read_anchor(&bytes).is_err(), "the checksum differs");
//! ```

use xxhash_rust::xxh3::xxh3_64;

use super::super::anchor::Anchor;
use crate::marks::BYTE_COUNT_MASK;

/// Version of the class `ROOT::RNTuple`.
const CLASS_VERSION: u16 = 2;

/// Encode an anchor.
pub fn write_anchor(anchor: &Anchor) -> Vec<u8> {
    let mut fields = Vec::new();
    anchor.version.iter().for_each(|number| fields.extend_from_slice(&number.to_be_bytes()));
    for link in [&anchor.header, &anchor.footer] {
        for number in [link.locator.offset, link.locator.size, link.plain_size] {
            fields.extend_from_slice(&number.to_be_bytes());
        }
    }
    fields.extend_from_slice(&anchor.max_key_size.to_be_bytes());
    let count = BYTE_COUNT_MASK | (2 + fields.len() as u32);
    let mut bytes = count.to_be_bytes().to_vec();
    bytes.extend_from_slice(&CLASS_VERSION.to_be_bytes());
    bytes.extend_from_slice(&fields);
    bytes.extend_from_slice(&xxh3_64(&fields).to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::super::anchor::read_anchor;
    use super::super::super::envelope::{Link, Locator};
    use super::*;

    #[test]
    fn an_anchor_is_read_back() {
        let header = Link { plain_size: 40, locator: Locator { offset: 100, size: 20 } };
        let footer = Link { plain_size: 1 << 33, locator: Locator { offset: 1 << 40, size: 30 } };
        let anchor = Anchor { version: [1, 0, 0, 0], header, footer, max_key_size: 1 << 30 };
        assert_eq!(read_anchor(&write_anchor(&anchor)).unwrap(), anchor);
    }
}
