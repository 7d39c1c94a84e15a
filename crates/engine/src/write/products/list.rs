//! The kinds of objects that can be merged. To add a kind, write a module in this folder and add it to the list below.

use branchline_format::file::directory::Entry;
use branchline_format::file::TKey;
use xxhash_rust::xxh3::Xxh3;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::File;
use crate::write::merged::Merged;
use crate::write::new_file::ObjectName;
use crate::write::products::directory::Directory;
use crate::write::products::holdings::Holdings;
use crate::write::products::kind::{Content, Opening, Product, Remarks};
use crate::write::products::ntuple::MergedNtuple;
use crate::write::products::object::MergedObject;
use crate::write::products::output::{MergeOutput, Transfer};
use crate::write::products::source::Source;
use crate::write::products::tree::MergedTree;
use crate::write::progress::Check;
use crate::write::request::Branches;

macro_rules! kinds {
    ($($kind:ident($product:ty)),+ $(,)?) => {
        /// The content of an input's object of any kind.
        pub(crate) enum AnyContent {
            $($kind(Box<<$product as Product>::Content>)),+
        }

        /// The data that were written for an object of any kind.
        pub(crate) enum AnyWritten {
            $($kind(Box<<$product as Product>::Written>)),+
        }

        /// The product of any kind at one path of an output.
        pub(crate) enum AnyProduct {
            $($kind(Box<$product>)),+
        }

        impl AnyContent {
            /// Whether every cycle of an object with this key is merged, instead of only the highest cycle.
            pub(crate) fn keeps_cycles(file: &File, key: &TKey) -> bool {
                $(if <<$product as Product>::Content as Content>::is_of(file, key) {
                    return <<$product as Product>::Content as Content>::keeps_cycles(file, key);
                })+
                false
            }

            /// Reads the parts of an object that are needed before writing.
            pub(crate) fn open(opening: &mut Opening<'_, '_>, entry: &Entry) -> Result<Self> {
                $(if <<$product as Product>::Content as Content>::is_of(opening.file, &entry.key) {
                    let content = <<$product as Product>::Content as Content>::open(opening, entry)?;
                    return Ok(Self::$kind(Box::new(content)));
                })+
                Err(ReadError::internal(opening.file.path(), format!("{} has no known kind", entry.path)))
            }

            /// Whether older cycles of the name are further versions of the object.
            pub(crate) fn has_versions(&self) -> bool {
                match self {
                    $(Self::$kind(_) => <$product as Product>::HAS_VERSIONS),+
                }
            }

            /// Estimates the maximum number of bytes that the object adds to an output.
            pub(crate) fn size_bytes(&self, key: &TKey) -> u64 {
                match self {
                    $(Self::$kind(content) => content.size_bytes(key)),+
                }
            }

            /// Number of bytes of memory that the content takes.
            pub(crate) fn memory_bytes(&self) -> u64 {
                match self {
                    $(Self::$kind(content) => content.memory_bytes()),+
                }
            }

            /// Adds the content to a digest that must distinguish objects with the same name, size and date.
            pub(crate) fn hash(&self, digest: &mut Xxh3) {
                match self {
                    $(Self::$kind(content) => content.hash(digest)),+
                }
            }

            /// Messages for the user about the object.
            pub(crate) fn remarks(&self) -> Remarks {
                match self {
                    $(Self::$kind(content) => content.remarks()),+
                }
            }

            /// Prepares the first object at a path for writing.
            pub(crate) fn prepare(&mut self, source: &Source<'_>, branches: &Branches) -> Result<()> {
                match self {
                    $(Self::$kind(content) => <$product as Product>::prepare(content, source, branches)),+
                }
            }

            /// Adds the object to the contents of a set of files.
            pub(crate) fn hold(
                self,
                source: &Source<'_>,
                is_older: bool,
                holdings: &mut Holdings,
                check: &mut Check<'_>,
            ) -> Result<()> {
                match self {
                    $(Self::$kind(content) => content.hold(source, is_older, holdings, check)),+
                }
            }

            /// Writes the baskets, pages or copied bytes of an object.
            pub(crate) fn write(
                &self,
                known: Option<&AnyProduct>,
                source: &Source<'_>,
                output: &mut MergeOutput,
                transfer: &mut Transfer<'_, '_>,
            ) -> Result<AnyWritten> {
                match self {
                    $(Self::$kind(content) => {
                        let known = match known {
                            None => None,
                            Some(AnyProduct::$kind(product)) => Some(&**product),
                            #[allow(unreachable_patterns)] // unreachable if the list has only one kind
                            Some(_) => return Err(other_kind(source)),
                        };
                        <$product as Product>::write(known, content, source, output, transfer)
                            .map(|written| AnyWritten::$kind(Box::new(written)))
                    }),+
                }
            }
        }

        impl AnyProduct {
            /// Converts an object to the form of a product with this name, or returns an error.
            pub(crate) fn fit(&self, name: &ObjectName, content: &mut AnyContent, source: &Source<'_>) -> Result<()> {
                match (self, content) {
                    $((Self::$kind(product), AnyContent::$kind(content))
                        if <$product as Product>::HAS_VERSIONS || name.class_name == source.key().class_name =>
                    {
                        product.fit(content, source)
                    })+
                    _ => {
                        let (path, own, first) = (source.path(), &source.key().class_name, &name.class_name);
                        let message = format!("{path} is a {own}, but a {first} in previous files");
                        Err(ReadError::new(ReadErrorKind::Unsupported, source.file_path(), message))
                    }
                }
            }

            /// Creates a product from the first object at a path.
            pub(crate) fn begin(
                content: AnyContent,
                written: AnyWritten,
                source: &Source<'_>,
                output: &mut MergeOutput,
            ) -> Result<Self> {
                match (content, written) {
                    $((AnyContent::$kind(content), AnyWritten::$kind(written)) => {
                        let product = <$product as Product>::begin(*content, *written, source, output)?;
                        Ok(Self::$kind(Box::new(product)))
                    })+
                    _ => Err(other_kind(source)),
                }
            }

            /// Adds another object to the product.
            pub(crate) fn add(
                &mut self,
                content: AnyContent,
                written: AnyWritten,
                source: &Source<'_>,
                output: &mut MergeOutput,
            ) -> Result<()> {
                match (self, content, written) {
                    $((Self::$kind(product), AnyContent::$kind(content), AnyWritten::$kind(written)) => {
                        product.add(*content, *written, source, output)
                    })+
                    _ => Err(other_kind(source)),
                }
            }

            /// Writes the record of the product after all inputs have been added, and counts the product in `merged`.
            pub(crate) fn finish(
                &mut self,
                path: &str,
                name: &ObjectName,
                output: &mut MergeOutput,
                merged: &mut Merged,
            ) -> Result<()> {
                match self {
                    $(Self::$kind(product) => product.finish(path, name, output, merged)),+
                }
            }

            /// Returns an error if `found`, which was read back from the output, differs from what was written.
            pub(crate) fn verify(
                &self,
                path: &str,
                found: Option<&AnyContent>,
                file: &File,
                check: &mut Check<'_>,
            ) -> Result<()> {
                match self {
                    $(Self::$kind(product) => {
                        let found = match found {
                            Some(AnyContent::$kind(content)) => Some(&**content),
                            _ => None,
                        };
                        product.verify(path, found, file, check)
                    }),+
                }
            }
        }
    };
}

// An object belongs to the first kind whose `is_of` returns true for its key.
kinds! {
    Directory(Directory),
    Ntuple(MergedNtuple),
    Tree(MergedTree),
    // Accepts all objects that belong to no other kind.
    Object(MergedObject),
}

fn other_kind(source: &Source<'_>) -> ReadError {
    ReadError::internal(source.file_path(), format!("{} changed its kind during the merge", source.path()))
}
