//! Runs of fixed size: numbers, and headers that are always the same, fused to one step that copies column by column.

use crate::marks::{byte_count, BYTE_COUNT_MARK, IS_REFERENCED, TOBJECT_BYTES};
use crate::scalar::Scalar;

use super::form::Slot;
use super::program::{Header, Loop, Object, Step};

/// Bytes of fixed size, from which numbers are taken if the guards agree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Block {
    pub(crate) size: usize,
    pub(crate) moves: Vec<Move>,
    pub(crate) guards: Vec<Guard>,
    /// The same without assumptions, for bytes with which the guards do not agree.
    pub(crate) fallback: Vec<Step>,
}

/// Numbers that go from a place in the block to a slot.
#[derive(Debug, Clone)]
pub(crate) struct Move {
    pub(crate) offset: usize,
    pub(crate) scalar: Scalar,
    pub(crate) count: usize,
    pub(crate) slot: usize,
}

/// What the bytes of the block must be for its size to be right.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub(crate) offset: usize,
    pub(crate) check: Check,
}

/// Most bytes of a version header: byte count, version, checksum.
const HEADER_SIZE_MAX: usize = 10;

/// The check of a guard.
#[derive(Debug, Clone)]
pub(crate) enum Check {
    /// These bytes, as many as the number says.
    Equal([u8; HEADER_SIZE_MAX], usize),
    /// A byte without these bits.
    Clear(u8),
}

impl Guard {
    #[inline]
    fn agrees(&self, block: &[u8]) -> bool {
        match &self.check {
            Check::Equal(bytes, size) => {
                let (found, wanted) = (&block[self.offset..self.offset + size], &bytes[..*size]);
                // Headers have two sizes, which are compared at once.
                match (found.first_chunk::<6>(), *size) {
                    (Some(found), 6) => Some(found) == wanted.first_chunk(),
                    (Some(_), 10) => found.first_chunk::<10>() == wanted.first_chunk(),
                    _ => found == wanted,
                }
            }
            Check::Clear(mask) => block[self.offset] & mask == 0,
        }
    }
}

impl Block {
    /// A number or a fixed array of numbers.
    pub(crate) fn numbers(scalar: Scalar, count: usize, slot: usize) -> Self {
        let size = scalar.stored_size().saturating_mul(count);
        Self { size, moves: vec![Move { offset: 0, scalar, count, slot }], ..Self::default() }
    }

    /// Bytes that nobody wants.
    pub(crate) fn skipped(size: usize) -> Self {
        Self { size, ..Self::default() }
    }

    fn tobject() -> Self {
        let guards = vec![
            Guard { offset: 0, check: Check::Clear(BYTE_COUNT_MARK) },
            Guard { offset: TOBJECT_BYTES - 1, check: Check::Clear(IS_REFERENCED as u8) },
        ];
        Self { size: TOBJECT_BYTES, guards, ..Self::default() }
    }

    /// A TObject with its members.
    fn identity(unique_id: usize, bits: usize) -> Self {
        let mut block = Self::tobject();
        block.moves.push(Move { offset: 2, scalar: Scalar::U32, count: 1, slot: unique_id });
        block.moves.push(Move { offset: 6, scalar: Scalar::U32, count: 1, slot: bits });
        block
    }

    /// A TRef as it is stored if it is not referenced itself: a TObject and the number of its process.
    fn tref(slot: usize) -> Self {
        let mut block = Self::tobject();
        block.moves.push(Move { offset: 2, scalar: Scalar::U32, count: 1, slot });
        block.size += 2;
        block
    }

    /// Whether `count` blocks that lie behind each other all are as the guards want them.
    #[inline]
    pub(crate) fn agrees(&self, data: &[u8], count: usize) -> bool {
        self.guards.is_empty() || (0..count).all(|index| self.agrees_one(&data[index * self.size..]))
    }

    #[inline]
    fn agrees_one(&self, block: &[u8]) -> bool {
        self.guards.iter().all(|guard| guard.agrees(block))
    }

    /// Moves the numbers of `count` blocks that lie behind each other and fill `data`.
    #[inline]
    pub(crate) fn take(&self, data: &[u8], count: usize, slots: &mut [Slot]) {
        for one in &self.moves {
            one.take(data, count, self.size, &mut slots[one.slot].bytes);
        }
    }

    /// The same block behind `size` more bytes.
    fn behind(&mut self, size: usize) {
        self.size += size;
        self.moves.iter_mut().for_each(|one| one.offset += size);
        self.guards.iter_mut().for_each(|one| one.offset += size);
    }

    /// This block and another one behind it.
    fn join(&mut self, mut other: Self) {
        other.behind(self.size);
        self.size = other.size;
        self.moves.append(&mut other.moves);
        self.guards.append(&mut other.guards);
    }
}

impl Move {
    #[inline]
    fn take(&self, data: &[u8], blocks: usize, stride: usize, out: &mut Vec<u8>) {
        let size = self.scalar.stored_size() * self.count;
        if blocks == 1 || size == stride {
            append(self.scalar, &data[self.offset..self.offset + if size == stride { data.len() } else { size }], out);
            return;
        }
        match (self.scalar, size) {
            _ if self.count > 1 => self.take_each(data, blocks, stride, out),
            (Scalar::Bool | Scalar::F32AsF64 | Scalar::Double32(_) | Scalar::Float16(_), _) => {
                self.take_each(data, blocks, stride, out)
            }
            (_, 1) => swap_strided::<1>(data, self.offset, blocks, stride, out),
            (_, 2) => swap_strided::<2>(data, self.offset, blocks, stride, out),
            (_, 4) => swap_strided::<4>(data, self.offset, blocks, stride, out),
            _ => swap_strided::<8>(data, self.offset, blocks, stride, out),
        }
    }

    fn take_each(&self, data: &[u8], blocks: usize, stride: usize, out: &mut Vec<u8>) {
        let size = self.scalar.stored_size() * self.count;
        for index in 0..blocks {
            let start = index * stride + self.offset;
            append(self.scalar, &data[start..start + size], out);
        }
    }
}

/// The bytes of a number from the file's order to the machine's, in one instruction, which reversing them is not.
trait Stored: Copy {
    fn native(self) -> Self;
}

macro_rules! stored {
    ($($number:ty),*) => { $(
        impl Stored for [u8; size_of::<$number>()] {
            #[inline]
            fn native(self) -> Self {
                <$number>::from_be_bytes(self).to_ne_bytes()
            }
        }
    )* };
}

stored!(u8, u16, u32, u64);

fn swap_strided<const SIZE: usize>(data: &[u8], offset: usize, blocks: usize, stride: usize, out: &mut Vec<u8>)
where
    [u8; SIZE]: Stored,
{
    out.reserve(blocks * SIZE);
    let numbers = (0..blocks).filter_map(|index| data.get(index * stride + offset..)?.first_chunk::<SIZE>());
    numbers.for_each(|number| out.extend_from_slice(&number.native()));
}

/// Runs up to this size are swapped where they are: choosing the fastest way for longer ones takes longer.
const SHORT_RUN_BYTES: usize = 128;

/// Copies numbers and turns their bytes around.
#[inline]
fn swap_run<const SIZE: usize>(stored: &[u8], out: &mut Vec<u8>)
where
    [u8; SIZE]: Stored,
{
    out.reserve(stored.len());
    stored.as_chunks::<SIZE>().0.iter().for_each(|number| out.extend_from_slice(&number.native()));
}

/// Decodes numbers to the end of a slot.
#[inline]
pub(crate) fn append(scalar: Scalar, stored: &[u8], out: &mut Vec<u8>) {
    fn one<const SIZE: usize>(stored: &[u8], out: &mut Vec<u8>)
    where
        [u8; SIZE]: Stored,
    {
        if let Some(number) = stored.first_chunk::<SIZE>() {
            out.extend_from_slice(&number.native());
        }
    }
    // Single numbers are the most frequent: the call that decodes many takes longer than they do.
    match scalar {
        Scalar::I32 | Scalar::U32 | Scalar::F32 if stored.len() == 4 => one::<4>(stored, out),
        Scalar::I64 | Scalar::U64 | Scalar::F64 if stored.len() == 8 => one::<8>(stored, out),
        Scalar::I16 | Scalar::U16 if stored.len() == 2 => one::<2>(stored, out),
        Scalar::I8 | Scalar::U8 => out.extend_from_slice(stored),
        Scalar::I32 | Scalar::U32 | Scalar::F32 if stored.len() <= SHORT_RUN_BYTES => swap_run::<4>(stored, out),
        Scalar::I64 | Scalar::U64 | Scalar::F64 if stored.len() <= SHORT_RUN_BYTES => swap_run::<8>(stored, out),
        Scalar::I16 | Scalar::U16 if stored.len() <= SHORT_RUN_BYTES => swap_run::<2>(stored, out),
        _ => {
            let start = out.len();
            out.resize(start + stored.len() / scalar.stored_size() * scalar.size(), 0);
            scalar.decode(stored, &mut out[start..]);
        }
    }
}

/// The same steps, on all levels, with those of fixed size that follow each other joined.
pub(crate) fn fuse(steps: &[Step]) -> Vec<Step> {
    let mut fused = Vec::with_capacity(steps.len());
    let mut run: Option<(Block, Vec<Step>)> = None;
    for step in steps.iter().map(fuse_within) {
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

/// Each step fused with itself only, for members that are streamed one by one.
fn fuse_each(steps: &[Step]) -> Vec<Step> {
    steps.iter().flat_map(|step| fuse(std::slice::from_ref(step))).collect()
}

fn fuse_within(step: &Step) -> Step {
    match step {
        Step::Repeat { count, steps } => Step::Repeat { count: *count, steps: fuse(steps) },
        Step::Headed { count, steps } => Step::Headed { count: *count, steps: fuse(steps) },
        Step::Object(object) => Step::Object(Box::new(fuse_object(object))),
        Step::Collection(collection) => {
            let mut collection = collection.clone();
            collection.steps = fuse(&collection.steps);
            collection.memberwise = collection.memberwise.as_ref().map(fuse_object);
            Step::Collection(collection)
        }
        Step::Loop(repeated) => Step::Loop(Box::new(Loop { steps: fuse(&repeated.steps), ..(**repeated).clone() })),
        other => other.clone(),
    }
}

fn fuse_object(object: &Object) -> Object {
    let mut object = object.clone();
    for version in &mut object.versions {
        version.steps = fuse(&version.steps);
        version.members = fuse_each(&version.members);
    }
    object
}

fn finished((mut block, sources): (Block, Vec<Step>)) -> Step {
    if !block.guards.is_empty() {
        block.fallback = sources;
    }
    Step::Block(block)
}

/// A step as a block without a fallback of its own.
fn as_block(step: &Step) -> Option<Block> {
    match step {
        Step::Block(block) if block.guards.is_empty() => Some(block.clone()),
        Step::TObject => Some(Block::tobject()),
        Step::Identity { unique_id, bits } => Some(Block::identity(*unique_id, *bits)),
        Step::TRef { slot } => Some(Block::tref(*slot)),
        Step::Object(object) => object_block(object),
        _ => None,
    }
}

/// An object whose usual version has a fixed size, with its header.
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
