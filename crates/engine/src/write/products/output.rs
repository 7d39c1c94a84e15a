//! The context in which the objects of an input are written to an output.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;

use branchline_format::compress::Setting;
use branchline_format::write::ObjectPrograms;

use crate::error::Result;
use crate::write::baskets::recompress::Recompressor;
use crate::write::baskets::rewrite::Rewriter;
use crate::write::journal::checkpoints::Checkpoints;
use crate::write::new_file::NewFile;
use crate::write::placed::Placed;
use crate::write::progress::Progress;
use crate::write::request::MergeRequest;

/// An output in progress.
pub(crate) struct MergeOutput {
    pub(crate) file: NewFile,
    /// The compression of baskets. If None, baskets are copied.
    pub(crate) codec: Option<Setting>,
    /// The rewriters of trees whose entries are rewritten into new baskets, keyed by path.
    pub(crate) rewriters: HashMap<String, Rewriter>,
    /// The programs for the classes of the sums that were written last.
    pub(crate) programs: Option<ObjectPrograms>,
    /// Whether the output has entries of an input that was only partly added. Such an output can no longer be
    /// completed.
    pub(crate) is_torn: bool,
}

impl MergeOutput {
    /// Writes the new baskets that are still in progress. This happens before anything else is written, so that offsets
    /// do not depend on the speed of the threads.
    pub(crate) fn settle(&mut self) -> Result<()> {
        let was_torn = std::mem::replace(&mut self.is_torn, true);
        let output = self.file.output();
        self.rewriters.values_mut().try_for_each(|rewriter| rewriter.settle(output, &mut |_| Ok(())))?;
        self.is_torn = was_torn;
        Ok(())
    }
}

/// The state of writing an input's objects to an output.
pub(crate) struct Transfer<'a, 'b> {
    pub(crate) request: &'a MergeRequest,
    /// Recompresses baskets, if requested.
    pub(crate) recompressor: Option<&'a mut Recompressor>,
    /// Number of process IDs that precede the input's IDs in the output.
    pub(crate) process_ids_before: u16,
    /// For each tree of the input, the locations of its baskets, if a killed merge already wrote them.
    pub(crate) written_before: Option<std::vec::IntoIter<Vec<Placed>>>,
    /// For each tree of the input that has been written, the locations of its baskets.
    pub(crate) placed: Vec<Vec<Placed>>,
    /// Digests of the copied objects of the input, keyed by path.
    pub(crate) copies: HashMap<String, HashSet<u128>>,
    pub(crate) progress: &'a mut Progress<'a>,
    pub(crate) checkpoints: &'a mut Checkpoints<'b>,
    /// The index of the output.
    pub(crate) volume: u64,
    /// Number of bytes that the whole merge has written.
    pub(crate) bytes_done: &'a AtomicU64,
}
