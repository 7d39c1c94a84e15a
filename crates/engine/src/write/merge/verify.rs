//! Verifies an output before it is published. The output is opened like any file, and all its data are read back from
//! disk and compared with what was written.

use branchline_storage::Access;

use crate::error::{ReadError, Result};
use crate::write::merge::input::{Input, Wanted};
use crate::write::merge::volume::Finished;
use crate::write::products::tree_input::input::{KnownTrees, UnevenBranches};
use crate::write::progress::Check;
use crate::write::request::Branches;

/// Returns an error if an output differs from what was written.
pub(crate) fn verify(finished: &mut Finished, check: &mut Check<'_>) -> Result<()> {
    let path = finished.file.output().path().display().to_string();
    let temporary = finished.file.output().temporary().display().to_string();
    // Errors must name the final path of the output instead of its temporary path.
    let renamed = |mut error: ReadError| {
        error.path.clone_from(&path);
        error
    };
    let wanted = Wanted { tree: None, branches: &Branches::new(), access: &Access::default() };
    let read = Input::open(&temporary, wanted, &KnownTrees::new(UnevenBranches::Unchanged)).map_err(renamed)?;
    for made in &finished.products {
        let found = read.items.iter().find(|item| item.entry.path == made.path).map(|item| &item.content);
        made.product.verify(&made.path, found, &read.file, check).map_err(renamed)?;
    }
    Ok(())
}
