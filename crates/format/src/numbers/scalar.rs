//! Stored numbers, and their decoding into native arrays.
//!
//! ```
//! use branchline_format::numbers::number::Number;
//! use branchline_format::numbers::scalar::Scalar;
//!
//! let mut values = [0; 4];
//! Scalar::Plain(Number::I16).decode(&[0, 1, 0, 2], &mut values);
//! assert_eq!(values, [1_i16.to_ne_bytes(), 2_i16.to_ne_bytes()].concat()[..]);
//! ```

use pulp::Arch;

use crate::numbers::number::Number;
use crate::numbers::range::FloatRange;
use crate::numbers::type_code;

/// Storage form of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// The in-memory representation in big-endian byte order.
    Plain(Number),
    /// A Double32_t: stored as a float, or packed if a range or a number of bits is declared.
    Double32(Option<FloatRange>),
    /// A Float16_t, which is always packed.
    Float16(FloatRange),
}

/// Number of mantissa bits of a Float16_t without a declared range (TBufferFile::ReadFloat16).
const FLOAT16_BITS: u32 = 12;

impl From<Number> for Scalar {
    fn from(number: Number) -> Self {
        Self::Plain(number)
    }
}

impl Scalar {
    /// The storage form for a type code (TVirtualStreamerInfo::EReadWrite). `range` applies only to packed floats. None
    /// if the type code is not numeric.
    pub fn of_type_code(code: i32, range: Option<FloatRange>) -> Option<Self> {
        Some(Self::Plain(match code {
            type_code::CHAR | type_code::LEGACY_CHAR => Number::I8,
            type_code::SHORT => Number::I16,
            type_code::INT | type_code::COUNTER => Number::I32,
            type_code::LONG | type_code::LONG64 => Number::I64,
            type_code::FLOAT => Number::F32,
            type_code::DOUBLE => Number::F64,
            type_code::UNSIGNED_CHAR => Number::U8,
            type_code::UNSIGNED_SHORT => Number::U16,
            type_code::UNSIGNED_INT | type_code::BITS => Number::U32,
            type_code::UNSIGNED_LONG | type_code::UNSIGNED_LONG64 => Number::U64,
            type_code::BOOL => Number::Bool,
            type_code::DOUBLE32 => return Some(Self::Double32(range)),
            type_code::FLOAT16 => return Some(Self::float16(range)),
            _ => return None,
        }))
    }

    /// A Float16_t with this range. Without a range, the Float16_t has the default number of mantissa bits.
    pub fn float16(range: Option<FloatRange>) -> Self {
        Self::Float16(range.unwrap_or(FloatRange::Mantissa { bits: FLOAT16_BITS }))
    }

    /// The storage form of a C++ number type in a container, where packed floats have no range.
    pub fn of_type_name(name: &str) -> Option<Self> {
        match name {
            "Double32_t" => Some(Self::Double32(None)),
            "Float16_t" => Some(Self::float16(None)),
            name => Number::of_type_name(name).map(Self::Plain),
        }
    }

    /// Number type of the decoded values.
    pub const fn number(self) -> Number {
        match self {
            Self::Plain(number) => number,
            Self::Double32(_) => Number::F64,
            Self::Float16(_) => Number::F32,
        }
    }

    /// Size of a stored value in bytes.
    pub fn stored_size(self) -> usize {
        match self {
            Self::Plain(number) => number.size(),
            Self::Double32(None) => size_of::<f32>(),
            Self::Double32(Some(range)) | Self::Float16(range) => range.stored_size(),
        }
    }

    /// Size of a decoded value in bytes.
    pub fn size(self) -> usize {
        self.number().size()
    }

    /// NumPy type string of the decoded values.
    pub fn dtype(self) -> &'static str {
        self.number().dtype()
    }

    /// C++ type name.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Plain(number) => number.type_name(),
            Self::Double32(_) => "Double32_t",
            Self::Float16(_) => "Float16_t",
        }
    }

    /// Decode all values in `stored` into `out`, which must have exactly their decoded size.
    pub fn decode(self, stored: &[u8], out: &mut [u8]) {
        debug_assert_eq!(stored.len() / self.stored_size() * self.size(), out.len());
        match self {
            Self::Plain(Number::Bool) => {
                // In C++ every nonzero byte is true, but NumPy requires 0 or 1.
                stored.iter().zip(out).for_each(|(from, to)| *to = u8::from(*from != 0));
            }
            Self::Plain(Number::I8 | Number::U8) => out.copy_from_slice(stored),
            Self::Plain(Number::I16 | Number::U16 | Number::F16) => swap::<2>(stored, out),
            Self::Plain(Number::I32 | Number::U32 | Number::F32) => swap::<4>(stored, out),
            Self::Plain(Number::I64 | Number::U64 | Number::F64) => swap::<8>(stored, out),
            Self::Double32(None) => widen(stored, out),
            Self::Double32(Some(FloatRange::Scaled { xmin, factor })) => {
                convert::<4, 8>(stored, out, |raw| (f64::from(u32::from_be_bytes(raw)) / factor + xmin).to_ne_bytes());
            }
            Self::Double32(Some(FloatRange::Mantissa { bits })) => {
                convert::<3, 8>(stored, out, |raw| f64::from(from_mantissa(raw, bits)).to_ne_bytes());
            }
            Self::Float16(FloatRange::Scaled { xmin, factor }) => {
                let value = |raw| (f64::from(u32::from_be_bytes(raw)) / factor + xmin) as f32;
                convert::<4, 4>(stored, out, |raw| value(raw).to_ne_bytes());
            }
            Self::Float16(FloatRange::Mantissa { bits }) => {
                convert::<3, 4>(stored, out, |raw| from_mantissa(raw, bits).to_ne_bytes());
            }
        }
    }
}

/// Decode an exponent byte and a mantissa word. The bit above the mantissa is the sign (TBufferFile::ReadWithNbits).
fn from_mantissa(raw: [u8; 3], bits: u32) -> f32 {
    let mantissa = u32::from(u16::from_be_bytes([raw[1], raw[2]]));
    let value = u32::from(raw[0]) << 23 | (mantissa & ((1 << (bits + 1)) - 1)) << (23 - bits);
    let value = f32::from_bits(value);
    if mantissa & 1 << (bits + 1) != 0 {
        -value
    } else {
        value
    }
}

/// Reverse the bytes of each value, using the widest available vector instructions.
fn swap<const SIZE: usize>(stored: &[u8], out: &mut [u8]) {
    let (stored, _) = stored.as_chunks::<SIZE>();
    let (out, _) = out.as_chunks_mut::<SIZE>();
    Arch::new().dispatch(|| {
        for (to, from) in out.iter_mut().zip(stored) {
            let mut value = *from;
            value.reverse();
            *to = value;
        }
    });
}

/// Convert big-endian floats to native doubles.
fn widen(stored: &[u8], out: &mut [u8]) {
    let (stored, _) = stored.as_chunks::<4>();
    let (out, _) = out.as_chunks_mut::<8>();
    Arch::new().dispatch(|| {
        for (to, from) in out.iter_mut().zip(stored) {
            *to = f64::from(f32::from_be_bytes(*from)).to_ne_bytes();
        }
    });
}

/// Convert each value with a function.
fn convert<const STORED: usize, const SIZE: usize>(
    stored: &[u8],
    out: &mut [u8],
    value: impl Fn([u8; STORED]) -> [u8; SIZE],
) {
    let (stored, _) = stored.as_chunks::<STORED>();
    let (out, _) = out.as_chunks_mut::<SIZE>();
    for (to, from) in out.iter_mut().zip(stored) {
        *to = value(*from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn big_endian_floats_become_native() {
        let mut out = [0; 8];
        Scalar::Plain(Number::F32).decode(&[0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0], &mut out);
        assert_eq!(out[..4], 1.0f32.to_ne_bytes());
        assert_eq!(out[4..], (-2.0f32).to_ne_bytes());
    }

    #[test]
    fn counters_are_ints() {
        let number = |code| Scalar::of_type_code(code, None).map(Scalar::number);
        assert_eq!(number(type_code::COUNTER), Some(Number::I32));
        assert_eq!(number(type_code::UNSIGNED_INT), Some(Number::U32));
    }

    #[test]
    fn any_byte_but_zero_is_true() {
        let mut out = [9; 3];
        Scalar::Plain(Number::Bool).decode(&[0, 1, 255], &mut out);
        assert_eq!(out, [0, 1, 1]);
    }

    #[test]
    fn a_mantissa_keeps_its_sign() {
        // 1.5 has exponent 127 and the highest mantissa bit set. With 10 mantissa bits, the sign is bit 11.
        let plus = from_mantissa([127, 0x02, 0x00], 10);
        let minus = from_mantissa([127, 0x0a, 0x00], 10);
        assert_eq!((plus, minus), (1.5, -1.5));
    }
}
