//! The streamer infos of new objects, trees and RNTuples, as written by ROOT 6.40. Each constant has the uncompressed
//! bytes of the streamer info list in an example file, for instance a file with an RNTuple, or a file with a TTree that
//! has one branch of every kind that Branchline writes.
//!
//! `tests/peers/test_converting.py` compares the constants with the streamer infos of the installed ROOT.
//!
//! ```
//! use branchline_format::classes::streamer::ClassInfos;
//! use branchline_format::write::object::classes::tree_infos;
//!
//! let infos = ClassInfos::read(&tree_infos(0)?, 0)?;
//! assert!(infos.describes("TTree") && infos.describes("TBranch"));
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use crate::error::Result;

use super::infos::{join_infos, InfoList};

static OF_NTUPLES: InfoList<'_> = InfoList { plain: include_bytes!("classes/ntuple.infos"), key_size: 72 };
static OF_TREES: InfoList<'_> = InfoList { plain: include_bytes!("classes/tree.infos"), key_size: 64 };
/// Streamer infos for TObjString.
static OF_STRINGS: InfoList<'_> = InfoList { plain: include_bytes!("classes/strings.infos"), key_size: 64 };
/// Streamer infos for TH1D, TH2D, TH3D and TProfile.
static OF_HISTOGRAMS: InfoList<'_> = InfoList { plain: include_bytes!("classes/histograms.infos"), key_size: 64 };
/// Streamer infos for TGraph, TGraphErrors, TGraphAsymmErrors, TProfile2D and TProfile3D.
static OF_GRAPHS: InfoList<'_> = InfoList { plain: include_bytes!("classes/graphs.infos"), key_size: 64 };
/// Streamer infos for TEfficiency, THnD, THnSparseD, THnSparseF and THnSparseI.
static OF_GRIDS: InfoList<'_> = InfoList { plain: include_bytes!("classes/grids.infos"), key_size: 64 };

/// Encode the streamer info list for a file with RNTuples. The list's key has `key_size` bytes.
pub fn ntuple_infos(key_size: u64) -> Result<Vec<u8>> {
    join_infos(&[OF_NTUPLES], key_size)
}

/// Encode the streamer info list for a file with TTrees. The list's key has `key_size` bytes.
pub fn tree_infos(key_size: u64) -> Result<Vec<u8>> {
    join_infos(&[OF_TREES], key_size)
}

/// Kinds of new objects whose classes the file must describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Described {
    /// Whether the file has new strings: TObjString.
    pub strings: bool,
    /// Whether the file has new histograms: TH1D, TH2D, TH3D and TProfile.
    pub objects: bool,
    /// Whether the file has new graphs or multidimensional profiles.
    pub graphs: bool,
    /// Whether the file has new efficiencies or histograms with more than three dimensions.
    pub grids: bool,
    /// Whether the file has new TTrees.
    pub trees: bool,
    /// Whether the file has new RNTuples.
    pub ntuples: bool,
}

/// Encode the streamer info list for a file with new objects and with objects from other files. `lists` are the
/// streamer info lists of the other files.
pub fn joined_infos(lists: &[InfoList<'_>], described: Described, key_size: u64) -> Result<Vec<u8>> {
    let nothing = lists.is_empty() && described == Described::default();
    let own = [
        (described.strings, OF_STRINGS),
        (described.objects || nothing, OF_HISTOGRAMS),
        (described.graphs, OF_GRAPHS),
        (described.grids, OF_GRIDS),
        (described.trees, OF_TREES),
        (described.ntuples, OF_NTUPLES),
    ];
    let own = own.into_iter().filter(|(is_used, _)| *is_used).map(|(_, list)| list);
    join_infos(&lists.iter().copied().chain(own).collect::<Vec<_>>(), key_size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::streamer::ClassInfos;

    #[test]
    fn the_lists_describe_the_classes_that_are_written() {
        let infos = ClassInfos::read(&tree_infos(71).unwrap(), 71).unwrap();
        for (class_name, version) in [("TTree", 20), ("TBranch", 13), ("TBranchElement", 10), ("TLeafC", 1)] {
            assert!(infos.get(class_name, version).is_some(), "{class_name}");
        }
        let infos = ClassInfos::read(&joined_infos(&[], Described::default(), 80).unwrap(), 80).unwrap();
        for (class_name, version) in [("TH1D", 3), ("TH2D", 4), ("TH3D", 4), ("TProfile", 7), ("TAxis", 10)] {
            assert!(infos.get(class_name, version).is_some(), "{class_name}");
        }
        let graphs = Described { graphs: true, ..Described::default() };
        let infos = ClassInfos::read(&joined_infos(&[], graphs, 80).unwrap(), 80).unwrap();
        for (class_name, version) in [("TGraph", 5), ("TGraphAsymmErrors", 3), ("TProfile2D", 8), ("TProfile3D", 8)] {
            assert!(infos.get(class_name, version).is_some(), "{class_name}");
        }
        let grids = Described { grids: true, ..Described::default() };
        let infos = ClassInfos::read(&joined_infos(&[], grids, 80).unwrap(), 80).unwrap();
        for (class_name, version) in [
            ("TEfficiency", 2),
            ("THnT<double>", 1),
            ("THnSparseT<TArrayD>", 1),
            ("THnSparseT<TArrayF>", 1),
            ("THnSparseT<TArrayI>", 1),
        ] {
            assert!(infos.get(class_name, version).is_some(), "{class_name}");
        }
        let infos = ClassInfos::read(&ntuple_infos(64).unwrap(), 64).unwrap();
        assert!(infos.get("ROOT::RNTuple", 2).is_some());
    }
}
