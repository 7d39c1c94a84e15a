//! The plain bytes of a list of streamer infos, behind two bytes for the size of its key.

use crate::input::Input;
use crate::memory::bounded;
use branchline_format::classes::streamer::ClassInfos;

/// Bytes of memory for a byte of streamer infos.
const FACTOR: usize = 256;

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let key_size = u64::from(input.short());
    if let Ok(infos) = bounded(bytes.len(), FACTOR, || ClassInfos::read(input.0, key_size)) {
        infos.inherits("TNtuple", "TTree");
        infos.find("TNamed", 1, 0);
    }
}
