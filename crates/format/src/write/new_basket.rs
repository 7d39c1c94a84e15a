//! A basket that is made of entries of others: their bytes are moved, and told where they lie now.
//!
//! An entry's bytes say nothing of where they lie, but for the references between the objects in it, which count from
//! the start of the basket's key. These are moved with them; where it is not known which bytes they are, the basket says
//! for each entry where it lay when it was written (TBasket::fDisplacement).

use std::ops::Range;

use crate::basket::Plain;
use crate::compress::Setting;
use crate::error::{FormatError, Result};
use crate::layout::Kind;

use super::basket::BasketTools;
use super::key::{push_seek, push_string, string_size};

/// TKey's class version, with places of 64 bits, as the keys of baskets always have them.
const KEY_VERSION: i16 = 1004;
/// Bytes of such a key without its texts.
const KEY_BYTES: u64 = 34;
/// TBasket's class version.
const BASKET_VERSION: i16 = 3;
/// Bytes behind the key: version, four numbers and a flag.
const HEAD_BYTES: u64 = 19;
const CLASS_NAME: &[u8] = b"TBasket";
/// The tag of a reference refers to a class (kClassMask).
const CLASS_MASK: u32 = 0x8000_0000;
/// Where the cycle stands in a key, with the place of the record behind it.
const CYCLE_AT: usize = 16;
/// The highest bits of the directory's place say how many process ids are in front of those of the entries.
const PROCESS_BITS: u32 = 48;
/// No basket is longer (TBuffer's limit).
const BYTES_MAX: usize = 1 << 30;

/// Where the references in a basket's entries are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum References {
    /// At these places of the data, in their order.
    At(Vec<u32>),
    /// Nobody knows.
    Unknown,
}

/// The entries of a basket, ready to be moved to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries {
    /// Their bytes.
    pub data: Vec<u8>,
    /// Start of each and end of the last.
    pub bounds: Bounds,
    /// The references among them.
    pub references: References,
    /// Bytes of the key, which references count too.
    pub key_size: u32,
    /// Process ids of the new file in front of those that the entries know (TKey::GetPidOffset).
    pub process_ids_before: u16,
}

/// Where entries begin and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bounds {
    /// Here.
    Stored(Vec<u32>),
    /// All have so many bytes.
    Fixed(usize),
}

impl Bounds {
    fn start(&self, entry: usize) -> usize {
        match self {
            Self::Stored(bounds) => bounds.get(entry).map_or(0, |bound| *bound as usize),
            Self::Fixed(size) => entry * size,
        }
    }

    /// Up to which of these entries no more than so many bytes are taken, each with so many beside it.
    fn fitting(&self, entries: Range<usize>, bytes: usize, each: usize) -> usize {
        let start = self.start(entries.start);
        let fits = |end: usize| self.start(end) - start + each * (end - entries.start) <= bytes;
        let (mut low, mut high) = (entries.start, entries.end);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }
}

impl Entries {
    /// Takes the plain bytes of a basket of a branch of this kind apart.
    pub fn of(plain: &Plain<'_>, kind: &Kind, process_ids_before: u16) -> Result<Self> {
        if plain.has_displacements() {
            return Err(FormatError::unsupported(
                "its entries were moved before, and say so in a way that is not read",
            ));
        }
        let bounds = match plain.bounds()? {
            Some(bounds) => Bounds::Stored(bounds),
            None => Bounds::Fixed(plain.fixed_size().map_err(|_| {
                FormatError::unsupported("its baskets do not say where entries of different sizes begin")
            })?),
        };
        let references = match (kind, &bounds) {
            (Kind::Data(layout), Bounds::Stored(bounds)) => References::At(layout.references(plain, bounds)?),
            (Kind::Unsupported { .. }, Bounds::Stored(_)) => References::Unknown,
            // What has a fixed size has no references.
            (_, Bounds::Fixed(_)) | (Kind::Group, _) => References::At(Vec::new()),
        };
        let key_size = u32::try_from(plain.key_size).map_err(|_| FormatError::damaged(0, "a key of that size"))?;
        Ok(Self { data: plain.data.to_vec(), bounds, references, key_size, process_ids_before })
    }
}

impl NewBasket {
    /// Says which basket of its branch it is, and where it lies.
    pub fn place(&mut self, number: usize, seek: u64) {
        for (at, byte) in (CYCLE_AT..).zip((number as u16).to_be_bytes().into_iter().chain(seek.to_be_bytes())) {
            if let Some(place) = self.record.get_mut(at) {
                *place = byte;
            }
        }
    }
}

/// What the key of a basket says.
#[derive(Debug, Clone)]
pub struct BasketFrame {
    /// Name of its branch.
    pub branch: Vec<u8>,
    /// Name of its tree.
    pub tree: Vec<u8>,
    /// When it was made, as TDatime packs it.
    pub date: u32,
    /// Where the directory of the tree lies.
    pub seek_directory: u64,
}

impl BasketFrame {
    fn key_size(&self) -> u64 {
        KEY_BYTES + HEAD_BYTES + [CLASS_NAME, &self.branch, &self.tree].map(string_size).iter().sum::<u64>()
    }
}

/// How new baskets are made.
#[derive(Debug, Clone, Copy)]
pub struct BasketForm {
    /// Whether they say where their entries begin; else all entries have one size.
    pub stores_offsets: bool,
    /// Bytes at most with its key, before compression, unless a single entry takes more (TBranch::fBasketSize).
    pub bytes_max: usize,
    /// How they are compressed.
    pub setting: Setting,
}

/// A basket that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBasket {
    /// Its record, whose key does not say yet which basket it is and where it lies.
    pub record: Vec<u8>,
    /// Entries in it.
    pub entries_count: u64,
    /// Bytes before compression, key included.
    pub plain_size: u64,
}

/// A basket in the making.
#[derive(Debug)]
pub struct BasketMaker<'t> {
    frame: BasketFrame,
    form: BasketForm,
    tools: &'t mut BasketTools,
    key_size: u32,
    data: Vec<u8>,
    offsets: Vec<u32>,
    displacements: Option<Vec<u32>>,
    entry_size: Option<usize>,
    entries_count: usize,
    process_ids_before: u16,
    made: Vec<NewBasket>,
}

impl<'t> BasketMaker<'t> {
    /// An empty basket.
    pub fn new(frame: BasketFrame, form: BasketForm, tools: &'t mut BasketTools) -> Result<Self> {
        let key_size = u16::try_from(frame.key_size())
            .map_err(|_| FormatError::unsupported("the names of a branch and its tree are too long for a key"))?;
        Ok(Self {
            frame,
            form,
            tools,
            key_size: key_size.into(),
            data: Vec::new(),
            offsets: Vec::new(),
            displacements: None,
            entry_size: None,
            entries_count: 0,
            process_ids_before: 0,
            made: Vec::new(),
        })
    }

    /// What it works with.
    pub fn tools(&mut self) -> &mut BasketTools {
        self.tools
    }

    /// Adds entries; baskets that are full are finished.
    pub fn add(&mut self, source: &Entries, mut entries: Range<usize>) -> Result<()> {
        if self.process_ids_before != source.process_ids_before && self.entries_count > 0 {
            // A basket says it once, for all of its entries.
            self.finish_basket()?;
        }
        self.process_ids_before = source.process_ids_before;
        let each = if self.form.stores_offsets { 4 } else { 0 };
        while !entries.is_empty() {
            let taken = self.key_size as usize + self.data.len() + each * (self.entries_count + 2);
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
        let bytes = source.data.get(start..end).ok_or_else(|| FormatError::damaged(start as u64, "a short basket"))?;
        if before + bytes.len() > BYTES_MAX {
            return Err(FormatError::unsupported("an entry is longer than ROOT's buffers can be"));
        }
        self.check_size(source, &entries, bytes.len())?;
        self.data.extend_from_slice(bytes);
        // From the places in the old basket, counted from its key, to those in the new one.
        let moved_by =
            (u64::from(self.key_size) + before as u64).wrapping_sub(u64::from(source.key_size) + start as u64);
        if self.form.stores_offsets {
            let of = |entry: usize| self.key_size + (source.bounds.start(entry) - start + before) as u32;
            self.offsets.extend(entries.clone().map(of));
        }
        match &source.references {
            References::At(places) => self.move_references(places, start..end, before, moved_by as u32)?,
            References::Unknown => {
                let displacements =
                    self.displacements.get_or_insert_with(|| self.offsets[..self.entries_count].to_vec());
                let of = |entry: usize| source.key_size + source.bounds.start(entry) as u32;
                displacements.extend(entries.clone().map(of));
            }
        }
        self.entries_count += entries.len();
        Ok(())
    }

    /// Without offsets all entries must have one size.
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
        let message = "its entries have different sizes, and its baskets do not say where they begin";
        Err(FormatError::unsupported(message))
    }

    fn move_references(&mut self, places: &[u32], from: Range<usize>, before: usize, moved_by: u32) -> Result<()> {
        let first = places.partition_point(|place| (*place as usize) < from.start);
        for place in places[first..].iter().take_while(|place| (**place as usize) < from.end) {
            let at = *place as usize - from.start + before;
            let tag = self.data.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>());
            let tag = tag.ok_or_else(|| FormatError::damaged(at as u64, "a reference is cut off"))?;
            let old = u32::from_be_bytes(*tag);
            let new = (old & !CLASS_MASK).wrapping_add(moved_by) & !CLASS_MASK;
            *tag = ((old & CLASS_MASK) | new).to_be_bytes();
        }
        if let Some(displacements) = &mut self.displacements {
            // Of these entries nothing needs to be said.
            displacements.extend_from_slice(&self.offsets[displacements.len()..]);
        }
        Ok(())
    }

    /// Finishes the last basket, and answers with all that were made.
    pub fn finish(mut self) -> Result<Vec<NewBasket>> {
        if self.entries_count > 0 {
            self.finish_basket()?;
        }
        Ok(self.made)
    }

    /// TBasket::WriteBuffer.
    fn finish_basket(&mut self) -> Result<()> {
        let last = u64::from(self.key_size) + self.data.len() as u64;
        if self.form.stores_offsets {
            push_array(&mut self.data, &self.offsets);
            if let Some(displacements) = &self.displacements {
                push_array(&mut self.data, displacements);
            }
        }
        let mut record = Vec::with_capacity(self.key_size as usize + self.data.len() / 2);
        self.push_key(last, &mut record)?;
        self.tools.push_compressed(self.form.setting, &self.data, &mut record);
        let size = number(record.len() as u64)?;
        record[..4].copy_from_slice(&size.to_be_bytes());
        let plain_size = u64::from(self.key_size) + self.data.len() as u64;
        self.made.push(NewBasket { record, entries_count: self.entries_count as u64, plain_size });
        self.data.clear();
        self.offsets.clear();
        self.displacements = None;
        self.entries_count = 0;
        Ok(())
    }

    /// The key without size and place, and the head of the basket behind it.
    fn push_key(&self, last: u64, out: &mut Vec<u8>) -> Result<()> {
        out.extend([0; 4]);
        out.extend(KEY_VERSION.to_be_bytes());
        out.extend(number(self.data.len() as u64)?.to_be_bytes());
        out.extend(self.frame.date.to_be_bytes());
        out.extend((self.key_size as u16).to_be_bytes());
        out.extend([0; 2]);
        push_seek(out, 0, true)?;
        push_seek(out, self.frame.seek_directory | u64::from(self.process_ids_before) << PROCESS_BITS, true)?;
        for text in [CLASS_NAME, &self.frame.branch, &self.frame.tree] {
            push_string(out, text)?;
        }
        let entry_size = match self.form.stores_offsets {
            true => self.entries_count + 1,
            false => self.entry_size.unwrap_or(0),
        };
        out.extend(BASKET_VERSION.to_be_bytes());
        for size in [last.max(self.form.bytes_max as u64), entry_size as u64, self.entries_count as u64, last] {
            out.extend(number(size)?.to_be_bytes());
        }
        out.push(0);
        Ok(())
    }
}

fn number(size: u64) -> Result<i32> {
    i32::try_from(size)
        .map_err(|_| FormatError::unsupported(format!("a basket of {size} bytes is larger than ROOT has room for")))
}

/// TBuffer::WriteArray of one number for each entry and one more.
fn push_array(out: &mut Vec<u8>, numbers: &[u32]) {
    out.extend((numbers.len() as u32 + 1).to_be_bytes());
    numbers.iter().for_each(|number| out.extend(number.to_be_bytes()));
    out.extend([0; 4]);
}
