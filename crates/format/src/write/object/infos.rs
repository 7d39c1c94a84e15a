//! The list of streamer infos of a file that is made from several: each class in each version once.

use std::collections::HashSet;
use std::ops::Range;

use crate::classes::streamer::ClassInfos;
use crate::cursor::VersionHeader;
use crate::error::{FormatError, Result};
use crate::walker::Walker;

use super::emitter::Emitter;
use super::recorder::Recorder;

/// Bytes in front of the name of a TNamed: byte count and version, and the TObject with its bits, which differ between
/// files.
const BEFORE_NAME_BYTES: usize = 16;

/// A file's list of streamer infos.
#[derive(Debug, Clone, Copy)]
pub struct InfoList<'a> {
    /// Its bytes, not compressed.
    pub plain: &'a [u8],
    /// Bytes of the key in front of it.
    pub key_size: u64,
}

/// Joins lists of streamer infos for a key of `key_size` bytes: all of the first, of others what those before lack.
pub fn join_infos(lists: &[InfoList<'_>], key_size: u64) -> Result<Vec<u8>> {
    let nothing = ClassInfos::default();
    let mut emitter = Emitter::new(key_size);
    let mut seen = HashSet::new();
    let (mut items_count, mut count_at) = (0u32, 0);
    for (number, InfoList { plain: bytes, key_size: old_key_size }) in lists.iter().copied().enumerate() {
        let mut walker = Walker::new(bytes, old_key_size, &nothing, Recorder::new(bytes));
        let (header, items) = walker.info_list()?;
        if number == 0 {
            emitter.begin();
            emitter.out.extend_from_slice(&bytes[header]);
            count_at = emitter.out.len() - 4;
        }
        emitter.forget_objects();
        for item in items {
            if seen.insert(item.identity) {
                emitter.tokens(&walker.visitor.tokens[item.tokens], bytes)?;
                items_count += 1;
            }
        }
    }
    if lists.is_empty() {
        return Err(FormatError::unsupported("no list of streamer infos to join"));
    }
    emitter.end()?;
    emitter.out[count_at..count_at + 4].copy_from_slice(&items_count.to_be_bytes());
    Ok(emitter.out)
}

/// One of the list.
struct Item {
    /// What identifies it: of a class its name and the bytes with version and checksum, of anything else all bytes.
    identity: Vec<u8>,
    tokens: Range<usize>,
}

impl<'a> Walker<'a, '_, Recorder<'a>> {
    /// Takes a list of streamer infos apart: its head from the version to the number of items, and these.
    fn info_list(&mut self) -> Result<(Range<usize>, Vec<Item>)> {
        let header: VersionHeader = self.buffer.cursor.version_header()?;
        let start = self.position() - 2;
        if header.version <= 3 || header.end.is_none() {
            return Err(FormatError::unsupported(format!("a list of streamer infos of version {}", header.version)));
        }
        self.buffer.skip_tobject()?;
        self.buffer.cursor.string_bytes()?;
        let count = i64::from(self.buffer.cursor.i32()?);
        let count = self.buffer.cursor.checked_count(count, 5)?;
        let head = start..self.position();
        self.visitor.skip_copying(head.end);
        let mut items = Vec::new();
        for _ in 0..count {
            let (first_token, first_byte) = (self.visitor.tokens.len(), self.position());
            self.visitor.identity = None;
            self.pointer()?;
            let all = first_byte..self.position();
            let identity = self.visitor.identity.take();
            let identity = identity.unwrap_or_else(|| self.visitor.bytes(all).to_vec());
            self.buffer.cursor.string_bytes()?; // the option of a TList's link
            let end = self.position();
            self.visitor.copy_up_to(end);
            items.push(Item { identity, tokens: first_token..self.visitor.tokens.len() });
        }
        Ok((head, items))
    }

    /// TStreamerInfo::Streamer.
    pub(crate) fn streamer_info(&mut self) -> Result<()> {
        let header = self.begin()?;
        let start = self.position();
        let named = self.class("TNamed");
        self.alone(named)?;
        self.buffer.cursor.skip(8)?; // checksum and version of the class

        // From its name on these bytes identify a class; a list of rules is identified by all of its bytes.
        let identity = self.visitor.bytes(start..self.position());
        self.visitor.identity = Some(identity.get(BEFORE_NAME_BYTES..).unwrap_or(identity).to_vec());
        self.pointer()?;
        self.end(header, false)
    }
}
