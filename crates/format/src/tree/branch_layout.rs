//! Derivation of a branch's entry layout from its leaves and the streamer infos.

use std::sync::Arc;

use crate::classes::cpp_type::CppType;
use crate::classes::streamer::Element;
use crate::error::{FormatError, Result};
use crate::marks::ENTRY_BYTES_MAX;
use crate::numbers::leaf_class::LeafClass;
use crate::numbers::member_kind::{MemberKind, Times};
use crate::numbers::number::Number;
use crate::numbers::range::FloatRange;
use crate::numbers::scalar::Scalar;
use crate::numbers::type_code;
use crate::objects::compile::compiler::Compiler;
use crate::objects::compile::members::{
    container_type, dimensions, is_behind_pointer, pack_enumerations, with_numbers, Members,
};
use crate::objects::compile::piece::Piece;
use crate::objects::{Classes, Program};
use crate::tree::{ElementBranch, TBranch, TLeaf};

use crate::layout::branch::{array_size, Kind, Layout, RunHeader};

fn unreadable(class_name: &str, error: FormatError) -> Kind {
    Kind::Unreadable { class_name: class_name.to_string(), error }
}

fn unsupported(class_name: &str, reason: &str) -> Kind {
    unreadable(class_name, FormatError::unsupported(reason))
}

/// Error for a tree whose declared arrays exceed ROOT's maximum entry size.
fn too_large() -> FormatError {
    FormatError::damaged(0, "it declares arrays that exceed the maximum entry size of 1 GiB")
}

/// The contents of a branch. A branch that cannot be read is [`Kind::Unreadable`], with the reason.
pub fn kind_of(branch: &TBranch, classes: &Arc<Classes>) -> Kind {
    let kind = declared_kind(branch, classes);
    match kind.layout() {
        Some(layout) if layout.fixed_size().is_none_or(|size| size > ENTRY_BYTES_MAX) => {
            unreadable(&declared_class(branch), too_large())
        }
        _ => kind,
    }
}

fn declared_kind(branch: &TBranch, classes: &Arc<Classes>) -> Kind {
    if branch.has_children && branch.baskets.is_empty() && branch.element.as_ref().is_none_or(is_group) {
        return Kind::Group;
    }
    let kind = match (&branch.element, branch.class_name.as_str()) {
        (Some(element), "TBranchElement") => kind_of_element(branch, element, classes),
        (Some(element), "TBranchObject") => named_objects(element, classes),
        // A TBranchSTL splits a container of pointers by class. For each element, an entry has the index of the branch
        // with the element's class.
        (Some(element), "TBranchSTL") => kind_of_whole("TIndArray", STREAMED, element, classes),
        (None, "TBranch") => Ok(kind_of_leaves(&branch.leaves, classes)),
        (_, class_name) => Ok(unsupported(class_name, "branches of this class are not supported")),
    };
    kind.unwrap_or_else(|error| unreadable(&declared_class(branch), error))
}

/// Whether the branch has no data of its own. This is the case for split classes and base classes, but not for split
/// containers, which store counts.
fn is_group(element: &ElementBranch) -> bool {
    !matches!(element.branch_type, CLONES | COLLECTION)
}

fn declared_class(branch: &TBranch) -> String {
    match &branch.element {
        Some(element) => element.class_name.clone(),
        None => branch.leaves.first().map_or_else(String::new, |leaf| leaf.class_name.clone()),
    }
}

fn kind_of_leaves(leaves: &[TLeaf], classes: &Arc<Classes>) -> Kind {
    match leaves {
        [] => unsupported("nothing", "the branch has no leaf"),
        [leaf] if leaf.class_name != "TLeafC" => kind_of_leaf(leaf),
        leaves => match leaf_list(leaves, classes) {
            Ok(program) => Kind::Data(Layout::Objects(program)),
            Err(error) => unreadable("leaf list", error),
        },
    }
}

/// Compile the leaves of a branch. In each entry, the values of all leaves follow each other.
fn leaf_list(leaves: &[TLeaf], classes: &Arc<Classes>) -> Result<Program> {
    let mut compiler = Compiler::new(classes);
    let mut members: Vec<(&str, Piece)> = Vec::with_capacity(leaves.len());
    for leaf in leaves {
        let piece = leaf_piece(leaf, &members, &mut compiler)?;
        members.push((leaf.name.as_str(), piece));
    }
    if let (true, Some((_, piece))) = (members.len() == 1, members.first()) {
        return Ok(Program::single(classes, compiler, piece.clone(), "std::string".to_string()));
    }
    let type_name = format!("struct {{{};}}", leaves.iter().map(leaf_type).collect::<Vec<_>>().join("; "));
    Ok(Program::single(classes, compiler, Piece::record(members), type_name))
}

fn leaf_piece(leaf: &TLeaf, before: &[(&str, Piece)], compiler: &mut Compiler<'_>) -> Result<Piece> {
    if leaf.class_name == "TLeafC" {
        return Ok(compiler.text());
    }
    let unknown = || FormatError::unsupported(format!("leaves of class {} are not supported", leaf.class_name));
    let scalar = scalar_of_leaf(leaf).ok_or_else(unknown)?;
    let extents = dimensions_of_leaf(leaf);
    if array_size(scalar, &extents).is_none_or(|size| size > ENTRY_BYTES_MAX) {
        return Err(too_large());
    }
    let Some(count_name) = &leaf.count_name else { return Ok(compiler.array_of_numbers(scalar, &extents)) };
    let counter = before.iter().find(|(name, _)| name == count_name).and_then(|(_, piece)| piece.as_counter());
    let counter = counter.ok_or_else(|| {
        FormatError::unsupported(format!(
            "the length of {} is stored in {count_name}, which is not an earlier leaf",
            leaf.name
        ))
    })?;
    Ok(compiler.counted_numbers(counter, scalar, &extents))
}

fn leaf_type(leaf: &TLeaf) -> String {
    let scalar = scalar_of_leaf(leaf).map_or("std::string", Scalar::type_name);
    let variable = if leaf.count_name.is_some() { "[]" } else { "" };
    let extents: String = dimensions_of_leaf(leaf).iter().map(|extent| format!("[{extent}]")).collect();
    format!("{scalar}{variable}{extents} {}", leaf.name)
}

fn kind_of_leaf(leaf: &TLeaf) -> Kind {
    let Some(scalar) = scalar_of_leaf(leaf) else {
        return unsupported(&leaf.class_name, "leaves of this class are not supported");
    };
    let dimensions = dimensions_of_leaf(leaf);
    Kind::Data(match leaf.count_branch {
        Some(count) => Layout::Run { scalar, dimensions, header: RunHeader::None, count: Some(count) },
        None => Layout::Fixed { scalar, dimensions },
    })
}

fn scalar_of_leaf(leaf: &TLeaf) -> Option<Scalar> {
    match leaf.class_name.as_str() {
        "TLeafF16" => Some(Scalar::float16(FloatRange::parse(&leaf.title))),
        "TLeafD32" => Some(Scalar::Double32(FloatRange::parse(&leaf.title))),
        class_name => LeafClass::of_class(class_name, leaf.is_unsigned).map(|leaf| Scalar::Plain(leaf.number)),
    }
}

/// The constant dimensions in a leaf's title, such as `x[n][2][3]`, if their product is the leaf's length.
fn dimensions_of_leaf(leaf: &TLeaf) -> Vec<usize> {
    let length = usize::try_from(leaf.length).unwrap_or(1).max(1);
    let extents = leaf.title.split('[').skip(1).filter_map(|part| part.split_once(']')?.0.trim().parse().ok());
    dimensions(length, &extents.collect::<Vec<usize>>())
}

/// TBranchElement::fType of an object that is written by its custom streamer.
const STREAMED: i32 = -1;
/// TBranchElement::fType of a split TClonesArray.
const CLONES: i32 = 3;
/// TBranchElement::fType of a split STL collection.
const COLLECTION: i32 = 4;
/// TBranchElement::fType of a member of a split TClonesArray's elements.
const CLONES_MEMBER: i32 = 31;
/// TBranchElement::fType of a member of a split STL collection's elements.
const COLLECTION_MEMBER: i32 = 41;

fn kind_of_element(branch: &TBranch, element: &ElementBranch, classes: &Arc<Classes>) -> Result<Kind> {
    let infos = classes.infos();
    let info = infos.find(&element.class_name, element.class_version, element.checksum);
    let member = info.and_then(|info| member_of(branch, element, &info.elements));
    match element.branch_type {
        CLONES | COLLECTION => {
            Ok(Kind::Data(Layout::Fixed { scalar: Scalar::Plain(Number::I32), dimensions: Vec::new() }))
        }
        branch_type if element.id < 0 => kind_of_whole(&element.class_name, branch_type, element, classes),
        branch_type => {
            let undescribed;
            let member = match member {
                Some(member) => member,
                None => {
                    undescribed = undescribed_member(branch, element)?;
                    &undescribed
                }
            };
            let is_collected = matches!(branch_type, CLONES_MEMBER | COLLECTION_MEMBER);
            kind_of_member(member, element, is_collected, classes)
        }
    }
}

/// Find the member that a branch holds, preferably by name. The index in the branch is less reliable, because it counts
/// members that are not stored.
fn member_of<'i>(branch: &TBranch, element: &ElementBranch, elements: &'i [Element]) -> Option<&'i Element> {
    let mut name = branch.name.strip_suffix('.').unwrap_or(&branch.name);
    // Array dimensions come after the member name. Brackets in the parent branch's name come before it.
    while let Some((front, _)) = name.strip_suffix(']').and_then(|name| name.rsplit_once('[')) {
        name = front;
    }
    let is_named = |member: &&Element| {
        name.strip_suffix(member.name.as_str()).is_some_and(|front| front.is_empty() || front.ends_with('.'))
    };
    let numbered = usize::try_from(element.id).ok().and_then(|id| elements.get(id));
    let named = || elements.iter().find(is_named);
    numbered.filter(is_named).or_else(named).or(numbered.filter(|one| one.type_code == element.streamer_type))
}

/// Reconstruct a member from its branch's metadata, for a class that the file does not describe.
fn undescribed_member(branch: &TBranch, element: &ElementBranch) -> Result<Element> {
    let type_code = element.streamer_type;
    // The format of packed floats is only in the streamer info.
    if let MemberKind::Number(scalar) | MemberKind::FixedArray(scalar) | MemberKind::CountedArray(scalar) =
        MemberKind::of(type_code, None)
        && !matches!(scalar, Scalar::Plain(_))
    {
        return Err(FormatError::unsupported("the file does not describe its class"));
    }
    let length = branch.leaves.first().and_then(|leaf| usize::try_from(leaf.length).ok()).unwrap_or(1);
    Ok(Element {
        name: branch.name.clone(),
        type_code,
        array_length: length,
        type_name: element.class_name.clone(),
        ..Element::default()
    })
}

/// The layout of a branch that holds a whole object of this class.
fn kind_of_whole(class_name: &str, branch_type: i32, element: &ElementBranch, classes: &Arc<Classes>) -> Result<Kind> {
    let of_type =
        CppType::parse(class_name).ok_or_else(|| FormatError::unsupported("its type is nested too deeply"))?;
    let of_type = Compiler::new(classes).resolved(of_type);
    if of_type.is_container() && branch_type != STREAMED {
        // The streamer info of a container has one element, whose content type shows how enumerations are stored.
        let content = classes.infos().newest(class_name).and_then(|info| info.elements.first());
        let content = content.and_then(|only| Scalar::of_type_code(only.content_type, None));
        return container(with_numbers(of_type, content), false, classes);
    }
    let mut compiler = Compiler::new(classes);
    let info = classes.infos().find(class_name, element.class_version, element.checksum);
    let piece = match (&of_type, info) {
        (CppType::Class(_), Some(info)) if branch_type != STREAMED && !compiler.is_special(class_name) => {
            compiler.members_only(info)?
        }
        (CppType::Pair(first, second), _) if branch_type != STREAMED => {
            compiler.pair_members(&of_type.name(), first, second)?
        }
        _ => compiler.streamed(class_name)?,
    };
    Ok(Kind::Data(Layout::Objects(Program::single(classes, compiler, piece, of_type.name()))))
}

/// The layout of objects of any class, each preceded by its class name.
fn named_objects(element: &ElementBranch, classes: &Arc<Classes>) -> Result<Kind> {
    let mut compiler = Compiler::new(classes);
    let piece = compiler.named_object(&element.class_name);
    Ok(Kind::Data(Layout::Objects(Program::single(classes, compiler, piece, element.class_name.clone()))))
}

/// The layout of a container with its header.
fn container(of_type: CppType, is_behind_pointer: bool, classes: &Arc<Classes>) -> Result<Kind> {
    if let CppType::Sequence(inner) | CppType::Set(inner) = &of_type
        && let CppType::Number(scalar) = inner.as_ref()
    {
        let header = RunHeader::Container { is_set: matches!(of_type, CppType::Set(_)) };
        return Ok(Kind::Data(Layout::Run { scalar: *scalar, dimensions: Vec::new(), header, count: None }));
    }
    let mut compiler = Compiler::new(classes);
    let mut piece = compiler.headed(&of_type, 1)?;
    if is_behind_pointer {
        pack_enumerations(&mut piece.steps);
    }
    Ok(Kind::Data(Layout::Objects(Program::single(classes, compiler, piece, of_type.name()))))
}

/// The layout of a member of a split class, or of the element class in a split TClonesArray or STL collection.
fn kind_of_member(
    member: &Element,
    element: &ElementBranch,
    is_collected: bool,
    classes: &Arc<Classes>,
) -> Result<Kind> {
    if classes.infos().is_left_out(member) {
        return Err(FormatError::unsupported("ROOT does not store fixed arrays of this enumeration"));
    }
    let length = member.array_length.max(1);
    let fixed = |scalar: Scalar, dimensions: Vec<usize>| match is_collected {
        true => Layout::Run { scalar, dimensions, header: RunHeader::None, count: element.count },
        false => Layout::Fixed { scalar, dimensions },
    };
    let many = |scalar, header, count| Layout::Run { scalar, dimensions: Vec::new(), header, count };
    let layout = match (member.kind(), Number::of_array_class(&member.type_name)) {
        (MemberKind::Number(scalar), _) => Some(fixed(scalar, Vec::new())),
        (MemberKind::FixedArray(_), _) if is_collected && classes.infos().may_be_left_out(member) => None,
        (MemberKind::FixedArray(scalar), _) => Some(fixed(scalar, dimensions(length, &member.dimensions))),
        (MemberKind::CountedArray(scalar), _) if length == 1 => Some(match is_collected {
            false => many(scalar, RunHeader::Pointer, element.count),
            true => Layout::Arrays { scalar, count: counter_of(element)? },
        }),
        (MemberKind::Object(Times::One), Some(number)) if !is_collected && member.type_code == type_code::ANY => {
            Some(many(number.into(), RunHeader::Count, None))
        }
        (MemberKind::Container, _) if !is_collected && is_whole_container(member) && !is_array(member) => {
            return container(container_type(member)?, is_behind_pointer(member), classes);
        }
        _ => None,
    };
    match layout {
        Some(layout) => Ok(Kind::Data(layout)),
        None => member_objects(member, element, is_collected, classes),
    }
}

/// Whether a member is an array. An array may have a single element.
fn is_array(member: &Element) -> bool {
    !dimensions(member.array_length, &member.dimensions).is_empty()
}

/// Whether the member itself is a container, not a pointer to a container and not a string.
fn is_whole_container(member: &Element) -> bool {
    matches!(member.type_code, type_code::STL | type_code::STREAMER)
}

fn counter_of(element: &ElementBranch) -> Result<usize> {
    element.count2.ok_or_else(|| FormatError::unsupported("the branch does not refer to the counter of its arrays"))
}

fn member_objects(
    member: &Element,
    element: &ElementBranch,
    is_collected: bool,
    classes: &Arc<Classes>,
) -> Result<Kind> {
    let mut compiler = Compiler::new(classes);
    let Some(mut piece) = compiler.member(member, &Members::default())?.single(&member.name) else {
        return Err(FormatError::unsupported("the member is not stored"));
    };
    if is_collected {
        pack_enumerations(&mut piece.steps);
    }
    if is_collected && member.kind() == MemberKind::ObjectArray {
        let message = "arrays of objects in split collections are not supported";
        return Err(FormatError::unsupported(message));
    }
    let type_name = if member.type_name == "BASE" { &member.name } else { &member.type_name };
    let type_name = CppType::parse(type_name).map_or(String::new(), |of_type| of_type.name());
    let program = match is_collected {
        true => Program::elements(classes, compiler, piece, &type_name, element.count),
        false => Program::single(classes, compiler, piece, type_name),
    };
    Ok(Kind::Data(Layout::Objects(program)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::streamer::ClassInfos;
    use crate::error::ErrorKind;
    use crate::tree::BranchInfo;

    fn kind_of_error(branch: &TBranch) -> Option<ErrorKind> {
        match kind_of(branch, &classes()) {
            Kind::Unreadable { error, .. } => Some(error.kind),
            Kind::Group | Kind::Data(_) => None,
        }
    }

    #[test]
    fn a_leaf_of_a_class_that_is_not_known_is_unsupported() {
        let mut branch = branch_of_doubles(1);
        let mut info = BranchInfo::clone(&branch.info);
        info.leaves[0].class_name = "TLeafX".to_string();
        branch.info = Arc::new(info);
        assert_eq!(kind_of_error(&branch), Some(ErrorKind::Unsupported));
    }

    #[test]
    fn arrays_longer_than_any_entry_are_damage() {
        for length in [1 << 28, 1 << 61, (1 << 61) + 1] {
            let mut branch = branch_of_doubles(length);
            assert_eq!(kind_of_error(&branch), Some(ErrorKind::Damaged), "{length}");
            let mut info = BranchInfo::clone(&branch.info);
            info.leaves.push(info.leaves[0].clone());
            branch.info = Arc::new(info);
            assert_eq!(kind_of_error(&branch), Some(ErrorKind::Damaged), "{length} in a list of leaves");
        }
        assert!(kind_of(&branch_of_doubles(1 << 20), &classes()).layout().is_some());
    }

    fn classes() -> Arc<Classes> {
        Arc::new(Classes::new(Arc::new(ClassInfos::default())))
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
        let info = BranchInfo {
            object_id: 0,
            path: "x".to_string(),
            name: "x".to_string(),
            title: String::new(),
            class_name: "TBranch".to_string(),
            parent: None,
            has_children: false,
            leaves: vec![leaf],
            compress: 0,
            file_name: String::new(),
            element: None,
        };
        let info = Arc::new(info);
        TBranch { info, entries_count: 1, plain_bytes: 8, compressed_bytes: 8, baskets: Vec::new() }
    }
}
