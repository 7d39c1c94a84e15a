//! What a decoding thread decompresses with.

use branchline_format::compress::Decompressor;
use branchline_format::ntuple::cluster::Scratch;

use crate::read::decode::clock::Clock;

/// What a basket is decompressed with.
pub(crate) struct Tools<'a> {
    pub(crate) decompressor: &'a mut Decompressor,
    pub(crate) scratch: &'a mut Scratch,
    /// Runs since the basket before was done.
    pub(crate) clock: &'a mut Clock,
}
