//! Encoding of a new TTree, with branches of numbers and of the C++ collections that ROOT supports without a
//! dictionary. Members and versions match the streamer infos in `classes`.
//!
//! ```
//! use branchline_format::classes::streamer::ClassInfos;
//! use branchline_format::numbers::number::Number;
//! use branchline_format::tree::read_tree;
//! use branchline_format::write::tree::tree_record::{BranchKind, NewBranch, NewTree};
//!
//! let branch = NewBranch {
//!     name: "x".to_string(),
//!     title: None,
//!     kind: BranchKind::Numbers(Number::F32, Vec::new()),
//!     compress: 505,
//!     baskets: Vec::new(),
//!     plain_bytes: 0,
//!     stored_bytes: 0,
//!     basket_size: 32_000,
//!     count_max: 0,
//! };
//! let tree = NewTree {
//!     name: "events".to_string(),
//!     title: String::new(),
//!     entries_count: 0,
//!     cluster_entries: 1000,
//!     branches: vec![branch],
//! };
//! let read = read_tree(&tree.record(0)?, 0, "TTree", &ClassInfos::default())?;
//! assert_eq!((read.name.as_str(), read.branches[0].name.as_str()), ("events", "x"));
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use std::sync::Arc;

use crate::error::{FormatError, Result};
use crate::numbers::leaf_class::LeafClass;
use crate::numbers::number::Number;

use crate::write::key::{push_i32, push_string};
use crate::write::object::emitter::Emitter;

/// Minimum number of elements of a branch's basket arrays (TBranch's constructor).
const BASKETS_MIN: usize = 10;
/// Default of TTree::fUpdate.
const UPDATE: i32 = 0;
/// Default of TTree::fDefaultEntryOffsetLen.
const ENTRY_OFFSET_LENGTH: i32 = 1000;
/// Default of TTree::fMaxEntries and TTree::fMaxEntryLoop.
const ENTRIES_MAX: i64 = 1_000_000_000_000;
/// Default of TTree::fAutoSave.
const AUTO_SAVE: i64 = -300_000_000;
/// Default of TTree::fEstimate.
const ESTIMATE: i64 = 1_000_000;
/// Default of TTree::fScanField.
const SCAN_FIELD: i32 = 25;
/// TBranch::kDoNotUseBufferMap, set in the status bits of new branches.
const BRANCH_BITS: u32 = 1 << 22;
/// TObject::kMustCleanup, set in the status bits of new trees.
const TREE_BITS: u32 = 1 << 3;
/// Default fill style of TAttFill.
const FILL_STYLE: i16 = 1001;
/// Checksum of ROOT::TIOFeatures, which is written instead of a class version.
const FEATURES_CHECKSUM: u32 = 0x1aa1_2f10;
/// Member ID and type code in the TBranchElement of an unsplit top-level collection.
const NO_ID: i32 = -1;

/// ROOT's names and checksums of the vector classes for a number type.
struct VectorClass {
    /// C++ name of the number type.
    name: &'static str,
    /// Checksum of the class of vectors of this number type.
    vector: u32,
    /// Checksum of the class of vectors of vectors of this number type.
    vectors: u32,
}

fn vector_class(number: Number) -> Result<VectorClass> {
    let (name, vector, vectors) = match number {
        Number::Bool => ("bool", 0x1c8_b117, 0x2b21_e972),
        Number::I8 => ("char", 0x1c8_b03f, 0x2b21_e1da),
        Number::U8 => ("unsigned char", 0x2b72_30da, 0x616d_65b7),
        Number::I16 => ("short", 0x55a_2247, 0x8166_422c),
        Number::U16 => ("unsigned short", 0x8256_a418, 0x2448_cdc3),
        Number::I32 => ("int", 0x98_3b88, 0xb90b_52bd),
        Number::U32 => ("unsigned int", 0xb926_1111, 0x75cf_295c),
        Number::I64 => ("Long64_t", 0x907d_d4be, 0xa5a6_dbe1),
        Number::U64 => ("ULong64_t", 0xb178_f86b, 0xf0ef_de20),
        Number::F16 => return Err(no_half()),
        Number::F32 => ("float", 0x55a_169b, 0x8165_d920),
        Number::F64 => ("double", 0x100e_4364, 0x8431_864f),
    };
    Ok(VectorClass { name, vector, vectors })
}

fn leaf_class(number: Number) -> Result<LeafClass> {
    LeafClass::of_number(number).ok_or_else(no_half)
}

fn no_half() -> FormatError {
    FormatError::unsupported("branches of a TTree do not support half-precision numbers")
}

/// Contents of a branch's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchKind {
    /// A number, or a fixed-size array of numbers with these dimensions.
    Numbers(Number, Vec<usize>),
    /// The number of elements in the branches that use this branch as their counter, as a 32-bit integer.
    Counter,
    /// A variable-size array of numbers, or of fixed-size arrays of numbers. The `usize` is the index of the counter
    /// branch, which must be an earlier branch.
    Counted(Number, Vec<usize>, usize),
    /// A `std::string`.
    Text,
    /// A C string: its length, followed by the characters.
    Characters,
    /// A `std::vector` of numbers.
    List(Number),
    /// A `std::vector` of vectors of numbers.
    Lists(Number),
    /// A `std::vector` of strings.
    Texts,
}

/// Name, version and checksum of a C++ class.
struct Class {
    name: String,
    version: i16,
    checksum: u32,
    /// Type of the branch (TBranchElement::fType).
    branch_type: i32,
    /// Requested split level.
    split_level: i32,
}

impl BranchKind {
    /// Whether all entries have the same size in bytes.
    pub fn is_fixed(&self) -> bool {
        matches!(self, Self::Numbers(..) | Self::Counter)
    }

    fn class(&self) -> Result<Option<Class>> {
        let of = |name: String, checksum| Class { name, version: 6, checksum, branch_type: 0, split_level: 99 };
        Ok(Some(match self {
            Self::Numbers(..) | Self::Counter | Self::Counted(..) | Self::Characters => return Ok(None),
            Self::Text => {
                let (name, checksum) = ("string".to_string(), 0x6e6f_1604);
                Class { name, version: 2, checksum, branch_type: NO_ID, split_level: 0 }
            }
            Self::List(number) => {
                let class = vector_class(*number)?;
                of(format!("vector<{}>", class.name), class.vector)
            }
            Self::Lists(number) => {
                let class = vector_class(*number)?;
                of(format!("vector<vector<{}> >", class.name), class.vectors)
            }
            Self::Texts => of("vector<string>".to_string(), 0x100e_72bc),
        }))
    }
}

/// A basket that has been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenBasket {
    /// Size of the record, including the key.
    pub size: u64,
    /// The tree's index of the basket's first entry.
    pub first_entry: u64,
    /// Offset of the record in the file.
    pub seek: u64,
}

/// A branch whose baskets have been written.
#[derive(Debug, Clone)]
pub struct NewBranch {
    /// Name of the branch.
    pub name: String,
    /// Title of the branch. By default, the title describes the leaf.
    pub title: Option<String>,
    /// Contents of the branch's entries.
    pub kind: BranchKind,
    /// Compression setting of the baskets.
    pub compress: i32,
    /// The baskets, sorted by entry.
    pub baskets: Vec<WrittenBasket>,
    /// Total uncompressed size of the baskets, including keys.
    pub plain_bytes: u64,
    /// Total size of the baskets in the file.
    pub stored_bytes: u64,
    /// Maximum uncompressed size of a basket (TBranch::fBasketSize).
    pub basket_size: u64,
    /// For a counter, the maximum value (TLeafI::fMaximum); for a C string, the maximum length; otherwise 0.
    pub count_max: i32,
}

/// A TTree to be written.
#[derive(Debug, Clone)]
pub struct NewTree {
    /// Name of the tree.
    pub name: String,
    /// Title of the tree.
    pub title: String,
    /// Number of entries.
    pub entries_count: u64,
    /// Number of entries per cluster. The last cluster has the remaining entries.
    pub cluster_entries: u64,
    /// The branches.
    pub branches: Vec<NewBranch>,
}

impl NewTree {
    /// Encode the uncompressed bytes of the tree, whose key has `key_size` bytes.
    pub fn record(&self, key_size: u64) -> Result<Vec<u8>> {
        let mut writer = Writer { emitter: Emitter::new(key_size) };
        writer.tree(self)?;
        Ok(writer.emitter.out)
    }
}

struct Writer {
    emitter: Emitter,
}

impl Writer {
    fn u8(&mut self, value: u8) {
        self.emitter.out.push(value);
    }

    fn i16(&mut self, value: i16) {
        self.emitter.out.extend(value.to_be_bytes());
    }

    fn i32(&mut self, value: i32) {
        self.emitter.out.extend(value.to_be_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.emitter.out.extend(value.to_be_bytes());
    }

    fn i64(&mut self, value: i64) {
        self.emitter.out.extend(value.to_be_bytes());
    }

    fn f64(&mut self, value: f64) {
        self.emitter.out.extend(value.to_be_bytes());
    }

    fn text(&mut self, text: &str) -> Result<()> {
        push_string(&mut self.emitter.out, text.as_bytes())
    }

    /// Write an object of class version `version`, with the members that `fill` writes.
    fn class(&mut self, version: i16, fill: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.emitter.begin();
        self.i16(version);
        fill(self)?;
        self.emitter.end()
    }

    /// Write a pointer to a new object, and the object that `fill` writes.
    fn pointed(&mut self, id: u64, class_name: &str, fill: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.emitter.object(id, &Arc::from(class_name), true)?;
        fill(self)?;
        self.emitter.end()
    }

    fn object(&mut self, bits: u32) {
        self.i16(1);
        self.u32(0); // fUniqueID
        self.u32(bits);
    }

    fn named(&mut self, bits: u32, name: &str, title: &str) -> Result<()> {
        self.class(1, |writer| {
            writer.object(bits);
            writer.text(name)?;
            writer.text(title)
        })
    }

    /// Write a TObjArray of `count` pointers, which `fill` writes.
    fn array(&mut self, count: usize, fill: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.class(3, |writer| {
            writer.object(0);
            writer.text("")?;
            writer.i32(count as i32); // branches of a tree, bounded by the record
            writer.i32(0); // lower bound
            fill(writer)
        })
    }

    fn features(&mut self) -> Result<()> {
        self.class(0, |writer| {
            writer.u32(FEATURES_CHECKSUM);
            writer.u8(0);
            Ok(())
        })
    }

    fn tree(&mut self, tree: &NewTree) -> Result<()> {
        let plain: u64 = tree.branches.iter().map(|branch| branch.plain_bytes).sum();
        let stored: u64 = tree.branches.iter().map(|branch| branch.stored_bytes).sum();
        self.class(20, |writer| {
            writer.named(TREE_BITS, &tree.name, &tree.title)?;
            writer.class(2, |writer| {
                [602, 1, 1].into_iter().for_each(|value| writer.i16(value)); // line: color, style, width
                Ok(())
            })?;
            writer.fill_attributes()?;
            writer.class(3, |writer| {
                [1, 1].into_iter().for_each(|value| writer.i16(value)); // marker: color, style
                writer.u32(1.0f32.to_bits());
                Ok(())
            })?;
            for size in [tree.entries_count, plain, stored, stored, stored] {
                writer.i64(size as i64);
            }
            writer.f64(1.0); // weight
            for value in [0, SCAN_FIELD, UPDATE, ENTRY_OFFSET_LENGTH, 0] {
                writer.i32(value);
            }
            let auto_flush = tree.cluster_entries as i64;
            for value in [ENTRIES_MAX, ENTRIES_MAX, 0, AUTO_SAVE, auto_flush, ESTIMATE] {
                writer.i64(value);
            }
            writer.u8(0); // no cluster ranges
            writer.u8(0);
            writer.features()?;
            writer.array(tree.branches.len(), |writer| {
                tree.branches.iter().enumerate().try_for_each(|(number, branch)| writer.branch(tree, number, branch))
            })?;
            writer.array(tree.branches.len(), |writer| {
                (0..tree.branches.len()).try_for_each(|number| writer.emitter.seen(leaf_id(number), false))
            })?;
            // Null pointers: aliases, index values, index, tree index, friends, user info, branch references.
            (0..7).for_each(|_| writer.u32(0));
            Ok(())
        })
    }

    fn fill_attributes(&mut self) -> Result<()> {
        self.class(2, |writer| {
            writer.i16(0);
            writer.i16(FILL_STYLE);
            Ok(())
        })
    }

    fn branch(&mut self, tree: &NewTree, number: usize, branch: &NewBranch) -> Result<()> {
        let id = 2 * number as u64 + 2;
        let Some(class) = branch.kind.class()? else {
            return self.pointed(id, "TBranch", |writer| writer.plain_branch(tree, number, branch, 0));
        };
        self.pointed(id, "TBranchElement", |writer| {
            writer.class(10, |writer| {
                writer.plain_branch(tree, number, branch, class.split_level)?;
                for text in [class.name.as_str(), "", ""] {
                    writer.text(text)?;
                }
                writer.u32(class.checksum);
                writer.i16(class.version);
                for value in [NO_ID, class.branch_type, NO_ID, 0] {
                    writer.i32(value); // id, type, type of the streamer, maximum
                }
                writer.u32(0); // counters
                writer.u32(0);
                Ok(())
            })
        })
    }

    fn plain_branch(&mut self, tree: &NewTree, number: usize, branch: &NewBranch, split_level: i32) -> Result<()> {
        let count = branch.baskets.len();
        let room = (count + 1).max(BASKETS_MIN);
        self.class(13, |writer| {
            writer.named(BRANCH_BITS, &branch.name, &title(tree, branch)?)?;
            writer.fill_attributes()?;
            writer.i32(branch.compress);
            push_i32(&mut writer.emitter.out, branch.basket_size)?;
            writer.i32(if branch.kind.is_fixed() { 0 } else { ENTRY_OFFSET_LENGTH });
            writer.i32(count as i32);
            writer.i64(tree.entries_count as i64);
            writer.features()?;
            writer.i32(0); // offset
            writer.i32(room as i32);
            writer.i32(split_level);
            for size in [tree.entries_count, 0, branch.plain_bytes, branch.stored_bytes] {
                writer.i64(size as i64);
            }
            writer.array(0, |_| Ok(()))?;
            writer.array(1, |writer| writer.leaf(tree, number, branch))?;
            writer.array(0, |_| Ok(()))?;
            writer.u8(1);
            (0..room).for_each(|index| writer.i32(branch.baskets.get(index).map_or(0, |basket| basket.size as i32)));
            writer.u8(1);
            for index in 0..room {
                // The array element after the last basket holds the total number of entries.
                let next = if index == count && count > 0 { tree.entries_count } else { 0 };
                writer.i64(branch.baskets.get(index).map_or(next, |basket| basket.first_entry) as i64);
            }
            writer.u8(1);
            (0..room).for_each(|index| writer.i64(branch.baskets.get(index).map_or(0, |basket| basket.seek) as i64));
            writer.text("")
        })
    }

    fn leaf(&mut self, tree: &NewTree, number: usize, branch: &NewBranch) -> Result<()> {
        if branch.kind == BranchKind::Characters {
            // The length of a TLeafC includes the terminating zero.
            let length = branch.count_max.saturating_add(1);
            let form = LeafForm { length, size: 1, ..LeafForm::default() };
            return self.pointed(leaf_id(number), "TLeafC", |writer| {
                writer.class(1, |writer| {
                    writer.plain_leaf(&branch.name, &branch.name, &form)?;
                    writer.i32(0); // minimum
                    writer.i32(length); // maximum
                    Ok(())
                })
            });
        }
        let Some(numbers) = LeafNumbers::of(tree, branch) else {
            return self.pointed(leaf_id(number), "TLeafElement", |writer| {
                writer.class(1, |writer| {
                    writer.plain_leaf(&branch.name, &branch.name, &LeafForm { length: 1, ..LeafForm::default() })?;
                    writer.i32(NO_ID);
                    writer.i32(NO_ID);
                    Ok(())
                })
            });
        };
        let class = leaf_class(numbers.number)?;
        let size = numbers.number.size();
        let form = LeafForm {
            length: numbers.dimensions.iter().product::<usize>() as i32,
            size: size as i32,
            has_range: branch.kind == BranchKind::Counter,
            is_unsigned: class.is_unsigned,
            counter: numbers.counter,
        };
        let title = format!("{}{}", branch.name, numbers.brackets());
        self.pointed(leaf_id(number), class.class_name, |writer| {
            writer.class(1, |writer| {
                writer.plain_leaf(&branch.name, &title, &form)?;
                // Write the minimum and the maximum as zeros.
                writer.emitter.out.resize(writer.emitter.out.len() + 2 * size, 0);
                if form.has_range {
                    let maximum = writer.emitter.out.len() - size;
                    writer.emitter.out[maximum..].copy_from_slice(&branch.count_max.to_be_bytes());
                }
                Ok(())
            })
        })
    }

    fn plain_leaf(&mut self, name: &str, title: &str, form: &LeafForm) -> Result<()> {
        self.class(2, |writer| {
            writer.named(0, name, title)?;
            writer.i32(form.length);
            writer.i32(form.size);
            writer.i32(0); // offset
            writer.u8(u8::from(form.has_range));
            writer.u8(u8::from(form.is_unsigned));
            match form.counter {
                Some(counter) => writer.emitter.seen(leaf_id(counter), false)?,
                None => writer.u32(0),
            }
            Ok(())
        })
    }
}

/// The members of a TLeaf that differ between leaves.
#[derive(Default)]
struct LeafForm {
    length: i32,
    size: i32,
    has_range: bool,
    is_unsigned: bool,
    /// Index of the counter branch.
    counter: Option<usize>,
}

/// Numeric properties of a leaf that does not hold objects.
struct LeafNumbers<'a> {
    number: Number,
    dimensions: &'a [usize],
    counter: Option<usize>,
    counter_name: Option<&'a str>,
}

impl<'a> LeafNumbers<'a> {
    fn of(tree: &'a NewTree, branch: &'a NewBranch) -> Option<Self> {
        let (number, dimensions, counter) = match &branch.kind {
            BranchKind::Numbers(number, dimensions) => (*number, dimensions.as_slice(), None),
            BranchKind::Counter => (Number::I32, [].as_slice(), None),
            BranchKind::Counted(number, dimensions, counter) => (*number, dimensions.as_slice(), Some(*counter)),
            BranchKind::Text
            | BranchKind::Characters
            | BranchKind::List(_)
            | BranchKind::Lists(_)
            | BranchKind::Texts => return None,
        };
        let counter_name = counter.and_then(|counter| tree.branches.get(counter)).map(|branch| branch.name.as_str());
        Some(Self { number, dimensions, counter, counter_name })
    }

    fn brackets(&self) -> String {
        let counted = self.counter_name.map_or(String::new(), |name| format!("[{name}]"));
        counted + &self.dimensions.iter().map(|size| format!("[{size}]")).collect::<String>()
    }
}

fn leaf_id(number: usize) -> u64 {
    2 * number as u64 + 3
}

fn title(tree: &NewTree, branch: &NewBranch) -> Result<String> {
    if let Some(title) = &branch.title {
        return Ok(title.clone());
    }
    if branch.kind == BranchKind::Characters {
        return Ok(format!("{}/C", branch.name));
    }
    match LeafNumbers::of(tree, branch) {
        Some(numbers) => Ok(format!("{}{}/{}", branch.name, numbers.brackets(), leaf_class(numbers.number)?.letter)),
        None => Ok(branch.name.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::streamer::ClassInfos;
    use crate::tree::read_tree;
    use crate::write::object::classes::tree_infos;

    #[test]
    fn a_tree_from_nothing_is_read_back() {
        let kinds = [
            BranchKind::Numbers(Number::U16, vec![]),
            BranchKind::Numbers(Number::F32, vec![2, 3]),
            BranchKind::Text,
            BranchKind::List(Number::F64),
            BranchKind::Lists(Number::I64),
            BranchKind::Texts,
            BranchKind::Counter,
            BranchKind::Counted(Number::F32, vec![2], 6),
            BranchKind::Characters,
        ];
        let branch = |(number, kind): (usize, BranchKind)| NewBranch {
            name: format!("b{number}"),
            title: (number == 1).then(|| "of its author".to_string()),
            kind,
            compress: 505,
            baskets: vec![
                WrittenBasket { size: 100, first_entry: 0, seek: 300 },
                WrittenBasket { size: 90, first_entry: 40, seek: 1 << 40 },
            ],
            plain_bytes: 500,
            stored_bytes: 190,
            basket_size: 32_000,
            count_max: 5,
        };
        let branches = kinds.into_iter().enumerate().map(branch).collect();
        let (name, title) = ("events".to_string(), "of a test".to_string());
        let tree = NewTree { name, title, entries_count: 70, cluster_entries: 40, branches };
        let infos = ClassInfos::read(&tree_infos(64).unwrap(), 64).unwrap();
        for key_size in [50, 71] {
            let plain = tree.record(key_size).unwrap();
            let read = read_tree(&plain, key_size, "TTree", &infos).unwrap();
            assert_eq!((read.name.as_str(), read.entries_count, read.branches.len()), ("events", 70, 9));
            for (number, branch) in read.branches.iter().enumerate() {
                assert_eq!(branch.path, format!("b{number}"));
                let baskets: Vec<(u64, u64)> =
                    branch.baskets.iter().map(|basket| (basket.entry_start, basket.entry_stop)).collect();
                assert_eq!(baskets, [(0, 40), (40, 70)]);
                assert_eq!(branch.leaves.len(), 1);
            }
            assert_eq!(read.branches[1].title, "of its author");
            assert_eq!(read.branches[7].title, "b7[b6][2]/F");
            let leaf = &read.branches[8].leaves[0];
            assert_eq!((leaf.class_name.as_str(), leaf.length), ("TLeafC", 6));
        }
    }
}
