//! The members of TTree, TBranch and TLeaf objects that Branchline needs, and their values.

use std::sync::Arc;

use crate::classes::class_info::Element;
use crate::cursor::{text_of, Cursor};
use crate::numbers::member_kind::{MemberKind, Times};
use crate::numbers::number::Number;
use crate::numbers::scalar::Scalar;

/// Required integer members.
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

/// Required members that are variable-size arrays of integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum ArrayField {
    Sizes,
    FirstEntries,
    Seeks,
}

const ARRAYS_COUNT: usize = ArrayField::Seeks as usize + 1;

/// Required string members.
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

/// Required members that are arrays of pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum PointersField {
    Branches,
    Leaves,
    Baskets,
}

const POINTER_ARRAYS_COUNT: usize = PointersField::Baskets as usize + 1;

/// Required members that are single pointers.
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

/// A required member, grouped by value type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// An integer, or a double with an integral value.
    Number(NumberField),
    /// A variable-size array of integers.
    Array(ArrayField),
    /// A string.
    Text(TextField),
    /// A TObjArray.
    Pointers(PointersField),
    /// A pointer.
    Link(LinkField),
}

/// The field to store a member's value in; None if the member is not required or not stored in the expected form.
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

/// The field for the value of ROOT's member `name`; None if the member is not required.
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

/// A variable-size array of integers in the buffer. Branches allocate more elements than they have baskets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Numbers<'a> {
    stored: &'a [u8],
    number: Number,
}

impl<'a> Numbers<'a> {
    /// Create an array over these bytes.
    pub fn new(stored: &'a [u8], number: Number) -> Self {
        Self { stored, number }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.stored.len() / self.number.size()
    }

    /// The number at `index`; None if the index is out of bounds.
    pub fn get(&self, index: usize) -> Option<i64> {
        let size = self.number.size();
        let raw = self.stored.get(index.checked_mul(size)?..)?;
        self.number.read(&mut Cursor::new(raw)).ok()
    }
}

/// The required members of a TTree, TBranch or TLeaf. Strings and arrays borrow from the bytes of the tree's record.
#[derive(Debug, Clone, Default)]
pub struct Members<'a> {
    /// Class name of the object.
    pub class_name: Arc<str>,
    numbers: [i64; NUMBERS_COUNT],
    arrays: [Numbers<'a>; ARRAYS_COUNT],
    texts: [&'a [u8]; TEXTS_COUNT],
    pointers: [Vec<u64>; POINTER_ARRAYS_COUNT],
    links: [u64; LINKS_COUNT],
    /// Embedded baskets, each with its index in fBaskets.
    pub embedded: Vec<(usize, crate::basket::embedded::EmbeddedBasket)>,
}

impl<'a> Members<'a> {
    /// Create the members of an object of this class, all unset.
    pub fn of_class(class_name: Arc<str>) -> Self {
        Self { class_name, ..Self::default() }
    }

    /// Value of an integer member; 0 if the class has no such member.
    pub fn number(&self, which: NumberField) -> i64 {
        self.numbers[which as usize]
    }

    /// Value of an array member; empty if the class has no such member.
    pub fn array(&self, which: ArrayField) -> Numbers<'a> {
        self.arrays[which as usize]
    }

    /// Value of a string member, with invalid UTF-8 replaced.
    pub fn text(&self, which: TextField) -> String {
        text_of(self.texts[which as usize])
    }

    /// Take the references out of a member that is an array of pointers.
    pub fn take_pointers(&mut self, which: PointersField) -> Vec<u64> {
        std::mem::take(&mut self.pointers[which as usize])
    }

    /// The object reference in a pointer member; 0 for null.
    pub fn link(&self, which: LinkField) -> u64 {
        self.links[which as usize]
    }

    /// Set an integer member.
    pub fn set_number(&mut self, which: NumberField, value: i64) {
        self.numbers[which as usize] = value;
    }

    /// Set an array member.
    pub fn set_array(&mut self, which: ArrayField, value: Numbers<'a>) {
        self.arrays[which as usize] = value;
    }

    /// Set a string member.
    pub fn set_text(&mut self, which: TextField, value: &'a [u8]) {
        self.texts[which as usize] = value;
    }

    /// Set a member that is an array of pointers.
    pub fn set_pointers(&mut self, which: PointersField, value: Vec<u64>) {
        self.pointers[which as usize] = value;
    }

    /// Set a pointer member.
    pub fn set_link(&mut self, which: LinkField, value: u64) {
        self.links[which as usize] = value;
    }
}
