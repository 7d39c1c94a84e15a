//! The choice of the description by which an object is read.

use crate::classes::class_info::ClassInfo;
use crate::classes::root_classes;
use crate::classes::streamer::ClassInfos;
use crate::cursor::{Cursor, VersionHeader};
use crate::error::{FormatError, Result};

/// The layout of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Description<'i> {
    /// Its bases and members.
    pub(super) info: &'i ClassInfo,
    /// Whether the object may have members behind those of the description.
    pub(super) is_beginning: bool,
}

/// The checksum behind the version of an object of a foreign class; 0 for all other objects.
#[inline]
pub(super) fn checksum(infos: &ClassInfos, name: &str, header: VersionHeader, cursor: &mut Cursor<'_>) -> Result<u32> {
    if header.version > 0 || header.end.is_none() {
        return Ok(0);
    }
    let checksum = cursor.clone().u32().unwrap_or(0);
    // A class whose ClassDef says 0 has the same version and no checksum.
    if infos.get(name, 0).is_some() && infos.all(name).all(|info| info.checksum != checksum) {
        return Ok(0);
    }
    cursor.skip(4)?;
    Ok(checksum)
}

/// Finds the description of an object of this class. Versions that ROOT's code wrote member by member have a built-in
/// one; for all others the file's comes before that of ROOT's libraries. None if nothing describes the object.
pub(super) fn find<'i>(
    infos: &'i ClassInfos,
    name: &str,
    header: VersionHeader,
    checksum: u32,
) -> Result<Option<Description<'i>>> {
    let version = i32::from(header.version);
    // The streamer infos of these versions, where a file has them, leave out members that were written.
    match (name, version) {
        ("TBranch", ..=5) => {
            return Err(FormatError::unsupported(format!("TBranch version {version}, which ROOT before 3 wrote")));
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

/// The newest layout of leaves and named objects: their first members are the same in all versions.
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
