//! Parsing of a TTree's metadata into a flat list of branches, in the order of the tree. Each branch has its leaves and
//! baskets.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::classes::streamer::ClassInfos;
use crate::error::{FormatError, Result};

use super::collect::{collect, Objects};
use super::late_branches;
use super::members::{ArrayField, LinkField, Members, NumberField, PointersField, TextField};
use super::model::{Basket, BranchInfo, ElementBranch, Place, TBranch, TLeaf, TTree};
use crate::basket::embedded::EmbeddedBasket;

/// Index of the tree among the objects in its record.
const TREE: usize = 0;
/// Maximum nesting depth of branches. Deeper branches are assumed to form a cycle.
const DEPTH_MAX: usize = 100;
/// Maximum total length of branch paths, as a multiple of the size of the tree's record. Without a limit, a long name
/// that is repeated in many paths would exhaust the memory.
const PATHS_FACTOR_MAX: usize = 16;

/// Parse a TTree from the uncompressed bytes of its record, whose key has `key_size` bytes.
///
/// Fails if the bytes contradict the streamer infos or each other, and for unsupported class versions.
pub fn read_tree(bytes: &[u8], key_size: u64, class_name: &str, infos: &ClassInfos) -> Result<TTree> {
    let mut objects = collect(bytes, key_size, class_name, infos)?;
    let mut builder = Builder {
        branches: Vec::with_capacity(objects.count() / 2),
        objects_of: Vec::with_capacity(objects.count() / 2),
        branch_of: vec![None; objects.count()],
        paths_room: bytes.len().saturating_mul(PATHS_FACTOR_MAX),
    };
    for id in objects.at(TREE).take_pointers(PointersField::Branches) {
        builder.add(id, None, &mut objects, 0)?;
    }
    builder.link(&mut objects);
    late_branches::fill_up(&mut builder.branches)?;
    number_repeated_paths(&mut builder.branches);
    let tree = objects.at(TREE);
    Ok(TTree {
        name: tree.text(TextField::Name),
        title: tree.text(TextField::Title),
        entries_count: counted("fEntries", tree.number(NumberField::Entries))?,
        has_relatives: [LinkField::Aliases, LinkField::TreeIndex, LinkField::Friends]
            .iter()
            .any(|which| tree.link(*which) != 0),
        has_user_info: tree.link(LinkField::UserInfo) != 0,
        branches: builder.branches,
    })
}

struct Builder {
    branches: Vec<TBranch>,
    /// For each branch, the index of the branch object and the indexes of the leaf objects.
    objects_of: Vec<(usize, Vec<usize>)>,
    /// For each branch object or leaf object, the index of the branch.
    branch_of: Vec<Option<usize>>,
    /// Number of bytes left for further paths.
    paths_room: usize,
}

impl Builder {
    /// Add the branch with the reference `id` and all its descendants.
    fn add(&mut self, id: u64, parent: Option<usize>, objects: &mut Objects<'_>, depth: usize) -> Result<()> {
        let Some(object) = objects.find(id) else {
            return Err(FormatError::damaged(0, format!("unknown branch reference {id}")));
        };
        if depth > DEPTH_MAX || self.branch_of[object].is_some() {
            return Err(FormatError::damaged(0, "the branches form a loop"));
        }
        let members = objects.at(object);
        let children = members.take_pointers(PointersField::Branches);
        let leaf_ids = members.take_pointers(PointersField::Leaves);
        let mut info = new_info(members);
        info.object_id = id;
        info.parent = parent;
        info.has_children = !children.is_empty();
        info.path = match parent {
            Some(parent) => [&self.branches[parent].path, "/", &info.name].concat(),
            None => info.name.clone(),
        };
        let too_long = || FormatError::damaged(0, "the names of the branches are too long");
        self.paths_room = self.paths_room.checked_sub(info.path.len()).ok_or_else(too_long)?;
        let index = self.branches.len();
        let leaves: Vec<usize> = leaf_ids.into_iter().filter_map(|id| objects.find(id)).collect();
        info.leaves = leaves.iter().map(|leaf| new_leaf(objects.at(*leaf))).collect();
        for leaf in &leaves {
            self.branch_of[*leaf] = Some(index);
        }
        let mut branch = TBranch {
            info: Arc::new(info),
            entries_count: 0,
            plain_bytes: 0,
            compressed_bytes: 0,
            baskets: Vec::new(),
        };
        fill(&mut branch, objects.at(object))?;
        self.branch_of[object] = Some(index);
        self.branches.push(branch);
        self.objects_of.push((object, leaves));
        children.into_iter().try_for_each(|child| self.add(child, Some(index), objects, depth + 1))
    }

    /// Resolve references to counter branches. This requires all branches, because counter branches may come later.
    fn link(&mut self, objects: &mut Objects<'_>) {
        for (branch, (object, leaves)) in self.branches.iter_mut().zip(&self.objects_of) {
            let members = objects.at(*object);
            let counts = [LinkField::BranchCount, LinkField::BranchCount2].map(|which| members.link(which));
            if let Some(element) = &mut branch.element {
                [element.count, element.count2] = counts.map(|id| self.branch_of[objects.find(id)?]);
            }
            for (leaf, object) in branch.leaves.iter_mut().zip(leaves) {
                let count_id = objects.at(*object).link(LinkField::LeafCount);
                let Some(counter) = objects.find(count_id) else { continue };
                leaf.count_name = Some(objects.at(counter).text(TextField::Name));
                leaf.count_branch = self.branch_of[counter];
            }
        }
    }
}

/// Append `#2`, `#3`, ... to the paths of branches whose path occurred before.
fn number_repeated_paths(branches: &mut [TBranch]) {
    let mut seen: HashMap<&str, usize> = HashMap::with_capacity(branches.len());
    let mut repeated = Vec::new();
    for (index, branch) in branches.iter().enumerate() {
        let count = seen.entry(&branch.path).or_insert(0);
        *count += 1;
        if *count > 1 {
            repeated.push((index, *count));
        }
    }
    for (index, count) in repeated {
        branches[index].path = format!("{}#{count}", branches[index].path);
    }
}

fn new_leaf(members: &Members<'_>) -> TLeaf {
    TLeaf {
        name: members.text(TextField::Name),
        title: members.text(TextField::Title),
        class_name: String::from(&*members.class_name),
        // The length is -1 if another member holds the array length.
        length: members.number(NumberField::Len),
        is_unsigned: members.number(NumberField::IsUnsigned) != 0,
        count_name: None,
        count_branch: None,
    }
}

fn new_info(members: &Members<'_>) -> BranchInfo {
    let has_class = matches!(&*members.class_name, "TBranchElement" | "TBranchObject" | "TBranchSTL");
    let element = has_class.then(|| ElementBranch {
        class_name: members.text(TextField::ClassName),
        clones_name: members.text(TextField::ClonesName),
        checksum: members.number(NumberField::CheckSum) as u32,
        class_version: members.number(NumberField::ClassVersion) as i32,
        id: members.number(NumberField::Id) as i32,
        branch_type: members.number(NumberField::Type) as i32,
        streamer_type: members.number(NumberField::StreamerType) as i32,
        count: None,
        count2: None,
    });
    BranchInfo {
        object_id: 0,
        path: String::new(),
        name: members.text(TextField::Name),
        title: members.text(TextField::Title),
        class_name: String::from(&*members.class_name),
        parent: None,
        has_children: false,
        leaves: Vec::new(),
        compress: members.number(NumberField::Compress),
        file_name: members.text(TextField::FileName),
        element,
    }
}

/// Set the entry count, the sizes and the baskets of a branch.
pub(crate) fn fill(branch: &mut TBranch, members: &mut Members<'_>) -> Result<()> {
    fill_in(branch, members).map_err(|error| error.in_object(format!("branch {}", branch.name)))
}

fn fill_in(branch: &mut TBranch, members: &mut Members<'_>) -> Result<()> {
    branch.entries_count = counted("fEntries", members.number(NumberField::Entries))?;
    branch.plain_bytes = counted("fTotBytes", members.number(NumberField::TotBytes))?;
    branch.compressed_bytes = counted("fZipBytes", members.number(NumberField::ZipBytes))?;
    branch.baskets = new_baskets(members)?;
    Ok(())
}

/// Convert a count that was read from the member `name`. Fails if the count is negative.
pub(crate) fn counted(name: &str, value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| FormatError::damaged(0, format!("{name} is negative: {value}")))
}

/// The baskets of a branch, sorted by entry, from the three arrays that describe baskets and from the embedded baskets.
fn new_baskets(members: &mut Members<'_>) -> Result<Vec<Basket>> {
    let first_entries = members.array(ArrayField::FirstEntries);
    let seeks = members.array(ArrayField::Seeks);
    let sizes = members.array(ArrayField::Sizes);
    let mut embedded: BTreeMap<usize, EmbeddedBasket> = members.embedded.drain(..).collect();
    let first = members.number(NumberField::FirstEntry);
    let entries_count = members.number(NumberField::Entries);
    let last_entry = members.number(NumberField::LastEntry).max(first.saturating_add(entries_count));
    let written = counted("fWriteBasket", members.number(NumberField::WriteBasket))?;
    let written = usize::try_from(written).unwrap_or(usize::MAX);
    let mut baskets = Vec::new();
    let mut stop_before = 0;
    let known = embedded.keys().copied().next_back().unwrap_or(0).max(seeks.len());
    for index in 0..=written.min(known) {
        let seek = seeks.get(index).unwrap_or(0);
        let size = sizes.get(index).unwrap_or(0);
        // ROOT leaves uninitialised values in the array elements for unwritten baskets.
        let is_damaged = seek < 0 || seek > 0 && size < 0;
        if is_damaged && index < written {
            let message = format!("basket {index} has an invalid offset or size (offset {seek}, {size} bytes)");
            return Err(FormatError::damaged(0, message));
        }
        let place = match embedded.remove(&index) {
            Some(basket) if basket.has_data && basket.entries_count > 0 => Place::Embedded(Arc::new(basket)),
            _ if seek > 0 && size > 0 && !is_damaged => Place::File { seek: seek as u64, size: size as u64 },
            _ => continue,
        };
        let entry_start = first_entries.get(index).unwrap_or(0);
        let next = first_entries.get(index + 1).filter(|_| index < written);
        let entry_stop = match &place {
            Place::Embedded(basket) => entry_start.saturating_add(basket.entries_count as i64),
            Place::File { .. } => next.unwrap_or(last_entry),
        };
        if entry_start < stop_before || entry_stop < entry_start {
            return Err(FormatError::damaged(
                0,
                format!("basket {index} has an invalid entry range, {entry_start} to {entry_stop}"),
            ));
        }
        stop_before = entry_stop;
        if entry_stop > entry_start {
            baskets.push(Basket { entry_start: entry_start as u64, entry_stop: entry_stop as u64, place });
        }
    }
    Ok(baskets)
}
