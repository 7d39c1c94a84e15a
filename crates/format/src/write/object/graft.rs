//! The record of a tree with branches of another tree's record added to it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::error::{FormatError, Result};

use super::emitter::Emitter;
use super::recording::Recording;
use super::token::{MemberStorage, Token};

/// The tree among the objects of its record.
const TREE: usize = 0;

/// Branches of one record that another record lacks. Objects are called by the numbers by which they are referred to in
/// their own record.
#[derive(Debug)]
pub struct Graft<'r, 'b> {
    /// The record that has them.
    pub from: &'r Recording<'b>,
    /// The branches at the top of the tree that are added, in their order.
    pub branches: Vec<u64>,
    /// All leaves of these, of branches within them too.
    pub leaves: Vec<u64>,
    /// Branches and leaves that both records have: the number here, and the number in the record that is extended.
    pub shared: HashMap<u64, u64>,
}

impl Recording<'_> {
    /// The leaves of a branch, in their order.
    pub fn leaves_of(&self, branch: u64) -> Vec<u64> {
        // Objects come in the order of their numbers.
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

    /// The plain bytes of this tree, behind a key of the same size as now, with the branches of another record behind
    /// its own.
    pub fn grafted(&self, graft: &Graft<'_, '_>) -> Result<Vec<u8>> {
        let none = |name: &str| FormatError::unsupported(format!("a tree without {name}, to which no branch is added"));
        let (branches, ends) = self.pointer_array(TREE, "fBranches").ok_or_else(|| none("fBranches"))?;
        let behind_branches = ends.last().map_or(branches + 1, |end| *end);
        let (leaves, ends) = self.pointer_array(TREE, "fLeaves").ok_or_else(|| none("fLeaves"))?;
        let behind_leaves = ends.last().map_or(leaves + 1, |end| *end);
        if behind_leaves <= behind_branches {
            return Err(FormatError::unsupported("a tree whose leaves come before its branches"));
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

    /// A member that is a TObjArray: which of the tokens has its head, and behind which its pointers end.
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

    /// The tokens of an object.
    pub(crate) fn tokens_of(&self, wanted: u64) -> Option<Range<usize>> {
        let start = self.tokens.iter().position(|token| matches!(token, Token::Object { id, .. } if *id == wanted))?;
        Some(start..self.end_of(start))
    }

    /// Behind the object or the version header that begins with this token.
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
    /// Emits the branches. Returns where their objects, and those that both records have, are now.
    fn emit_branches(&self, emitter: &mut Emitter) -> Result<HashMap<u64, u32>> {
        let own = emitter.swap_references(HashMap::new());
        let shared = self.shared.iter().filter_map(|(from, to)| own.get(to).map(|place| (*from, *place)));
        emitter.swap_references(shared.collect());
        let emitted: HashSet<u64> = self.branches.iter().copied().collect();
        for branch in &self.branches {
            let tokens = self.from.tokens_of(*branch).filter(|_| !emitter.knows(*branch));
            let missing = || FormatError::unsupported("a branch that lies within another object of its tree");
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
                // It came first within another object here, and by itself there.
                Token::Object { id, is_counted, .. } if emitter.knows(*id) => {
                    emitter.seen(*id, *is_counted)?;
                    next = from.end_of(next);
                    continue;
                }
                Token::Object { id, .. } if next > first && branches.contains(id) => {
                    return Err(FormatError::unsupported("a branch that lies within another branch's object"));
                }
                Token::Seen { id, .. } if !emitter.knows(*id) => {
                    return Err(FormatError::unsupported("a branch that refers to an object of another one"));
                }
                Token::Fixed(_) => {
                    let message = "a branch with an object of a class that the file does not describe";
                    return Err(FormatError::unsupported(message));
                }
                token => emitter.token(token, from.bytes)?,
            }
            next += 1;
        }
        Ok(())
    }
}
