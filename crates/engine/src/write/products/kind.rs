//! What each kind of object must be able to do to be merged and compared. `list.rs` has the kinds.

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

/// How the objects of an input are read.
pub(crate) struct Opening<'a, 'r> {
    pub(crate) file: &'a Arc<File>,
    pub(crate) reader: &'a mut MetadataReader<'r>,
    /// The branches that are wanted.
    pub(crate) branches: &'a Branches,
    pub(crate) known_trees: &'a KnownTrees,
    /// The classes of objects that add up.
    pub(crate) programs: &'a mut ObjectPrograms,
}

/// Sentences for the user on an object of an input.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    /// Parts of it that are not merged.
    pub(crate) left_out: Option<String>,
    /// Anything else.
    pub(crate) note: Option<String>,
}

/// What is read of an object of an input before anything is written.
pub(crate) trait Content: Sized + Send {
    /// Whether the object of a key is of this kind.
    fn is_of(file: &File, key: &TKey) -> bool;

    /// Whether each cycle of an object of this kind is merged, not only the highest.
    fn keeps_cycles(file: &File, key: &TKey) -> bool;

    /// Reads all of the object that is not read while it is written.
    fn open(opening: &mut Opening<'_, '_>, entry: &Entry) -> Result<Self>;

    /// An estimate of the bytes that it adds to an output, at most.
    fn size_bytes(&self, key: &TKey) -> u64;

    /// Bytes of memory that it takes.
    fn memory_bytes(&self) -> u64;

    /// Adds to a digest what differs in another object of the same name, size and date.
    fn hash(&self, digest: &mut Xxh3);

    /// Notes for the user.
    fn remarks(&self) -> Remarks;

    /// Adds it to what some files hold together, to compare them with others. Older cycles of an object need not be in
    /// the others.
    fn hold(self, source: &Source<'_>, is_older: bool, holdings: &mut Holdings, check: &mut Check<'_>) -> Result<()>;
}

/// What the objects of one path become in an output. An input is checked, then written, and when all of it is written
/// each of its objects begins a product or is added to one. Nothing of an input that fails is added.
pub(crate) trait Product: Sized {
    /// What is read of the objects of an input.
    type Content: Content;
    /// What was written of an object, until it is added.
    type Written;

    /// Whether objects of several classes may have one path, and become cycles of one name.
    const HAS_VERSIONS: bool;

    /// Prepares the first object of a path.
    fn prepare(content: &mut Self::Content, source: &Source<'_>, branches: &Branches) -> Result<()>;

    /// Brings an object into the form of those before, or refuses it.
    fn fit(&self, content: &mut Self::Content, source: &Source<'_>) -> Result<()>;

    /// Writes baskets, pages, and objects that are copied. `known` is the product that it will be added to.
    fn write(
        known: Option<&Self>,
        content: &Self::Content,
        source: &Source<'_>,
        output: &mut MergeOutput,
        transfer: &mut Transfer<'_, '_>,
    ) -> Result<Self::Written>;

    /// Begins with the first object of a path.
    fn begin(
        content: Self::Content,
        written: Self::Written,
        source: &Source<'_>,
        output: &mut MergeOutput,
    ) -> Result<Self>;

    /// Adds another object.
    fn add(
        &mut self,
        content: Self::Content,
        written: Self::Written,
        source: &Source<'_>,
        output: &mut MergeOutput,
    ) -> Result<()>;

    /// Writes the record of the product when all inputs are added, and counts it.
    fn finish(&mut self, path: &str, name: &ObjectName, output: &mut MergeOutput, merged: &mut Merged) -> Result<()>;

    /// Refuses an output in whose file `found` is not what was written.
    fn verify(&self, path: &str, found: Option<&Self::Content>, file: &File, check: &mut Check<'_>) -> Result<()>;
}
