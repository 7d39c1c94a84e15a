//! Encoding of an object with new byte counts, class tags and references.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{FormatError, Result};
use crate::marks::{byte_count, BYTE_COUNT_MASK, CLASS_MASK, MAP_OFFSET, NEW_CLASS_TAG};

use super::axis::Label;
use super::sparse::{NewChunk, Sparse};
use super::token::Token;
use crate::write::key::push_string;

/// ID for objects that no reference refers to.
const UNNAMED: u64 = u64::MAX;
/// Reference to the outermost object. It does not depend on the size of the key.
const OUTERMOST: u64 = 1;

/// Encoder of tokens into bytes.
#[derive(Debug, Default)]
pub(crate) struct Emitter {
    key_size: u64,
    /// Size of the key that preceded the parsed bytes.
    pub(crate) old_key_size: u64,
    /// Whether some of the emitted bytes had to keep their position.
    is_fixed: bool,
    pub(crate) out: Vec<u8>,
    /// Positions of the byte counts of all open objects; None for an object without a byte count.
    open: Vec<Option<usize>>,
    classes: HashMap<Arc<str>, u32>,
    /// New references by old references.
    references: HashMap<u64, u32>,
}

impl Emitter {
    /// Create an emitter for an object whose key has `key_size` bytes.
    pub(crate) fn new(key_size: u64) -> Self {
        Self { key_size, ..Self::default() }
    }

    /// Encode tokens that refer to ranges of `bytes`.
    pub(crate) fn tokens(&mut self, tokens: &[Token], bytes: &[u8]) -> Result<()> {
        tokens.iter().try_for_each(|token| self.token(token, bytes))
    }

    /// Encode a token that refers to ranges of `bytes`.
    pub(crate) fn token(&mut self, token: &Token, bytes: &[u8]) -> Result<()> {
        match token {
            Token::Member(_) => {}
            Token::Bytes(range) | Token::Array { head: range, .. } => {
                self.out.extend_from_slice(&bytes[range.clone()]);
            }
            Token::Fixed(range) => {
                if self.out.len() as u64 + self.key_size != range.start as u64 + self.old_key_size {
                    let message = "an object of an undescribed class cannot be moved";
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

    /// Forget references to objects, but not to classes. Called between the tokens of two streamer info lists.
    pub(crate) fn forget_objects(&mut self) {
        self.references.clear();
    }

    /// Replace the reference map by the reference map of another record. Returns the previous map.
    pub(crate) fn swap_references(&mut self, references: HashMap<u64, u32>) -> HashMap<u64, u32> {
        std::mem::replace(&mut self.references, references)
    }

    /// Append the length and lower bound of a TObjArray, with the length increased by `added`.
    pub(crate) fn array_head(&mut self, head: &[u8], added: usize) -> Result<()> {
        let count = head.first_chunk().map_or(0, |raw| u32::from_be_bytes(*raw));
        let count = u32::try_from(added).ok().and_then(|added| count.checked_add(added)).ok_or_else(too_long)?;
        self.out.extend(count.to_be_bytes());
        self.out.extend_from_slice(head.get(4..).unwrap_or_default());
        Ok(())
    }

    /// Reference to an object or class that starts at the current position.
    fn reference(&self) -> Result<u32> {
        let reference = self.out.len() as u64 + self.key_size + MAP_OFFSET;
        u32::try_from(reference).ok().filter(|reference| *reference < BYTE_COUNT_MASK).ok_or_else(too_long)
    }

    pub(crate) fn begin(&mut self) {
        self.open.push(Some(self.out.len()));
        self.out.extend([0; 4]);
    }

    pub(crate) fn object(&mut self, id: u64, class_name: &Arc<str>, is_counted: bool) -> Result<()> {
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
        self.classes.insert(Arc::clone(class_name), self.reference()?);
        self.out.extend(NEW_CLASS_TAG.to_be_bytes());
        self.out.extend_from_slice(class_name.as_bytes());
        self.out.push(0);
        Ok(())
    }

    /// Whether the object with this ID has been emitted.
    pub(crate) fn knows(&self, id: u64) -> bool {
        id == OUTERMOST || self.references.contains_key(&id)
    }

    pub(crate) fn end(&mut self) -> Result<()> {
        let Some(Some(start)) = self.open.pop() else { return Ok(()) };
        let count = byte_count(self.out.len() - start - 4).ok_or_else(too_long)?;
        self.out[start..start + 4].copy_from_slice(&count.to_be_bytes());
        Ok(())
    }

    fn tobject(&mut self, id: u32) {
        /// Class version of TObject, and the status bit for objects on the heap.
        const AROUND: (u16, u32) = (1, 0x0200_0000);
        self.out.extend(AROUND.0.to_be_bytes());
        self.out.extend(id.to_be_bytes());
        self.out.extend(AROUND.1.to_be_bytes());
    }

    /// Append a TObjArray of chunks (THnSparseArrayChunk).
    pub(crate) fn chunks(&mut self, bins: &Sparse) -> Result<()> {
        let all: Vec<_> = bins.chunks().collect();
        let (chunk, contents_class): (Arc<str>, Arc<str>) =
            ("THnSparseArrayChunk".into(), bins.class_name.as_str().into());
        let errors_class: Arc<str> = "TArrayD".into();
        self.begin();
        self.out.extend(3_u16.to_be_bytes());
        self.tobject(0);
        self.out.push(0); // name
        self.out.extend((all.len() as u32).to_be_bytes());
        self.out.extend(0_u32.to_be_bytes()); // lower bound
        for NewChunk { places, contents, errors } in all {
            self.object(UNNAMED, &chunk, true)?;
            self.begin();
            self.out.extend(1_u16.to_be_bytes());
            self.tobject(0);
            self.out.extend((bins.place_bytes as u32).to_be_bytes());
            self.out.extend((places.len() as u32).to_be_bytes());
            self.out.push(1); // flag: places follow
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

    /// Append a pointer to a new TArray of the class `class_name`.
    fn array(&mut self, class_name: &Arc<str>, stored: &[u8]) -> Result<()> {
        self.object(UNNAMED, class_name, true)?;
        self.out.extend_from_slice(stored);
        self.end()
    }

    /// Append a pointer to a new list of strings, whose unique IDs are the indexes of the labelled bins.
    pub(crate) fn labels(&mut self, labels: &[Label]) -> Result<()> {
        let (list, text): (Arc<str>, Arc<str>) = ("THashList".into(), "TObjString".into());
        self.object(UNNAMED, &list, true)?;
        self.begin();
        self.out.extend(5_u16.to_be_bytes());
        self.tobject(0);
        self.out.push(0); // name
        self.out.extend((labels.len() as u32).to_be_bytes());
        for (bin, label) in labels {
            self.object(UNNAMED, &text, true)?;
            self.begin();
            self.out.extend(1_u16.to_be_bytes());
            self.tobject(*bin);
            push_string(&mut self.out, label)?;
            self.end()?;
            self.end()?;
            self.out.push(0); // drawing option
        }
        self.end()?;
        self.end()
    }

    pub(crate) fn seen(&mut self, id: u64, is_counted: bool) -> Result<()> {
        let reference = match self.references.get(&id) {
            Some(reference) => *reference,
            None if id == OUTERMOST => OUTERMOST as u32,
            // If bytes kept their position, references to objects in these bytes stay valid.
            None if self.is_fixed => u32::try_from(id).map_err(|_| too_long())?,
            None => {
                let message = format!("a reference to dropped object {id}");
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
    FormatError::unsupported("the object would exceed ROOT's limit of 1 GiB")
}
