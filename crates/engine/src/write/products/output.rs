//! What an output and an input share while the objects of the input are written.

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

/// An output that is being made.
pub(crate) struct MergeOutput {
    pub(crate) file: NewFile,
    /// How baskets are compressed, unless they are copied.
    pub(crate) codec: Option<Setting>,
    /// Of trees whose entries are put into new baskets, by their paths.
    pub(crate) rewriters: HashMap<String, Rewriter>,
    /// The classes of the sums that were written last.
    pub(crate) programs: Option<ObjectPrograms>,
    /// Whether it has entries of an input that could not be added whole. Then it cannot become whole any more.
    pub(crate) is_torn: bool,
}

impl MergeOutput {
    /// Writes the new baskets that the threads make, before anything else is written: where things lie must not depend
    /// on how fast they are.
    pub(crate) fn settle(&mut self) -> Result<()> {
        let was_torn = std::mem::replace(&mut self.is_torn, true);
        let output = self.file.output();
        self.rewriters.values_mut().try_for_each(|rewriter| rewriter.settle(output, &mut |_| Ok(())))?;
        self.is_torn = was_torn;
        Ok(())
    }
}

/// What the objects of an input need while they are written.
pub(crate) struct Transfer<'a, 'b> {
    pub(crate) request: &'a MergeRequest,
    /// Compresses baskets in another way, if that is wanted.
    pub(crate) recompressor: Option<&'a mut Recompressor>,
    /// Process ids of the output in front of those of the input.
    pub(crate) process_ids_before: u16,
    /// Of each tree of the input where its baskets lie, if a killed merge wrote them.
    pub(crate) written_before: Option<std::vec::IntoIter<Vec<Placed>>>,
    /// Of each tree of the input that was written where its baskets lie.
    pub(crate) placed: Vec<Vec<Placed>>,
    /// Digests of the objects of the input that were copied, by their paths.
    pub(crate) copies: HashMap<String, HashSet<u128>>,
    pub(crate) progress: &'a mut Progress<'a>,
    pub(crate) checkpoints: &'a mut Checkpoints<'b>,
    /// The number of the output.
    pub(crate) volume: u64,
    /// Bytes that the merge wrote so far.
    pub(crate) bytes_done: &'a AtomicU64,
}
