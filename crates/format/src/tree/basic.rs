//! Numbers of the members of trees, branches and leaves.

use crate::cursor::Cursor;
use crate::error::Result;

/// How a number is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Basic {
    #[default]
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    F32,
    F64,
}

impl Basic {
    /// The form of a basic type code (TVirtualStreamerInfo::EReadWrite).
    pub fn of_type_code(code: i32) -> Option<Self> {
        Some(match code {
            1 | 10 => Self::I8,
            2 => Self::I16,
            3 | 6 => Self::I32,
            4 | 14 | 16 | 17 => Self::I64,
            5 | 9 | 19 => Self::F32,
            8 => Self::F64,
            11 | 18 => Self::U8,
            12 => Self::U16,
            13 | 15 => Self::U32,
            _ => return None,
        })
    }

    /// Bytes of one value.
    pub fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// Reads one value; of a number with a fraction what is in front of it.
    pub fn read(self, cursor: &mut Cursor<'_>) -> Result<i64> {
        Ok(match self {
            Self::I8 => i64::from(cursor.i8()?),
            Self::U8 => i64::from(cursor.u8()?),
            Self::I16 => i64::from(cursor.i16()?),
            Self::U16 => i64::from(cursor.u16()?),
            Self::I32 => i64::from(cursor.i32()?),
            Self::U32 => i64::from(cursor.u32()?),
            Self::I64 => cursor.i64()?,
            Self::F32 => cursor.f32()? as i64,
            Self::F64 => cursor.f64()? as i64,
        })
    }
}
