//! Which ranges a chunk will need that is still to come, as far as metadata tell.

use std::ops::Range;
use std::sync::Arc;

use branchline_format::tree::Place;
use branchline_storage::ByteRange;

use crate::error::Result;
use crate::file::File;
use crate::tree::{Content, Tree};

impl Tree {
    /// The ranges of these columns for these entries that are not in memory, by the file they are in.
    pub(crate) fn upcoming(&self, columns: &[usize], entries: &Range<u64>) -> Result<Vec<(Arc<File>, Vec<ByteRange>)>> {
        let mut by_file: Vec<(Arc<File>, Vec<ByteRange>)> = Vec::new();
        let mut want = |file: &Arc<File>, range: ByteRange| {
            if file.held(range.offset, range.length).is_some() {
                return;
            }
            match by_file.iter_mut().find(|(known, _)| Arc::ptr_eq(known, file)) {
                Some((_, ranges)) => ranges.push(range),
                None => by_file.push((Arc::clone(file), vec![range])),
            }
        };
        for column in columns {
            for basket in self.baskets_of(*column, entries)? {
                match self.content() {
                    Content::Tree { meta, .. } => {
                        if let Place::File { seek, size } = meta.branches[*column].baskets[basket].place {
                            want(self.home(*column), ByteRange::new(seek, size));
                        }
                    }
                    Content::Ntuple(ntuple) => {
                        let all = self.basket_entries(*column, basket);
                        // Of a part of a cluster only its pages tell which of them are wanted.
                        if entries.start <= all.start && all.end <= entries.end {
                            let cluster = ntuple.field_cluster(self.file(), *column, basket)?;
                            cluster.locators().for_each(|one| want(self.file(), ByteRange::new(one.offset, one.size)));
                        }
                    }
                }
            }
        }
        for (_, ranges) in &mut by_file {
            ranges.sort_unstable_by_key(|range| (range.offset, range.length));
            ranges.dedup();
        }
        Ok(by_file)
    }
}
