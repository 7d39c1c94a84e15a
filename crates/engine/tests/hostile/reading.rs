//! Reads every branch of every tree, and keeps a digest of the branch's values or the error.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

use branchline_engine::error::{ReadError, ReadErrorKind};
use branchline_engine::file::File;
use branchline_engine::read::decode::chunk::Values;
use branchline_engine::read::read_now::read_now;
use branchline_slab::{Buffer, Pool};
use branchline_storage::Access;

use crate::anatomy::Touched;
use crate::columns::checked_len;
use crate::mutation::Random;

/// Maximum total size of a file's values for which a case reads all branches. From a larger file, a case reads only the
/// changed branches and a random choice of other branches.
const PLAIN_BYTES_MAX: usize = 1 << 20;

/// A tree and a branch. An empty branch stands for the tree as a whole; if the tree is empty too, for the file.
pub type Which = (String, String);

/// The outcome of reading a branch.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A summary of the values that were read.
    Values {
        /// Number of entries.
        entries_count: usize,
        /// A hash of all values.
        digest: u64,
        /// Size of the values in bytes.
        size_bytes: usize,
    },
    /// The error from reading the branch.
    Error(ReadError),
}

/// The outcome for each branch of a file.
pub type Reading = BTreeMap<Which, Outcome>;

/// Reads the wanted branches, or all readable branches if `wanted` is None.
pub fn read(path: &Path, wanted: Option<&[Which]>) -> Reading {
    let mut reading = Reading::new();
    let path = path.to_str().expect("the path is not valid UTF-8");
    let done = catch_unwind(AssertUnwindSafe(|| read_file(path, wanted, &mut reading)));
    match done {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            reading.insert(Which::default(), Outcome::Error(error));
        }
        Err(_) => {
            let error = ReadError::new(ReadErrorKind::Internal, path, "it panics");
            reading.insert(Which::default(), Outcome::Error(error));
        }
    }
    reading
}

fn read_file(path: &str, wanted: Option<&[Which]>, reading: &mut Reading) -> Result<(), ReadError> {
    let file = File::open(path, &Access::default())?;
    let mut tree_paths: Vec<String> =
        file.entries_below("")?.into_iter().filter(|entry| file.is_tree(&entry.key)).map(|entry| entry.path).collect();
    tree_paths.sort();
    tree_paths.dedup();
    for tree_path in tree_paths {
        let tree = match file.tree(Some(&tree_path)) {
            Ok(tree) => tree,
            Err(error) => {
                reading.insert((tree_path, String::new()), Outcome::Error(error));
                continue;
            }
        };
        for index in tree.readable() {
            let which = (tree_path.clone(), tree.branch_path(index).to_string());
            if wanted.is_some_and(|wanted| wanted.binary_search(&which).is_err()) {
                continue;
            }
            let values = read_now(&tree, vec![index], 0..tree.entries_count(), &Pool::new(0));
            let outcome = match values.and_then(|chunk| chunk.take()) {
                Ok(mut columns) => values_of(columns.remove(0), tree.entries_count()),
                Err(error) => Outcome::Error(error),
            };
            reading.insert(which, outcome);
        }
    }
    Ok(())
}

/// A buffer of the engine whose content can be read.
struct Seen(Buffer);

impl AsRef<[u8]> for Seen {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl AsRef<[i64]> for Seen {
    fn as_ref(&self) -> &[i64] {
        bytemuck::cast_slice(self.0.bytes())
    }
}

fn values_of(column: Values, entries_count: u64) -> Outcome {
    let column = column.map(&mut Seen, &mut Seen);
    let length = checked_len(&column);
    assert_eq!(length as u64, entries_count, "a value for each entry");
    let hasher = RefCell::new(DefaultHasher::new());
    let size_bytes = Cell::new(0);
    let add = |one: Seen| {
        let bytes = one.0.bytes();
        hasher.borrow_mut().write_usize(bytes.len());
        hasher.borrow_mut().write(bytes);
        size_bytes.set(size_bytes.get() + bytes.len());
    };
    column.map(&mut |one| add(one), &mut |one| add(one));
    Outcome::Values { entries_count: length, digest: hasher.into_inner().finish(), size_bytes: size_bytes.get() }
}

/// Returns the branches that a case reads, in order. Of a small file, a case reads all branches; of a large file, the
/// changed branches and a random choice of other branches. Branches that exist only in the mutated file are read too.
pub fn choice(truth: &Reading, touched: &Touched, random: &mut Random) -> Vec<Which> {
    let size = |outcome: &Outcome| match outcome {
        Outcome::Values { size_bytes, .. } => *size_bytes,
        Outcome::Error(_) => 0,
    };
    let total: usize = truth.values().map(size).sum();
    let percent = (100 * PLAIN_BYTES_MAX / total.max(1)).clamp(1, 100);
    let chosen = truth.keys().filter(|which| touched.is_in(which) || random.percent(percent));
    chosen.cloned().collect()
}

/// Checks that an error names the file, the object and the offset, and that it is not an internal error.
pub fn check_error(error: &ReadError, path: &Path, about: &str) {
    assert_eq!(Path::new(&error.path), path, "{about}: the file of {error}");
    assert!(error.kind != ReadErrorKind::Internal, "{about}: {error}");
    let is_no_root_file = ["not a ROOT file", "the file is empty"].iter().any(|said| error.message.starts_with(said));
    let says_where = error.message.contains("offset ") || is_no_root_file;
    assert!(says_where || error.kind != ReadErrorKind::BadFile, "{about}: no offset in {error}");
    assert!(error.hint.is_some() || error.kind != ReadErrorKind::BadFile, "{about}: no hint in {error}");
}
