//! Baskets made from entries of other baskets. Entry bytes are copied, and references in the entries are adjusted.
//!
//! The bytes of an entry do not depend on the entry's position, except for references between its objects, which are
//! relative to the start of the basket's key. These references are adjusted. If their positions are unknown, the basket
//! stores the original position of each entry instead (TBasket::fDisplacement).

use std::ops::Range;

use crate::basket::decode::Counts;
use crate::basket::Plain;
use crate::error::{FormatError, Result};
use crate::layout::Kind;
use crate::marks::{CLASS_MASK, ENTRY_BYTES_MAX};

use super::basket::BasketTools;
use super::basket_record::{BasketContents, BasketForm, BasketFrame, NewBasket};
use super::bounds::{bounds_of, Bounds};

/// Positions of the references in a basket's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum References {
    /// Sorted positions of all references in the data.
    At(Vec<u32>),
    /// The positions are unknown.
    Unknown,
}

/// The entries of a basket, ready to be copied to another basket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries {
    /// Bytes of all entries.
    pub data: Vec<u8>,
    /// Bounds of the entries in `data`.
    pub bounds: Bounds,
    /// Positions of the references in `data`.
    pub references: References,
    /// Original start of each entry, if the basket stores original positions (TBasket::fDisplacement).
    pub displaced: Option<Vec<u32>>,
    /// Size of the basket's key. References are relative to the start of the key.
    pub key_size: u32,
    /// Offset to add to the process IDs in the entries (TKey::GetPidOffset).
    pub process_ids_before: u16,
}

impl Entries {
    /// Split the uncompressed bytes of a branch's basket into entries. `counts` is required if the basket has no entry
    /// offsets and a counter branch stores the number of elements.
    pub fn of(plain: &Plain<'_>, kind: &Kind, counts: Option<&Counts>, process_ids_before: u16) -> Result<Self> {
        let bounds = bounds_of(plain, kind, counts)?;
        let displaced = plain.displacements()?;
        let references = match (kind, &bounds) {
            _ if displaced.is_some() => References::Unknown,
            // Unreadable objects may contain references at any position.
            (Kind::Data(layout), Bounds::Stored(bounds)) => {
                layout.references(plain, bounds).map_or(References::Unknown, References::At)
            }
            (Kind::Unreadable { .. }, Bounds::Stored(_)) => References::Unknown,
            // Fixed-size entries contain no references.
            (_, Bounds::Fixed(_)) | (Kind::Group, _) => References::At(Vec::new()),
        };
        let key_size = u32::try_from(plain.key_size)
            .map_err(|_| FormatError::damaged(0, format!("invalid key size of {} bytes", plain.key_size)))?;
        Ok(Self { data: plain.data.to_vec(), bounds, references, displaced, key_size, process_ids_before })
    }

    /// Split a basket whose entries are all empty. Empty entries contain no references. If the basket has no entry
    /// offsets, all entries have the same size.
    pub fn of_empty(plain: &Plain<'_>, process_ids_before: u16) -> Result<Self> {
        let size = plain.data.len().checked_div(plain.entries_count).unwrap_or(0);
        let bounds = plain.bounds()?.map_or(Bounds::Fixed(size), Bounds::Stored);
        let (references, data) = (References::At(Vec::new()), plain.data.to_vec());
        Ok(Self { data, bounds, references, displaced: None, key_size: 0, process_ids_before })
    }
}

impl Entries {
    /// Call `visit` with the bytes of each entry. References are made relative to the start of the entry, so the bytes
    /// do not depend on the entry's position.
    pub fn for_each(mut self, entries_count: usize, mut visit: impl FnMut(&[u8])) -> Result<()> {
        let short = || FormatError::damaged(0, "the basket ends inside an entry");
        if let References::At(places) = &self.references {
            let mut entry = 0;
            for place in places.iter().map(|place| *place as usize) {
                while entry + 1 < entries_count && self.bounds.start(entry + 1) <= place {
                    entry += 1;
                }
                let before = (u64::from(self.key_size) + self.bounds.start(entry) as u64) as u32;
                let tag = self.data.get_mut(place..).and_then(|rest| rest.first_chunk_mut::<4>()).ok_or_else(short)?;
                let old = u32::from_be_bytes(*tag);
                let new = (old & !CLASS_MASK).wrapping_sub(before) & !CLASS_MASK;
                *tag = ((old & CLASS_MASK) | new).to_be_bytes();
            }
        }
        for entry in 0..entries_count {
            let range = self.bounds.start(entry)..self.bounds.start(entry + 1);
            visit(self.data.get(range).ok_or_else(short)?);
        }
        Ok(())
    }
}

/// Builder of baskets from entries.
#[derive(Debug)]
pub struct BasketMaker<'t> {
    frame: BasketFrame,
    form: BasketForm,
    tools: &'t mut BasketTools,
    /// Reserved space for the key, followed by the entries. References are relative to the start of this buffer.
    data: Vec<u8>,
    key_size: usize,
    offsets: Vec<u32>,
    displacements: Option<Vec<u32>>,
    entry_size: Option<usize>,
    entries_count: usize,
    process_ids_before: u16,
    made: Vec<NewBasket>,
}

impl<'t> BasketMaker<'t> {
    /// Create a builder with an empty basket.
    pub fn new(frame: BasketFrame, form: BasketForm, tools: &'t mut BasketTools) -> Result<Self> {
        let key_size = usize::from(frame.key_size()?);
        Ok(Self {
            frame,
            form,
            tools,
            data: vec![0; key_size],
            key_size,
            offsets: Vec::new(),
            displacements: None,
            entry_size: None,
            entries_count: 0,
            process_ids_before: 0,
            made: Vec::new(),
        })
    }

    /// The compressor and the buffers of this builder.
    pub fn tools(&mut self) -> &mut BasketTools {
        self.tools
    }

    /// Add entries. A basket that is full is finished, and the next basket is started.
    pub fn add(&mut self, source: &Entries, mut entries: Range<usize>) -> Result<()> {
        if self.process_ids_before != source.process_ids_before && self.entries_count > 0 {
            // Start a new basket, because a basket stores only one process ID offset.
            self.finish_basket()?;
        }
        self.process_ids_before = source.process_ids_before;
        let each = if self.form.stores_offsets { 4 } else { 0 };
        while !entries.is_empty() {
            let taken = self.data.len() + each * (self.entries_count + 2);
            let room = self.form.bytes_max.saturating_sub(taken);
            let mut end = source.bounds.fitting(entries.clone(), room, each);
            if end == entries.start {
                if self.entries_count > 0 {
                    self.finish_basket()?;
                    continue;
                }
                end += 1;
            }
            self.append(source, entries.start..end)?;
            entries.start = end;
        }
        Ok(())
    }

    fn append(&mut self, source: &Entries, entries: Range<usize>) -> Result<()> {
        let (start, end) = (source.bounds.start(entries.start), source.bounds.start(entries.end));
        let before = self.data.len();
        let bytes = source
            .data
            .get(start..end)
            .ok_or_else(|| FormatError::damaged(start as u64, "the basket ends inside an entry"))?;
        if before + bytes.len() > ENTRY_BYTES_MAX {
            return Err(FormatError::unsupported("an entry exceeds the limit of ROOT's buffers of 1 GiB"));
        }
        self.check_size(source, &entries, bytes.len())?;
        self.data.extend_from_slice(bytes);
        // Position in the new basket minus position in the old basket; both count from the start of the key.
        let moved_by = (before as u64).wrapping_sub(u64::from(source.key_size) + start as u64);
        if self.form.stores_offsets {
            let of = |entry: usize| (source.bounds.start(entry) - start + before) as u32;
            self.offsets.extend(entries.clone().map(of));
        }
        match &source.references {
            References::At(places) => self.move_references(places, start..end, before, moved_by as u32)?,
            References::Unknown if !self.form.stores_offsets => {
                return Err(FormatError::unsupported(
                    "its objects may refer to each other, but its baskets cannot store displacements",
                ));
            }
            References::Unknown => {
                let displacements =
                    self.displacements.get_or_insert_with(|| self.offsets[..self.entries_count].to_vec());
                let of = |entry: usize| match &source.displaced {
                    Some(places) => places.get(entry).copied().unwrap_or(0),
                    None => source.key_size + source.bounds.start(entry) as u32,
                };
                displacements.extend(entries.clone().map(of));
            }
        }
        self.entries_count += entries.len();
        Ok(())
    }

    /// Check that all entries have the same size, unless baskets store entry offsets.
    fn check_size(&mut self, source: &Entries, entries: &Range<usize>, bytes: usize) -> Result<()> {
        if self.form.stores_offsets {
            return Ok(());
        }
        let is_even = |size: &usize| {
            size * entries.len() == bytes
                && match &source.bounds {
                    Bounds::Fixed(_) => true,
                    Bounds::Stored(bounds) => {
                        bounds[entries.start..=entries.end].windows(2).all(|pair| (pair[1] - pair[0]) as usize == *size)
                    }
                }
        };
        let size = *self.entry_size.get_or_insert(bytes / entries.len());
        if is_even(&size) {
            return Ok(());
        }
        let message = "its entries have different sizes, but its baskets store no entry offsets";
        Err(FormatError::unsupported(message))
    }

    fn move_references(&mut self, places: &[u32], from: Range<usize>, before: usize, moved_by: u32) -> Result<()> {
        let first = places.partition_point(|place| (*place as usize) < from.start);
        for place in places[first..].iter().take_while(|place| (**place as usize) < from.end) {
            let at = *place as usize - from.start + before;
            let tag = self.data.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>());
            let tag = tag.ok_or_else(|| FormatError::damaged(at as u64, "a reference is truncated"))?;
            let old = u32::from_be_bytes(*tag);
            let new = (old & !CLASS_MASK).wrapping_add(moved_by) & !CLASS_MASK;
            *tag = ((old & CLASS_MASK) | new).to_be_bytes();
        }
        if let Some(displacements) = &mut self.displacements {
            // The references in these entries were adjusted, so the original positions are the new positions.
            displacements.extend_from_slice(&self.offsets[displacements.len()..]);
        }
        Ok(())
    }

    /// Finish the last basket and return all baskets.
    pub fn finish(mut self) -> Result<Vec<NewBasket>> {
        if self.entries_count > 0 {
            self.finish_basket()?;
        }
        Ok(self.made)
    }

    fn finish_basket(&mut self) -> Result<()> {
        let bytes = self.data.len();
        let contents = BasketContents {
            data: &mut self.data,
            starts: &self.offsets,
            displacements: self.displacements.as_deref(),
            entries_count: self.entries_count as u64,
            process_ids_before: self.process_ids_before,
        };
        self.made.push(self.frame.record(&self.form, contents, self.tools)?);
        // The record of an uncompressed basket takes over the buffer, so `data` may be a different buffer now.
        self.data.clear();
        self.data.reserve(bytes);
        self.data.resize(self.key_size, 0);
        self.offsets.clear();
        self.displacements = None;
        self.entries_count = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::Setting;
    use crate::error::ErrorKind;

    fn entries(bounds: Bounds, references: References) -> Entries {
        Entries { data: vec![0; 24], bounds, references, displaced: None, key_size: 70, process_ids_before: 0 }
    }

    #[test]
    fn entries_that_may_refer_to_each_other_need_room_to_say_where_they_lay() {
        let frame = BasketFrame { branch: b"b".to_vec(), tree: b"t".to_vec(), date: 0, seek_directory: 100 };
        for stores_offsets in [false, true] {
            let mut tools = BasketTools::new();
            let form = BasketForm { stores_offsets, bytes_max: 1000, setting: Setting::NONE };
            let mut maker = BasketMaker::new(frame.clone(), form, &mut tools).unwrap();
            maker.add(&entries(Bounds::Fixed(8), References::At(Vec::new())), 0..3).unwrap();
            let unknown = entries(Bounds::Stored(vec![0, 8, 16, 24]), References::Unknown);
            match maker.add(&unknown, 0..3) {
                Ok(()) => assert!(stores_offsets && maker.finish().unwrap()[0].entries_count == 6),
                Err(error) => assert!(!stores_offsets && error.kind == ErrorKind::Unsupported),
            }
        }
    }
}
