//! Merges directories: the output has every directory that any input has.

use branchline_format::file::directory::{is_directory, Entry};
use branchline_format::file::TKey;
use xxhash_rust::xxh3::Xxh3;

use crate::error::Result;
use crate::file::File;
use crate::write::merged::Merged;
use crate::write::new_file::ObjectName;
use crate::write::products::holdings::Holdings;
use crate::write::products::kind::{Content, Opening, Product, Remarks};
use crate::write::products::output::{MergeOutput, Transfer};
use crate::write::products::source::Source;
use crate::write::progress::Check;
use crate::write::request::Branches;

/// Estimated size of a directory in the output, in bytes.
const SIZE_BYTES: u64 = 100;

/// A directory of an input or of the output. No data are needed, because the key of a directory has everything.
pub(crate) struct Directory;

impl Content for Directory {
    fn is_of(_file: &File, key: &TKey) -> bool {
        is_directory(key)
    }

    fn keeps_cycles(_file: &File, _key: &TKey) -> bool {
        false
    }

    fn open(_opening: &mut Opening<'_, '_>, _entry: &Entry) -> Result<Self> {
        Ok(Self)
    }

    fn size_bytes(&self, _key: &TKey) -> u64 {
        SIZE_BYTES
    }

    fn memory_bytes(&self) -> u64 {
        0
    }

    fn hash(&self, _digest: &mut Xxh3) {}

    fn remarks(&self) -> Remarks {
        Remarks::default()
    }

    /// Does nothing: directories are compared by the objects in them.
    fn hold(self, _source: &Source<'_>, _older: bool, _holdings: &mut Holdings, _check: &mut Check<'_>) -> Result<()> {
        Ok(())
    }
}

impl Product for Directory {
    type Content = Self;
    type Written = ();

    const HAS_VERSIONS: bool = false;

    fn prepare(_content: &mut Self, _source: &Source<'_>, _branches: &Branches) -> Result<()> {
        Ok(())
    }

    fn fit(&self, _content: &mut Self, _source: &Source<'_>) -> Result<()> {
        Ok(())
    }

    fn write(
        _known: Option<&Self>,
        _content: &Self,
        source: &Source<'_>,
        output: &mut MergeOutput,
        _transfer: &mut Transfer<'_, '_>,
    ) -> Result<()> {
        // An input may contain the same directory twice.
        if output.file.directory(source.path()).is_none() {
            output.settle()?;
            let parent = source.directory(output);
            output.file.add_directory(parent, source.path(), source.object_name())?;
        }
        Ok(())
    }

    fn begin(_content: Self, (): (), _source: &Source<'_>, _output: &mut MergeOutput) -> Result<Self> {
        Ok(Self)
    }

    fn add(&mut self, _content: Self, (): (), _source: &Source<'_>, _output: &mut MergeOutput) -> Result<()> {
        Ok(())
    }

    /// Does nothing, because directories are written with the file.
    fn finish(
        &mut self,
        _path: &str,
        _name: &ObjectName,
        _output: &mut MergeOutput,
        _merged: &mut Merged,
    ) -> Result<()> {
        Ok(())
    }

    /// Does nothing, because the objects in a directory are verified under their own paths.
    fn verify(&self, _path: &str, _found: Option<&Self>, _file: &File, _check: &mut Check<'_>) -> Result<()> {
        Ok(())
    }
}
