//! Enumerations, which files do not describe: their encoding in collections, and fixed-size arrays that ROOT omits.

use crate::cursor::VersionHeader;
use crate::error::{ErrorKind, FormatError, Result};
use crate::layout::steps::{Collection, Convert, Step};
use crate::numbers::number::Number;

use super::machine::{Machine, UnsureArrays, COUNT_BYTES};

/// Maximum number of enumerations for which each combination of stored and omitted arrays is tried.
const MIXED_MAX: usize = 4;

impl Machine<'_> {
    /// Whether the collections up to `end` contain enumerations that ROOT stores as 4-byte ints although their type has
    /// another size. ROOT does so in std::vector and std::set, but not in std::list and nested containers. The file
    /// does not say which size was used, so this function checks whether the number of bytes is right for ints.
    pub(super) fn are_ints(&self, collection: &Collection, end: Option<usize>) -> bool {
        let [Step::Undescribed { numbers: Some(one), .. }] = &*collection.steps else { return false };
        let size = end.and_then(|end| end.checked_sub(self.cursor.position()));
        let Some(mut rest) = size.and_then(|size| self.cursor.rest().get(..size)) else { return false };
        while let Some((count, behind)) = rest.split_first_chunk::<COUNT_BYTES>() {
            let ints = (u32::from_be_bytes(*count) as usize).checked_mul(size_of::<i32>());
            let Some(next) = ints.and_then(|size| behind.get(size..)) else { return false };
            rest = next;
        }
        rest.is_empty() && one.scalar.stored_size() != size_of::<i32>()
    }

    /// Read a collection of enumerations that are stored as ints.
    pub(super) fn ints(&mut self, collection: &Collection, base: usize) -> Result<()> {
        let [Step::Undescribed { numbers: Some(one), class_name }] = &*collection.steps else {
            return Err(FormatError::internal("expected a collection of enumerations"));
        };
        let count = self.count(size_of::<i32>())?;
        // The encoding of 64-bit enumerations is ambiguous: ROOT writes one int per number for a container that is a
        // member, and two ints per number for a container behind a pointer or in a map.
        if count > 0 && one.scalar.stored_size() > size_of::<i32>() {
            let what = format!("ROOT stored the 64-bit numbers of enumeration {class_name} as ints");
            return Err(FormatError::unsupported(what));
        }
        let mut ints = self.cursor.rest().chunks_exact(size_of::<i32>()).take(count).map_while(|int| int.first_chunk());
        // ROOT may reinterpret several small integers as one int and drop the remainder.
        if count > 0 && one.is_packed || !ints.all(|int| fits(i32::from_be_bytes(*int), one.scalar.number())) {
            let what = format!("ROOT stored several numbers of enumeration {class_name} as one int");
            return Err(FormatError::unsupported(what));
        }
        self.push_list(base + collection.list, count);
        self.convert(&Convert { stored: Number::I32.into(), count, slot: one.slot, number: one.scalar.number() }, base)
    }

    /// Whether to assume that the file omits the array that this step would read. Also records the name of the array's
    /// enumeration.
    pub(super) fn leaves_out(&mut self, step: &Step) -> bool {
        let Some(name) = step.unsure_array() else { return false };
        let names = &mut self.unsure_array_names;
        let index = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.to_string());
            names.len() - 1
        });
        match self.unsure_arrays {
            UnsureArrays::Undecided | UnsureArrays::Stored => false,
            UnsureArrays::LeftOut => true,
            UnsureArrays::Mixed { omitted } => index < MIXED_MAX && omitted >> index & 1 == 1,
        }
    }

    /// Whether to accept objects without headers. After an array that may be omitted, misread bytes may look like an
    /// object without a header.
    pub(super) fn may_lack_headers(&self) -> bool {
        self.unsure_array_names.is_empty() || self.unsure_arrays == UnsureArrays::Stored
    }

    /// Read a byte count and a version. After an array that may be omitted, misread bytes may look like a version
    /// without a byte count, so the first attempt requires byte counts.
    pub(super) fn version_header(&mut self) -> Result<VersionHeader> {
        let header = self.cursor.version_header()?;
        match (header.end, self.unsure_array_names.first()) {
            (None, Some(name)) if self.unsure_arrays == UnsureArrays::Undecided => {
                Err(self.damaged(format!("a header after an array of enumeration {name} has no byte count")))
            }
            _ => Ok(header),
        }
    }

    /// Return an error if the walk had to assume that ROOT omitted an array of enumerations.
    pub(super) fn all_stored(&self) -> Result<()> {
        let index = match self.unsure_arrays {
            UnsureArrays::Undecided | UnsureArrays::Stored => return Ok(()),
            UnsureArrays::LeftOut => 0,
            UnsureArrays::Mixed { omitted } => omitted.trailing_zeros() as usize,
        };
        self.unsure_array_names.get(index).map_or(Ok(()), |name| Err(not_stored(name)))
    }
}

/// State of decoding attempts. ROOT omits some fixed-size arrays of enumerations, so decoding tries one assumption
/// after another about whether the arrays are stored.
#[derive(Default)]
pub(super) struct Attempts {
    pub(super) arrays: UnsureArrays,
    /// Error of the first attempt that failed with an unsupported feature. Later attempts may have read the bytes of
    /// other members, so their errors are less reliable.
    unsupported: Option<FormatError>,
    /// Error and number of enumerations of the attempt that assumed that all arrays are stored.
    stored: Option<(FormatError, usize)>,
}

impl Attempts {
    /// Accept or reject a successful attempt. Fails if ROOT omitted an array. Also fails if an earlier attempt failed
    /// at an unsupported feature, because the assumption of that attempt may be the right one.
    pub(super) fn accept(&mut self, machine: &Machine<'_>) -> Result<()> {
        match self.unsupported.take() {
            Some(error) => Err(error),
            None => machine.all_stored(),
        }
    }

    /// Select the next assumption after a failed attempt. Fails if ROOT cannot have omitted an array, or if no
    /// assumption is left.
    pub(super) fn next(&mut self, machine: &Machine<'_>, error: FormatError) -> Result<()> {
        if machine.unsure_array_names.is_empty() {
            return Err(error);
        }
        let next = match self.arrays {
            UnsureArrays::Undecided => UnsureArrays::LeftOut,
            UnsureArrays::LeftOut => UnsureArrays::Stored,
            UnsureArrays::Stored => {
                self.stored = Some((error.clone(), machine.unsure_array_names.len().min(MIXED_MAX)));
                UnsureArrays::Mixed { omitted: 1 }
            }
            UnsureArrays::Mixed { omitted } => UnsureArrays::Mixed { omitted: omitted + 1 },
        };
        if let (UnsureArrays::Mixed { omitted }, Some((_, names))) = (next, &self.stored)
            && u32::from(omitted) + 1 >= 1 << names
        {
            let stored = self.stored.take().map_or(error, |(stored, _)| stored);
            return Err(self.unsupported.take().unwrap_or(stored));
        }
        if error.kind == ErrorKind::Unsupported {
            self.unsupported.get_or_insert(error);
        }
        self.arrays = next;
        Ok(())
    }
}

/// Whether an int is in range for an enumeration with this integer type.
fn fits(value: i32, number: Number) -> bool {
    match number {
        Number::I8 => i8::try_from(value).is_ok(),
        Number::Bool => matches!(value, 0 | 1),
        Number::U8 => u8::try_from(value).is_ok(),
        Number::I16 => i16::try_from(value).is_ok(),
        Number::U16 => u16::try_from(value).is_ok(),
        Number::I32 | Number::U32 | Number::I64 | Number::U64 | Number::F16 | Number::F32 | Number::F64 => true,
    }
}

pub(super) fn not_stored(enumeration: &str) -> FormatError {
    FormatError::unsupported(format!("ROOT does not store fixed arrays of enumeration {enumeration}"))
}
