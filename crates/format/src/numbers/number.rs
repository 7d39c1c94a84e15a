//! The number types that ROOT stores, and their names in C++, in NumPy and in ROOT's classes.
//!
//! ```
//! use branchline_format::numbers::number::Number;
//!
//! let number = Number::of_dtype("f8");
//! assert_eq!(number, Some(Number::F64));
//! assert_eq!(number.map(|number| (number.size(), number.type_name())), Some((8, "double")));
//! ```

use crate::cursor::Cursor;
use crate::error::Result;

/// The in-memory type of a numeric value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Number {
    #[default]
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    /// Half-precision float, which occurs only in RNTuple pages.
    F16,
    F32,
    F64,
}

impl Number {
    /// All number types.
    pub(crate) const ALL: [Self; 12] = [
        Self::Bool,
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F16,
        Self::F32,
        Self::F64,
    ];

    /// The number type for a C++ type name, including ROOT's aliases. `char` is signed, as on x86-64.
    pub fn of_type_name(name: &str) -> Option<Self> {
        Some(match name {
            "bool" | "Bool_t" => Self::Bool,
            "char" | "Char_t" | "Text_t" | "signed char" | "int8_t" => Self::I8,
            "unsigned char" | "UChar_t" | "uint8_t" => Self::U8,
            "short" | "Short_t" | "short int" | "int16_t" => Self::I16,
            "unsigned short" | "UShort_t" | "unsigned short int" | "uint16_t" => Self::U16,
            "int" | "Int_t" | "int32_t" => Self::I32,
            "unsigned int" | "UInt_t" | "unsigned" | "uint32_t" => Self::U32,
            "long" | "Long_t" | "long int" | "long long" | "Long64_t" | "int64_t" => Self::I64,
            "unsigned long" | "ULong_t" | "unsigned long int" | "unsigned long long" | "ULong64_t" | "uint64_t"
            | "size_t" => Self::U64,
            "float" | "Float_t" => Self::F32,
            "double" | "Double_t" => Self::F64,
            _ => return None,
        })
    }

    /// The number type for a NumPy type string, such as `i4`.
    pub fn of_dtype(dtype: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|number| number.dtype() == dtype)
    }

    /// The element type of a TArray class; None for other classes.
    pub(crate) fn of_array_class(class_name: &str) -> Option<Self> {
        Some(match class_name {
            "TArrayC" => Self::I8,
            "TArrayS" => Self::I16,
            "TArrayI" => Self::I32,
            "TArrayL" | "TArrayL64" => Self::I64,
            "TArrayF" => Self::F32,
            "TArrayD" => Self::F64,
            _ => return None,
        })
    }

    /// Size of a value in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// NumPy type string: a letter for the kind and the size in bytes, such as `f8`.
    pub const fn dtype(self) -> &'static str {
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

    /// The C++ type name. Half precision has no C++ name and is reported as `float`.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I8 => "int8_t",
            Self::U8 => "uint8_t",
            Self::I16 => "int16_t",
            Self::U16 => "uint16_t",
            Self::I32 => "int32_t",
            Self::U32 => "uint32_t",
            Self::I64 => "int64_t",
            Self::U64 => "uint64_t",
            Self::F16 | Self::F32 => "float",
            Self::F64 => "double",
        }
    }

    /// Whether this is a floating-point type.
    pub fn is_real(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64)
    }

    /// Whether this is a signed integer type.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// Read a big-endian value. Fractional parts are truncated. The bits of a 64-bit unsigned value are reinterpreted
    /// as a signed value.
    pub(crate) fn read(self, cursor: &mut Cursor<'_>) -> Result<i64> {
        Ok(match self {
            Self::Bool | Self::U8 => i64::from(cursor.u8()?),
            Self::I8 => i64::from(cursor.i8()?),
            Self::I16 => i64::from(cursor.i16()?),
            Self::U16 => i64::from(cursor.u16()?),
            Self::I32 => i64::from(cursor.i32()?),
            Self::U32 => i64::from(cursor.u32()?),
            Self::I64 | Self::U64 => cursor.i64()?,
            Self::F16 => half_to_float(cursor.u16()?.to_ne_bytes()) as i64,
            Self::F32 => cursor.f32()? as i64,
            Self::F64 => cursor.f64()? as i64,
        })
    }

    /// Append a big-endian value to `out`. None if the number type cannot represent the value.
    pub(crate) fn write(self, value: i64, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Bool | Self::U8 => out.extend(u8::try_from(value).ok()?.to_be_bytes()),
            Self::I8 => out.extend(i8::try_from(value).ok()?.to_be_bytes()),
            Self::I16 => out.extend(i16::try_from(value).ok()?.to_be_bytes()),
            Self::U16 => out.extend(u16::try_from(value).ok()?.to_be_bytes()),
            Self::I32 => out.extend(i32::try_from(value).ok()?.to_be_bytes()),
            Self::U32 => out.extend(u32::try_from(value).ok()?.to_be_bytes()),
            Self::I64 | Self::U64 => out.extend(value.to_be_bytes()),
            Self::F16 => return None,
            Self::F32 => out.extend((value as f32).to_be_bytes()),
            Self::F64 => out.extend((value as f64).to_be_bytes()),
        }
        Some(())
    }
}

/// Convert a native IEEE 754 half-precision number to single precision.
pub fn half_to_float(raw: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_ne_bytes(raw));
    let sign = (bits & 0x8000) << 16;
    let (exponent, mantissa) = (bits >> 10 & 0x1f, bits & 0x3ff);
    let magnitude = match exponent {
        // A subnormal number, whose mantissa is in units of 2^-24.
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
            assert_eq!(half_to_float(half.to_ne_bytes()).to_bits(), single.to_bits(), "{half:#x}");
        }
        assert!(half_to_float(0x7e00u16.to_ne_bytes()).is_nan());
    }

    #[test]
    fn names_of_a_number_lead_back_to_it() {
        for number in Number::ALL {
            assert_eq!(Number::of_dtype(number.dtype()), Some(number));
            assert_eq!(number.dtype()[1..].parse(), Ok(number.size()));
            if number != Number::F16 {
                assert_eq!(Number::of_type_name(number.type_name()), Some(number));
            }
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_what_has_no_room_is_not_written() {
        for number in Number::ALL {
            let mut bytes = Vec::new();
            let largest = if number.is_signed() { 100 } else { 200 };
            let is_written = number.write(largest, &mut bytes).is_some();
            assert_eq!(is_written, number != Number::F16);
            if is_written {
                assert_eq!(bytes.len(), number.size());
                assert_eq!(number.read(&mut Cursor::new(&bytes)).unwrap(), largest);
            }
        }
        assert_eq!(Number::I8.write(128, &mut Vec::new()), None);
        assert_eq!(Number::U16.write(-1, &mut Vec::new()), None);
    }
}
