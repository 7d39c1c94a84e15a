//! The members of TTree, TBranch and TLeaf objects that are wanted, and room for their values.

use std::rc::Rc;

use crate::cursor::{text_of, Cursor};

use super::basic::Basic;

/// Whole numbers that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum Number {
    Entries,
    FirstEntry,
    TotBytes,
    ZipBytes,
    ClusterRangesCount,
    Compress,
    WriteBasket,
    LastEntry,
    MaxBaskets,
    IoBits,
    CheckSum,
    ClassVersion,
    Id,
    Type,
    StreamerType,
    Len,
    IsUnsigned,
}

const NUMBERS_COUNT: usize = Number::IsUnsigned as usize + 1;

/// Variable arrays of whole numbers that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum NumberArray {
    Sizes,
    FirstEntries,
    Seeks,
}

const ARRAYS_COUNT: usize = NumberArray::Seeks as usize + 1;

/// Strings that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum Text {
    Name,
    Title,
    FileName,
    ClassName,
    ClonesName,
    ParentName,
}

const TEXTS_COUNT: usize = Text::ParentName as usize + 1;

/// Arrays of pointers that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum Pointers {
    Branches,
    Leaves,
    Baskets,
}

const POINTER_ARRAYS_COUNT: usize = Pointers::Baskets as usize + 1;

/// Single pointers that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum Link {
    LeafCount,
    BranchCount,
    BranchCount2,
    Aliases,
    TreeIndex,
    Friends,
}

const LINKS_COUNT: usize = Link::Friends as usize + 1;

/// Where a wanted member goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// A whole number (or a double that holds one).
    Number(Number),
    /// A variable array.
    Array(NumberArray),
    /// A string.
    Text(Text),
    /// A TObjArray.
    Pointers(Pointers),
    /// A pointer.
    Link(Link),
}

/// What is wanted of a member with this name; names are ROOT's own.
pub fn wanted(name: &str) -> Option<Wanted> {
    use Wanted::{Array, Link as L, Number as N, Pointers as P, Text as T};
    Some(match name {
        "fName" => T(Text::Name),
        "fTitle" => T(Text::Title),
        "fFileName" => T(Text::FileName),
        "fClassName" => T(Text::ClassName),
        "fClonesName" => T(Text::ClonesName),
        "fParentName" => T(Text::ParentName),
        "fEntries" => N(Number::Entries),
        "fFirstEntry" => N(Number::FirstEntry),
        "fTotBytes" => N(Number::TotBytes),
        "fZipBytes" => N(Number::ZipBytes),
        "fNClusterRange" => N(Number::ClusterRangesCount),
        "fCompress" => N(Number::Compress),
        "fWriteBasket" => N(Number::WriteBasket),
        "fEntryNumber" => N(Number::LastEntry),
        "fMaxBaskets" => N(Number::MaxBaskets),
        "fIOBits" => N(Number::IoBits),
        "fCheckSum" => N(Number::CheckSum),
        "fClassVersion" => N(Number::ClassVersion),
        "fID" => N(Number::Id),
        "fType" => N(Number::Type),
        "fStreamerType" => N(Number::StreamerType),
        "fLen" => N(Number::Len),
        "fIsUnsigned" => N(Number::IsUnsigned),
        "fBasketBytes" => Array(NumberArray::Sizes),
        "fBasketEntry" => Array(NumberArray::FirstEntries),
        "fBasketSeek" => Array(NumberArray::Seeks),
        "fBranches" => P(Pointers::Branches),
        "fLeaves" => P(Pointers::Leaves),
        "fBaskets" => P(Pointers::Baskets),
        "fLeafCount" => L(Link::LeafCount),
        "fBranchCount" => L(Link::BranchCount),
        "fBranchCount2" => L(Link::BranchCount2),
        "fAliases" => L(Link::Aliases),
        "fTreeIndex" => L(Link::TreeIndex),
        "fFriends" => L(Link::Friends),
        _ => return None,
    })
}

/// A variable array of whole numbers as it lies in the buffer: a branch has room for more baskets than it has.
#[derive(Debug, Clone, Copy, Default)]
pub struct Numbers<'a> {
    stored: &'a [u8],
    basic: Basic,
}

impl<'a> Numbers<'a> {
    /// The numbers in these bytes.
    pub fn new(stored: &'a [u8], basic: Basic) -> Self {
        Self { stored, basic }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.stored.len() / self.basic.size()
    }

    /// One of them; none behind the last.
    pub fn get(&self, index: usize) -> Option<i64> {
        let size = self.basic.size();
        let raw = self.stored.get(index.checked_mul(size)?..)?;
        self.basic.read(&mut Cursor::new(raw)).ok()
    }
}

/// A TTree, TBranch or TLeaf as it was streamed, with its wanted members, which stay in the buffer.
#[derive(Debug, Clone, Default)]
pub struct Members<'a> {
    /// Its class.
    pub class_name: Rc<str>,
    numbers: [i64; NUMBERS_COUNT],
    arrays: [Numbers<'a>; ARRAYS_COUNT],
    texts: [&'a [u8]; TEXTS_COUNT],
    pointers: [Vec<u64>; POINTER_ARRAYS_COUNT],
    links: [u64; LINKS_COUNT],
    /// Baskets that were written together with the branch: index in fBaskets and their bytes.
    pub embedded: Vec<(usize, super::embedded::EmbeddedBasket)>,
}

impl<'a> Members<'a> {
    /// Nothing known yet but the class.
    pub fn of_class(class_name: Rc<str>) -> Self {
        Self { class_name, ..Self::default() }
    }

    /// A whole number; 0 when the class had no such member.
    pub fn number(&self, which: Number) -> i64 {
        self.numbers[which as usize]
    }

    /// An array.
    pub fn array(&self, which: NumberArray) -> Numbers<'a> {
        self.arrays[which as usize]
    }

    /// A string; bytes that are not UTF-8 are replaced.
    pub fn text(&self, which: Text) -> String {
        text_of(self.texts[which as usize])
    }

    /// Object numbers that an array of pointers holds.
    pub fn pointers(&self, which: Pointers) -> &[u64] {
        &self.pointers[which as usize]
    }

    /// Takes the object numbers of an array of pointers out.
    pub fn take_pointers(&mut self, which: Pointers) -> Vec<u64> {
        std::mem::take(&mut self.pointers[which as usize])
    }

    /// Object number that a pointer holds; 0 for null.
    pub fn link(&self, which: Link) -> u64 {
        self.links[which as usize]
    }

    /// Sets a number.
    pub fn set_number(&mut self, which: Number, value: i64) {
        self.numbers[which as usize] = value;
    }

    /// Sets an array.
    pub fn set_array(&mut self, which: NumberArray, value: Numbers<'a>) {
        self.arrays[which as usize] = value;
    }

    /// Sets a string.
    pub fn set_text(&mut self, which: Text, value: &'a [u8]) {
        self.texts[which as usize] = value;
    }

    /// Sets an array of pointers.
    pub fn set_pointers(&mut self, which: Pointers, value: Vec<u64>) {
        self.pointers[which as usize] = value;
    }

    /// Sets a pointer.
    pub fn set_link(&mut self, which: Link, value: u64) {
        self.links[which as usize] = value;
    }
}
