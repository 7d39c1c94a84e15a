//! TTree up to version 4 and TBranch from version 6 to 9, which were streamed by hand before streamer infos.

use crate::error::{FormatError, Result};

use super::basic::Basic;
use super::members::{Members, Number, NumberArray, Numbers, Pointers, Text};
use super::walk::Walker;

impl<'b> Walker<'b, '_> {
    /// TTree::Streamer for versions up to 4.
    pub(super) fn read_old_tree(&mut self, into: &mut Members<'b>) -> Result<()> {
        self.read_class("TNamed", into)?;
        for base in ["TAttLine", "TAttFill", "TAttMarker"] {
            self.read_class(base, &mut Members::default())?;
        }
        let cursor = &mut self.buffer.cursor;
        cursor.skip(12)?; // fScanField, fMaxEntryLoop, fMaxVirtualSize
        let entries = cursor.f64()?;
        let total_bytes = cursor.f64()?;
        let zip_bytes = cursor.f64()?;
        cursor.skip(8)?; // fAutoSave, fEstimate
        into.set_number(Number::Entries, entries as i64);
        into.set_number(Number::TotBytes, total_bytes as i64);
        into.set_number(Number::ZipBytes, zip_bytes as i64);
        self.pointers(Pointers::Branches, into)
    }

    /// TBranch::Streamer for versions 6 to 9 (ROOT 2.26 to 4.00); older ones were not met.
    pub(super) fn read_old_branch(&mut self, version: i16, into: &mut Members<'b>) -> Result<()> {
        if version <= 5 {
            return Err(FormatError::unsupported(format!("TBranch version {version}, older than ROOT 3")));
        }
        self.read_class("TNamed", into)?;
        if version > 7 {
            self.read_class("TAttFill", &mut Members::default())?;
        }
        let cursor = &mut self.buffer.cursor;
        let compress = cursor.i32()?;
        let _basket_size = cursor.i32()?;
        let _entry_offset_len = cursor.i32()?;
        let write_basket = cursor.i32()?;
        let entry_number = cursor.i32()?;
        let _offset = cursor.i32()?;
        let max_baskets = cursor.i32()?;
        if version > 6 {
            let _split_level = cursor.i32()?;
        }
        let entries = cursor.f64()?;
        let total_bytes = cursor.f64()?;
        let zip_bytes = cursor.f64()?;
        into.set_number(Number::Compress, i64::from(compress));
        into.set_number(Number::WriteBasket, i64::from(write_basket));
        into.set_number(Number::LastEntry, i64::from(entry_number));
        into.set_number(Number::Entries, entries as i64);
        into.set_number(Number::TotBytes, total_bytes as i64);
        into.set_number(Number::ZipBytes, zip_bytes as i64);
        self.pointers(Pointers::Branches, into)?;
        self.pointers(Pointers::Leaves, into)?;
        self.pointers(Pointers::Baskets, into)?;
        let cursor = &mut self.buffer.cursor;
        let count = cursor.checked_count(i64::from(max_baskets), 12)?;
        into.set_number(Number::MaxBaskets, count as i64);
        cursor.skip(1)?;
        into.set_array(NumberArray::Sizes, Numbers::new(cursor.take(4 * count)?, Basic::I32));
        cursor.skip(1)?;
        into.set_array(NumberArray::FirstEntries, Numbers::new(cursor.take(4 * count)?, Basic::I32));
        let seek = if cursor.u8()? == 2 { Basic::I64 } else { Basic::I32 };
        into.set_array(NumberArray::Seeks, Numbers::new(cursor.take(seek.size() * count)?, seek));
        into.set_text(Text::FileName, cursor.string_bytes()?);
        Ok(())
    }
}
