//! The record of a new basket: key, basket header, and the entries with their offsets, usually compressed. Without
//! compression, the entries are not copied: the key is written into space that was reserved before the entries.

use crate::compress::Setting;
use crate::error::{FormatError, Result};
use crate::marks::{BASKET_VERSION, BIG_VERSION, ENTRY_BYTES_MAX, KEY_VERSION};

use super::basket::BasketTools;
use crate::write::key::{push_seek, push_string, string_size};

/// Size of a basket's key without its strings.
const KEY_BYTES: u64 = 34;
/// Size of the basket header after the key: version, four numbers and a flag.
const HEAD_BYTES: u64 = 19;
const CLASS_NAME: &[u8] = b"TBasket";
/// Offset of the cycle number in a key. The record's file offset follows the cycle number.
const CYCLE_AT: usize = 16;
/// Bit position of the process ID offset in the key's directory offset. The bits from this position on hold the offset.
const PROCESS_BITS: u32 = 48;

/// Contents of a basket's key.
#[derive(Debug, Clone)]
pub struct BasketFrame {
    /// Name of the branch.
    pub branch: Vec<u8>,
    /// Name of the tree.
    pub tree: Vec<u8>,
    /// Creation time, packed as in TDatime.
    pub date: u32,
    /// Offset of the directory that contains the tree.
    pub seek_directory: u64,
}

impl BasketFrame {
    /// Size of the key and the basket header. The entries start at this offset.
    pub fn key_size(&self) -> Result<u16> {
        let texts = [CLASS_NAME, &self.branch, &self.tree].map(string_size);
        u16::try_from(KEY_BYTES + HEAD_BYTES + texts.iter().sum::<u64>())
            .map_err(|_| FormatError::unsupported("the names of a branch and its tree are too long for a key"))
    }

    /// Encode the record of a basket (TBasket::WriteBuffer).
    pub fn record(
        &self,
        form: &BasketForm,
        contents: BasketContents<'_>,
        tools: &mut BasketTools,
    ) -> Result<NewBasket> {
        let BasketContents { data, starts, displacements, entries_count, process_ids_before } = contents;
        let key_size = self.key_size()?;
        let last = data.len() as u64;
        let entries_bytes = last.saturating_sub(u64::from(key_size));
        let entry_size = match form.stores_offsets {
            true => entries_count + 1,
            false => entries_bytes / entries_count.max(1),
        };
        if form.stores_offsets {
            push_array(data, starts);
            if let Some(displacements) = displacements {
                push_array(data, displacements);
            }
        }
        let (room, plain) = data
            .split_at_mut_checked(usize::from(key_size))
            .ok_or_else(|| FormatError::internal("no space is reserved for the key of the basket"))?;
        let plain_size = u64::from(key_size) + plain.len() as u64;
        let mut head = Vec::with_capacity(key_size.into());
        self.push_key(plain.len() as u64, key_size, process_ids_before, &mut head)?;
        head.extend(BASKET_VERSION.to_be_bytes());
        for size in [last.max(form.bytes_max as u64), entry_size, entries_count, last] {
            head.extend(number(size)?.to_be_bytes());
        }
        head.push(0);
        let mut record = match tools.compressed(form.setting, &head, plain) {
            Ok(record) => record,
            Err(memory) => {
                room.copy_from_slice(&head);
                std::mem::replace(data, memory)
            }
        };
        let size = number(record.len() as u64)?;
        record[..4].copy_from_slice(&size.to_be_bytes());
        Ok(NewBasket { record, entries_count, plain_size })
    }

    /// Append the key, with placeholders for the record size and the record offset.
    fn push_key(&self, plain_bytes: u64, key_size: u16, process_ids_before: u16, out: &mut Vec<u8>) -> Result<()> {
        out.extend([0; 4]);
        out.extend((KEY_VERSION + BIG_VERSION).to_be_bytes());
        out.extend(number(plain_bytes)?.to_be_bytes());
        out.extend(self.date.to_be_bytes());
        out.extend(key_size.to_be_bytes());
        out.extend([0; 2]);
        push_seek(out, 0, true)?;
        push_seek(out, self.seek_directory | u64::from(process_ids_before) << PROCESS_BITS, true)?;
        [CLASS_NAME, &self.branch, &self.tree].into_iter().try_for_each(|text| push_string(out, text))
    }
}

/// Format of new baskets.
#[derive(Debug, Clone, Copy)]
pub struct BasketForm {
    /// Whether baskets store entry offsets. If not, all entries must have the same size.
    pub stores_offsets: bool,
    /// Maximum uncompressed size of a basket, including the key (TBranch::fBasketSize). An entry that exceeds this size
    /// gets a basket of its own.
    pub bytes_max: usize,
    /// Compression setting of the baskets.
    pub setting: Setting,
}

/// Contents of a new basket.
#[derive(Debug)]
pub struct BasketContents<'c> {
    /// Reserved space for the key, followed by the bytes of the entries. The buffer is overwritten and may be replaced.
    pub data: &'c mut Vec<u8>,
    /// Start of each entry, relative to the start of the key. Empty if the basket does not store entry offsets.
    pub starts: &'c [u32],
    /// Original start of each entry (TBasket::fDisplacement), if the basket stores original positions.
    pub displacements: Option<&'c [u32]>,
    /// Number of entries.
    pub entries_count: u64,
    /// Offset to add to the process IDs in the entries (TKey::GetPidOffset).
    pub process_ids_before: u16,
}

/// An encoded basket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBasket {
    /// The record. Its key does not have the basket number and the file offset yet.
    pub record: Vec<u8>,
    /// Number of entries.
    pub entries_count: u64,
    /// Uncompressed size, including the key.
    pub plain_size: u64,
}

impl NewBasket {
    /// Set the basket number and the file offset in the key.
    pub fn place(&mut self, number: usize, seek: u64) {
        for (at, byte) in (CYCLE_AT..).zip((number as u16).to_be_bytes().into_iter().chain(seek.to_be_bytes())) {
            if let Some(place) = self.record.get_mut(at) {
                *place = byte;
            }
        }
    }
}

/// Append an array with one number per entry and one extra number, like TBuffer::WriteArray.
fn push_array(out: &mut Vec<u8>, numbers: &[u32]) {
    out.extend((numbers.len() as u32 + 1).to_be_bytes());
    let start = out.len();
    out.resize(start + 4 * numbers.len(), 0);
    let places = out[start..].as_chunks_mut::<4>().0;
    places.iter_mut().zip(numbers).for_each(|(place, number)| *place = number.to_be_bytes());
    out.extend([0; 4]);
}

fn number(size: u64) -> Result<i32> {
    i32::try_from(size)
        .ok()
        .filter(|size| *size <= ENTRY_BYTES_MAX as i32)
        .ok_or_else(|| FormatError::unsupported(format!("a basket of {size} bytes exceeds the limit of ROOT")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basket::BasketRecord;
    use crate::compress::Decompressor;

    #[test]
    fn a_basket_is_read_back() {
        let frame = BasketFrame { branch: b"b".to_vec(), tree: vec![b't'; 300], date: 1, seek_directory: 100 };
        let key_size = u32::from(frame.key_size().unwrap());
        let starts = [key_size, key_size + 10, key_size + 10];
        for setting in ["none", "zstd:5"] {
            let form = BasketForm { stores_offsets: true, bytes_max: 32_000, setting: setting.parse().unwrap() };
            let contents = BasketContents {
                data: &mut [vec![0; key_size as usize], vec![7; 300]].concat(),
                starts: &starts,
                displacements: None,
                entries_count: 3,
                process_ids_before: 0,
            };
            let basket = frame.record(&form, contents, &mut BasketTools::new()).unwrap();
            let record = BasketRecord::parse(&basket.record, 3).unwrap();
            assert_eq!(record.data_size(), 300);
            let mut room = Vec::new();
            let plain = record.decompress(&mut Decompressor::new(), &mut room).unwrap();
            assert_eq!(plain[..300], [7; 300]);
            assert_eq!(plain.len() as u64 + u64::from(key_size), basket.plain_size);
        }
    }
}
