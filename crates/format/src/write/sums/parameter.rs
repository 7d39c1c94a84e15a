//! Addition of parameters, which are single numbers. Status bits select how the values are combined.

use super::addend::Addend;
use crate::write::object::numbers::Numbers;

/// Status bits of a TParameter that select how values are combined (TParameter<T>::EStatusBits).
mod bit {
    pub const MULTIPLY: u32 = 1 << 16;
    pub const MAX: u32 = 1 << 17;
    pub const MIN: u32 = 1 << 18;
    pub const FIRST: u32 = 1 << 19;
    pub const LAST: u32 = 1 << 20;
}

impl Addend {
    /// Combine the values of two parameters, like TParameter::Merge.
    pub(crate) fn add_parameter(&mut self, owner: usize, addend: &Addend) {
        let bits = self.bits.get(&owner).copied().unwrap_or(0);
        let is_truth = &*self.owners[owner].1 == "TParameter<bool>";
        let (Some(value), Some(other)) = (self.numbers.get_mut((owner, "fVal")), addend.numbers.get((owner, "fVal")))
        else {
            return;
        };
        let is_larger = other.first() > value.first();
        let replaces = if bits & bit::FIRST != 0 {
            false
        } else if bits & bit::LAST != 0 {
            true
        } else if bits & bit::MAX != 0 || (is_truth && bits & (bit::MULTIPLY | bit::MIN) == 0) {
            is_larger
        } else if bits & bit::MIN != 0 || is_truth {
            !is_larger
        } else if bits & bit::MULTIPLY != 0 {
            multiply(value, other);
            return;
        } else {
            value.add(other);
            return;
        };
        if replaces {
            *value = other.clone();
        }
    }
}

fn multiply(value: &mut Numbers, other: &Numbers) {
    match (value, other) {
        (Numbers::F64(values), Numbers::F64(others)) => {
            values.iter_mut().zip(others).for_each(|(value, other)| *value *= other);
        }
        (Numbers::F32(values), Numbers::F32(others)) => {
            values.iter_mut().zip(others).for_each(|(value, other)| *value *= other);
        }
        (Numbers::Whole(_, values), Numbers::Whole(_, others)) => {
            values.iter_mut().zip(others).for_each(|(value, other)| *value = value.wrapping_mul(*other));
        }
        (Numbers::F64(_) | Numbers::F32(_) | Numbers::Whole(..), _) => {} // rejected by is_like
    }
}
