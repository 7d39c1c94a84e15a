//! Which members of which classes change when trees are written again or objects of several files are added up.

use crate::classes::streamer::ClassInfos;

/// Members of trees, branches and leaves that change when a tree is written again.
pub(crate) const OF_TREES: &[&str] = &[
    "fBasketSize",
    "fCompress",
    "fEntryOffsetLen",
    "fIOFeatures",
    "fBranches",
    "fLeaves",
    "fLen",
    "fEntries",
    "fTotBytes",
    "fZipBytes",
    "fSavedBytes",
    "fFlushedBytes",
    "fAutoFlush",
    "fNClusterRange",
    "fClusterRangeEnd",
    "fClusterSize",
    "fTreeIndex",
    "fWriteBasket",
    "fEntryNumber",
    "fFirstEntry",
    "fMaxBaskets",
    "fBaskets",
    "fBasketBytes",
    "fBasketEntry",
    "fBasketSeek",
    "fMaximum",
];

/// What of a histogram adds up: its cells, their errors, and the sums from which mean and spread are computed; and what
/// says how it is filled.
pub(crate) const OF_HISTOGRAMS: &[&str] = &[
    "TArrayC",
    "TArrayS",
    "TArrayI",
    "TArrayL64",
    "TArrayF",
    "TArrayD",
    "fNcells",
    "fSumw2",
    "fBinEntries",
    "fBinSumw2",
    "fEntries",
    "fTsumw",
    "fTsumw2",
    "fTsumwx",
    "fTsumwx2",
    "fTsumwy",
    "fTsumwy2",
    "fTsumwxy",
    "fTsumwz",
    "fTsumwz2",
    "fTsumwxz",
    "fTsumwyz",
    "fTsumwt",
    "fTsumwt2",
    "fBufferSize",
    "fBuffer",
    "fStatOverflows",
    "fYmin",
    "fYmax",
    "fZmin",
    "fZmax",
    "fTmin",
    "fTmax",
    "TObject",
];
/// What of a THn or a THnSparse does; of the first, cells and errors are objects of their own.
const OF_GRIDS: &[&str] = &["fEntries", "fTsumw", "fTsumw2", "fTsumwx", "fTsumwx2", "fFilledBins", "fBinContent"];
const OF_CELLS: &[&str] = &["fData"];
const OF_AXES: &[&str] = &["TObject", "fNbins", "fXmin", "fXmax", "fXbins", "fBits2", "fLabels"];
const OF_GRAPHS: &[&str] = &[
    "fNpoints", "fX", "fY", "fEX", "fEY", "fEXlow", "fEXhigh", "fEYlow", "fEYhigh", "fEXlowd", "fEXhighd", "fEYlowd",
    "fEYhighd",
];
const OF_PARAMETERS: &[&str] = &["TObject", "fVal"];
const OF_EFFICIENCIES: &[&str] = &["fWeight"];

/// What of a TH2Poly or a TProfile2Poly adds up; its bins are objects of their own.
pub(crate) const POLYGON_SUMS: &[&str] = &[
    "fOverflow",
    "fSumw2",
    "fEntries",
    "fTsumw",
    "fTsumw2",
    "fTsumwx",
    "fTsumwx2",
    "fTsumwy",
    "fTsumwy2",
    "fTsumwxy",
    "fTsumwz",
    "fTsumwz2",
];
const OF_POLYGONS: &[&str] = &[
    "fNumber", "fContent", "fXmin", "fXmax", "fYmin", "fYmax", "fSumw", "fSumvw", "fSumw2", "fSumwv2", "fAverage",
    "fError",
];

/// Histograms whose cells are not all in their array of numbers, or mean something else than a sum.
const OTHER_HISTOGRAMS: [&str; 2] = ["TH2Poly", "TH1K"];
/// Graphs of which all points are in arrays of the same length.
const GRAPHS: [&str; 5] = ["TGraph", "TCutG", "TGraphErrors", "TGraphAsymmErrors", "TGraphBentErrors"];
/// What holds objects that add up one by one.
const CONTAINERS: [&str; 5] = ["TList", "THashList", "TSortedList", "TObjArray", "THStack"];

/// Declares the kinds of objects, and a list of all of them.
macro_rules! owner_kinds {
    ($($(#[$about:meta])* $kind:ident,)*) => {
        /// What an object whose members may be replaced is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum OwnerKind {
            $($(#[$about])* $kind,)*
        }

        impl OwnerKind {
            const ALL: &[Self] = &[$(Self::$kind,)*];
        }
    };
}

// A new kind is one line here and a file that adds such objects up. The compiler names the places that call it.
owner_kinds! {
    /// A TTree.
    Tree,
    /// A TBranch.
    Branch,
    /// A TLeaf.
    Leaf,
    /// A TH1 or what inherits from it.
    Histogram,
    /// A THn or THnSparse.
    Grid,
    /// The cells of a THn, or their squared errors.
    Cells,
    /// A TH2Poly or a TProfile2Poly.
    PolygonHistogram,
    /// A bin of one.
    Polygon,
    /// A TAxis of a histogram.
    Axis,
    /// A TGraph, with errors or without.
    Graph,
    /// A TParameter.
    Parameter,
    /// A TEfficiency, whose histograms are objects of their own.
    Efficiency,
}

impl OwnerKind {
    /// The kind of a class whose objects add up.
    pub(crate) fn of_sum(class_name: &str, infos: &ClassInfos) -> Option<Self> {
        let lineage = infos.lineage(class_name);
        Self::ALL.iter().copied().find(|kind| kind.has_sums_of(class_name, &lineage))
    }

    /// Whether objects of a class, which inherits from these, are of this kind and add up by themselves.
    fn has_sums_of(self, class_name: &str, lineage: &[&str]) -> bool {
        let inherits = |name: &&str| lineage.contains(name);
        match self {
            Self::Histogram => inherits(&"TH1") && !OTHER_HISTOGRAMS.iter().any(inherits),
            Self::Grid => inherits(&"THnBase"),
            Self::PolygonHistogram => ["TH2Poly", "TProfile2Poly"].contains(&class_name),
            Self::Graph => GRAPHS.contains(&class_name),
            Self::Parameter => class_name.starts_with("TParameter<"),
            Self::Efficiency => class_name == "TEfficiency",
            // They add up with the histogram that they belong to.
            Self::Cells | Self::Axis | Self::Polygon => false,
            // Trees are merged in another way.
            Self::Tree | Self::Branch | Self::Leaf => false,
        }
    }

    /// Members that may be replaced.
    pub(crate) fn members(self) -> &'static [&'static str] {
        match self {
            Self::Tree | Self::Branch | Self::Leaf => OF_TREES,
            Self::Histogram => OF_HISTOGRAMS,
            Self::Grid => OF_GRIDS,
            Self::Cells => OF_CELLS,
            Self::PolygonHistogram => POLYGON_SUMS,
            Self::Polygon => OF_POLYGONS,
            Self::Axis => OF_AXES,
            Self::Graph => OF_GRAPHS,
            Self::Parameter => OF_PARAMETERS,
            Self::Efficiency => OF_EFFICIENCIES,
        }
    }

    /// Whether objects behind its pointers add up, too.
    pub(crate) fn is_open(self) -> bool {
        match self {
            Self::Efficiency | Self::Grid | Self::PolygonHistogram => true,
            Self::Histogram | Self::Cells | Self::Polygon | Self::Axis | Self::Graph | Self::Parameter => false,
            Self::Tree | Self::Branch | Self::Leaf => false,
        }
    }
}

/// Whether objects in it add up one by one.
pub(crate) fn is_container(class_name: &str) -> bool {
    CONTAINERS.contains(&class_name)
}

/// Whether objects of this class of several files become one.
pub fn adds_up(class_name: &str, infos: &ClassInfos) -> bool {
    is_container(class_name) || OwnerKind::of_sum(class_name, infos).is_some()
}
