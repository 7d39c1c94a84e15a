//! Encoding of a parsed object at another position, with some members replaced.

use std::ops::Range;

use crate::error::Result;

use super::changes::Changes;
use crate::write::object::emitter::Emitter;
use crate::write::object::recording::Recording;
use crate::write::object::token::Token;

impl Recording<'_> {
    /// Encode the object with `changes`, for a key of `key_size` bytes.
    pub fn emit(&self, key_size: u64, changes: &Changes) -> Result<Vec<u8>> {
        let mut emitter = Emitter::new(key_size);
        emitter.old_key_size = self.key_size;
        emitter.out.reserve(self.bytes.len());
        let whole = 0..self.tokens.len();
        Emission { recording: self, changes, leaves: self.leaves_of_tree(changes) }.range(whole, &mut emitter)?;
        Ok(emitter.out)
    }

    /// The tokens of a tree's array of all leaves; None if no branches are dropped.
    fn leaves_of_tree(&self, changes: &Changes) -> Option<Range<usize>> {
        let (_, member) = self.find(0, "fLeaves").filter(|_| !changes.dropped.is_empty())?;
        Some(member.tokens.clone())
    }
}

/// A walk over the tokens of an object.
struct Emission<'a, 'r> {
    recording: &'a Recording<'r>,
    changes: &'a Changes,
    /// The tokens of the tree's array of all leaves; None if no branches are dropped.
    leaves: Option<Range<usize>>,
}

impl Emission<'_, '_> {
    fn range(&self, range: Range<usize>, emitter: &mut Emitter) -> Result<()> {
        let recording = self.recording;
        let mut next = range.start;
        while let Some(token) = recording.tokens.get(next).filter(|_| next < range.end) {
            next += 1;
            match token {
                Token::Member(number) => {
                    if let Some(bytes) = self.changes.bytes.get(number) {
                        emitter.out.extend_from_slice(bytes);
                        next = recording.members[*number].tokens.end;
                    } else if let Some(labels) = self.changes.labels.get(number) {
                        emitter.labels(labels)?;
                        next = recording.members[*number].tokens.end;
                    } else if let Some(bins) = self.changes.chunks.get(number) {
                        emitter.chunks(bins)?;
                        next = recording.members[*number].tokens.end;
                    }
                }
                Token::Array { head, ends } if !self.changes.dropped.is_empty() => {
                    self.array((next, head, ends), emitter)?;
                    next = ends.last().copied().unwrap_or(next);
                }
                Token::Seen { id, .. } if !self.changes.dropped.is_empty() && !emitter.knows(*id) => {
                    // If the object was stored inside a dropped object, emit the object itself at this pointer.
                    match recording.tokens_of(*id).filter(|_| !self.changes.dropped.contains(id)) {
                        Some(tokens) => self.range(tokens, emitter)?,
                        None => emitter.out.extend([0; 4]),
                    }
                }
                Token::Bytes(range) => self.bytes(range, emitter),
                token => emitter.token(token, recording.bytes)?,
            }
        }
        Ok(())
    }

    /// Copy bytes, replacing the object's name if the bytes include it.
    fn bytes(&self, range: &Range<usize>, emitter: &mut Emitter) {
        let bytes = self.recording.bytes;
        match &self.changes.name {
            Some(name) if range.start <= name.at.start && name.at.end <= range.end => {
                emitter.out.extend_from_slice(&bytes[range.start..name.at.start]);
                emitter.out.extend_from_slice(&name.bytes);
                emitter.out.extend_from_slice(&bytes[name.at.end..range.end]);
            }
            _ => emitter.out.extend_from_slice(&bytes[range.clone()]),
        }
    }

    /// Copy an array of pointers without the pointers to dropped objects.
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
                Some(
                    Token::Bytes(_)
                    | Token::Fixed(_)
                    | Token::Begin
                    | Token::End
                    | Token::Array { .. }
                    | Token::Member(_),
                )
                | None => false,
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
