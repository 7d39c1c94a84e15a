//! TTree up to version 4 and TBranch from version 6 to 9, which were streamed by hand before streamer infos.

use crate::error::{FormatError, Result};
use crate::number::Number;

use super::members::{ArrayField, Members, NumberField, Numbers, PointersField, TextField};
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
        into.set_number(NumberField::Entries, entries as i64);
        into.set_number(NumberField::TotBytes, total_bytes as i64);
        into.set_number(NumberField::ZipBytes, zip_bytes as i64);
        self.pointers(PointersField::Branches, into)
    }

    /// TBranch::Streamer for versions 6 to 9 (ROOT 2.26 to 4.00); older ones are refused.
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
        into.set_number(NumberField::Compress, i64::from(compress));
        into.set_number(NumberField::WriteBasket, i64::from(write_basket));
        into.set_number(NumberField::LastEntry, i64::from(entry_number));
        into.set_number(NumberField::Entries, entries as i64);
        into.set_number(NumberField::TotBytes, total_bytes as i64);
        into.set_number(NumberField::ZipBytes, zip_bytes as i64);
        self.pointers(PointersField::Branches, into)?;
        self.pointers(PointersField::Leaves, into)?;
        self.pointers(PointersField::Baskets, into)?;
        let cursor = &mut self.buffer.cursor;
        let count = cursor.checked_count(i64::from(max_baskets), 12)?;
        into.set_number(NumberField::MaxBaskets, count as i64);
        cursor.skip(1)?;
        into.set_array(ArrayField::Sizes, Numbers::new(cursor.take(4 * count)?, Number::I32));
        cursor.skip(1)?;
        into.set_array(ArrayField::FirstEntries, Numbers::new(cursor.take(4 * count)?, Number::I32));
        let seek = if cursor.u8()? == 2 { Number::I64 } else { Number::I32 };
        into.set_array(ArrayField::Seeks, Numbers::new(cursor.take(seek.size() * count)?, seek));
        into.set_text(TextField::FileName, cursor.string_bytes()?);
        Ok(())
    }
}
