//! The interfaces that each kind of object implements for merging and comparing. `list.rs` lists the kinds.

use std::sync::Arc;

use branchline_format::file::directory::Entry;
use branchline_format::file::TKey;
use branchline_format::write::ObjectPrograms;
use xxhash_rust::xxh3::Xxh3;

use crate::error::Result;
use crate::file::metadata_reader::MetadataReader;
use crate::file::File;
use crate::write::merged::Merged;
use crate::write::new_file::ObjectName;
use crate::write::products::holdings::Holdings;
use crate::write::products::output::{MergeOutput, Transfer};
use crate::write::products::source::Source;
use crate::write::products::tree_input::input::KnownTrees;
use crate::write::progress::Check;
use crate::write::request::Branches;

/// The resources for reading the objects of an input.
pub(crate) struct Opening<'a, 'r> {
    pub(crate) file: &'a Arc<File>,
    pub(crate) reader: &'a mut MetadataReader<'r>,
    /// The branches to read from each tree.
    pub(crate) branches: &'a Branches,
    pub(crate) known_trees: &'a KnownTrees,
    /// The programs for the classes whose objects can be added up.
    pub(crate) programs: &'a mut ObjectPrograms,
}

/// Messages for the user about an input's object.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    /// A description of the parts that are not merged.
    pub(crate) left_out: Option<String>,
    /// Any other message for the user.
    pub(crate) note: Option<String>,
}

/// The part of an input's object that is read before anything is written to the output.
pub(crate) trait Content: Sized + Send {
    /// Whether the object with this key is of the kind that the type implements.
    fn is_of(file: &File, key: &TKey) -> bool;

    /// Whether every cycle of the object is merged, instead of only the highest cycle.
    fn keeps_cycles(file: &File, key: &TKey) -> bool;

    /// Reads the parts of the object that are needed before writing.
    fn open(opening: &mut Opening<'_, '_>, entry: &Entry) -> Result<Self>;

    /// Estimates the maximum number of bytes that the object adds to an output.
    fn size_bytes(&self, key: &TKey) -> u64;

    /// Number of bytes of memory that the content takes.
    fn memory_bytes(&self) -> u64;

    /// Adds the content to a digest that must distinguish objects with the same name, size and date.
    fn hash(&self, digest: &mut Xxh3);

    /// Messages for the user about the object.
    fn remarks(&self) -> Remarks;

    /// Adds the object to the contents of a set of files, for comparison. The other set of files may lack older cycles.
    fn hold(self, source: &Source<'_>, is_older: bool, holdings: &mut Holdings, check: &mut Check<'_>) -> Result<()>;
}

/// The merged objects at one path of an output. An input is checked first and written next. Once it is completely
/// written, each of its objects starts a product or is added to an existing one. If an input fails, none of its objects
/// are added.
pub(crate) trait Product: Sized {
    /// The part of an object that is read before anything is written.
    type Content: Content;
    /// The data that were written for an object, kept until the object is added to a product.
    type Written;

    /// Whether objects of different classes at one path become cycles of one name.
    const HAS_VERSIONS: bool;

    /// Prepares the first object at a path for writing.
    fn prepare(content: &mut Self::Content, source: &Source<'_>, branches: &Branches) -> Result<()>;

    /// Converts an object to the form of the previous objects at its path, or returns an error.
    fn fit(&self, content: &mut Self::Content, source: &Source<'_>) -> Result<()>;

    /// Writes the baskets, pages or copied bytes of an object. `known` is the product to which the object will be
    /// added, if there is one.
    fn write(
        known: Option<&Self>,
        content: &Self::Content,
        source: &Source<'_>,
        output: &mut MergeOutput,
        transfer: &mut Transfer<'_, '_>,
    ) -> Result<Self::Written>;

    /// Creates a product from the first object at a path.
    fn begin(
        content: Self::Content,
        written: Self::Written,
        source: &Source<'_>,
        output: &mut MergeOutput,
    ) -> Result<Self>;

    /// Adds another object to the product.
    fn add(
        &mut self,
        content: Self::Content,
        written: Self::Written,
        source: &Source<'_>,
        output: &mut MergeOutput,
    ) -> Result<()>;

    /// Writes the record of the product after all inputs have been added, and counts the product in `merged`.
    fn finish(&mut self, path: &str, name: &ObjectName, output: &mut MergeOutput, merged: &mut Merged) -> Result<()>;

    /// Returns an error if `found`, which was read back from the output, differs from what was written.
    fn verify(&self, path: &str, found: Option<&Self::Content>, file: &File, check: &mut Check<'_>) -> Result<()>;
}
