//! The members of TTree, TBranch and TLeaf objects that are read, and their values.

use std::sync::Arc;

use crate::classes::class_info::Element;
use crate::cursor::{text_of, Cursor};
use crate::numbers::member_kind::{MemberKind, Times};
use crate::numbers::number::Number;
use crate::numbers::scalar::Scalar;

/// Whole numbers that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum NumberField {
    Entries,
    FirstEntry,
    TotBytes,
    ZipBytes,
    Compress,
    WriteBasket,
    LastEntry,
    CheckSum,
    ClassVersion,
    Id,
    Type,
    StreamerType,
    Len,
    IsUnsigned,
}

const NUMBERS_COUNT: usize = NumberField::IsUnsigned as usize + 1;

/// Variable arrays of whole numbers that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum ArrayField {
    Sizes,
    FirstEntries,
    Seeks,
}

const ARRAYS_COUNT: usize = ArrayField::Seeks as usize + 1;

/// Strings that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum TextField {
    Name,
    Title,
    FileName,
    ClassName,
    ClonesName,
    ParentName,
}

const TEXTS_COUNT: usize = TextField::ParentName as usize + 1;

/// Arrays of pointers that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum PointersField {
    Branches,
    Leaves,
    Baskets,
}

const POINTER_ARRAYS_COUNT: usize = PointersField::Baskets as usize + 1;

/// Single pointers that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum LinkField {
    LeafCount,
    BranchCount,
    BranchCount2,
    Aliases,
    TreeIndex,
    Friends,
    UserInfo,
}

const LINKS_COUNT: usize = LinkField::UserInfo as usize + 1;

/// A member that is read, by the kind of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// A whole number (or a double that holds one).
    Number(NumberField),
    /// A variable array.
    Array(ArrayField),
    /// A string.
    Text(TextField),
    /// A TObjArray.
    Pointers(PointersField),
    /// A pointer.
    Link(LinkField),
}

/// The place of a member's value; None for members that are not read or are stored in another way than expected.
pub fn wanted(element: &Element, kind: MemberKind) -> Option<Wanted> {
    let found = wanted_name(&element.name);
    match (found?, kind) {
        (Wanted::Number(_), MemberKind::Number(Scalar::Plain(_)))
        | (Wanted::Array(_), MemberKind::CountedArray(Scalar::Plain(_)) | MemberKind::OldSeeks)
        | (Wanted::Text(_), MemberKind::Text(Times::One))
        | (Wanted::Link(_), MemberKind::Pointer(Times::One)) => found,
        (Wanted::Pointers(_), MemberKind::Object(Times::One)) if element.type_name == "TObjArray" => found,
        (Wanted::Number(_) | Wanted::Array(_) | Wanted::Text(_) | Wanted::Pointers(_) | Wanted::Link(_), _) => None,
    }
}

/// The place of the value of a member with this name, which is ROOT's own.
fn wanted_name(name: &str) -> Option<Wanted> {
    use Wanted::{Array, Link as L, Number as N, Pointers as P, Text as T};
    Some(match name {
        "fName" => T(TextField::Name),
        "fTitle" => T(TextField::Title),
        "fFileName" => T(TextField::FileName),
        "fClassName" => T(TextField::ClassName),
        "fClonesName" => T(TextField::ClonesName),
        "fParentName" => T(TextField::ParentName),
        "fEntries" => N(NumberField::Entries),
        "fFirstEntry" => N(NumberField::FirstEntry),
        "fTotBytes" => N(NumberField::TotBytes),
        "fZipBytes" => N(NumberField::ZipBytes),
        "fCompress" => N(NumberField::Compress),
        "fWriteBasket" => N(NumberField::WriteBasket),
        "fEntryNumber" => N(NumberField::LastEntry),
        "fCheckSum" => N(NumberField::CheckSum),
        "fClassVersion" => N(NumberField::ClassVersion),
        "fID" => N(NumberField::Id),
        "fType" => N(NumberField::Type),
        "fStreamerType" => N(NumberField::StreamerType),
        "fLen" => N(NumberField::Len),
        "fIsUnsigned" => N(NumberField::IsUnsigned),
        "fBasketBytes" => Array(ArrayField::Sizes),
        "fBasketEntry" => Array(ArrayField::FirstEntries),
        "fBasketSeek" => Array(ArrayField::Seeks),
        "fBranches" => P(PointersField::Branches),
        "fLeaves" => P(PointersField::Leaves),
        "fBaskets" => P(PointersField::Baskets),
        "fLeafCount" => L(LinkField::LeafCount),
        "fBranchCount" => L(LinkField::BranchCount),
        "fBranchCount2" => L(LinkField::BranchCount2),
        "fAliases" => L(LinkField::Aliases),
        "fTreeIndex" => L(LinkField::TreeIndex),
        "fFriends" => L(LinkField::Friends),
        "fUserInfo" => L(LinkField::UserInfo),
        _ => return None,
    })
}

/// A variable array of whole numbers as it lies in the buffer: a branch has room for more baskets than it has.
#[derive(Debug, Clone, Copy, Default)]
pub struct Numbers<'a> {
    stored: &'a [u8],
    number: Number,
}

impl<'a> Numbers<'a> {
    /// The numbers in these bytes.
    pub fn new(stored: &'a [u8], number: Number) -> Self {
        Self { stored, number }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.stored.len() / self.number.size()
    }

    /// The number with this index; None behind the last.
    pub fn get(&self, index: usize) -> Option<i64> {
        let size = self.number.size();
        let raw = self.stored.get(index.checked_mul(size)?..)?;
        self.number.read(&mut Cursor::new(raw)).ok()
    }
}

/// The members of a TTree, TBranch or TLeaf. Texts and arrays stay in the buffer of the tree's record.
#[derive(Debug, Clone, Default)]
pub struct Members<'a> {
    /// Its class.
    pub class_name: Arc<str>,
    numbers: [i64; NUMBERS_COUNT],
    arrays: [Numbers<'a>; ARRAYS_COUNT],
    texts: [&'a [u8]; TEXTS_COUNT],
    pointers: [Vec<u64>; POINTER_ARRAYS_COUNT],
    links: [u64; LINKS_COUNT],
    /// Baskets that were written together with the branch: index in fBaskets and their bytes.
    pub embedded: Vec<(usize, crate::basket::embedded::EmbeddedBasket)>,
}

impl<'a> Members<'a> {
    /// Nothing known yet but the class.
    pub fn of_class(class_name: Arc<str>) -> Self {
        Self { class_name, ..Self::default() }
    }

    /// A whole number; 0 when the class had no such member.
    pub fn number(&self, which: NumberField) -> i64 {
        self.numbers[which as usize]
    }

    /// An array.
    pub fn array(&self, which: ArrayField) -> Numbers<'a> {
        self.arrays[which as usize]
    }

    /// A string; bytes that are not UTF-8 are replaced.
    pub fn text(&self, which: TextField) -> String {
        text_of(self.texts[which as usize])
    }

    /// Takes the references of an array of pointers out.
    pub fn take_pointers(&mut self, which: PointersField) -> Vec<u64> {
        std::mem::take(&mut self.pointers[which as usize])
    }

    /// The reference of a pointer; 0 for null.
    pub fn link(&self, which: LinkField) -> u64 {
        self.links[which as usize]
    }

    /// Sets a number.
    pub fn set_number(&mut self, which: NumberField, value: i64) {
        self.numbers[which as usize] = value;
    }

    /// Sets an array.
    pub fn set_array(&mut self, which: ArrayField, value: Numbers<'a>) {
        self.arrays[which as usize] = value;
    }

    /// Sets a string.
    pub fn set_text(&mut self, which: TextField, value: &'a [u8]) {
        self.texts[which as usize] = value;
    }

    /// Sets an array of pointers.
    pub fn set_pointers(&mut self, which: PointersField, value: Vec<u64>) {
        self.pointers[which as usize] = value;
    }

    /// Sets a pointer.
    pub fn set_link(&mut self, which: LinkField, value: u64) {
        self.links[which as usize] = value;
    }
}
