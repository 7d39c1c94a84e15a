//! Objects of one path that are neither trees nor directories: those that add up become a sum, and of others each
//! version is kept once, as cycles of one name.

use std::collections::{BTreeSet, HashSet};

use branchline_format::compress::Decompressor;
use branchline_format::error::{ErrorKind, FormatError, Result as FormatResult};
use branchline_format::file::directory::Entry;
use branchline_format::file::loaded_bytes::{DecodeError, LoadedBytes};
use branchline_format::file::{read_object, TKey};
use branchline_format::write::{adds_up, Addend, Changes, ObjectPrograms, Recording, Sum};
use bytes::Bytes;
use xxhash_rust::xxh3::{xxh3_128, Xxh3};

use crate::error::{ReadError, Result};
use crate::file::File;
use crate::write::errors::unmergeable;
use crate::write::merged::Merged;
use crate::write::new_file::{ObjectName, SlotId};
use crate::write::products::holdings::Holdings;
use crate::write::products::kind::{Content, Opening, Product, Remarks};
use crate::write::products::output::{MergeOutput, Transfer};
use crate::write::products::source::{stored_object, Source};
use crate::write::progress::Check;
use crate::write::request::Branches;

/// How many times an addend takes its plain bytes in memory, about.
const ADDEND_FACTOR: u64 = 3;

/// An object of an input.
pub(crate) enum ObjectContent {
    /// It adds up with others: its plain bytes and its numbers.
    Sum { plain: Vec<u8>, addend: Box<Addend> },
    /// It is copied as it is stored. `reason` says why one does not add up whose class does.
    Copy { stored: Bytes, reason: Option<String> },
}

/// Objects of one path in an output.
#[derive(Default)]
pub(crate) struct MergedObject {
    sums: Vec<ReservedSum>,
    /// Digests of those that were copied.
    copies: HashSet<u128>,
    /// Why some of them do not add up.
    reason: Option<String>,
}

/// Objects that become one, which is written in the end to a place that is kept for it.
struct ReservedSum {
    slot: SlotId,
    name: ObjectName,
    sum: Box<Sum>,
}

impl Content for ObjectContent {
    fn is_of(_file: &File, _key: &TKey) -> bool {
        true
    }

    /// Objects that are copied have versions, as hadd keeps them; of those that add up the newest counts.
    fn keeps_cycles(file: &File, key: &TKey) -> bool {
        !adds_up(&key.class_name, file.class_infos())
    }

    fn open(opening: &mut Opening<'_, '_>, entry: &Entry) -> Result<Self> {
        let (file, key) = (opening.file, &entry.key);
        if !opening.programs.adds_up(&key.class_name) {
            return Ok(Self::Copy { stored: stored_object(opening.reader, key)?, reason: None });
        }
        let plain = opening.reader.object(key)?;
        match Addend::new(&plain, key.key_size, &key.class_name, opening.programs) {
            Ok(addend) => Ok(Self::Sum { plain, addend: Box::new(addend) }),
            Err(error) if error.kind == ErrorKind::Unsupported => {
                Ok(Self::Copy { stored: stored_object(opening.reader, key)?, reason: Some(error.message.clone()) })
            }
            Err(error) => {
                let error = error.in_object(format!("{} {}", key.class_name, entry.path));
                Err(ReadError::from_format(file.path(), &error))
            }
        }
    }

    fn size_bytes(&self, key: &TKey) -> u64 {
        key.size
    }

    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Sum { plain, .. } => ADDEND_FACTOR * plain.len() as u64,
            Self::Copy { stored, .. } => stored.len() as u64,
        }
    }

    fn hash(&self, digest: &mut Xxh3) {
        match self {
            Self::Sum { plain, .. } => digest.update(plain),
            Self::Copy { stored, .. } => digest.update(stored),
        }
    }

    fn remarks(&self) -> Remarks {
        Remarks::default()
    }

    fn hold(self, source: &Source<'_>, is_older: bool, holdings: &mut Holdings, _check: &mut Check<'_>) -> Result<()> {
        let (key, infos) = (source.key(), source.file.class_infos());
        let versions = holdings.object(source.path());
        match self {
            Self::Copy { stored, .. } => {
                // Programs compress objects in other ways.
                let plain = plain(&stored, key).map_err(|error| {
                    let error = error.in_object(format!("{} {}", key.class_name, source.path()));
                    ReadError::from_format(source.file_path(), &error)
                })?;
                let copies = if is_older { &mut versions.older_copies } else { &mut versions.copies };
                copies.insert(digest_of(key, &plain));
            }
            Self::Sum { plain, addend } => {
                let sum = |addend: Box<Addend>| Sum::new(plain, key.key_size, &key.class_name, infos, *addend);
                if is_older {
                    versions.older_sums.push(sum(addend));
                    return Ok(());
                }
                let fitting = versions.sums.iter_mut().find_map(|sum| sum.plan(&addend).ok().map(|plan| (sum, plan)));
                match fitting {
                    Some((sum, plan)) => sum.add(*addend, &plan),
                    None => versions.sums.push(sum(addend)),
                }
            }
        }
        Ok(())
    }
}

impl Product for MergedObject {
    type Content = ObjectContent;
    type Written = ();

    const HAS_VERSIONS: bool = true;

    fn prepare(_content: &mut ObjectContent, _source: &Source<'_>, _branches: &Branches) -> Result<()> {
        Ok(())
    }

    /// An object that cannot be added is a version of its own.
    fn fit(&self, _content: &mut ObjectContent, _source: &Source<'_>) -> Result<()> {
        Ok(())
    }

    /// Writes an object that is copied, unless an equal one of this or another input was written.
    fn write(
        known: Option<&Self>,
        content: &ObjectContent,
        source: &Source<'_>,
        output: &mut MergeOutput,
        transfer: &mut Transfer<'_, '_>,
    ) -> Result<()> {
        let ObjectContent::Copy { stored, .. } = content else { return Ok(()) };
        let (path, key) = (source.path(), source.key());
        let digest = digest_of(key, stored);
        let of_input = transfer.copies.entry(path.to_string()).or_default();
        if known.is_some_and(|known| known.copies.contains(&digest)) {
            return Ok(());
        }
        let cycle = next_cycle(known.map_or(0, Self::versions_count) + of_input.len(), source)?;
        if !of_input.insert(digest) {
            return Ok(());
        }
        output.settle()?;
        let directory = source.directory(output);
        let name = ObjectName { cycle, ..source.object_name() };
        let slot = output.file.reserve(directory);
        if output.file.key_size(directory, &name) == key.key_size {
            return output.file.write_stored(slot, &name, key.object_size, stored);
        }
        // Objects in it may refer to each other by their distance from the start of the key.
        output.file.write_object(slot, &name, |key_size| relocated(stored, source, key_size))
    }

    fn begin(content: ObjectContent, (): (), source: &Source<'_>, output: &mut MergeOutput) -> Result<Self> {
        let mut own = Self::default();
        own.add(content, (), source, output)?;
        Ok(own)
    }

    fn add(&mut self, content: ObjectContent, (): (), source: &Source<'_>, output: &mut MergeOutput) -> Result<()> {
        match content {
            ObjectContent::Copy { stored, reason } => {
                self.copies.insert(digest_of(source.key(), &stored));
                self.reason = self.reason.take().or(reason);
                Ok(())
            }
            ObjectContent::Sum { plain, addend } => match self.add_up(addend) {
                None => Ok(()),
                Some(addend) => self.begin_sum(plain, addend, source, output),
            },
        }
    }

    /// Writes the sums.
    fn finish(&mut self, path: &str, name: &ObjectName, output: &mut MergeOutput, merged: &mut Merged) -> Result<()> {
        let MergeOutput { file, programs, .. } = output;
        for ReservedSum { slot, name, sum } in &self.sums {
            let named = |error: FormatError| unmergeable(path, error.in_object(&name.class_name).to_string());
            file.write_object(*slot, name, |key_size| sum.record(key_size, programs).map_err(named))?;
        }
        merged.notes.extend(self.note(path, &name.class_name));
        merged.objects_count += self.versions_count() as u64;
        Ok(())
    }

    /// Objects are compared by `compare`, after the merge.
    fn verify(&self, _: &str, _: Option<&ObjectContent>, _: &File, _: &mut Check<'_>) -> Result<()> {
        Ok(())
    }
}

impl MergedObject {
    /// How many cycles there will be.
    fn versions_count(&self) -> usize {
        self.sums.len() + self.copies.len()
    }

    /// Adds an object to the first sum that it can be added to; returns it if there is none.
    fn add_up(&mut self, addend: Box<Addend>) -> Option<Box<Addend>> {
        for ReservedSum { sum, .. } in &mut self.sums {
            match sum.plan(&addend) {
                Ok(plan) => {
                    sum.add(*addend, &plan);
                    return None;
                }
                Err(error) => self.reason = self.reason.take().or_else(|| Some(error.message.clone())),
            }
        }
        Some(addend)
    }

    /// Begins a sum, and keeps room for it in the file if its size is known.
    fn begin_sum(
        &mut self,
        plain: Vec<u8>,
        addend: Box<Addend>,
        source: &Source<'_>,
        output: &mut MergeOutput,
    ) -> Result<()> {
        output.settle()?;
        let key = source.key();
        let name = ObjectName { cycle: next_cycle(self.versions_count(), source)?, ..source.object_name() };
        let sum = Box::new(Sum::new(plain, key.key_size, &key.class_name, source.file.class_infos(), *addend));
        let slot = output.file.reserve(source.directory(output));
        if let Some(size) = sum.fixed_bytes() {
            output.file.reserve_room(slot, &name, size)?;
        }
        self.sums.push(ReservedSum { slot, name, sum });
        Ok(())
    }

    /// A note for the user on the sums and versions.
    fn note(&self, path: &str, class_name: &str) -> Option<String> {
        let count = self.versions_count();
        let notes: BTreeSet<&str> = self.sums.iter().flat_map(|one| one.sum.notes()).collect();
        if count == 1 && !notes.is_empty() {
            let notes: Vec<&str> = notes.into_iter().collect();
            return Some(format!("{path} ({class_name}): {}", notes.join("; ")));
        }
        (count > 1).then(|| match &self.reason {
            Some(reason) => {
                format!("{path} ({class_name}) does not add up: {reason}; its {count} versions are kept as cycles")
            }
            None => format!("{path} ({class_name}) differs: its {count} versions are kept as cycles"),
        })
    }
}

/// The cycle of a version behind this many others.
fn next_cycle(versions_count: usize, source: &Source<'_>) -> Result<i16> {
    i16::try_from(versions_count + 1).map_err(|_| {
        unmergeable(source.file_path(), format!("{} has more cycles than ROOT has room for", source.path()))
    })
}

/// The plain bytes of an object that is stored behind this key.
fn plain(stored: &[u8], key: &TKey) -> FormatResult<Vec<u8>> {
    let record = [vec![0; key.key_size as usize].as_slice(), stored].concat();
    let mut loaded = LoadedBytes::new(key.seek.saturating_add(key.size));
    loaded.add(key.seek, Bytes::from(record));
    read_object(&loaded, key, &mut Decompressor::new()).map_err(|error| match error {
        DecodeError::Format(error) => error,
        DecodeError::MissingBytes { offset, .. } => FormatError::damaged(offset, "the record is cut short"),
    })
}

/// A digest that differs for objects of one name that are not equal.
fn digest_of(key: &TKey, bytes: &[u8]) -> u128 {
    xxh3_128(&[key.title.as_bytes(), &[0], key.class_name.as_bytes(), &[0], bytes].concat())
}

/// The plain bytes of an object for a key of another size.
fn relocated(stored: &[u8], source: &Source<'_>, key_size: u64) -> Result<Vec<u8>> {
    let (key, infos) = (source.key(), source.file.class_infos());
    let moved = plain(stored, key).and_then(|plain| {
        let recording = Recording::of_object(&plain, key.key_size, &key.class_name, &mut ObjectPrograms::new(infos))?;
        recording.emit(key_size, &Changes::new())
    });
    moved.map_err(|error| {
        let error = error.in_object(format!("{} {}", key.class_name, source.path()));
        unmergeable(source.file_path(), format!("{error}; it cannot lie behind the first 2 GB of a file"))
    })
}
