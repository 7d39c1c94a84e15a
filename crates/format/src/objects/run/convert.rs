//! Conversion of numbers whose type differs between versions of a class.

use crate::layout::steps::Convert;
use crate::numbers::number::Number;

impl Convert {
    /// Decode stored numbers, convert them like a C++ assignment, and append them to `out`.
    pub(crate) fn append(&self, stored: &[u8], out: &mut Vec<u8>) {
        let mut native = vec![0; self.count * self.stored.size()];
        self.stored.decode(stored, &mut native);
        for bytes in native.chunks_exact(self.stored.size()) {
            match whole_number(self.stored.number(), bytes) {
                Some(number) => push_whole(self.number, number, out),
                None => push_real(self.number, real_number(bytes), out),
            }
        }
    }
}

/// Decode a native integer; None for floating-point types.
pub(crate) fn whole_number(number: Number, bytes: &[u8]) -> Option<i64> {
    fn chunk<const SIZE: usize>(bytes: &[u8]) -> Option<[u8; SIZE]> {
        bytes.first_chunk::<SIZE>().copied()
    }
    Some(match number {
        Number::Bool | Number::U8 => i64::from(*bytes.first()?),
        Number::I8 => i64::from(*bytes.first()? as i8),
        Number::I16 => i64::from(i16::from_ne_bytes(chunk(bytes)?)),
        Number::U16 => i64::from(u16::from_ne_bytes(chunk(bytes)?)),
        Number::I32 => i64::from(i32::from_ne_bytes(chunk(bytes)?)),
        Number::U32 => i64::from(u32::from_ne_bytes(chunk(bytes)?)),
        Number::I64 | Number::U64 => i64::from_ne_bytes(chunk(bytes)?),
        Number::F16 | Number::F32 | Number::F64 => return None,
    })
}

fn real_number(bytes: &[u8]) -> f64 {
    match (bytes.first_chunk::<8>(), bytes.first_chunk::<4>()) {
        (Some(double), _) => f64::from_ne_bytes(*double),
        (None, Some(float)) => f64::from(f32::from_ne_bytes(*float)),
        _ => 0.0,
    }
}

fn push_whole(number: Number, value: i64, out: &mut Vec<u8>) {
    match number {
        Number::Bool => out.push(u8::from(value != 0)),
        Number::F16 | Number::F32 => out.extend_from_slice(&(value as f32).to_ne_bytes()),
        Number::F64 => out.extend_from_slice(&(value as f64).to_ne_bytes()),
        whole => push_bytes(whole.size(), value, out),
    }
}

fn push_real(number: Number, value: f64, out: &mut Vec<u8>) {
    match number {
        Number::Bool => out.push(u8::from(value != 0.0)),
        Number::F16 | Number::F32 => out.extend_from_slice(&(value as f32).to_ne_bytes()),
        Number::F64 => out.extend_from_slice(&value.to_ne_bytes()),
        whole => push_bytes(whole.size(), value as i64, out),
    }
}

fn push_bytes(size: usize, number: i64, out: &mut Vec<u8>) {
    match size {
        1 => out.extend_from_slice(&(number as u8).to_ne_bytes()),
        2 => out.extend_from_slice(&(number as u16).to_ne_bytes()),
        4 => out.extend_from_slice(&(number as u32).to_ne_bytes()),
        _ => out.extend_from_slice(&number.to_ne_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::scalar::Scalar;

    fn converted(stored: Number, bytes: &[u8], number: Number) -> Vec<u8> {
        let mut out = Vec::new();
        Convert { stored: Scalar::Plain(stored), count: 1, slot: 0, number }.append(bytes, &mut out);
        out
    }

    #[test]
    fn numbers_keep_their_value_in_another_type() {
        assert_eq!(converted(Number::I16, &(-3i16).to_be_bytes(), Number::I64), (-3i64).to_ne_bytes());
        assert_eq!(converted(Number::F32, &1.5f32.to_be_bytes(), Number::F64), 1.5f64.to_ne_bytes());
        assert_eq!(converted(Number::I32, &7i32.to_be_bytes(), Number::F32), 7f32.to_ne_bytes());
        assert_eq!(converted(Number::F64, &2.9f64.to_be_bytes(), Number::I32), 2i32.to_ne_bytes());
    }
}
