//! The kinds of objects that are merged. To add one, write a file in this folder and a line in the list below.

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
        /// The content of an object of an input, of any kind.
        pub(crate) enum AnyContent {
            $($kind(Box<<$product as Product>::Content>)),+
        }

        /// What was written of an object, of any kind.
        pub(crate) enum AnyWritten {
            $($kind(Box<<$product as Product>::Written>)),+
        }

        /// What the objects of one path become, of any kind.
        pub(crate) enum AnyProduct {
            $($kind(Box<$product>)),+
        }

        impl AnyContent {
            /// Whether each cycle of an object with this key is merged, not only the highest.
            pub(crate) fn keeps_cycles(file: &File, key: &TKey) -> bool {
                $(if <<$product as Product>::Content as Content>::is_of(file, key) {
                    return <<$product as Product>::Content as Content>::keeps_cycles(file, key);
                })+
                false
            }

            /// Reads an object.
            pub(crate) fn open(opening: &mut Opening<'_, '_>, entry: &Entry) -> Result<Self> {
                $(if <<$product as Product>::Content as Content>::is_of(opening.file, &entry.key) {
                    let content = <<$product as Product>::Content as Content>::open(opening, entry)?;
                    return Ok(Self::$kind(Box::new(content)));
                })+
                Err(ReadError::internal(opening.file.path(), format!("{} is of no kind", entry.path)))
            }

            /// Whether older cycles of its name are versions of it.
            pub(crate) fn has_versions(&self) -> bool {
                match self {
                    $(Self::$kind(_) => <$product as Product>::HAS_VERSIONS),+
                }
            }

            /// An estimate of the bytes that it adds to an output, at most.
            pub(crate) fn size_bytes(&self, key: &TKey) -> u64 {
                match self {
                    $(Self::$kind(content) => content.size_bytes(key)),+
                }
            }

            /// Bytes of memory that it takes.
            pub(crate) fn memory_bytes(&self) -> u64 {
                match self {
                    $(Self::$kind(content) => content.memory_bytes()),+
                }
            }

            /// Adds to a digest what differs in another object of the same name, size and date.
            pub(crate) fn hash(&self, digest: &mut Xxh3) {
                match self {
                    $(Self::$kind(content) => content.hash(digest)),+
                }
            }

            /// Notes for the user.
            pub(crate) fn remarks(&self) -> Remarks {
                match self {
                    $(Self::$kind(content) => content.remarks()),+
                }
            }

            /// Prepares the first object of a path.
            pub(crate) fn prepare(&mut self, source: &Source<'_>, branches: &Branches) -> Result<()> {
                match self {
                    $(Self::$kind(content) => <$product as Product>::prepare(content, source, branches)),+
                }
            }

            /// Adds it to what some files hold together.
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

            /// Writes baskets, pages, and objects that are copied.
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
                            #[allow(unreachable_patterns)] // with one kind there is no other
                            Some(_) => return Err(other_kind(source)),
                        };
                        <$product as Product>::write(known, content, source, output, transfer)
                            .map(|written| AnyWritten::$kind(Box::new(written)))
                    }),+
                }
            }
        }

        impl AnyProduct {
            /// Brings an object into the form of a product with this name, or refuses it.
            pub(crate) fn fit(&self, name: &ObjectName, content: &mut AnyContent, source: &Source<'_>) -> Result<()> {
                match (self, content) {
                    $((Self::$kind(product), AnyContent::$kind(content))
                        if <$product as Product>::HAS_VERSIONS || name.class_name == source.key().class_name =>
                    {
                        product.fit(content, source)
                    })+
                    _ => {
                        let (path, own, first) = (source.path(), &source.key().class_name, &name.class_name);
                        let message = format!("{path} is a {own}, in files before a {first}");
                        Err(ReadError::new(ReadErrorKind::Unsupported, source.file_path(), message))
                    }
                }
            }

            /// Begins with the first object of a path.
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

            /// Adds another object.
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

            /// Writes the record of the product when all inputs are added, and counts it.
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

            /// Refuses an output in whose file `found` is not what was written.
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

// A key belongs to the first kind whose `is_of` is true.
kinds! {
    Directory(Directory),
    Ntuple(MergedNtuple),
    Tree(MergedTree),
    // It takes all others.
    Object(MergedObject),
}

fn other_kind(source: &Source<'_>) -> ReadError {
    ReadError::internal(source.file_path(), format!("{} changed its kind while it was merged", source.path()))
}
