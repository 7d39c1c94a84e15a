//! The streamer infos of new trees and RNTuples, as ROOT 6.40 writes them: the plain bytes of the list
//! in a file with an RNTuple, and in one with a TTree that has a branch of every kind that is written here.
//! `tests/peers/test_converting.py` compares them with those of the ROOT that is installed.

use crate::error::Result;

use super::infos::{join_infos, InfoList};

static OF_NTUPLES: InfoList<'_> = InfoList { plain: include_bytes!("classes/ntuple.infos"), key_size: 72 };
static OF_TREES: InfoList<'_> = InfoList { plain: include_bytes!("classes/tree.infos"), key_size: 64 };
/// Of TObjString.
static OF_STRINGS: InfoList<'_> = InfoList { plain: include_bytes!("classes/strings.infos"), key_size: 64 };
/// Of TH1D, TH2D, TH3D and TProfile.
static OF_HISTOGRAMS: InfoList<'_> = InfoList { plain: include_bytes!("classes/histograms.infos"), key_size: 64 };
/// Of TGraph, TGraphErrors, TGraphAsymmErrors, TProfile2D and TProfile3D.
static OF_GRAPHS: InfoList<'_> = InfoList { plain: include_bytes!("classes/graphs.infos"), key_size: 64 };
/// Of TEfficiency, THnD, THnSparseD, THnSparseF and THnSparseI.
static OF_GRIDS: InfoList<'_> = InfoList { plain: include_bytes!("classes/grids.infos"), key_size: 64 };

/// The list of streamer infos of a file with RNTuples, for a key of `key_size` bytes.
pub fn ntuple_infos(key_size: u64) -> Result<Vec<u8>> {
    join_infos(&[OF_NTUPLES], key_size)
}

/// The list of streamer infos of a file with TTrees, for a key of `key_size` bytes.
pub fn tree_infos(key_size: u64) -> Result<Vec<u8>> {
    join_infos(&[OF_TREES], key_size)
}

/// What a file holds of which the classes are to be described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Described {
    /// Texts: TObjString.
    pub strings: bool,
    /// Histograms: TH1D, TH2D, TH3D and TProfile.
    pub objects: bool,
    /// Graphs, and profiles over several axes.
    pub graphs: bool,
    /// Efficiencies, and histograms over more than three axes.
    pub grids: bool,
    /// TTrees.
    pub trees: bool,
    /// RNTuples.
    pub ntuples: bool,
}

/// The list of streamer infos of a file that has objects of other files, which these lists describe, and new ones.
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
