//! Merges the objects at one path that are neither trees nor directories. Objects that can be added are summed up. All
//! other objects are copied, and each distinct version becomes a cycle of the name.

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

/// Approximate memory of an addend, as a multiple of its size after decompression.
const ADDEND_FACTOR: u64 = 3;

/// An object of an input.
pub(crate) enum ObjectContent {
    /// An object that can be added, as its decompressed bytes and its numbers.
    Sum { plain: Vec<u8>, addend: Box<Addend> },
    /// An object that is copied in stored form. If objects of its class can usually be added, `reason` tells why this
    /// one cannot.
    Copy { stored: Bytes, reason: Option<String> },
}

/// The objects at one path of an output.
#[derive(Default)]
pub(crate) struct MergedObject {
    sums: Vec<ReservedSum>,
    /// Digests of the copied objects, which have distinct versions.
    copies: HashSet<u128>,
    /// The reason why some objects cannot be added.
    reason: Option<String>,
}

/// A sum of objects. It is written into a reserved slot at the end of the merge.
struct ReservedSum {
    slot: SlotId,
    name: ObjectName,
    sum: Box<Sum>,
}

impl Content for ObjectContent {
    fn is_of(_file: &File, _key: &TKey) -> bool {
        true
    }

    /// Whether all cycles are merged. This is the case for objects that are copied, as in hadd. Among objects that can
    /// be added, only the newest cycle counts.
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
                // Compare decompressed bytes, because programs compress the same object differently.
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

    /// Does nothing: an object that cannot be added becomes another version.
    fn fit(&self, _content: &mut ObjectContent, _source: &Source<'_>) -> Result<()> {
        Ok(())
    }

    /// Writes a copied object, unless an equal object has already been written for this input or another one.
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
        // References within the object are relative to the start of the key, so adjust them to the new key.
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

    /// Writes the sums into their slots.
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

    /// Does nothing, because the function `compare` compares objects after the merge.
    fn verify(&self, _: &str, _: Option<&ObjectContent>, _: &File, _: &mut Check<'_>) -> Result<()> {
        Ok(())
    }
}

impl MergedObject {
    /// Number of cycles that the path has in the output.
    fn versions_count(&self) -> usize {
        self.sums.len() + self.copies.len()
    }

    /// Adds an object to the first sum that accepts it. Returns the object if no sum accepts it.
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

    /// Starts a sum, and reserves space in the file if the size of the sum is known.
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

    /// Returns a message for the user about the sums and versions at this path, if needed.
    fn note(&self, path: &str, class_name: &str) -> Option<String> {
        let count = self.versions_count();
        let notes: BTreeSet<&str> = self.sums.iter().flat_map(|one| one.sum.notes()).collect();
        if count == 1 && !notes.is_empty() {
            let notes: Vec<&str> = notes.into_iter().collect();
            return Some(format!("{path} ({class_name}): {}", notes.join("; ")));
        }
        (count > 1).then(|| match &self.reason {
            Some(reason) => {
                format!("{path} ({class_name}) cannot be summed: {reason}; its {count} versions are kept as cycles")
            }
            None => format!("{path} ({class_name}) differs: its {count} versions are kept as cycles"),
        })
    }
}

/// Returns the cycle for a version that follows `versions_count` other versions.
fn next_cycle(versions_count: usize, source: &Source<'_>) -> Result<i16> {
    i16::try_from(versions_count + 1)
        .map_err(|_| unmergeable(source.file_path(), format!("{} has more cycles than ROOT supports", source.path())))
}

/// Decompresses the stored bytes of an object with this key.
fn plain(stored: &[u8], key: &TKey) -> FormatResult<Vec<u8>> {
    let record = [vec![0; key.key_size as usize].as_slice(), stored].concat();
    let mut loaded = LoadedBytes::new(key.seek.saturating_add(key.size));
    loaded.add(key.seek, Bytes::from(record));
    read_object(&loaded, key, &mut Decompressor::new()).map_err(|error| match error {
        DecodeError::Format(error) => error,
        DecodeError::MissingBytes { offset, .. } => FormatError::damaged(offset, "the record is truncated"),
    })
}

/// Returns a digest that is different for different objects with the same name.
fn digest_of(key: &TKey, bytes: &[u8]) -> u128 {
    xxh3_128(&[key.title.as_bytes(), &[0], key.class_name.as_bytes(), &[0], bytes].concat())
}

/// Returns the decompressed bytes of an object, adjusted to a key of this size.
fn relocated(stored: &[u8], source: &Source<'_>, key_size: u64) -> Result<Vec<u8>> {
    let (key, infos) = (source.key(), source.file.class_infos());
    let moved = plain(stored, key).and_then(|plain| {
        let recording = Recording::of_object(&plain, key.key_size, &key.class_name, &mut ObjectPrograms::new(infos))?;
        recording.emit(key_size, &Changes::new())
    });
    moved.map_err(|error| {
        let error = error.in_object(format!("{} {}", key.class_name, source.path()));
        unmergeable(source.file_path(), format!("{error}; it cannot be stored beyond the first 2 GB of a file"))
    })
}
