//! Numbers of an object that is summed. They keep their stored types, so that sums match ROOT's sums.

use std::ops::Range;

use smallvec::{smallvec, SmallVec};

use crate::cursor::Cursor;
use crate::error::Result;
use crate::marks::{BYTE_COUNT_MASK, CONTAINER_VERSION};
use crate::numbers::number::Number;

use super::token::MemberStorage;

/// Vector with inline storage, because most members are a single number.
type Few<T> = SmallVec<[T; 2]>;

/// The numbers of one member.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Numbers {
    /// Double-precision numbers.
    F64(Few<f64>),
    /// Single-precision numbers.
    F32(Few<f32>),
    /// Integers, with their stored type.
    Whole(Number, Few<i64>),
}

impl Numbers {
    /// Parse the numbers of a member; None if the member has no numbers.
    pub(crate) fn of(stored: &[u8], kind: &MemberStorage) -> Result<Option<Self>> {
        let mut cursor = Cursor::new(stored);
        let number = match *kind {
            MemberStorage::Number(number) => number,
            MemberStorage::Array(number) => {
                if cursor.remaining() > 0 {
                    cursor.skip(1)?; // flag: 0 for a null pointer
                }
                number
            }
            MemberStorage::Counted(number) => {
                if cursor.remaining() > 0 {
                    cursor.skip(4)?; // count
                }
                number
            }
            MemberStorage::Vector(number) => {
                cursor.skip(2 + 4)?; // version and count
                number
            }
            MemberStorage::Seeks(_) | MemberStorage::Other | MemberStorage::Pointers | MemberStorage::Link => {
                return Ok(None)
            }
        };
        let count = cursor.remaining() / number.size();
        Ok(Some(match number {
            Number::F64 => {
                let (values, _) = cursor.take(8 * count)?.as_chunks();
                Self::F64(values.iter().map(|raw| f64::from_be_bytes(*raw)).collect())
            }
            Number::F32 => {
                let (values, _) = cursor.take(4 * count)?.as_chunks();
                Self::F32(values.iter().map(|raw| f32::from_be_bytes(*raw)).collect())
            }
            number => Self::Whole(number, (0..count).map(|_| number.read(&mut cursor)).collect::<Result<_>>()?),
        }))
    }

    /// Convert `values` to the stored type; None if a value does not fit.
    pub(crate) fn replaced(&self, values: &[f64]) -> Option<Self> {
        Some(match self {
            Self::F64(_) => Self::F64(values.into()),
            Self::F32(_) => Self::F32(values.iter().map(|value| *value as f32).collect()),
            Self::Whole(number, _) => {
                let most = largest(*number) as f64;
                let fits = |value: &f64| value.fract() == 0.0 && value.abs() <= most;
                if !values.iter().all(fits) {
                    return None;
                }
                Self::Whole(*number, values.iter().map(|value| *value as i64).collect())
            }
        })
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::F64(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::Whole(_, values) => values.len(),
        }
    }

    /// The first number; 0 if there are no numbers.
    pub(crate) fn first(&self) -> f64 {
        match self {
            Self::F64(values) => values.first().copied(),
            Self::F32(values) => values.first().map(|value| f64::from(*value)),
            Self::Whole(_, values) => values.first().map(|value| *value as f64),
        }
        .unwrap_or(0.0)
    }

    /// The absolute values of the numbers, as doubles.
    pub(crate) fn absolute_values(&self) -> Vec<f64> {
        match self {
            Self::F64(values) => values.iter().map(|value| value.abs()).collect(),
            Self::F32(values) => values.iter().map(|value| f64::from(value.abs())).collect(),
            Self::Whole(_, values) => values.iter().map(|value| value.abs() as f64).collect(),
        }
    }

    /// Whether `self` and `other` have the same stored type and can therefore be added.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Whole(one, _), Self::Whole(two, _)) => one == two,
            (Self::F64(_) | Self::F32(_) | Self::Whole(..), _) => {
                std::mem::discriminant(self) == std::mem::discriminant(other)
            }
        }
    }

    /// Whether the numbers are equal within rounding errors.
    pub(crate) fn is_near(&self, other: &Self) -> bool {
        let near = |one: f64, two: f64, rounding: f64| {
            one == two || one.is_nan() && two.is_nan() || (one - two).abs() <= rounding * one.abs().max(two.abs())
        };
        match (self, other) {
            (Self::F64(one), Self::F64(two)) => {
                one.len() == two.len() && one.iter().zip(two).all(|(one, two)| near(*one, *two, 1e-9))
            }
            (Self::F32(one), Self::F32(two)) => {
                let pairs = || one.iter().zip(two).map(|(one, two)| (f64::from(*one), f64::from(*two)));
                one.len() == two.len() && pairs().all(|(one, two)| near(one, two, 1e-4))
            }
            (Self::F64(_) | Self::F32(_) | Self::Whole(..), _) => self == other,
        }
    }

    /// Add numbers element by element. Like in ROOT's histograms, integers saturate at the limits of their type
    /// (TH1C::AddBinContent).
    pub(crate) fn add(&mut self, other: &Self) {
        match (self, other) {
            (Self::F64(values), Self::F64(others)) => {
                values.iter_mut().zip(others).for_each(|(value, other)| *value += other);
            }
            (Self::F32(values), Self::F32(others)) => {
                values.iter_mut().zip(others).for_each(|(value, other)| *value += other);
            }
            (Self::Whole(number, values), Self::Whole(_, others)) => {
                let most = largest(*number);
                for (value, other) in values.iter_mut().zip(others) {
                    *value = value.saturating_add(*other).clamp(-most, most);
                }
            }
            (Self::F64(_) | Self::F32(_) | Self::Whole(..), _) => {} // rejected by is_like
        }
    }

    /// Add a value to one element. For integers, the fractional part is dropped and the sum saturates like in
    /// [`Numbers::add`].
    pub(crate) fn add_at(&mut self, place: usize, value: f64) {
        match self {
            Self::F64(values) => values.get_mut(place).into_iter().for_each(|number| *number += value),
            Self::F32(values) => values.get_mut(place).into_iter().for_each(|number| *number += value as f32),
            Self::Whole(number, values) => {
                let most = largest(*number);
                let add = |number: i64| number.saturating_add(value as i64).clamp(-most, most);
                values.get_mut(place).into_iter().for_each(|number| *number = add(*number));
            }
        }
    }

    /// Whether an element exists and is not 0.
    pub(crate) fn is_used(&self, place: usize) -> bool {
        match self {
            Self::F64(values) => values.get(place).is_some_and(|value| *value != 0.0),
            Self::F32(values) => values.get(place).is_some_and(|value| *value != 0.0),
            Self::Whole(_, values) => values.get(place).is_some_and(|value| *value != 0),
        }
    }

    /// Create `count` zeros and add each number at its new position. Numbers without a new position are dropped.
    pub(crate) fn moved(&self, places: &[Option<usize>], count: usize) -> Self {
        fn all<T: Copy + Default>(
            values: &[T],
            places: &[Option<usize>],
            count: usize,
            add: impl Fn(T, T) -> T,
        ) -> Few<T> {
            let mut moved = smallvec![T::default(); count];
            for (value, place) in values.iter().zip(places) {
                if let Some(to) = place.and_then(|place| moved.get_mut(place)) {
                    *to = add(*to, *value);
                }
            }
            moved
        }
        match self {
            Self::F64(values) => Self::F64(all(values, places, count, |one, two| one + two)),
            Self::F32(values) => Self::F32(all(values, places, count, |one, two| one + two)),
            Self::Whole(number, values) => {
                let most = largest(*number);
                let add = |one: i64, two: i64| one.saturating_add(two).clamp(-most, most);
                Self::Whole(*number, all(values, places, count, add))
            }
        }
    }

    /// The numbers in a range, padded with zeros to `count` elements.
    pub(crate) fn part(&self, range: Range<usize>, count: usize) -> Self {
        fn padded<T: Copy + Default>(values: &[T], range: Range<usize>, count: usize) -> Few<T> {
            let mut part = Few::from(values.get(range).unwrap_or_default());
            part.resize(count, T::default());
            part
        }
        match self {
            Self::F64(values) => Self::F64(padded(values, range, count)),
            Self::F32(values) => Self::F32(padded(values, range, count)),
            Self::Whole(number, values) => Self::Whole(*number, padded(values, range, count)),
        }
    }

    /// Drop all numbers after the first `count` numbers.
    pub(crate) fn truncate(&mut self, count: usize) {
        match self {
            Self::F64(values) => values.truncate(count),
            Self::F32(values) => values.truncate(count),
            Self::Whole(_, values) => values.truncate(count),
        }
    }

    /// Replace all numbers by a single value.
    pub(crate) fn set(&mut self, value: f64) {
        match self {
            Self::F64(values) => *values = smallvec![value],
            Self::F32(values) => *values = smallvec![value as f32],
            Self::Whole(_, values) => *values = smallvec![value as i64],
        }
    }

    /// Append the numbers of `other`.
    pub(crate) fn append(&mut self, other: &Self) {
        match (self, other) {
            (Self::F64(values), Self::F64(others)) => values.extend_from_slice(others),
            (Self::F32(values), Self::F32(others)) => values.extend_from_slice(others),
            (Self::Whole(_, values), Self::Whole(_, others)) => values.extend_from_slice(others),
            (Self::F64(_) | Self::F32(_) | Self::Whole(..), _) => {} // rejected by is_like
        }
    }

    /// Encode the numbers as a member of this storage form.
    pub(crate) fn stored(&self, kind: &MemberStorage) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.store(kind, &mut bytes);
        bytes
    }

    /// Append the encoded numbers to `bytes`.
    pub(crate) fn store(&self, kind: &MemberStorage, bytes: &mut Vec<u8>) {
        match kind {
            MemberStorage::Array(_) => bytes.push(u8::from(self.len() > 0)),
            MemberStorage::Counted(_) => bytes.extend((self.len() as u32).to_be_bytes()),
            MemberStorage::Vector(number) => {
                let size = (2 + 4 + self.len() * number.size()) as u32 | BYTE_COUNT_MASK;
                bytes.extend(size.to_be_bytes());
                bytes.extend(CONTAINER_VERSION.to_be_bytes());
                bytes.extend((self.len() as u32).to_be_bytes());
            }
            MemberStorage::Number(_) | MemberStorage::Seeks(_) => {}
            MemberStorage::Other | MemberStorage::Pointers | MemberStorage::Link => {}
        }
        match self {
            Self::F64(values) => bytes.extend(values.iter().flat_map(|value| value.to_be_bytes())),
            Self::F32(values) => bytes.extend(values.iter().flat_map(|value| value.to_be_bytes())),
            Self::Whole(number, values) => {
                let skipped = 8 - number.size();
                values.iter().for_each(|value| bytes.extend(&value.to_be_bytes()[skipped..]));
            }
        }
    }
}

/// The largest value of the stored type. The smallest value is its negative.
fn largest(number: Number) -> i64 {
    match number {
        Number::Bool => 1,
        Number::I8 => i64::from(i8::MAX),
        Number::I16 => i64::from(i16::MAX),
        Number::I32 => i64::from(i32::MAX),
        Number::U8 => i64::from(u8::MAX),
        Number::U16 => i64::from(u16::MAX),
        Number::U32 => i64::from(u32::MAX),
        Number::I64 | Number::U64 | Number::F16 | Number::F32 | Number::F64 => i64::MAX,
    }
}
