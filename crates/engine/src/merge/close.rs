//! What comes behind the last record of a file, and what stands in front of the first.

use branchline_format::write::file::BEGIN;
use branchline_format::write::{FileFrame, NewKey, RecordPlace};

use crate::error::{ReadError, Result};

use super::output::Output;

/// Writes the list of streamer infos, which `infos` makes for a key of so many bytes, the list of keys, the free space
/// and the first bytes, and gives the file its name. Answers with its bytes.
pub(crate) fn close(
    mut output: Output,
    frame: &FileFrame,
    keys: &[Vec<u8>],
    infos: impl FnOnce(u64) -> branchline_format::error::Result<Vec<u8>>,
) -> Result<u64> {
    let path = output.name();
    let named = |error| ReadError::from_format(&path, &error);
    let mut key = NewKey {
        class_name: "TList",
        name: b"StreamerInfo",
        title: b"Doubly linked list",
        object_size: 0,
        stored_size: 0,
        date: frame.date,
        seek: output.end(),
        seek_directory: BEGIN,
    };
    let infos = infos(key.size()).map_err(named)?;
    (key.object_size, key.stored_size) = (infos.len() as u64, infos.len() as u64);
    let place = RecordPlace { seek: key.seek, size: key.size() + infos.len() as u64 };
    output.write(&key.bytes().map_err(named)?)?;
    output.write(&infos)?;

    let seek = output.end();
    let list = frame.key_list(seek, keys).map_err(named)?;
    let key_list = RecordPlace { seek, size: list.len() as u64 };
    output.write(&list)?;
    let seek = output.end();
    let list = frame.free_list(seek).map_err(named)?;
    let free = RecordPlace { seek, size: list.len() as u64 };
    output.write(&list)?;
    let mut head = frame.header(output.end(), free, place).map_err(named)?;
    head.extend(frame.top(key_list).map_err(named)?);
    let size_bytes = output.end();
    output.finish(&head)?;
    Ok(size_bytes)
}
