//! The filled bins of a THnSparse, which are stored in chunks. The coordinates of each bin are packed into a few bytes.
//! Histograms with the same axes pack coordinates in the same way, so the packed bytes identify a bin.

use std::collections::HashMap;

use crate::classes::buffer::{ObjectBuffer, Pointer};
use crate::cursor::Cursor;
use crate::error::{FormatError, Result};
use crate::numbers::number::Number;

use super::numbers::Numbers;
use super::token::MemberStorage;

/// Supported class version of THnSparseArrayChunk.
const CHUNK_VERSION: i16 = 1;

/// The filled bins of a sparse histogram.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sparse {
    /// Number of bytes of a bin's packed coordinates.
    pub(crate) place_bytes: usize,
    /// The packed coordinates of all bins, one bin after the other.
    pub(crate) places: Vec<u8>,
    /// Name of the TArray class of the bin contents.
    pub(crate) class_name: String,
    pub(crate) contents: Option<Numbers>,
    /// Squared errors of the bins; None if the histogram has no errors.
    pub(crate) errors: Option<Numbers>,
    /// Maximum number of bins per chunk.
    pub(crate) chunk_bins: usize,
}

/// A parsed chunk.
struct Chunk<'a> {
    place_bytes: usize,
    places: &'a [u8],
    class_name: String,
    contents: Numbers,
    errors: Option<Numbers>,
}

/// A chunk to be written. `contents` and `errors` are TArrays with the full capacity of a chunk.
pub(crate) struct NewChunk<'a> {
    /// The packed coordinates of the chunk's bins.
    pub(crate) places: &'a [u8],
    pub(crate) contents: Vec<u8>,
    /// Squared errors of the bins; None if the histogram has no errors.
    pub(crate) errors: Option<Vec<u8>>,
}

impl Sparse {
    /// Parse the encoded member THnSparse::fBinContent.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let mut sparse = Self {
            place_bytes: 0,
            places: Vec::new(),
            class_name: String::new(),
            contents: None,
            errors: None,
            chunk_bins: 0,
        };
        let mut buffer = ObjectBuffer::new(bytes, 0);
        let count = buffer.tobjarray()?;
        for _ in 0..count {
            sparse.add_chunk(chunk(&mut buffer)?)?;
        }
        Ok(sparse)
    }

    fn add_chunk(&mut self, chunk: Chunk<'_>) -> Result<()> {
        let bins = chunk.places.len() / chunk.place_bytes;
        let fits = chunk.contents.len() >= bins && chunk.errors.as_ref().is_none_or(|errors| errors.len() >= bins);
        let is_like = self.contents.is_none()
            || (self.place_bytes, &self.class_name, self.errors.is_some())
                == (chunk.place_bytes, &chunk.class_name, chunk.errors.is_some());
        if !fits || !is_like || !chunk.places.len().is_multiple_of(chunk.place_bytes) {
            return Err(unknown());
        }
        self.chunk_bins = self.chunk_bins.max(chunk.contents.len());
        let (mut contents, mut errors) = (chunk.contents, chunk.errors);
        contents.truncate(bins);
        if let Some(errors) = &mut errors {
            errors.truncate(bins);
        }
        self.places.extend_from_slice(chunk.places);
        match &mut self.contents {
            Some(all) => all.append(&contents),
            None => (self.contents, self.errors) = (Some(contents), errors.take()),
        }
        if let (Some(all), Some(errors)) = (&mut self.errors, errors) {
            all.append(&errors);
        }
        (self.place_bytes, self.class_name) = (chunk.place_bytes, chunk.class_name);
        Ok(())
    }

    /// Number of filled bins.
    pub(crate) fn len(&self) -> usize {
        self.contents.as_ref().map_or(0, Numbers::len)
    }

    /// Whether `self` and `other` have the same format and can therefore be added.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (&self.contents, &other.contents) {
            (Some(one), Some(two)) => {
                one.is_like(two) && self.class_name == other.class_name && self.place_bytes == other.place_bytes
            }
            _ => true,
        }
    }

    /// Add the bins of a histogram with the same format. Bins that only `other` has are appended.
    pub(crate) fn add(&mut self, mut other: Self) {
        if self.contents.is_none() {
            *self = other;
            return;
        }
        let (Some(ours), Some(theirs)) = (&mut self.contents, &other.contents) else { return };
        if self.errors.is_some() != other.errors.is_some() {
            self.errors.get_or_insert_with(|| Numbers::F64(ours.absolute_values().into()));
            other.errors.get_or_insert_with(|| Numbers::F64(theirs.absolute_values().into()));
        }
        let keys = self.places.chunks_exact(self.place_bytes).enumerate();
        let mut known: HashMap<&[u8], usize> = keys.map(|(bin, place)| (place, bin)).collect();
        let count = ours.len();
        let mut new = Vec::new();
        let mut targets = Vec::with_capacity(theirs.len());
        for place in other.places.chunks_exact(self.place_bytes) {
            let next = count + new.len() / self.place_bytes;
            let target = *known.entry(place).or_insert(next);
            if target == next {
                new.extend_from_slice(place);
            }
            targets.push(Some(target));
        }
        drop(known);
        self.places.extend(new);
        let all = self.places.len() / self.place_bytes;
        let stay: Vec<Option<usize>> = (0..count).map(Some).collect();
        let join = |ours: &mut Numbers, theirs: &Numbers| {
            *ours = ours.moved(&stay, all);
            ours.add(&theirs.moved(&targets, all));
        };
        join(ours, theirs);
        if let (Some(errors), Some(others)) = (&mut self.errors, &other.errors) {
            join(errors, others);
        }
    }

    /// Split the bins into chunks, like ROOT.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = NewChunk<'_>> + '_ {
        let room = self.chunk_bins.max(1);
        let counted = |numbers: &Numbers| numbers.stored(&MemberStorage::Counted(Number::F64));
        self.places.chunks(room * self.place_bytes.max(1)).enumerate().map(move |(number, places)| {
            let part = number * room..(number * room + places.len() / self.place_bytes.max(1));
            let padded = |numbers: &Numbers| counted(&numbers.part(part.clone(), room));
            let contents = self.contents.as_ref().map(padded).unwrap_or_default();
            let errors = self.errors.as_ref().map(padded);
            NewChunk { places, contents, errors }
        })
    }

    /// Whether both histograms have the same bins, in any order, with contents that are equal within rounding errors.
    pub(crate) fn is_near(&self, other: &Self) -> bool {
        let sorted = |of: &Self| {
            let mut order: Vec<usize> = (0..of.len()).collect();
            let place = |bin: &usize| of.places[bin * of.place_bytes..(bin + 1) * of.place_bytes].to_vec();
            order.sort_by_key(place);
            let places: Vec<u8> = order.iter().flat_map(place).collect();
            let mut targets = vec![None; of.len()];
            order.iter().enumerate().for_each(|(target, bin)| targets[*bin] = Some(target));
            let contents = of.contents.as_ref().map(|numbers| numbers.moved(&targets, of.len()));
            let errors = of.errors.as_ref().map(|numbers| numbers.moved(&targets, of.len()));
            (places, contents, errors)
        };
        let near = |one: &Option<Numbers>, two: &Option<Numbers>| match (one, two) {
            (Some(one), Some(two)) => one.is_near(two),
            (one, two) => one.is_none() && two.is_none(),
        };
        let (one, two) = (sorted(self), sorted(other));
        one.0 == two.0 && near(&one.1, &two.1) && near(&one.2, &two.2)
    }
}

fn unknown() -> FormatError {
    FormatError::unsupported("its bins are stored in an unknown format")
}

fn chunk<'a>(buffer: &mut ObjectBuffer<'a>) -> Result<Chunk<'a>> {
    match buffer.pointer()? {
        Pointer::New { class_name, .. } if &*class_name == "THnSparseArrayChunk" => {}
        Pointer::New { .. } | Pointer::Seen(_) | Pointer::Null => return Err(unknown()),
    }
    let header = buffer.cursor.version_header()?;
    if header.version != CHUNK_VERSION {
        return Err(unknown());
    }
    buffer.skip_tobject()?;
    let place_bytes = usize::try_from(buffer.cursor.i32()?).ok().filter(|size| *size > 0).ok_or_else(unknown)?;
    let size = i64::from(buffer.cursor.i32()?);
    let places = match buffer.cursor.u8()? {
        0 => &[],
        _ => {
            let size = buffer.cursor.checked_count(size, 1)?;
            buffer.cursor.take(size)?
        }
    };
    let (class_name, contents) = array(buffer)?.ok_or_else(unknown)?;
    let errors = match array(buffer)? {
        None => None,
        Some((_, errors @ Numbers::F64(_))) => Some(errors),
        Some(_) => return Err(unknown()),
    };
    buffer.cursor.finish(header)?;
    Ok(Chunk { place_bytes, places, class_name, contents, errors })
}

/// Parse a pointer to a TArray.
fn array(buffer: &mut ObjectBuffer<'_>) -> Result<Option<(String, Numbers)>> {
    let Pointer::New { class_name, .. } = buffer.pointer().and_then(|pointer| match pointer {
        Pointer::Seen(_) => Err(unknown()),
        other => Ok(other),
    })?
    else {
        return Ok(None);
    };
    let number = Number::of_array_class(&class_name).ok_or_else(unknown)?;
    let cursor: &mut Cursor<'_> = &mut buffer.cursor;
    let count = i64::from(cursor.i32()?);
    let count = cursor.checked_count(count, number.size())?;
    let numbers = match number {
        Number::F64 => Numbers::F64((0..count).map(|_| cursor.f64()).collect::<Result<_>>()?),
        Number::F32 => Numbers::F32((0..count).map(|_| cursor.f32()).collect::<Result<_>>()?),
        number => Numbers::Whole(number, (0..count).map(|_| number.read(cursor)).collect::<Result<_>>()?),
    };
    Ok(Some((class_name.to_string(), numbers)))
}
