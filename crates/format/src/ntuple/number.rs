//! Numbers as they come out of pages, and the change of one kind into another that a field's C++ type may ask for
//! (section "Fundamental Types": the table of column types that a type is read from).

use crate::error::{FormatError, Result};

/// A native number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Number {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
}

impl Number {
    /// The number that a C++ type name stands for, in the normalised form of RNTuple.
    pub fn of_type_name(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("std::").unwrap_or(name) {
            "bool" => Self::Bool,
            "byte" | "char" | "uint8_t" | "unsigned char" => Self::U8,
            "int8_t" | "signed char" => Self::I8,
            "int16_t" | "short" => Self::I16,
            "uint16_t" | "unsigned short" => Self::U16,
            "int32_t" | "int" => Self::I32,
            "uint32_t" | "unsigned int" => Self::U32,
            "int64_t" | "long" | "long long" => Self::I64,
            "uint64_t" | "unsigned long" | "unsigned long long" => Self::U64,
            "float" => Self::F32,
            "double" | "Double32_t" => Self::F64,
            _ => return None,
        })
    }

    /// Its bytes.
    pub fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// NumPy's name of it: kind and bytes.
    pub fn dtype(self) -> &'static str {
        match self {
            Self::Bool => "b1",
            Self::I8 => "i1",
            Self::U8 => "u1",
            Self::I16 => "i2",
            Self::U16 => "u2",
            Self::I32 => "i4",
            Self::U32 => "u4",
            Self::I64 => "i8",
            Self::U64 => "u8",
            Self::F16 => "f2",
            Self::F32 => "f4",
            Self::F64 => "f8",
        }
    }

    fn is_real(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64)
    }

    /// Whether numbers of this kind are read as those of another.
    pub fn becomes(self, other: Self) -> bool {
        self.is_real() == other.is_real()
    }

    pub(super) fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }
}

/// Changes numbers of one kind into another; `out` has room for exactly as many. Whole numbers that do not fit are an
/// error, as in ROOT.
pub(super) fn convert(from: Number, values: &[u8], to: Number, out: &mut [u8]) -> Result<()> {
    match (from, to) {
        (Number::F16, Number::F32) => each::<2, 4>(values, out, |raw| real16(raw).to_ne_bytes()),
        (Number::F16, Number::F64) => each::<2, 8>(values, out, |raw| f64::from(real16(raw)).to_ne_bytes()),
        (Number::F32, Number::F64) => each::<4, 8>(values, out, |raw| f64::from(f32::from_ne_bytes(raw)).to_ne_bytes()),
        (Number::F64, Number::F32) => each::<8, 4>(values, out, |raw| (f64::from_ne_bytes(raw) as f32).to_ne_bytes()),
        _ if from.is_real() || to.is_real() => {
            return Err(FormatError::unsupported(format!("{} stored as {}", to.dtype(), from.dtype())));
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
            return Err(FormatError::damaged(0, format!("{value} does not fit the field's type")));
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

/// A whole number of this kind; `raw` has its size.
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

/// An IEEE 754 number of half precision.
pub fn real16(raw: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_ne_bytes(raw));
    let sign = (bits & 0x8000) << 16;
    let (exponent, mantissa) = (bits >> 10 & 0x1f, bits & 0x3ff);
    let magnitude = match exponent {
        // A subnormal number: its mantissa in units of 2^-24.
        0 => (mantissa as f32 * f32::from_bits(0x3380_0000)).to_bits(),
        0x1f => 0x7f80_0000 | mantissa << 13,
        _ => (exponent + 112) << 23 | mantissa << 13,
    };
    f32::from_bits(sign | magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_becomes_single() {
        for (half, single) in [
            (0x3c00u16, 1.0f32),
            (0xc000, -2.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x7bff, 65504.0),
            (0x7c00, f32::INFINITY),
            (0x8000, -0.0),
        ] {
            assert_eq!(real16(half.to_ne_bytes()).to_bits(), single.to_bits(), "{half:#x}");
        }
        assert!(real16(0x7e00u16.to_ne_bytes()).is_nan());
    }

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
