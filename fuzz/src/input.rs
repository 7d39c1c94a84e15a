//! The first bytes of an input, which choose what the rest is taken for; and their making, for seeds.

/// Bytes that are used up from the front; behind the end there are only zeros.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// The next two bytes as a number.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// The next four bytes as a number.
    pub fn long(&mut self) -> u32 {
        u32::from(self.short()) | u32::from(self.short()) << 16
    }

    /// Bytes behind a length of one byte.
    pub fn text(&mut self) -> &'a [u8] {
        let size = usize::from(self.byte());
        self.take(size)
    }

    /// The next `size` bytes, or as many as are left.
    pub fn take(&mut self, size: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(size.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Bytes behind a length of two bytes.
    pub fn part(&mut self) -> &'a [u8] {
        let size = usize::from(self.short());
        self.take(size)
    }
}

/// What [`Input::part`] reads.
pub fn put_part(seed: &mut Vec<u8>, part: &[u8]) {
    let size = part.len().min(usize::from(u16::MAX));
    seed.extend_from_slice(&(size as u16).to_le_bytes());
    seed.extend_from_slice(&part[..size]);
}
