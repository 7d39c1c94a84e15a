//! The record of a basket that is made of values.

use crate::compress::{Compressor, Setting};
use crate::error::{FormatError, Result};

use super::key::{push_string, string_size};

/// TKey's class version, with places of 64 bits, as the keys of baskets always have them.
const KEY_VERSION: i16 = 1004;
/// Bytes of such a key without its texts.
const KEY_SIZE: u64 = 34;
/// TBasket's class version, and the bytes that it has behind the key: version, four numbers and a flag.
const BASKET_VERSION: i16 = 3;
const HEAD_SIZE: u64 = 19;
/// Where cycle and place stand in the key.
const CYCLE_AT: usize = 16;
/// No basket is longer (TBuffer's limit).
const SIZE_MAX: u64 = 1 << 30;

/// What the key of a basket says.
#[derive(Debug, Clone)]
pub struct BasketNames {
    /// Name of its branch.
    pub branch: String,
    /// Name of its tree.
    pub tree: String,
    /// When it was made, as TDatime packs it.
    pub date: u32,
    /// Where the directory of the tree lies.
    pub seek_directory: u64,
    /// Bytes that its branch wants in a basket.
    pub basket_size: u64,
}

/// Entries of a branch, as they are streamed.
#[derive(Debug, Clone, Default)]
pub struct EntryBytes {
    /// The bytes of all.
    pub data: Vec<u8>,
    /// Where each begins; nothing where all have as many bytes.
    pub starts: Option<Vec<u32>>,
    /// How many there are.
    pub count: u64,
}

/// A record that does not know yet where it lies.
#[derive(Debug, Clone)]
pub struct ValueBasket {
    /// Its bytes.
    pub record: Vec<u8>,
    /// Bytes before compression, with the key.
    pub plain_size: u64,
}

impl BasketNames {
    fn key_size(&self) -> u64 {
        let texts = ["TBasket", &self.branch, &self.tree];
        KEY_SIZE + HEAD_SIZE + texts.iter().map(|text| string_size(text.as_bytes())).sum::<u64>()
    }

    /// Makes the record of a basket of these entries.
    pub fn basket(&self, entries: &EntryBytes, setting: Setting, compressor: &mut Compressor) -> Result<ValueBasket> {
        let key_size = self.key_size();
        let last = key_size + entries.data.len() as u64;
        let mut plain = entries.data.clone();
        if let Some(starts) = &entries.starts {
            plain.extend_from_slice(&(starts.len() as u32 + 1).to_be_bytes());
            starts.iter().for_each(|start| plain.extend_from_slice(&(key_size as u32 + start).to_be_bytes()));
            plain.extend_from_slice(&[0; 4]);
        }
        let mut stored = Vec::new();
        if !compressor.compress(setting, &plain, &mut stored) {
            stored.clone_from(&plain);
        }
        let plain_size = key_size + plain.len() as u64;
        if plain_size > SIZE_MAX {
            let message = format!("a basket of branch {} of {plain_size} bytes is more than ROOT reads", self.branch);
            return Err(FormatError::unsupported(message));
        }
        let mut record = Vec::with_capacity((key_size as usize) + stored.len());
        record.extend_from_slice(&((key_size + stored.len() as u64) as i32).to_be_bytes());
        record.extend_from_slice(&KEY_VERSION.to_be_bytes());
        record.extend_from_slice(&(plain.len() as i32).to_be_bytes());
        record.extend_from_slice(&self.date.to_be_bytes());
        let short = i16::try_from(key_size);
        let short = short.map_err(|_| FormatError::unsupported(format!("a name of {key_size} bytes")))?;
        record.extend_from_slice(&short.to_be_bytes());
        record.extend_from_slice(&[0; 10]); // cycle and place
        record.extend_from_slice(&self.seek_directory.to_be_bytes());
        for text in ["TBasket", &self.branch, &self.tree] {
            push_string(&mut record, text.as_bytes())?;
        }
        // Offsets that there is room for, or bytes of an entry.
        let room = match &entries.starts {
            Some(starts) => starts.len() as u64 + 1,
            None => entries.data.len() as u64 / entries.count.max(1),
        };
        record.extend_from_slice(&BASKET_VERSION.to_be_bytes());
        for number in [self.basket_size.max(plain.len() as u64), room, entries.count, last] {
            record.extend_from_slice(&(number as i32).to_be_bytes());
        }
        record.push(0);
        record.extend_from_slice(&stored);
        Ok(ValueBasket { record, plain_size })
    }
}

impl ValueBasket {
    /// Says which basket of its branch it is, and where it lies.
    pub fn place(&mut self, number: usize, seek: u64) {
        self.record[CYCLE_AT..CYCLE_AT + 2].copy_from_slice(&(number as u16).to_be_bytes());
        self.record[CYCLE_AT + 2..CYCLE_AT + 10].copy_from_slice(&seek.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basket::BasketRecord;
    use crate::compress::Decompressor;

    #[test]
    fn a_basket_is_read_back() {
        let (branch, tree) = ("b".to_string(), "t".repeat(300));
        let names = BasketNames { branch, tree, date: 1, seek_directory: 100, basket_size: 32_000 };
        let entries = EntryBytes { data: vec![7; 300], starts: Some(vec![0, 10, 10]), count: 3 };
        for setting in ["none", "zstd:5"] {
            let basket = names.basket(&entries, setting.parse().unwrap(), &mut Compressor::new()).unwrap();
            let record = BasketRecord::parse(&basket.record, 3).unwrap();
            assert_eq!(record.data_size(), 300);
            let mut room = Vec::new();
            let plain = record.decompress(&mut Decompressor::new(), &mut room).unwrap();
            assert_eq!(plain[..300], [7; 300]);
            assert_eq!(plain.len() as u64 + names.key_size(), basket.plain_size);
        }
    }
}
