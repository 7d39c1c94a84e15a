//! The resources that a decoding thread needs to decompress baskets.

use branchline_format::compress::Decompressor;
use branchline_format::ntuple::cluster::Scratch;

use crate::read::decode::clock::Clock;

/// The resources for decompressing a basket.
pub(crate) struct Tools<'a> {
    pub(crate) decompressor: &'a mut Decompressor,
    pub(crate) scratch: &'a mut Scratch,
    /// The clock, which has been running since the previous basket was done.
    pub(crate) clock: &'a mut Clock,
}
