//! The numbers of an object that is added up, by the objects within it.

use std::ops::Range;

use super::numbers::Numbers;
use super::token::MemberStorage;

/// A member: the number of its object among the owners, and its name.
pub(crate) type MemberName = (usize, &'static str);

/// The numbers of all members that add up. Objects have few of these: a search by name is faster than hashing.
#[derive(Debug, Clone, Default)]
pub(crate) struct NumberTable(Vec<Vec<Member>>);

#[derive(Debug, Clone)]
struct Member {
    name: &'static str,
    numbers: Numbers,
    stored: Option<StoredAt>,
}

/// Where numbers were read: their bytes in the object.
#[derive(Debug, Clone)]
pub(crate) struct StoredAt {
    pub(crate) bytes: Range<usize>,
    pub(crate) kind: MemberStorage,
    /// Whether the number is the length of arrays.
    pub(crate) counts: bool,
}

impl NumberTable {
    pub(crate) fn get(&self, (owner, name): MemberName) -> Option<&Numbers> {
        self.0.get(owner)?.iter().find(|member| member.name == name).map(|member| &member.numbers)
    }

    pub(crate) fn get_mut(&mut self, (owner, name): MemberName) -> Option<&mut Numbers> {
        let members = self.0.get_mut(owner)?;
        members.iter_mut().find(|member| member.name == name).map(|member| &mut member.numbers)
    }

    pub(crate) fn contains(&self, member: MemberName) -> bool {
        self.get(member).is_some()
    }

    /// Sets numbers, which are stored where those before were.
    pub(crate) fn insert(&mut self, (owner, name): MemberName, numbers: Numbers) {
        match self.get_mut((owner, name)) {
            Some(known) => *known = numbers,
            None => self.add(owner, Member { name, numbers, stored: None }),
        }
    }

    /// Adds numbers that were read. Of two members of one name the last one counts.
    pub(crate) fn insert_read(&mut self, (owner, name): MemberName, numbers: Numbers, stored: Option<StoredAt>) {
        let members = self.0.get_mut(owner);
        match members.and_then(|members| members.iter_mut().find(|member| member.name == name)) {
            // The numbers are written to both places.
            Some(known) => *known = Member { name, numbers, stored: None },
            None => self.add(owner, Member { name, numbers, stored }),
        }
    }

    fn add(&mut self, owner: usize, member: Member) {
        if self.0.len() <= owner {
            self.0.resize_with(owner + 1, Vec::new);
        }
        self.0[owner].push(member);
    }

    /// The numbers of an object by their names.
    pub(crate) fn of_mut(&mut self, owner: usize) -> impl Iterator<Item = (&'static str, &mut Numbers)> {
        self.0.get_mut(owner).into_iter().flatten().map(|member| (member.name, &mut member.numbers))
    }

    /// All numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (MemberName, &Numbers)> {
        let owners = self.0.iter().enumerate();
        owners.flat_map(|(owner, members)| members.iter().map(move |member| ((owner, member.name), &member.numbers)))
    }

    /// Writes all numbers over those that were read from these bytes. Returns false if the object has to be put
    /// together anew: numbers need more or fewer bytes, or the length of an array has changed.
    pub(crate) fn write_over(&self, bytes: &mut [u8]) -> bool {
        let mut new = Vec::new();
        self.0.iter().flatten().all(|Member { numbers, stored, .. }| {
            let Some(StoredAt { bytes: range, kind, counts }) = stored else { return false };
            new.clear();
            numbers.store(kind, &mut new);
            let Some(old) = bytes.get_mut(range.clone()).filter(|old| old.len() == new.len()) else { return false };
            if *counts && *old != *new {
                return false;
            }
            old.copy_from_slice(&new);
            true
        })
    }
}
