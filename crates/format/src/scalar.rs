//! Numbers as baskets store them, and their decoding into native arrays.

use pulp::Arch;

use crate::range::FloatRange;

/// How one number is stored, and what comes out.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub enum Scalar {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    /// A Double32_t without range: stored as a float, read as a double.
    F32AsF64,
    /// A Double32_t with range or bits.
    Double32(FloatRange),
    /// A Float16_t.
    Float16(FloatRange),
}

/// Mantissa bits of a Float16_t that declares none (TBufferFile::ReadFloat16).
const FLOAT16_BITS: u32 = 12;

impl Scalar {
    /// The number behind a basic type code (TVirtualStreamerInfo::EReadWrite) with the range of its member.
    pub fn of_type_code(code: i32, range: Option<FloatRange>) -> Option<Self> {
        Some(match code {
            1 | 10 => Self::I8,
            2 => Self::I16,
            3 => Self::I32,
            6 | 13 | 15 => Self::U32, // 6 is a counter, which is never negative
            4 | 16 => Self::I64,
            5 => Self::F32,
            8 => Self::F64,
            9 => Self::double32(range),
            11 => Self::U8,
            12 => Self::U16,
            14 | 17 => Self::U64,
            18 => Self::Bool,
            19 => Self::float16(range),
            _ => return None,
        })
    }

    /// A Double32_t with this range.
    pub fn double32(range: Option<FloatRange>) -> Self {
        range.map_or(Self::F32AsF64, Self::Double32)
    }

    /// A Float16_t with this range.
    pub fn float16(range: Option<FloatRange>) -> Self {
        Self::Float16(range.unwrap_or(FloatRange::Mantissa { bits: FLOAT16_BITS }))
    }

    /// The number that a C++ type name stands for, as it is stored in a container.
    pub fn of_type_name(name: &str) -> Option<Self> {
        Some(match name {
            "bool" | "Bool_t" => Self::Bool,
            "char" | "Char_t" | "signed char" | "int8_t" => Self::I8,
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

    /// Bytes of one stored value.
    pub fn stored_size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 | Self::F32AsF64 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
            Self::Double32(range) | Self::Float16(range) => range.stored_size(),
        }
    }

    /// Bytes of one decoded value.
    pub fn size(self) -> usize {
        match self {
            Self::F32AsF64 | Self::Double32(_) => 8,
            Self::Float16(_) => 4,
            other => other.stored_size(),
        }
    }

    /// NumPy's name of the decoded type: kind and bytes.
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
            Self::F32 | Self::Float16(_) => "f4",
            Self::F64 | Self::F32AsF64 | Self::Double32(_) => "f8",
        }
    }

    /// C++'s name of the type.
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
            Self::F32 => "float",
            Self::F64 => "double",
            Self::F32AsF64 | Self::Double32(_) => "Double32_t",
            Self::Float16(_) => "Float16_t",
        }
    }

    /// Decodes as many values as `stored` holds into `out`, which has room for exactly as many.
    pub fn decode(self, stored: &[u8], out: &mut [u8]) {
        debug_assert_eq!(stored.len() / self.stored_size() * self.size(), out.len());
        match self {
            Self::Bool => {
                // Any byte but 0 is true in C++; NumPy's bool must be 0 or 1.
                stored.iter().zip(out).for_each(|(from, to)| *to = u8::from(*from != 0));
            }
            Self::I8 | Self::U8 => out.copy_from_slice(stored),
            Self::I16 | Self::U16 => swap::<2>(stored, out),
            Self::I32 | Self::U32 | Self::F32 => swap::<4>(stored, out),
            Self::I64 | Self::U64 | Self::F64 => swap::<8>(stored, out),
            Self::F32AsF64 => widen(stored, out),
            Self::Double32(FloatRange::Scaled { xmin, factor }) => {
                convert::<4, 8>(stored, out, |raw| (f64::from(u32::from_be_bytes(raw)) / factor + xmin).to_ne_bytes());
            }
            Self::Double32(FloatRange::Mantissa { bits }) => {
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

/// An exponent byte and a mantissa word whose bit above the mantissa is the sign (TBufferFile::ReadWithNbits).
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

/// Reverses the bytes of every value, with the widest vectors that the processor has.
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

fn widen(stored: &[u8], out: &mut [u8]) {
    let (stored, _) = stored.as_chunks::<4>();
    let (out, _) = out.as_chunks_mut::<8>();
    Arch::new().dispatch(|| {
        for (to, from) in out.iter_mut().zip(stored) {
            *to = f64::from(f32::from_be_bytes(*from)).to_ne_bytes();
        }
    });
}

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
        Scalar::F32.decode(&[0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0], &mut out);
        assert_eq!(out[..4], 1.0f32.to_ne_bytes());
        assert_eq!(out[4..], (-2.0f32).to_ne_bytes());
    }

    #[test]
    fn any_byte_but_zero_is_true() {
        let mut out = [9; 3];
        Scalar::Bool.decode(&[0, 1, 255], &mut out);
        assert_eq!(out, [0, 1, 1]);
    }

    #[test]
    fn a_mantissa_keeps_its_sign() {
        // 1.5 has exponent 127 and the highest mantissa bit; with 10 bits the sign is bit 11.
        let plus = from_mantissa([127, 0x02, 0x00], 10);
        let minus = from_mantissa([127, 0x0a, 0x00], 10);
        assert_eq!((plus, minus), (1.5, -1.5));
    }
}
