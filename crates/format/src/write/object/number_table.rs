//! The numbers in an object that are summed, grouped by the object that owns them: the object itself or a nested one.

use super::numbers::Numbers;
use super::recording::Recording;
use super::token::{MemberStorage, RecordedMember};

/// Identifier of a member: the index of its object among the owners, and the member's name.
pub(crate) type MemberName = (usize, &'static str);

/// The numbers of all members that are summed. Each object has few members, so a linear search by name is faster than
/// hashing.
#[derive(Debug, Clone, Default)]
pub(crate) struct NumberTable(Vec<Vec<Member>>);

#[derive(Debug, Clone)]
struct Member {
    name: &'static str,
    numbers: Numbers,
    stored: Option<StoredAt>,
}

/// Position of the bytes from which numbers were read.
#[derive(Debug, Clone)]
pub(crate) struct StoredAt {
    start: u32,
    size: u32,
    kind: MemberStorage,
    /// Whether the number may be an array length.
    counts: bool,
}

impl StoredAt {
    /// Position of a member's bytes; None if the bytes are not contiguous.
    pub(crate) fn of(member: &RecordedMember, recording: &Recording<'_>) -> Option<Self> {
        let place = recording.place(member)?;
        let (start, size) = (u32::try_from(place.start).ok()?, u32::try_from(place.len()).ok()?);
        Some(Self { start, size, kind: member.kind, counts: member.counts })
    }

    fn of_bytes<'a>(&self, bytes: &'a mut [u8]) -> Option<&'a mut [u8]> {
        bytes.get_mut(self.start as usize..)?.get_mut(..self.size as usize)
    }
}

impl NumberTable {
    /// Create an empty table with capacity for all members.
    pub(crate) fn with_room(recording: &Recording<'_>) -> Self {
        let mut counts = vec![0; recording.owners.len()];
        for member in &recording.members {
            counts[member.owner] += 1;
        }
        Self(counts.into_iter().map(Vec::with_capacity).collect())
    }

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

    /// Set the numbers of a member. The recorded position of its bytes is kept.
    pub(crate) fn insert(&mut self, (owner, name): MemberName, numbers: Numbers) {
        match self.get_mut((owner, name)) {
            Some(known) => *known = numbers,
            None => self.add(owner, Member { name, numbers, stored: None }),
        }
    }

    /// Add numbers that were read from an object. If two members have the same name, the last member is used.
    pub(crate) fn insert_read(&mut self, (owner, name): MemberName, numbers: Numbers, stored: Option<StoredAt>) {
        let members = self.0.get_mut(owner);
        match members.and_then(|members| members.iter_mut().find(|member| member.name == name)) {
            // Overwriting in place would need the positions of both members, but the table stores only one position.
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

    /// Iterate over the numbers of an object, with member names.
    pub(crate) fn of_mut(&mut self, owner: usize) -> impl Iterator<Item = (&'static str, &mut Numbers)> {
        self.0.get_mut(owner).into_iter().flatten().map(|member| (member.name, &mut member.numbers))
    }

    /// Iterate over the numbers of all members.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (MemberName, &Numbers)> {
        let owners = self.0.iter().enumerate();
        owners.flat_map(|(owner, members)| members.iter().map(move |member| ((owner, member.name), &member.numbers)))
    }

    /// Overwrite the bytes from which the numbers were read. Returns false if the object must be re-encoded because the
    /// size of the numbers or the length of an array has changed.
    pub(crate) fn write_over(&self, bytes: &mut [u8]) -> bool {
        let mut new = Vec::new();
        self.0.iter().flatten().all(|Member { numbers, stored, .. }| {
            let Some(stored) = stored else { return false };
            let Some(old) = stored.of_bytes(bytes) else { return false };
            new.clear();
            numbers.store(&stored.kind, &mut new);
            if old.len() != new.len() || (stored.counts && *old != *new) {
                return false;
            }
            old.copy_from_slice(&new);
            true
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::numbers::number::Number;

    /// Create a table with two four-byte numbers. The first number is an array length.
    fn table() -> (NumberTable, Vec<u8>) {
        let mut table = NumberTable::default();
        for (owner, name, value, start, counts) in [(0, "fNpoints", 3, 2, true), (1, "fNbins", 5, 6, false)] {
            let stored = StoredAt { start, size: 4, kind: MemberStorage::Number(Number::I32), counts };
            table.insert_read((owner, name), Numbers::Whole(Number::I32, smallvec![value]), Some(stored));
        }
        (table, vec![9, 9, 0, 0, 0, 3, 0, 0, 0, 5, 9])
    }

    #[test]
    fn numbers_are_written_where_they_were_read() {
        let (mut table, mut bytes) = table();
        table.get_mut((1, "fNbins")).unwrap().set(7.0);
        assert!(table.write_over(&mut bytes));
        assert_eq!(bytes, [9, 9, 0, 0, 0, 3, 0, 0, 0, 7, 9]);
    }

    #[test]
    fn what_changes_the_layout_is_not_written_over() {
        let changes: [fn(&mut NumberTable); 4] = [
            |table| table.get_mut((0, "fNpoints")).unwrap().set(4.0),
            |table| table.insert((1, "fNbins"), Numbers::Whole(Number::I32, smallvec![5, 5])),
            |table| table.insert((1, "fXmin"), Numbers::F64(smallvec![1.0])),
            // The table has no position for a name that two members share.
            |table| table.insert_read((1, "fNbins"), Numbers::Whole(Number::I32, smallvec![5]), None),
        ];
        for change in changes {
            let (mut table, mut bytes) = table();
            change(&mut table);
            assert!(!table.write_over(&mut bytes));
        }
    }

    #[test]
    fn bytes_that_are_not_there_are_not_written() {
        assert!(!table().0.write_over(&mut [0; 9]));
    }
}
