//! Encoding of an envelope's payload: little-endian numbers, strings and frames (sections "Basic Types" and "Frames").

use crate::error::{FormatError, Result};

/// A growing buffer of encoded bytes.
#[derive(Debug, Default)]
pub(super) struct Wire {
    pub(super) bytes: Vec<u8>,
}

macro_rules! numbers {
    ($($name:ident: $type:ty;)*) => {$(
        pub(super) fn $name(&mut self, value: $type) {
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    )*};
}

impl Wire {
    numbers! {
        u16: u16;
        u32: u32;
        i32: i32;
        u64: u64;
        i64: i64;
        f64: f64;
    }

    /// Append a count or an index as a 32-bit integer. Fails if the value does not fit.
    pub(super) fn count(&mut self, count: usize) -> Result<()> {
        let short = u32::try_from(count);
        self.u32(short.map_err(|_| FormatError::unsupported(format!("{count} exceeds the 32-bit limit of RNTuple")))?);
        Ok(())
    }

    pub(super) fn string(&mut self, text: &[u8]) -> Result<()> {
        self.count(text.len())?;
        self.bytes.extend_from_slice(text);
        Ok(())
    }

    /// Append a record frame whose contents `fill` adds.
    pub(super) fn record(&mut self, fill: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let start = self.bytes.len();
        self.i64(0);
        fill(self)?;
        let size = (self.bytes.len() - start) as i64;
        self.bytes[start..start + 8].copy_from_slice(&size.to_le_bytes());
        Ok(())
    }

    /// Append a list frame with the given items.
    pub(super) fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut add: impl FnMut(&mut Self, T) -> Result<()>,
    ) -> Result<()> {
        self.list_with(items.len(), |wire| {
            for item in items {
                add(wire, item)?;
            }
            Ok(())
        })
    }

    /// Append a list frame of `count` items. `fill` adds the items and all further contents of the frame.
    pub(super) fn list_with(&mut self, count: usize, fill: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let start = self.bytes.len();
        self.i64(0);
        self.count(count)?;
        fill(self)?;
        let size = (self.bytes.len() - start) as i64;
        self.bytes[start..start + 8].copy_from_slice(&(-size).to_le_bytes());
        Ok(())
    }
}
