//! Numbers that a class had in another type in one of its versions.

use crate::objects::model::steps::Convert;
use crate::scalar::Scalar;

impl Convert {
    /// Decodes and converts as C++ does when it assigns one to the other.
    pub(crate) fn append(&self, stored: &[u8], out: &mut Vec<u8>) {
        let mut native = vec![0; self.count * self.stored.size()];
        self.stored.decode(stored, &mut native);
        for bytes in native.chunks_exact(self.stored.size()) {
            match whole_number(self.stored, bytes) {
                Some(number) => push_whole(self.scalar, number, out),
                None => push_real(self.scalar, real_number(bytes), out),
            }
        }
    }
}

/// A native whole number.
pub(crate) fn whole_number(scalar: Scalar, bytes: &[u8]) -> Option<i64> {
    fn chunk<const SIZE: usize>(bytes: &[u8]) -> Option<[u8; SIZE]> {
        bytes.first_chunk::<SIZE>().copied()
    }
    Some(match scalar {
        Scalar::Bool | Scalar::U8 => i64::from(*bytes.first()?),
        Scalar::I8 => i64::from(*bytes.first()? as i8),
        Scalar::I16 => i64::from(i16::from_ne_bytes(chunk(bytes)?)),
        Scalar::U16 => i64::from(u16::from_ne_bytes(chunk(bytes)?)),
        Scalar::I32 => i64::from(i32::from_ne_bytes(chunk(bytes)?)),
        Scalar::U32 => i64::from(u32::from_ne_bytes(chunk(bytes)?)),
        Scalar::I64 | Scalar::U64 => i64::from_ne_bytes(chunk(bytes)?),
        Scalar::F32 | Scalar::F64 | Scalar::F32AsF64 | Scalar::Double32(_) | Scalar::Float16(_) => return None,
    })
}

fn real_number(bytes: &[u8]) -> f64 {
    match (bytes.first_chunk::<8>(), bytes.first_chunk::<4>()) {
        (Some(double), _) => f64::from_ne_bytes(*double),
        (None, Some(float)) => f64::from(f32::from_ne_bytes(*float)),
        _ => 0.0,
    }
}

fn push_whole(scalar: Scalar, number: i64, out: &mut Vec<u8>) {
    match scalar.dtype() {
        "b1" => out.push(u8::from(number != 0)),
        "f4" => out.extend_from_slice(&(number as f32).to_ne_bytes()),
        "f8" => out.extend_from_slice(&(number as f64).to_ne_bytes()),
        _ => push_bytes(scalar.size(), number, out),
    }
}

fn push_real(scalar: Scalar, number: f64, out: &mut Vec<u8>) {
    match scalar.dtype() {
        "b1" => out.push(u8::from(number != 0.0)),
        "f4" => out.extend_from_slice(&(number as f32).to_ne_bytes()),
        "f8" => out.extend_from_slice(&number.to_ne_bytes()),
        _ => push_bytes(scalar.size(), number as i64, out),
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

    fn converted(stored: Scalar, bytes: &[u8], scalar: Scalar) -> Vec<u8> {
        let mut out = Vec::new();
        Convert { stored, count: 1, slot: 0, scalar }.append(bytes, &mut out);
        out
    }

    #[test]
    fn numbers_keep_their_value_in_another_type() {
        assert_eq!(converted(Scalar::I16, &(-3i16).to_be_bytes(), Scalar::I64), (-3i64).to_ne_bytes());
        assert_eq!(converted(Scalar::F32, &1.5f32.to_be_bytes(), Scalar::F64), 1.5f64.to_ne_bytes());
        assert_eq!(converted(Scalar::I32, &7i32.to_be_bytes(), Scalar::F32), 7f32.to_ne_bytes());
        assert_eq!(converted(Scalar::F64, &2.9f64.to_be_bytes(), Scalar::I32), 2i32.to_ne_bytes());
    }
}
