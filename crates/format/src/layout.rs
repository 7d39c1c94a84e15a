//! What the entries of a branch look like in its baskets, told from its leaves and the streamer infos.

use std::collections::HashSet;

use crate::scalar::Scalar;
use crate::streamer::{ClassInfos, Element};
use crate::tree::{ElementBranch, TBranch, TLeaf};

/// What a branch holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Nothing: it only groups others.
    Group,
    /// Entries of this layout.
    Data(Layout),
    /// Entries that are not read: their class and why.
    Unsupported {
        /// C++ type or class of the branch.
        class_name: String,
        /// Why it is not read.
        reason: String,
    },
}

/// The bytes of one entry.
#[derive(Debug, Clone, PartialEq)]
pub enum Layout {
    /// A fixed number of values (none of `dimensions` for a single one).
    Fixed {
        /// The values.
        scalar: Scalar,
        /// Extents, outermost first.
        dimensions: Vec<usize>,
    },
    /// Any number of values, or of fixed arrays of them, behind a header.
    Run {
        /// The values.
        scalar: Scalar,
        /// Extents of each element.
        dimensions: Vec<usize>,
        /// What stands in front of them.
        header: RunHeader,
        /// Index of the branch that says how many there are, needed where baskets have no entry offsets.
        count: Option<usize>,
    },
    /// Elements of a container that each have a variable array, counted by another of their members.
    Arrays {
        /// The values.
        scalar: Scalar,
        /// Index of the branch of that member.
        count: usize,
    },
    /// TObject::fBits, each followed by two bytes if the object is referenced.
    Bits {
        /// Whether an entry holds any number of them.
        many: bool,
    },
    /// A leaf list: fixed members one behind the other.
    Members(Vec<Member>),
    /// One string.
    Text(TextLength),
    /// Strings or containers within containers.
    Nested {
        /// Bytes in front (byte count and version of a container).
        header_size: usize,
        /// The whole entry.
        item: Item,
    },
}

/// A member of a leaf list.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its values.
    pub scalar: Scalar,
    /// Extents.
    pub dimensions: Vec<usize>,
}

/// What stands in front of a run of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunHeader {
    /// Nothing.
    None,
    /// One byte: 0 for a null pointer, which has no values.
    Pointer,
    /// A four-byte count (TArray).
    Count,
    /// Byte count, version and a four-byte count (a container).
    Container,
}

impl RunHeader {
    /// Its bytes.
    pub fn size(self) -> usize {
        match self {
            Self::None => 0,
            Self::Pointer => 1,
            Self::Count => 4,
            Self::Container => 10,
        }
    }
}

/// How the length of a string is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextLength {
    /// One byte, or 255 and four bytes (TString, std::string, TLeafC).
    Short,
    /// The same behind a byte count and a version (a std::string member).
    Versioned,
    /// Four bytes (char*).
    Long,
}

/// Something of which an entry is made.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A number.
    Scalar(Scalar),
    /// A string with a short length.
    Text,
    /// A count of four bytes and so many items.
    List(Box<Item>),
    /// Items up to the end of the entry.
    Rest(Box<Item>),
}

/// Bytes of a fixed array as it is stored or decoded, whichever takes more; none beyond any number.
fn array_size(scalar: Scalar, dimensions: &[usize]) -> Option<usize> {
    let element = scalar.size().max(scalar.stored_size());
    dimensions.iter().try_fold(element, |size, extent| size.checked_mul(*extent))
}

impl Layout {
    /// Bytes of what has a fixed size in an entry, or in an element of one; none beyond any number.
    fn fixed_size(&self) -> Option<usize> {
        match self {
            Self::Fixed { scalar, dimensions } | Self::Run { scalar, dimensions, .. } => {
                array_size(*scalar, dimensions)
            }
            Self::Members(members) => {
                members.iter().try_fold(0usize, |size, one| size.checked_add(array_size(one.scalar, &one.dimensions)?))
            }
            _ => Some(0),
        }
    }
}

impl Kind {
    /// The data layout, when there is one.
    pub fn layout(&self) -> Option<&Layout> {
        match self {
            Self::Data(layout) => Some(layout),
            _ => None,
        }
    }
}

fn unsupported(class_name: &str, reason: &str) -> Kind {
    Kind::Unsupported { class_name: class_name.to_string(), reason: reason.to_string() }
}

/// What a branch holds.
pub fn kind_of(branch: &TBranch, infos: &ClassInfos) -> Kind {
    let kind = kind_said(branch, infos);
    match kind.layout() {
        Some(layout) if layout.fixed_size().is_none_or(|size| size > ENTRY_SIZE_MAX) => {
            unsupported(&declared_class(branch), "it declares arrays that are longer than any entry can be")
        }
        _ => kind,
    }
}

fn kind_said(branch: &TBranch, infos: &ClassInfos) -> Kind {
    if branch.has_children && branch.baskets.is_empty() && branch.element.as_ref().is_none_or(is_group) {
        return Kind::Group;
    }
    if !branch.file_name.is_empty() {
        return unsupported(&declared_class(branch), &format!("its baskets are in another file, {}", branch.file_name));
    }
    match (&branch.element, branch.class_name.as_str()) {
        (Some(element), "TBranchElement") => kind_of_element(branch, element, infos),
        (Some(element), _) => unsupported(&element.class_name, "objects that are written whole are not read yet"),
        (None, "TBranch") => kind_of_leaves(&branch.leaves),
        (None, class_name) => unsupported(class_name, "branches of this class are not read yet"),
    }
}

/// Split classes and base classes hold nothing; the counts of split containers do.
fn is_group(element: &ElementBranch) -> bool {
    !matches!(element.branch_type, 3 | 4)
}

fn declared_class(branch: &TBranch) -> String {
    match &branch.element {
        Some(element) => element.class_name.clone(),
        None => branch.leaves.first().map_or_else(String::new, |leaf| leaf.class_name.clone()),
    }
}

fn kind_of_leaves(leaves: &[TLeaf]) -> Kind {
    match leaves {
        [] => unsupported("nothing", "the branch has no leaf"),
        [leaf] => kind_of_leaf(leaf),
        many => {
            let members: Option<Vec<Member>> = many.iter().map(member_of_leaf).collect();
            match members {
                Some(members) if has_one_name_twice(&members) => {
                    unsupported("leaf list", "two of its leaves have the same name")
                }
                Some(members) => Kind::Data(Layout::Members(members)),
                None => unsupported("leaf list", "leaf lists with strings or variable arrays are not read yet"),
            }
        }
    }
}

fn has_one_name_twice(members: &[Member]) -> bool {
    let mut seen = HashSet::new();
    members.iter().any(|member| !seen.insert(&member.name))
}

fn member_of_leaf(leaf: &TLeaf) -> Option<Member> {
    if leaf.count_branch.is_some() || leaf.count_name.is_some() {
        return None;
    }
    let scalar = scalar_of_leaf(leaf)?;
    Some(Member { name: leaf.name.clone(), scalar, dimensions: dimensions_of_leaf(leaf) })
}

fn kind_of_leaf(leaf: &TLeaf) -> Kind {
    if leaf.class_name == "TLeafC" {
        return Kind::Data(Layout::Text(TextLength::Short));
    }
    let Some(scalar) = scalar_of_leaf(leaf) else {
        return unsupported(&leaf.class_name, "leaves of this class are not read yet");
    };
    let dimensions = dimensions_of_leaf(leaf);
    Kind::Data(match leaf.count_branch {
        Some(count) => Layout::Run { scalar, dimensions, header: RunHeader::None, count: Some(count) },
        None => Layout::Fixed { scalar, dimensions },
    })
}

fn scalar_of_leaf(leaf: &TLeaf) -> Option<Scalar> {
    use crate::range::FloatRange;
    let signed = !leaf.is_unsigned;
    Some(match leaf.class_name.as_str() {
        "TLeafO" => Scalar::Bool,
        "TLeafB" if signed => Scalar::I8,
        "TLeafB" => Scalar::U8,
        "TLeafS" if signed => Scalar::I16,
        "TLeafS" => Scalar::U16,
        "TLeafI" if signed => Scalar::I32,
        "TLeafI" => Scalar::U32,
        "TLeafL" | "TLeafG" if signed => Scalar::I64,
        "TLeafL" | "TLeafG" => Scalar::U64,
        "TLeafF" => Scalar::F32,
        "TLeafD" => Scalar::F64,
        "TLeafF16" => Scalar::float16(FloatRange::parse(&leaf.title)),
        "TLeafD32" => Scalar::double32(FloatRange::parse(&leaf.title)),
        _ => return None,
    })
}

/// The fixed extents in a leaf's title, such as `x[n][2][3]`, if they agree with its length.
fn dimensions_of_leaf(leaf: &TLeaf) -> Vec<usize> {
    let length = usize::try_from(leaf.length).unwrap_or(1).max(1);
    let extents = leaf.title.split('[').skip(1).filter_map(|part| part.split_once(']')?.0.trim().parse().ok());
    dimensions(length, extents.collect())
}

fn dimensions(length: usize, declared: Vec<usize>) -> Vec<usize> {
    let length = length.max(1);
    let product = declared.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent));
    match product {
        Some(product) if product == length && (1..=DIMENSIONS_MAX).contains(&declared.len()) => declared,
        _ if length > 1 => vec![length],
        _ => Vec::new(),
    }
}

/// TBranchElement::fType of a split TClonesArray, of a split STL collection, and of the members of both.
const CLONES: i32 = 3;
const COLLECTION: i32 = 4;
const CLONES_MEMBER: i32 = 31;
const COLLECTION_MEMBER: i32 = 41;

fn kind_of_element(branch: &TBranch, element: &ElementBranch, infos: &ClassInfos) -> Kind {
    let info = infos.find(&element.class_name, element.class_version, element.checksum);
    let member = usize::try_from(element.id).ok().and_then(|id| info?.elements.get(id));
    match element.branch_type {
        CLONES | COLLECTION => Kind::Data(Layout::Fixed { scalar: Scalar::I32, dimensions: Vec::new() }),
        CLONES_MEMBER | COLLECTION_MEMBER => kind_of_collected_member(branch, element, member),
        _ if element.id < 0 => kind_of_whole(&element.class_name),
        _ => kind_of_member(branch, element, member),
    }
}

/// A branch that holds a whole object of this class.
fn kind_of_whole(class_name: &str) -> Kind {
    match contained_item(class_name) {
        Some(Item::List(item)) => container(*item),
        Some(Item::Text) => Kind::Data(Layout::Text(TextLength::Short)),
        _ => unsupported(class_name, "objects that are written whole are not read yet"),
    }
}

fn container(item: Item) -> Kind {
    Kind::Data(match item {
        Item::Scalar(scalar) => {
            Layout::Run { scalar, dimensions: Vec::new(), header: RunHeader::Container, count: None }
        }
        item => Layout::Nested { header_size: 6, item: Item::List(Box::new(item)) },
    })
}

/// Type codes of TVirtualStreamerInfo::EReadWrite beyond the basic ones.
mod code {
    pub const CHAR_STAR: i32 = 7;
    pub const BITS: i32 = 15;
    pub const ANY: i32 = 62;
    pub const TSTRING: i32 = 65;
    pub const STL: i32 = 300;
    pub const STL_STRING: i32 = 365;
    pub const STREAMER: i32 = 500;
}

/// Basic types are below this; the same plus it are fixed arrays, plus twice it variable ones.
const ARRAY_STEP: i32 = 20;

/// A member of a split class.
fn kind_of_member(branch: &TBranch, element: &ElementBranch, member: Option<&Element>) -> Kind {
    let code = element.streamer_type;
    let type_name = member.map_or(element.class_name.as_str(), |member| member.type_name.as_str());
    match code {
        code::CHAR_STAR => Kind::Data(Layout::Text(TextLength::Long)),
        code::BITS => Kind::Data(Layout::Bits { many: false }),
        code::TSTRING => Kind::Data(Layout::Text(TextLength::Short)),
        1..=19 => numbers(branch, code, member, |scalar, _| Layout::Fixed { scalar, dimensions: Vec::new() }),
        21..=39 => {
            numbers(branch, code - ARRAY_STEP, member, |scalar, dimensions| Layout::Fixed { scalar, dimensions })
        }
        41..=59 => numbers(branch, code - 2 * ARRAY_STEP, member, |scalar, _| Layout::Run {
            scalar,
            dimensions: Vec::new(),
            header: RunHeader::Pointer,
            count: None,
        }),
        code::ANY => match tarray(type_name) {
            Some(scalar) => {
                Kind::Data(Layout::Run { scalar, dimensions: Vec::new(), header: RunHeader::Count, count: None })
            }
            None => unsupported(type_name, "objects that are written whole are not read yet"),
        },
        code::STL | code::STL_STRING | code::STREAMER if is_single(member) => match contained_item(type_name) {
            Some(Item::List(item)) => container(*item),
            Some(Item::Text) => Kind::Data(Layout::Text(TextLength::Versioned)),
            _ => unsupported(type_name, "containers of objects are not read yet"),
        },
        _ => unsupported(type_name, "members of this kind are not read yet"),
    }
}

fn is_single(member: Option<&Element>) -> bool {
    member.is_none_or(|member| member.array_length <= 1)
}

/// A member of the class that a split TClonesArray or STL collection holds.
fn kind_of_collected_member(branch: &TBranch, element: &ElementBranch, member: Option<&Element>) -> Kind {
    let code = element.streamer_type;
    let type_name = member.map_or(element.class_name.as_str(), |member| member.type_name.as_str());
    let count = element.count;
    let run = |scalar, dimensions| Layout::Run { scalar, dimensions, header: RunHeader::None, count };
    match code {
        code::BITS => Kind::Data(Layout::Bits { many: true }),
        code::TSTRING => Kind::Data(Layout::Nested { header_size: 0, item: Item::Rest(Box::new(Item::Text)) }),
        1..=19 if code != code::CHAR_STAR => numbers(branch, code, member, |scalar, _| run(scalar, Vec::new())),
        21..=39 => numbers(branch, code - ARRAY_STEP, member, run),
        41..=59 => match element.count2 {
            Some(count) => numbers(branch, code - 2 * ARRAY_STEP, member, |scalar, _| Layout::Arrays { scalar, count }),
            None => unsupported(type_name, "the branch does not name the one that counts its arrays"),
        },
        code::STL | code::STL_STRING | code::STREAMER if is_single(member) => match contained_item(type_name) {
            Some(item) => Kind::Data(Layout::Nested { header_size: 6, item: Item::Rest(Box::new(item)) }),
            None => unsupported(type_name, "containers of objects are not read yet"),
        },
        _ => unsupported(type_name, "objects within the elements of a container are not read yet"),
    }
}

fn numbers(
    branch: &TBranch,
    code: i32,
    member: Option<&Element>,
    layout: impl Fn(Scalar, Vec<usize>) -> Layout,
) -> Kind {
    let range = member.and_then(Element::float_range);
    let length = match member {
        Some(member) => member.array_length,
        None => branch.leaves.first().and_then(|leaf| usize::try_from(leaf.length).ok()).unwrap_or(1),
    };
    let declared = member.map_or_else(Vec::new, |member| member.dimensions.clone());
    match Scalar::of_type_code(code, range) {
        // How these are stored is only said in the streamer info.
        Some(Scalar::F32AsF64 | Scalar::Float16(_)) if member.is_none() => {
            unsupported("Double32_t", "the file does not describe its class")
        }
        Some(scalar) => Kind::Data(layout(scalar, dimensions(length, declared))),
        None => unsupported(&format!("type code {code}"), "numbers of this type are not read"),
    }
}

/// The element of a TArray class.
fn tarray(class_name: &str) -> Option<Scalar> {
    Some(match class_name {
        "TArrayC" => Scalar::I8,
        "TArrayS" => Scalar::I16,
        "TArrayI" => Scalar::I32,
        "TArrayL" | "TArrayL64" => Scalar::I64,
        "TArrayF" => Scalar::F32,
        "TArrayD" => Scalar::F64,
        _ => return None,
    })
}

/// Containers nested deeper than this do not exist in C++ code that compiles.
pub const ITEM_DEPTH_MAX: usize = 32;
/// Arrays with more dimensions are read as if they had one.
const DIMENSIONS_MAX: usize = 16;
/// TBuffer's limit: no entry is longer.
const ENTRY_SIZE_MAX: usize = 1 << 30;

/// Containers whose elements are streamed one behind the other behind a count.
const SEQUENCES: [&str; 9] =
    ["vector", "list", "deque", "set", "multiset", "unordered_set", "unordered_multiset", "forward_list", "RVec"];

/// The form of a C++ type made of numbers, strings and containers; none for anything else.
pub fn contained_item(type_name: &str) -> Option<Item> {
    contained_within(type_name, 0)
}

fn contained_within(type_name: &str, depth: usize) -> Option<Item> {
    let name = type_name.trim();
    let name = name.strip_prefix("const ").unwrap_or(name);
    if let Some(scalar) = Scalar::of_type_name(name) {
        return Some(Item::Scalar(scalar));
    }
    let name = name.strip_prefix("std::").unwrap_or(name);
    let name = name.strip_prefix("ROOT::VecOps::").unwrap_or(name);
    if matches!(name, "string" | "TString" | "basic_string<char>") {
        return Some(Item::Text);
    }
    let (outer, rest) = name.split_once('<')?;
    let inside = rest.trim_end().strip_suffix('>')?;
    if !SEQUENCES.contains(&outer.trim()) || depth >= ITEM_DEPTH_MAX {
        return None;
    }
    contained_within(first_argument(inside), depth + 1).map(|item| Item::List(Box::new(item)))
}

/// The first of the template's arguments.
fn first_argument(inside: &str) -> &str {
    let mut depth = 0i32;
    for (position, character) in inside.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            ',' if depth == 0 => return &inside[..position],
            _ => {}
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_containers_are_understood() {
        let item = contained_item("vector<vector<float>, std::allocator<vector<float> > >");
        let floats = Item::List(Box::new(Item::Scalar(Scalar::F32)));
        assert_eq!(item, Some(Item::List(Box::new(floats))));
    }

    #[test]
    fn containers_of_objects_are_refused() {
        assert_eq!(contained_item("vector<TLorentzVector>"), None);
        assert_eq!(contained_item("map<int,float>"), None);
    }

    #[test]
    fn containers_nested_beyond_sense_are_refused() {
        let depth = 100_000;
        let name = format!("{}int{}", "vector<".repeat(depth), ">".repeat(depth));
        assert_eq!(contained_item(&name), None);
    }

    #[test]
    fn dimensions_beyond_sense_become_one() {
        assert_eq!(dimensions(6, [vec![2, 3], vec![1; 100_000]].concat()), vec![6]);
        assert_eq!(dimensions(0, vec![0]), Vec::<usize>::new());
    }

    #[test]
    fn arrays_longer_than_any_entry_are_refused() {
        for length in [1 << 28, 1 << 61, (1 << 61) + 1] {
            let branch = branch_of_doubles(length);
            assert!(matches!(kind_of(&branch, &ClassInfos::default()), Kind::Unsupported { .. }), "{length}");
        }
        assert!(kind_of(&branch_of_doubles(1 << 20), &ClassInfos::default()).layout().is_some());
    }

    #[test]
    fn leaf_lists_with_one_name_twice_are_refused() {
        let mut branch = branch_of_doubles(1);
        branch.leaves.push(branch.leaves[0].clone());
        assert!(matches!(kind_of(&branch, &ClassInfos::default()), Kind::Unsupported { .. }));
        branch.leaves[1].name = "y".to_string();
        assert!(kind_of(&branch, &ClassInfos::default()).layout().is_some());
    }

    fn branch_of_doubles(length: i64) -> TBranch {
        let leaf = TLeaf {
            name: "x".to_string(),
            title: "x".to_string(),
            class_name: "TLeafD".to_string(),
            length,
            is_unsigned: false,
            count_name: None,
            count_branch: None,
        };
        TBranch {
            path: "x".to_string(),
            name: "x".to_string(),
            title: String::new(),
            class_name: "TBranch".to_string(),
            parent: None,
            has_children: false,
            leaves: vec![leaf],
            entries_count: 1,
            plain_bytes: 8,
            compressed_bytes: 8,
            compress: 0,
            file_name: String::new(),
            baskets: Vec::new(),
            element: None,
        }
    }

    #[test]
    fn dimensions_that_do_not_agree_with_the_length_are_merged() {
        assert_eq!(dimensions(6, vec![2, 3]), vec![2, 3]);
        assert_eq!(dimensions(6, vec![2]), vec![6]);
        assert_eq!(dimensions(1, vec![]), Vec::<usize>::new());
    }
}
