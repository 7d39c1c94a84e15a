//! Conversion of stored numbers to the number type of a field. (The table in section "Fundamental Types" lists which
//! column types a field type can be read from.)

use crate::error::{FormatError, Result};
use crate::numbers::number::{half_to_float, Number};

/// Whether stored numbers of type `from` can be read as type `to`. Integers can be read as any integer type, and floats
/// as any float type except half precision. Only half precision can be read as half precision.
pub fn becomes(from: Number, to: Number) -> bool {
    from == to || (from.is_real() == to.is_real() && to != Number::F16)
}

/// Convert numbers into `out`, which must have exactly the right size. Like ROOT, fails for integers that do not fit.
pub(super) fn convert(from: Number, values: &[u8], to: Number, out: &mut [u8]) -> Result<()> {
    match (from, to) {
        (Number::F16, Number::F32) => each::<2, 4>(values, out, |raw| half_to_float(raw).to_ne_bytes()),
        (Number::F16, Number::F64) => each::<2, 8>(values, out, |raw| f64::from(half_to_float(raw)).to_ne_bytes()),
        (Number::F32, Number::F64) => each::<4, 8>(values, out, |raw| f64::from(f32::from_ne_bytes(raw)).to_ne_bytes()),
        (Number::F64, Number::F32) => each::<8, 4>(values, out, |raw| (f64::from_ne_bytes(raw) as f32).to_ne_bytes()),
        _ if from.is_real() || to.is_real() => {
            return Err(FormatError::internal(format!(
                "numbers of type {} cannot be decoded as {}",
                from.dtype(),
                to.dtype()
            )));
        }
        _ => return convert_whole(from, values, to, out),
    }
    Ok(())
}

fn each<const FROM: usize, const TO: usize>(values: &[u8], out: &mut [u8], one: impl Fn([u8; FROM]) -> [u8; TO]) {
    let (values, _) = values.as_chunks::<FROM>();
    let (out, _) = out.as_chunks_mut::<TO>();
    for (to, from) in out.iter_mut().zip(values) {
        *to = one(*from);
    }
}

fn convert_whole(from: Number, values: &[u8], to: Number, out: &mut [u8]) -> Result<()> {
    for (place, raw) in out.chunks_exact_mut(to.size()).zip(values.chunks_exact(from.size())) {
        let value = whole(from, raw);
        let is_there = match to {
            Number::Bool => put(u8::from(value != 0), place),
            Number::I8 => i8::try_from(value).map(|value| put(value as u8, place)).unwrap_or(false),
            Number::U8 => u8::try_from(value).map(|value| put(value, place)).unwrap_or(false),
            Number::I16 => i16::try_from(value).map(|value| copy(&value.to_ne_bytes(), place)).unwrap_or(false),
            Number::U16 => u16::try_from(value).map(|value| copy(&value.to_ne_bytes(), place)).unwrap_or(false),
            Number::I32 => i32::try_from(value).map(|value| copy(&value.to_ne_bytes(), place)).unwrap_or(false),
            Number::U32 => u32::try_from(value).map(|value| copy(&value.to_ne_bytes(), place)).unwrap_or(false),
            Number::I64 => i64::try_from(value).map(|value| copy(&value.to_ne_bytes(), place)).unwrap_or(false),
            Number::U64 => u64::try_from(value).map(|value| copy(&value.to_ne_bytes(), place)).unwrap_or(false),
            Number::F16 | Number::F32 | Number::F64 => false,
        };
        if !is_there {
            return Err(FormatError::damaged(0, format!("{value} is out of range for the field's type")));
        }
    }
    Ok(())
}

fn put(value: u8, place: &mut [u8]) -> bool {
    copy(&[value], place)
}

fn copy(value: &[u8], place: &mut [u8]) -> bool {
    place.copy_from_slice(value);
    true
}

/// Read a native integer of type `kind`. The size of `raw` must be the size of that type.
fn whole(kind: Number, raw: &[u8]) -> i128 {
    let mut wide = [0; 8];
    wide[..raw.len()].copy_from_slice(raw);
    if cfg!(target_endian = "big") {
        wide[..raw.len()].reverse();
    }
    let unsigned = u64::from_le_bytes(wide);
    let unused = 64 - 8 * raw.len() as u32;
    if kind.is_signed() {
        i128::from((unsigned << unused) as i64 >> unused)
    } else {
        i128::from(unsigned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_change_their_width_if_they_fit() {
        let mut out = [0; 2];
        convert(Number::I32, &(-5i32).to_ne_bytes(), Number::I16, &mut out).unwrap();
        assert_eq!(i16::from_ne_bytes(out), -5);
        assert!(convert(Number::I32, &(-5i32).to_ne_bytes(), Number::U16, &mut out).is_err());
        let mut wide = [0; 8];
        convert(Number::U64, &u64::MAX.to_ne_bytes(), Number::U64, &mut wide).unwrap();
        assert!(convert(Number::U64, &u64::MAX.to_ne_bytes(), Number::I64, &mut wide).is_err());
        let mut bools = [9];
        convert(Number::I32, &256i32.to_ne_bytes(), Number::Bool, &mut bools).unwrap();
        assert_eq!(bools, [1]);
    }
}
