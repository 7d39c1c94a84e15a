//! Collects the required members of a streamed TTree and of its branches and leaves.

use std::collections::HashMap;
use std::sync::Arc;

use crate::classes::class_info::Element;
use crate::classes::streamer::ClassInfos;
use crate::error::Result;
use crate::numbers::member_kind::MemberKind;
use crate::walker::{Value, Visitor, Walker};

use super::members::{wanted, Members, Numbers, PointersField, TextField, Wanted};
use crate::basket::embedded::{read_embedded, EmbeddedBasket};

/// Approximate size of a branch or leaf in the tree's record, used to reserve memory.
const OBJECT_BYTES: usize = 512;

/// The tree (index 0), followed by its branches and leaves in the order of the buffer.
#[derive(Debug)]
pub struct Objects<'b> {
    members: Vec<Members<'b>>,
    /// The reference to each object except the tree, i.e. the object's position in the buffer, in ascending order.
    ids: Vec<u64>,
}

impl<'b> Objects<'b> {
    /// Number of objects.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// The index of the object with the reference `id`; None for the tree and for skipped objects.
    pub fn find(&self, id: u64) -> Option<usize> {
        self.ids.binary_search(&id).ok().map(|found| found + 1)
    }

    /// The object with this index.
    pub fn at(&mut self, index: usize) -> &mut Members<'b> {
        &mut self.members[index]
    }
}

/// Parse the uncompressed bytes of a TTree's record, whose key has `key_size` bytes.
pub fn collect<'b>(bytes: &'b [u8], key_size: u64, class_name: &str, infos: &ClassInfos) -> Result<Objects<'b>> {
    let expected = bytes.len() / OBJECT_BYTES;
    let mut members = Vec::with_capacity(expected + 1);
    members.push(Members::of_class(class_name.into()));
    let objects = Objects { members, ids: Vec::with_capacity(expected) };
    let collector = Collector { objects, current: 0, baskets: HashMap::new() };
    let mut walker = Walker::new(bytes, key_size, infos, collector);
    let class = walker.class(class_name);
    walker.alone(class)?;
    Ok(walker.visitor.objects)
}

struct Collector<'b> {
    objects: Objects<'b>,
    /// Index of the object whose members are being read.
    current: usize,
    /// Embedded baskets by object reference.
    baskets: HashMap<u64, EmbeddedBasket>,
}

impl<'b> Visitor<'b> for Collector<'b> {
    type Role = ();
    type Member = Wanted;
    const WALKS_ALL: bool = false;

    fn wanted((): (), element: &Element, kind: MemberKind) -> Option<Wanted> {
        wanted(element, kind)
    }

    fn role(&self) {}

    fn pointed(walker: &mut Walker<'b, '_, Self>, class_name: &Arc<str>, id: u64, end: Option<usize>) -> Result<()> {
        if &**class_name == "TBasket" {
            let basket = read_embedded(&mut walker.buffer.cursor)?;
            walker.visitor.baskets.insert(id, basket);
        } else if class_name.starts_with("TBranch") || class_name.starts_with("TLeaf") {
            member_object(walker, class_name, id)?;
        } else if end.is_none() {
            return Err(walker.damaged(format!("the {class_name} has no byte count")));
        }
        walker.buffer.finish_pointer(end)
    }

    #[inline]
    fn member_ends(&mut self, member: Wanted, _begun: usize, value: Value<'b>, _at: usize) {
        let into = &mut self.objects.members[self.current];
        match (member, value) {
            (Wanted::Number(which), Value::Number(value) | Value::Count(value)) => into.set_number(which, value),
            (Wanted::Text(which), Value::Text(text)) => into.set_text(which, text),
            (Wanted::Array(which), Value::Numbers(number, stored)) => {
                into.set_array(which, Numbers::new(stored, number));
            }
            (Wanted::Link(which), Value::Link(id)) => into.set_link(which, id),
            (Wanted::Pointers(PointersField::Baskets), Value::Links(ids)) => {
                let baskets = ids.iter().enumerate().filter_map(|(index, id)| Some((index, self.baskets.remove(id)?)));
                into.embedded.extend(baskets);
            }
            (Wanted::Pointers(which), Value::Links(mut ids)) => {
                ids.retain(|id| *id != 0);
                into.set_pointers(which, ids);
            }
            (_, Value::Number(_) | Value::Count(_) | Value::Text(_) | Value::Numbers(..)) => {}
            (_, Value::Link(_) | Value::Links(_) | Value::Other) => {}
        }
    }
}

/// Read a branch or leaf. Its index is lower than the indexes of all objects inside it.
fn member_object<'b>(walker: &mut Walker<'b, '_, Collector<'b>>, class_name: &Arc<str>, id: u64) -> Result<()> {
    let objects = &mut walker.visitor.objects;
    if objects.ids.last().is_some_and(|last| *last >= id) {
        return Err(walker.damaged("the objects are not in ascending order"));
    }
    objects.ids.push(id);
    objects.members.push(Members::of_class(Arc::clone(class_name)));
    let index = objects.members.len() - 1;
    let around = std::mem::replace(&mut walker.visitor.current, index);
    let class = walker.class(class_name);
    let result = walker.alone(class);
    walker.visitor.current = around;
    result.map(|_| ()).map_err(|error| {
        let name = walker.visitor.objects.at(index).text(TextField::Name);
        error.in_object(format!("{class_name} {name}"))
    })
}
