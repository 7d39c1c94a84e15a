//! Fusion of consecutive fixed-size steps (numbers and constant headers) into one step.

use std::collections::HashMap;
use std::sync::Arc;

use crate::layout::steps::{Block, Check, Guard, Header, Loop, Move, Object, Step, HEADER_SIZE_MAX};
use crate::marks::{byte_count, BYTE_COUNT_MARK, IS_REFERENCED, TOBJECT_BYTES};
use crate::numbers::number::Number;
use crate::numbers::scalar::Scalar;

impl Block {
    fn tobject() -> Self {
        let guards = vec![
            Guard { offset: 0, check: Check::Clear(BYTE_COUNT_MARK) },
            Guard { offset: TOBJECT_BYTES - 1, check: Check::Clear(IS_REFERENCED as u8) },
        ];
        Self { size: TOBJECT_BYTES, guards, ..Self::default() }
    }

    /// A block that reads the members of a TObject.
    fn identity(unique_id: usize, bits: usize) -> Self {
        let mut block = Self::tobject();
        block.moves.push(Move { offset: 2, scalar: Scalar::Plain(Number::U32), count: 1, slot: unique_id });
        block.moves.push(Move { offset: 6, scalar: Scalar::Plain(Number::U32), count: 1, slot: bits });
        block
    }

    /// A block that reads a TRef: a TObject and its process ID. The guards require that nothing references the TRef
    /// itself.
    fn tref(slot: usize) -> Self {
        let mut block = Self::tobject();
        block.moves.push(Move { offset: 2, scalar: Scalar::Plain(Number::U32), count: 1, slot });
        block.size += 2;
        block
    }

    /// Insert `size` ignored bytes at the start of the block.
    fn behind(&mut self, size: usize) {
        self.size += size;
        self.moves.iter_mut().for_each(|one| one.offset += size);
        self.guards.iter_mut().for_each(|one| one.offset += size);
    }

    /// Append another block to this block.
    fn join(&mut self, mut other: Self) {
        other.behind(self.size);
        self.size = other.size;
        self.moves.append(&mut other.moves);
        self.guards.append(&mut other.guards);
    }
}

/// Fuse consecutive fixed-size steps, including nested steps.
pub(crate) fn fuse(steps: &[Step]) -> Vec<Step> {
    Fuser::default().fuse(steps)
}

/// State of the fusion. Objects that several versions of a class share are fused only once.
#[derive(Default)]
struct Fuser {
    /// Fused objects by the address of the original object.
    objects: HashMap<*const Object, Arc<Object>>,
}

impl Fuser {
    fn fuse(&mut self, steps: &[Step]) -> Vec<Step> {
        let mut fused = Vec::with_capacity(steps.len());
        let mut run: Option<(Block, Vec<Step>)> = None;
        for step in steps {
            let step = self.within(step);
            match (as_block(&step), &mut run) {
                (Some(block), Some((before, sources))) => {
                    before.join(block);
                    sources.push(step);
                }
                (Some(block), None) => run = Some((block, vec![step])),
                (None, _) => {
                    fused.extend(run.take().map(finished));
                    fused.push(step);
                }
            }
        }
        fused.extend(run.map(finished));
        fused
    }

    /// Fuse each step separately, for members that are streamed one by one.
    fn fuse_each(&mut self, steps: &[Step]) -> Vec<Step> {
        steps.iter().flat_map(|step| self.fuse(std::slice::from_ref(step))).collect()
    }

    fn within(&mut self, step: &Step) -> Step {
        match step {
            Step::Repeat { count, steps } => Step::Repeat { count: *count, steps: self.fuse(steps) },
            Step::Headed { count, steps } => Step::Headed { count: *count, steps: self.fuse(steps) },
            Step::Object(object) => {
                if let Some(known) = self.objects.get(&Arc::as_ptr(object)) {
                    return Step::Object(Arc::clone(known));
                }
                let fused = Arc::new(self.object(object));
                self.objects.insert(Arc::as_ptr(object), Arc::clone(&fused));
                Step::Object(fused)
            }
            Step::Collection(collection) => {
                let mut collection = collection.clone();
                collection.steps = self.fuse(&collection.steps);
                collection.memberwise = collection.memberwise.as_ref().map(|object| self.object(object));
                Step::Collection(collection)
            }
            Step::Loop(repeated) => {
                Step::Loop(Box::new(Loop { steps: self.fuse(&repeated.steps), ..(**repeated).clone() }))
            }
            other => other.clone(),
        }
    }

    fn object(&mut self, object: &Object) -> Object {
        let mut object = object.clone();
        for version in &mut object.versions {
            version.steps = self.fuse(&version.steps);
            version.members = self.fuse_each(&version.members);
        }
        object
    }
}

fn finished((mut block, sources): (Block, Vec<Step>)) -> Step {
    if !block.guards.is_empty() {
        block.fallback = sources;
    }
    Step::Block(block)
}

/// Convert a step to a block, to be fused with others. None if the step has no fixed size or already has a fallback.
fn as_block(step: &Step) -> Option<Block> {
    match step {
        Step::Block(block) if block.guards.is_empty() => Some(block.clone()),
        Step::TObject => Some(Block::tobject()),
        Step::Identity { unique_id, bits } => Some(Block::identity(*unique_id, *bits)),
        Step::TRef { slot } => Some(Block::tref(*slot)),
        Step::Object(object) => object_block(object),
        Step::Block(_)
        | Step::Text { .. }
        | Step::Bits { .. }
        | Step::Repeat { .. }
        | Step::Headed { .. }
        | Step::Collection(_)
        | Step::Counted(_)
        | Step::Loop(_)
        | Step::Pointer { .. }
        | Step::NamedObject { .. }
        | Step::Pointers(_)
        | Step::Clones { .. }
        | Step::Convert(_)
        | Step::Default(_)
        | Step::Nested { .. }
        | Step::Undescribed { .. } => None,
    }
}

/// Convert an object with its header to a block; None unless the object's most common version has a fixed size.
fn object_block(object: &Object) -> Option<Block> {
    let usual = object.versions.first()?;
    let inner = match usual.steps.as_slice() {
        [] => Block::default(),
        [Step::Block(block)] => Block { fallback: Vec::new(), ..block.clone() },
        _ => return None,
    };
    let mut header = [0; HEADER_SIZE_MAX];
    let version = i16::try_from(usual.version).ok()?.to_be_bytes();
    let header_size = match object.header.now() {
        Header::Versioned => 6,
        Header::Foreign => 10,
        Header::Short => 2,
        Header::None => return Some(inner),
    };
    match object.header.now() {
        Header::Short => header[..2].copy_from_slice(&version),
        kind => {
            header[..4].copy_from_slice(&byte_count((inner.size + header_size).checked_sub(4)?)?.to_be_bytes());
            if kind == Header::Foreign {
                header[6..].copy_from_slice(&usual.checksum.to_be_bytes());
            } else {
                header[4..6].copy_from_slice(&version);
            }
        }
    }
    let mut block = inner;
    block.behind(header_size);
    block.guards.push(Guard { offset: 0, check: Check::Equal(header, header_size) });
    Some(block)
}
