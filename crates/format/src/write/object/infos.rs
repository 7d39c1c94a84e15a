//! Merging of the streamer info lists of several files. The result has each class version once.

use std::collections::HashSet;
use std::ops::Range;

use crate::classes::streamer::ClassInfos;
use crate::cursor::VersionHeader;
use crate::error::{FormatError, Result};
use crate::walker::Walker;

use super::emitter::Emitter;
use super::recorder::Recorder;

/// Size of the part of a TNamed before its name: byte count, version, and the TObject, whose bits differ between files.
const BEFORE_NAME_BYTES: usize = 16;

/// The streamer info list of a file.
#[derive(Debug, Clone, Copy)]
pub struct InfoList<'a> {
    /// The uncompressed bytes.
    pub plain: &'a [u8],
    /// Size of the key that precedes the list.
    pub key_size: u64,
}

/// Merge streamer info lists into a list whose key has `key_size` bytes. The result has all items of the first list,
/// and from each further list the items that all earlier lists lack.
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
        return Err(FormatError::unsupported("no lists of streamer infos to merge"));
    }
    emitter.end()?;
    emitter.out[count_at..count_at + 4].copy_from_slice(&items_count.to_be_bytes());
    Ok(emitter.out)
}

/// An item of a streamer info list.
struct Item {
    /// Bytes that identify the item: for a class the name, version and checksum, otherwise the whole item.
    identity: Vec<u8>,
    tokens: Range<usize>,
}

impl<'a> Walker<'a, '_, Recorder<'a>> {
    /// Parse a streamer info list into the range of its header (from the version to the item count) and its items.
    fn info_list(&mut self) -> Result<(Range<usize>, Vec<Item>)> {
        let header: VersionHeader = self.buffer.cursor.version_header()?;
        let start = self.position() - 2;
        if header.version <= 3 || header.end.is_none() {
            return Err(FormatError::unsupported(format!(
                "version {} of the list of streamer infos is not supported",
                header.version
            )));
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
            self.buffer.cursor.string_bytes()?; // option string of the TList entry
            let end = self.position();
            self.visitor.copy_up_to(end);
            items.push(Item { identity, tokens: first_token..self.visitor.tokens.len() });
        }
        Ok((head, items))
    }

    /// Walk through a TStreamerInfo (TStreamerInfo::Streamer).
    pub(crate) fn streamer_info(&mut self) -> Result<()> {
        let header = self.begin()?;
        let start = self.position();
        let named = self.class("TNamed");
        self.alone(named)?;
        self.buffer.cursor.skip(8)?; // checksum and class version

        // For a class, drop the bytes before its name. A list of rules is identified by all its bytes.
        let identity = self.visitor.bytes(start..self.position());
        self.visitor.identity = Some(identity.get(BEFORE_NAME_BYTES..).unwrap_or(identity).to_vec());
        self.pointer()?;
        self.end(header, false)
    }
}
