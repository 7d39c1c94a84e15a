//! An object that was taken apart, put together again at another place and with some of its members replaced.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use crate::error::{FormatError, Result};
use crate::tree::Basic;

use super::axis::Label;
use super::key::push_string;

use super::record::{KeptKind, Recording, Token};
use super::sparse::Sparse;

/// Set in a byte count (TBufferFile's kByteCountMask); a count must be smaller.
pub(super) const BYTE_COUNT_MASK: u32 = 0x4000_0000;
/// A class name follows (kNewClassTag).
pub(super) const NEW_CLASS_TAG: u32 = 0xffff_ffff;
/// The tag refers to a class that was named before (kClassMask).
pub(super) const CLASS_MASK: u32 = 0x8000_0000;
/// Added to offsets that are used as references (kMapOffset).
pub(super) const MAP_OFFSET: u64 = 2;
/// An object that nothing refers to.
const UNNAMED: u64 = u64::MAX;
/// By which an object refers to the outermost one, whatever the size of its key.
const OUTERMOST: u64 = 1;

/// What members are replaced with.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    bytes: HashMap<usize, Vec<u8>>,
    labels: HashMap<usize, Vec<Label>>,
    chunks: HashMap<usize, Sparse>,
    dropped: HashSet<u64>,
}

impl Changes {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces a number. A member that a class of this version does not have is left out.
    pub fn number(&mut self, recording: &Recording<'_>, owner: usize, name: &'static str, value: i64) -> Result<()> {
        let Some((index, kept)) = recording.find(owner, name) else { return Ok(()) };
        let KeptKind::Number(basic) = kept.kind else { return Err(mismatch(name)) };
        let mut bytes = Vec::new();
        push_number(&mut bytes, basic, value).ok_or_else(|| too_large(name, value))?;
        self.bytes.insert(index, bytes);
        Ok(())
    }

    /// Replaces a variable array; its counter is another member.
    pub fn array(&mut self, recording: &Recording<'_>, owner: usize, name: &'static str, values: &[i64]) -> Result<()> {
        let Some((index, kept)) = recording.find(owner, name) else { return Ok(()) };
        let (basic, flag) = match kept.kind {
            KeptKind::Array(basic) => (basic, u8::from(!values.is_empty())),
            KeptKind::Seeks(Basic::I32) if values.iter().all(|value| i32::try_from(*value).is_ok()) => (Basic::I32, 1),
            KeptKind::Seeks(_) => (Basic::I64, 2),
            _ => return Err(mismatch(name)),
        };
        let mut bytes = vec![flag];
        for value in values {
            push_number(&mut bytes, basic, *value).ok_or_else(|| too_large(name, *value))?;
        }
        self.bytes.insert(index, bytes);
        Ok(())
    }

    /// Leaves out objects that arrays point to, and what nobody else points to with them.
    pub fn without(&mut self, ids: &HashSet<u64>) {
        self.dropped.extend(ids);
    }

    /// Replaces the bytes of a member.
    pub(super) fn stored(&mut self, index: usize, bytes: Vec<u8>) {
        self.bytes.insert(index, bytes);
    }

    /// Replaces the names of an axis' bins.
    pub(super) fn labels(&mut self, index: usize, labels: Vec<Label>) {
        self.labels.insert(index, labels);
    }

    /// Replaces the bins of a THnSparse.
    pub(super) fn chunks(&mut self, index: usize, bins: Sparse) {
        self.chunks.insert(index, bins);
    }

    /// Takes back that baskets may leave something out (TBranch::fIOFeatures), which ROOT else believes of all of them.
    pub fn no_features(&mut self, recording: &Recording<'_>, owner: usize) -> Result<()> {
        let Some((index, kept)) = recording.find(owner, "fIOFeatures") else { return Ok(()) };
        let mut bytes = recording.alone(kept)?;
        if let Some(features) = bytes.last_mut() {
            *features = 0;
        }
        self.bytes.insert(index, bytes);
        Ok(())
    }

    /// Takes from a branch the baskets that it had in memory (TBranch::fBaskets). Up to version 9 ROOT counts on room for
    /// all baskets there.
    pub fn no_baskets(&mut self, recording: &Recording<'_>, owner: usize, room: usize) -> Result<()> {
        const NAME: &str = "fBaskets";
        /// Version 3, a TObject on the heap, an empty name.
        const HEAD: [u8; 13] = [0, 3, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0];
        let Some((index, kept)) = recording.find(owner, NAME) else { return Ok(()) };
        if kept.kind != KeptKind::Pointers {
            return Err(mismatch(NAME));
        }
        let seeks = recording.find(owner, "fBasketSeek").map(|(_, kept)| &kept.kind);
        let count = if matches!(seeks, Some(KeptKind::Seeks(_))) { room } else { 0 };
        let too_many = || too_large(NAME, count as i64);
        let size = u32::try_from(HEAD.len() + 4 + 4 + 4 * count).ok().filter(|size| *size < BYTE_COUNT_MASK);
        let mut bytes = (size.ok_or_else(too_many)? | BYTE_COUNT_MASK).to_be_bytes().to_vec();
        bytes.extend(HEAD);
        bytes.extend((count as u32).to_be_bytes());
        bytes.resize(bytes.len() + 4 + 4 * count, 0); // the lower bound, and pointers to nothing
        self.bytes.insert(index, bytes);
        Ok(())
    }

    /// Makes a pointer null.
    pub fn no_link(&mut self, recording: &Recording<'_>, owner: usize, name: &'static str) -> Result<()> {
        self.link(recording, owner, name, vec![0; 4])
    }

    /// Replaces a pointer and the object behind it, which refers to nothing.
    pub fn link(
        &mut self,
        recording: &Recording<'_>,
        owner: usize,
        name: &'static str,
        pointed: Vec<u8>,
    ) -> Result<()> {
        let Some((index, kept)) = recording.find(owner, name) else { return Ok(()) };
        if kept.kind != KeptKind::Link {
            return Err(mismatch(name));
        }
        self.bytes.insert(index, pointed);
        Ok(())
    }
}

fn mismatch(name: &str) -> FormatError {
    FormatError::unsupported(format!("member {name} is stored in another way than expected"))
}

fn too_large(name: &str, value: i64) -> FormatError {
    FormatError::unsupported(format!("member {name} has no room for {value}"))
}

fn push_number(bytes: &mut Vec<u8>, basic: Basic, value: i64) -> Option<()> {
    match basic {
        Basic::I8 => bytes.extend(i8::try_from(value).ok()?.to_be_bytes()),
        Basic::U8 => bytes.extend(u8::try_from(value).ok()?.to_be_bytes()),
        Basic::I16 => bytes.extend(i16::try_from(value).ok()?.to_be_bytes()),
        Basic::U16 => bytes.extend(u16::try_from(value).ok()?.to_be_bytes()),
        Basic::I32 => bytes.extend(i32::try_from(value).ok()?.to_be_bytes()),
        Basic::U32 => bytes.extend(u32::try_from(value).ok()?.to_be_bytes()),
        Basic::I64 => bytes.extend(value.to_be_bytes()),
        Basic::F32 => bytes.extend((value as f32).to_be_bytes()),
        Basic::F64 => bytes.extend((value as f64).to_be_bytes()),
    }
    Some(())
}

impl Recording<'_> {
    /// The plain bytes of the object behind a key of `key_size` bytes.
    pub fn emit(&self, key_size: u64, changes: &Changes) -> Result<Vec<u8>> {
        let mut emitter = Emitter::new(key_size);
        emitter.old_key_size = self.key_size;
        emitter.out.reserve(self.bytes.len());
        let whole = 0..self.tokens.len();
        Emission { recording: self, changes, leaves: self.leaves_of_tree(changes) }.range(whole, &mut emitter)?;
        Ok(emitter.out)
    }

    /// The array of all leaves of a tree, some of which go with their branches.
    fn leaves_of_tree(&self, changes: &Changes) -> Option<Range<usize>> {
        let (_, kept) = self.find(0, "fLeaves").filter(|_| !changes.dropped.is_empty())?;
        Some(kept.tokens.clone())
    }

    /// The tokens of an object.
    fn tokens_of(&self, wanted: u64) -> Option<Range<usize>> {
        let start = self.tokens.iter().position(|token| matches!(token, Token::Object { id, .. } if *id == wanted))?;
        let mut depth = 0;
        for (index, token) in self.tokens.iter().enumerate().skip(start) {
            match token {
                Token::Object { .. } | Token::Begin => depth += 1,
                Token::End => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(start..index + 1);
            }
        }
        None
    }
}

/// The walk over what was taken apart.
struct Emission<'a, 'r> {
    recording: &'a Recording<'r>,
    changes: &'a Changes,
    /// Where the array of all leaves of the tree is, if it becomes shorter.
    leaves: Option<Range<usize>>,
}

impl Emission<'_, '_> {
    fn range(&self, range: Range<usize>, emitter: &mut Emitter) -> Result<()> {
        let recording = self.recording;
        let mut next = range.start;
        while let Some(token) = recording.tokens.get(next).filter(|_| next < range.end) {
            next += 1;
            match token {
                Token::Kept(number) => {
                    if let Some(bytes) = self.changes.bytes.get(number) {
                        emitter.out.extend_from_slice(bytes);
                        next = recording.kept[*number].tokens.end;
                    } else if let Some(labels) = self.changes.labels.get(number) {
                        emitter.labels(labels)?;
                        next = recording.kept[*number].tokens.end;
                    } else if let Some(bins) = self.changes.chunks.get(number) {
                        emitter.chunks(bins)?;
                        next = recording.kept[*number].tokens.end;
                    }
                }
                Token::Array { head, ends } if !self.changes.dropped.is_empty() => {
                    self.array((next, head, ends), emitter)?;
                    next = ends.last().copied().unwrap_or(next);
                }
                Token::Seen { id, .. } if !self.changes.dropped.is_empty() && !emitter.knows(*id) => {
                    // What it was first met in may be dropped.
                    match recording.tokens_of(*id).filter(|_| !self.changes.dropped.contains(id)) {
                        Some(tokens) => self.range(tokens, emitter)?,
                        None => emitter.out.extend([0; 4]),
                    }
                }
                token => emitter.token(token, recording.bytes)?,
            }
        }
        Ok(())
    }

    /// The pointers of an array that are kept.
    fn array(&self, (first, head, ends): (usize, &Range<usize>, &[usize]), emitter: &mut Emitter) -> Result<()> {
        let count_at = emitter.out.len();
        emitter.out.extend_from_slice(&self.recording.bytes[head.clone()]);
        let are_leaves = self.leaves.as_ref().is_some_and(|leaves| leaves.contains(&first));
        let mut kept_count = 0u32;
        let mut start = first;
        for end in ends {
            let is_dropped = match self.recording.tokens.get(start) {
                Some(Token::Object { id, .. }) => self.changes.dropped.contains(id),
                Some(Token::Seen { id, .. }) => {
                    self.changes.dropped.contains(id) || (are_leaves && !emitter.knows(*id))
                }
                _ => false,
            };
            if !is_dropped {
                self.range(start..*end, emitter)?;
                kept_count += 1;
            }
            start = *end;
        }
        emitter.out[count_at..count_at + 4].copy_from_slice(&kept_count.to_be_bytes());
        Ok(())
    }
}

/// Puts together what was taken apart.
#[derive(Debug, Default)]
pub(super) struct Emitter {
    key_size: u64,
    /// Of the bytes that were taken apart.
    old_key_size: u64,
    /// Whether there was something that has to stay where it was.
    is_fixed: bool,
    pub(super) out: Vec<u8>,
    /// Where the byte counts of what is open are, if they are counted.
    open: Vec<Option<usize>>,
    classes: HashMap<Rc<str>, u32>,
    /// Old to new.
    references: HashMap<u64, u32>,
}

impl Emitter {
    /// Nothing yet behind a key of so many bytes.
    pub(super) fn new(key_size: u64) -> Self {
        Self { key_size, ..Self::default() }
    }

    /// Adds tokens of these bytes.
    pub(super) fn tokens(&mut self, tokens: &[Token], bytes: &[u8]) -> Result<()> {
        tokens.iter().try_for_each(|token| self.token(token, bytes))
    }

    fn token(&mut self, token: &Token, bytes: &[u8]) -> Result<()> {
        match token {
            Token::Kept(_) => {}
            Token::Bytes(range) | Token::Array { head: range, .. } => {
                self.out.extend_from_slice(&bytes[range.clone()]);
            }
            Token::Fixed(range) => {
                if self.out.len() as u64 + self.key_size != range.start as u64 + self.old_key_size {
                    let message = "an object of a class that the file does not describe cannot be moved";
                    return Err(FormatError::unsupported(message));
                }
                self.is_fixed = true;
                self.out.extend_from_slice(&bytes[range.clone()]);
            }
            Token::Begin => self.begin(),
            Token::Object { id, class_name, is_counted } => self.object(*id, class_name, *is_counted)?,
            Token::End => self.end()?,
            Token::Seen { id, is_counted } => self.seen(*id, *is_counted)?,
        }
        Ok(())
    }

    /// What comes next refers to none of the objects before, but to their classes.
    pub(super) fn forget_objects(&mut self) {
        self.references.clear();
    }

    /// By what something that comes next is referred to.
    fn reference(&self) -> Result<u32> {
        let reference = self.out.len() as u64 + self.key_size + MAP_OFFSET;
        u32::try_from(reference).ok().filter(|reference| *reference < BYTE_COUNT_MASK).ok_or_else(too_long)
    }

    pub(super) fn begin(&mut self) {
        self.open.push(Some(self.out.len()));
        self.out.extend([0; 4]);
    }

    pub(super) fn object(&mut self, id: u64, class_name: &Rc<str>, is_counted: bool) -> Result<()> {
        self.references.insert(id, self.reference()?);
        if is_counted {
            self.begin();
        } else {
            self.open.push(None);
        }
        if let Some(class) = self.classes.get(class_name) {
            self.out.extend((CLASS_MASK | class).to_be_bytes());
            return Ok(());
        }
        self.classes.insert(Rc::clone(class_name), self.reference()?);
        self.out.extend(NEW_CLASS_TAG.to_be_bytes());
        self.out.extend_from_slice(class_name.as_bytes());
        self.out.push(0);
        Ok(())
    }

    /// Whether something that was emitted is referred to by this.
    fn knows(&self, id: u64) -> bool {
        id == OUTERMOST || self.references.contains_key(&id)
    }

    pub(super) fn end(&mut self) -> Result<()> {
        let Some(Some(start)) = self.open.pop() else { return Ok(()) };
        let counted = self.out.len() - start - 4;
        let count = u32::try_from(counted).ok().filter(|count| *count < BYTE_COUNT_MASK).ok_or_else(too_long)?;
        self.out[start..start + 4].copy_from_slice(&(BYTE_COUNT_MASK | count).to_be_bytes());
        Ok(())
    }

    fn tobject(&mut self, id: u32) {
        /// Version, and the bit of what lies on the heap.
        const AROUND: (u16, u32) = (1, 0x0200_0000);
        self.out.extend(AROUND.0.to_be_bytes());
        self.out.extend(id.to_be_bytes());
        self.out.extend(AROUND.1.to_be_bytes());
    }

    /// A TObjArray of chunks (THnSparseArrayChunk).
    fn chunks(&mut self, bins: &Sparse) -> Result<()> {
        let all: Vec<_> = bins.chunks().collect();
        let (chunk, contents_class): (Rc<str>, Rc<str>) =
            ("THnSparseArrayChunk".into(), bins.class_name.as_str().into());
        let errors_class: Rc<str> = "TArrayD".into();
        self.begin();
        self.out.extend(3_u16.to_be_bytes());
        self.tobject(0);
        self.out.push(0); // its name
        self.out.extend((all.len() as u32).to_be_bytes());
        self.out.extend(0_u32.to_be_bytes()); // the lower bound
        for (places, contents, errors) in all {
            self.object(UNNAMED, &chunk, true)?;
            self.begin();
            self.out.extend(1_u16.to_be_bytes());
            self.tobject(0);
            self.out.extend((bins.place_bytes as u32).to_be_bytes());
            self.out.extend((places.len() as u32).to_be_bytes());
            self.out.push(1); // there are places
            self.out.extend_from_slice(places);
            self.array(&contents_class, &contents)?;
            match errors {
                Some(errors) => self.array(&errors_class, &errors)?,
                None => self.out.extend([0; 4]),
            }
            self.end()?;
            self.end()?;
        }
        self.end()
    }

    /// A pointer to a TArray of this class.
    fn array(&mut self, class_name: &Rc<str>, stored: &[u8]) -> Result<()> {
        self.object(UNNAMED, class_name, true)?;
        self.out.extend_from_slice(stored);
        self.end()
    }

    /// A pointer to a list of texts with the numbers of the bins that they name as their unique ids.
    fn labels(&mut self, labels: &[Label]) -> Result<()> {
        let (list, text): (Rc<str>, Rc<str>) = ("THashList".into(), "TObjString".into());
        self.object(UNNAMED, &list, true)?;
        self.begin();
        self.out.extend(5_u16.to_be_bytes());
        self.tobject(0);
        self.out.push(0); // its name
        self.out.extend((labels.len() as u32).to_be_bytes());
        for (bin, label) in labels {
            self.object(UNNAMED, &text, true)?;
            self.begin();
            self.out.extend(1_u16.to_be_bytes());
            self.tobject(*bin);
            push_string(&mut self.out, label)?;
            self.end()?;
            self.end()?;
            self.out.push(0); // how the list draws it
        }
        self.end()?;
        self.end()
    }

    pub(super) fn seen(&mut self, id: u64, is_counted: bool) -> Result<()> {
        let reference = match self.references.get(&id) {
            Some(reference) => *reference,
            None if id == OUTERMOST => OUTERMOST as u32,
            // What stays where it was is referred to as before.
            None if self.is_fixed => u32::try_from(id).map_err(|_| too_long())?,
            None => {
                let message = format!("a reference to object {id}, which is not kept");
                return Err(FormatError::damaged(self.out.len() as u64, message));
            }
        };
        if is_counted {
            self.out.extend((BYTE_COUNT_MASK | 4).to_be_bytes());
        }
        self.out.extend(reference.to_be_bytes());
        Ok(())
    }
}

fn too_long() -> FormatError {
    FormatError::unsupported("the object would be longer than 1 GiB, which ROOT cannot read")
}
