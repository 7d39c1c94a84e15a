//! A parsed object: its replaceable members, and tokens for all other bytes.

use std::ops::Range;
use std::sync::OnceLock;

use xxhash_rust::xxh3::Xxh3;

use crate::cursor::Cursor;
use crate::error::Result;
use crate::marks::BYTE_COUNT_MASK;

use super::emitter::Emitter;
use super::index::TreeIndex;
use super::token::{MemberStorage, Owner, RecordedMember, Token, BYTE_COUNT_BYTES};

/// A parsed object, split into tokens.
#[derive(Debug, Clone)]
pub struct Recording<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) key_size: u64,
    pub(crate) tokens: Vec<Token>,
    /// Objects with replaceable members, in byte order.
    pub owners: Vec<Owner>,
    /// Replaceable members of the owners, in byte order.
    pub members: Vec<RecordedMember>,
    /// Indexes of the members, sorted by owner.
    pub(crate) by_owner: OnceLock<Vec<usize>>,
    /// Token ranges of the list elements that cannot be added.
    pub(crate) others: Vec<Range<usize>>,
}

impl<'a> Recording<'a> {
    /// Whether some part can only be written at the same position, with a key of the same size.
    pub fn is_fixed(&self) -> bool {
        self.tokens.iter().any(|token| matches!(token, Token::Fixed(_)))
    }

    /// The positions of the name and title, if the object is a TNamed with this name. `bases` is the object's class and
    /// its chain of first base classes. The headers of these classes, with byte counts, follow each other.
    pub(crate) fn places_of_name(&self, bases: &[&str], name: &str) -> Option<[Range<usize>; 2]> {
        /// TObject::kIsReferenced: bit that means that a two-byte process ID follows.
        const IS_REFERENCED: u32 = 1 << 4;
        let headers = bases.iter().position(|class_name| *class_name == "TNamed")? + 1;
        let mut cursor = Cursor::new(self.bytes);
        for _ in 0..headers {
            if cursor.u32().ok()? & BYTE_COUNT_MASK == 0 {
                return None;
            }
            cursor.skip(2).ok()?;
        }
        cursor.skip(6).ok()?; // version and unique ID of the TObject
        if cursor.u32().ok()? & IS_REFERENCED != 0 {
            cursor.skip(2).ok()?;
        }
        let start = cursor.position();
        let found = cursor.string_bytes().ok()?;
        let title_start = cursor.position();
        cursor.string_bytes().ok()?;
        (found == name.as_bytes()).then_some([start..title_start, title_start..cursor.position()])
    }

    /// The replaceable member `name` of an object, with its index in `members`.
    pub fn find(&self, owner: usize, name: &'static str) -> Option<(usize, &RecordedMember)> {
        let by_owner = self.by_owner();
        let first = by_owner.partition_point(|index| self.members[*index].owner < owner);
        let of_owner = by_owner[first..].iter().take_while(|index| self.members[**index].owner == owner);
        // A class may have a member of the same name as its base class. The last member of that name is used.
        let index = *of_owner.filter(|index| self.members[**index].name == name).last()?;
        Some((index, &self.members[index]))
    }

    fn by_owner(&self) -> &[usize] {
        self.by_owner.get_or_init(|| {
            let mut by_owner: Vec<usize> = (0..self.members.len()).collect();
            by_owner.sort_by_key(|index| self.members[*index].owner);
            by_owner
        })
    }

    /// The value of a number member, or the reference of a pointer member; 0 if the object has no such member.
    pub fn value(&self, owner: usize, name: &'static str) -> i64 {
        self.find(owner, name).map_or(0, |(_, member)| member.value)
    }

    /// The numbers of a variable-size array member; empty if the object has no such member.
    pub fn values(&self, owner: usize, name: &'static str) -> Result<Vec<i64>> {
        let Some((_, member @ RecordedMember { kind: MemberStorage::Array(basic), .. })) = self.find(owner, name)
        else {
            return Ok(Vec::new());
        };
        let mut cursor = Cursor::new(self.stored(member));
        if cursor.remaining() == 0 || cursor.u8()? == 0 {
            return Ok(Vec::new());
        }
        let count = cursor.remaining() / basic.size();
        (0..count).map(|_| basic.read(&mut cursor)).collect()
    }

    /// The bytes of a member; empty if the member contains references.
    pub(crate) fn stored(&self, member: &RecordedMember) -> &'a [u8] {
        self.place(member).map_or(&[], |range| &self.bytes[range])
    }

    /// The position of a member's bytes; None if the member contains references.
    pub(crate) fn place(&self, member: &RecordedMember) -> Option<Range<usize>> {
        if let (MemberStorage::Vector(_), Some([Token::Member(_), Token::Begin, Token::Bytes(range), Token::End])) =
            (&member.kind, self.tokens.get(member.tokens.clone()))
        {
            return Some(range.clone());
        }
        match self.tokens.get(member.tokens.end.wrapping_sub(1)) {
            Some(Token::Bytes(range)) if member.tokens.len() == 2 => Some(range.clone()),
            Some(
                Token::Bytes(_)
                | Token::Fixed(_)
                | Token::Begin
                | Token::Object { .. }
                | Token::End
                | Token::Seen { .. }
                | Token::Array { .. }
                | Token::Member(_),
            )
            | None => None,
        }
    }

    /// The index of a tree; None if the tree has no index of class TTreeIndex.
    pub fn tree_index(&self) -> Result<Option<TreeIndex>> {
        let Some((_, member)) = self.find(0, "fTreeIndex") else { return Ok(None) };
        match &self.tokens[member.tokens.clone()] {
            [_, Token::Object { class_name, .. }, Token::Bytes(range), Token::End] if &**class_name == "TTreeIndex" => {
                // The range starts with the byte count.
                let bytes = self.bytes.get(range.start + BYTE_COUNT_BYTES..range.end).unwrap_or_default();
                TreeIndex::read(bytes).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Hash of the list elements that cannot be added.
    pub(crate) fn digest_of_others(&self) -> u64 {
        let mut digest = Xxh3::new();
        for token in self.others.iter().flat_map(|range| &self.tokens[range.clone()]) {
            match token {
                Token::Bytes(range) | Token::Fixed(range) | Token::Array { head: range, .. } => {
                    digest.update(&self.bytes[range.clone()]);
                }
                Token::Object { class_name, .. } => digest.update(class_name.as_bytes()),
                Token::Begin | Token::End | Token::Seen { .. } | Token::Member(_) => digest.update(b"."),
            }
        }
        digest.digest()
    }

    /// Encode a member, including the objects in it, as a separate buffer.
    pub(crate) fn alone(&self, member: &RecordedMember) -> Result<Vec<u8>> {
        let mut emitter = Emitter::new(0);
        emitter.tokens(&self.tokens[member.tokens.clone()], self.bytes)?;
        Ok(emitter.out)
    }
}
