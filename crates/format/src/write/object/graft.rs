//! Addition of branches from one tree's record to another tree's record.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::error::{FormatError, Result};

use super::emitter::Emitter;
use super::recording::Recording;
use super::token::{MemberStorage, Token};

/// Index of the tree among the objects in its record.
const TREE: usize = 0;

/// Branches of one record that another record lacks. An object's ID is the reference to the object in its own record.
#[derive(Debug)]
pub struct Graft<'r, 'b> {
    /// The record that contains the branches.
    pub from: &'r Recording<'b>,
    /// IDs of the top-level branches to add, in order.
    pub branches: Vec<u64>,
    /// IDs of all leaves of the branches to add and of their descendants.
    pub leaves: Vec<u64>,
    /// For branches and leaves that both records have, maps the ID in `from` to the ID in the record to extend.
    pub shared: HashMap<u64, u64>,
}

impl Recording<'_> {
    /// IDs of a branch's leaves, in order.
    pub fn leaves_of(&self, branch: u64) -> Vec<u64> {
        // `owners` is sorted by ID.
        let Ok(owner) = self.owners.binary_search_by_key(&branch, |owner| owner.id) else { return Vec::new() };
        let Some((array, ends)) = self.pointer_array(owner, "fLeaves") else { return Vec::new() };
        let starts = std::iter::once(array + 1).chain(ends.iter().copied()).take(ends.len());
        let leaf = |start: usize| match self.tokens.get(start) {
            Some(Token::Object { id, .. } | Token::Seen { id, .. }) => Some(*id),
            Some(
                Token::Bytes(_) | Token::Fixed(_) | Token::Begin | Token::End | Token::Array { .. } | Token::Member(_),
            )
            | None => None,
        };
        starts.filter_map(leaf).collect()
    }

    /// Encode this tree with the branches of another record appended. The size of the key must stay the same.
    pub fn grafted(&self, graft: &Graft<'_, '_>) -> Result<Vec<u8>> {
        let none =
            |name: &str| FormatError::unsupported(format!("the tree has no {name}, so no branches can be added"));
        let (branches, ends) = self.pointer_array(TREE, "fBranches").ok_or_else(|| none("fBranches"))?;
        let behind_branches = ends.last().map_or(branches + 1, |end| *end);
        let (leaves, ends) = self.pointer_array(TREE, "fLeaves").ok_or_else(|| none("fLeaves"))?;
        let behind_leaves = ends.last().map_or(leaves + 1, |end| *end);
        if behind_leaves <= behind_branches {
            return Err(FormatError::unsupported("the leaves of the tree come before its branches"));
        }
        let mut emitter = Emitter::new(self.key_size);
        emitter.old_key_size = self.key_size;
        let mut references = HashMap::new();
        for index in 0..=self.tokens.len() {
            if index == behind_branches {
                references = graft.emit_branches(&mut emitter)?;
            }
            if index == behind_leaves {
                let own = emitter.swap_references(references);
                graft.leaves.iter().try_for_each(|leaf| emitter.seen(*leaf, false))?;
                references = emitter.swap_references(own);
            }
            match self.tokens.get(index) {
                Some(Token::Array { head, .. }) if index == branches => {
                    emitter.array_head(&self.bytes[head.clone()], graft.branches.len())?;
                }
                Some(Token::Array { head, .. }) if index == leaves => {
                    emitter.array_head(&self.bytes[head.clone()], graft.leaves.len())?;
                }
                Some(token) => emitter.token(token, self.bytes)?,
                None => {}
            }
        }
        Ok(emitter.out)
    }

    /// For a member that is a TObjArray, the index of the token with the array's header, and the end of each pointer.
    fn pointer_array(&self, owner: usize, name: &'static str) -> Option<(usize, &[usize])> {
        let (_, member) = self.find(owner, name).filter(|(_, member)| member.kind == MemberStorage::Pointers)?;
        member.tokens.clone().find_map(|index| match self.tokens.get(index) {
            Some(Token::Array { ends, .. }) => Some((index, ends.as_slice())),
            Some(
                Token::Bytes(_)
                | Token::Fixed(_)
                | Token::Begin
                | Token::Object { .. }
                | Token::End
                | Token::Seen { .. }
                | Token::Member(_),
            )
            | None => None,
        })
    }

    /// The tokens of the object with the ID `wanted`.
    pub(crate) fn tokens_of(&self, wanted: u64) -> Option<Range<usize>> {
        let start = self.tokens.iter().position(|token| matches!(token, Token::Object { id, .. } if *id == wanted))?;
        Some(start..self.end_of(start))
    }

    /// Index after the last token of the object, or of the version header, that begins at token `start`.
    fn end_of(&self, start: usize) -> usize {
        let mut depth = 0;
        for (index, token) in self.tokens.iter().enumerate().skip(start) {
            match token {
                Token::Object { .. } | Token::Begin => depth += 1,
                Token::End => depth -= 1,
                Token::Bytes(_) | Token::Fixed(_) | Token::Seen { .. } | Token::Array { .. } | Token::Member(_) => {}
            }
            if depth == 0 {
                return index + 1;
            }
        }
        self.tokens.len()
    }
}

impl Graft<'_, '_> {
    /// Emit the branches. Returns the new references by ID, for the emitted objects and for the shared objects.
    fn emit_branches(&self, emitter: &mut Emitter) -> Result<HashMap<u64, u32>> {
        let own = emitter.swap_references(HashMap::new());
        let shared = self.shared.iter().filter_map(|(from, to)| own.get(to).map(|place| (*from, *place)));
        emitter.swap_references(shared.collect());
        let emitted: HashSet<u64> = self.branches.iter().copied().collect();
        for branch in &self.branches {
            let tokens = self.from.tokens_of(*branch).filter(|_| !emitter.knows(*branch));
            let missing = || FormatError::unsupported("a branch is stored inside another object of its tree");
            self.emit(tokens.ok_or_else(missing)?, &emitted, emitter)?;
        }
        Ok(emitter.swap_references(own))
    }

    fn emit(&self, tokens: Range<usize>, branches: &HashSet<u64>, emitter: &mut Emitter) -> Result<()> {
        let from = self.from;
        let first = tokens.start;
        let mut next = first;
        while let Some(token) = from.tokens.get(next).filter(|_| next < tokens.end) {
            match token {
                // Emit only a reference, because the record to extend already has this object.
                Token::Object { id, is_counted, .. } if emitter.knows(*id) => {
                    emitter.seen(*id, *is_counted)?;
                    next = from.end_of(next);
                    continue;
                }
                Token::Object { id, .. } if next > first && branches.contains(id) => {
                    return Err(FormatError::unsupported("a branch is stored inside the object of another branch"));
                }
                Token::Seen { id, .. } if !emitter.knows(*id) => {
                    return Err(FormatError::unsupported("a branch refers to an object of another branch"));
                }
                Token::Fixed(_) => {
                    let message = "a branch contains an object of an undescribed class";
                    return Err(FormatError::unsupported(message));
                }
                token => emitter.token(token, from.bytes)?,
            }
            next += 1;
        }
        Ok(())
    }
}
