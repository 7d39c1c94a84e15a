//! Selection of the class description for reading an object.

use crate::classes::class_info::ClassInfo;
use crate::classes::root_classes;
use crate::classes::streamer::ClassInfos;
use crate::cursor::{Cursor, VersionHeader};
use crate::error::{FormatError, Result};

/// The description of an object's members.
#[derive(Debug, Clone, Copy)]
pub(super) struct Description<'i> {
    /// The base classes and members.
    pub(super) info: &'i ClassInfo,
    /// Whether the description may lack the object's last members.
    pub(super) is_beginning: bool,
}

/// Read the checksum in the header of an object whose class has no ClassDef; return 0 for other objects.
#[inline]
pub(super) fn checksum(infos: &ClassInfos, name: &str, header: VersionHeader, cursor: &mut Cursor<'_>) -> Result<u32> {
    if header.version > 0 || header.end.is_none() {
        return Ok(0);
    }
    let checksum = cursor.clone().u32().unwrap_or(0);
    // A class whose ClassDef has version 0 has the same version in the header, but no checksum.
    if infos.get(name, 0).is_some() && infos.all(name).all(|info| info.checksum != checksum) {
        return Ok(0);
    }
    cursor.skip(4)?;
    Ok(checksum)
}

/// Find the description of an object. Class versions with hand-written ROOT streamers have a built-in description. For
/// other versions, the file's description takes precedence over the built-in description. None if neither exists.
pub(super) fn find<'i>(
    infos: &'i ClassInfos,
    name: &str,
    header: VersionHeader,
    checksum: u32,
) -> Result<Option<Description<'i>>> {
    let version = i32::from(header.version);
    // A file's streamer infos for these versions omit members that were written.
    match (name, version) {
        ("TBranch", ..=5) => {
            return Err(FormatError::unsupported(format!(
                "TBranch version {version}, written by ROOT 2 or older, is not supported"
            )));
        }
        ("TBranch", 6..=9) => return Ok(root_classes::by_hand(name, version).map(whole)),
        ("TTree", ..=4) => return Ok(root_classes::by_hand(name, 4).map(beginning)),
        _ => {}
    }
    let described = match version {
        ..=0 => infos.find(name, version, checksum),
        _ => infos.get(name, version),
    };
    Ok(described.map(whole).or_else(|| alike_in_all_versions(name).filter(|_| header.end.is_some())))
}

/// The newest built-in description of TNamed, TNtuple, TNtupleD or a leaf class, for any version of the class. The
/// versions of a leaf class have only their first members in common.
fn alike_in_all_versions(name: &str) -> Option<Description<'static>> {
    match name {
        "TNamed" | "TNtuple" | "TNtupleD" => root_classes::newest(name).map(whole),
        _ if name.starts_with("TLeaf") => root_classes::newest(name).map(beginning),
        _ => None,
    }
}

fn whole(info: &ClassInfo) -> Description<'_> {
    Description { info, is_beginning: false }
}

fn beginning(info: &ClassInfo) -> Description<'_> {
    Description { info, is_beginning: true }
}
