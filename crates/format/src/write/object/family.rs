//! The members of each class that change when trees are rewritten or when objects from several files are summed.
//!
//! ```
//! use branchline_format::classes::streamer::ClassInfos;
//! use branchline_format::write::object::family::adds_up;
//!
//! assert!(adds_up("TProfile", &ClassInfos::default()));
//! ```

use crate::classes::streamer::ClassInfos;

/// Members of trees, branches and leaves that change when a tree is rewritten.
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

/// Members of a histogram that control filling, and members that are summed: the cells, their errors, and the sums for
/// mean and standard deviation.
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
/// Members that are summed when a THn or THnSparse is merged. The cells and errors of a THn are separate objects.
const OF_GRIDS: &[&str] = &["fEntries", "fTsumw", "fTsumw2", "fTsumwx", "fTsumwx2", "fFilledBins", "fBinContent"];
const OF_CELLS: &[&str] = &["fData"];
const OF_AXES: &[&str] = &["TObject", "fNbins", "fXmin", "fXmax", "fXbins", "fBits2", "fLabels"];
const OF_GRAPHS: &[&str] = &[
    "fNpoints", "fX", "fY", "fEX", "fEY", "fEXlow", "fEXhigh", "fEYlow", "fEYhigh", "fEXlowd", "fEXhighd", "fEYlowd",
    "fEYhighd",
];
const OF_PARAMETERS: &[&str] = &["TObject", "fVal"];
const OF_EFFICIENCIES: &[&str] = &["fWeight"];

/// Members that are summed when a TH2Poly or TProfile2Poly is merged. The bins are separate objects.
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

/// Histogram classes whose cells are not sums, or are not all stored in the histogram's array of numbers.
const OTHER_HISTOGRAMS: [&str; 2] = ["TH2Poly", "TH1K"];
/// Graph classes whose points are all stored in arrays of the same length.
const GRAPHS: [&str; 5] = ["TGraph", "TCutG", "TGraphErrors", "TGraphAsymmErrors", "TGraphBentErrors"];
/// Container classes whose elements are summed one by one.
const CONTAINERS: [&str; 5] = ["TList", "THashList", "TSortedList", "TObjArray", "THStack"];

/// Define [`OwnerKind`] and the list of all kinds.
macro_rules! owner_kinds {
    ($($(#[$about:meta])* $kind:ident,)*) => {
        /// Kind of an object with replaceable members.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum OwnerKind {
            $($(#[$about])* $kind,)*
        }

        impl OwnerKind {
            const ALL: &[Self] = &[$(Self::$kind,)*];
        }
    };
}

// To add a kind, add a line here and a module that adds such objects. The compiler then reports all places that must
// handle the new kind.
owner_kinds! {
    /// A TTree.
    Tree,
    /// A TBranch.
    Branch,
    /// A TLeaf.
    Leaf,
    /// A TH1 or a class that inherits from it.
    Histogram,
    /// A THn or THnSparse.
    Grid,
    /// The cells of a THn, or the squared errors of the cells.
    Cells,
    /// A TH2Poly or a TProfile2Poly.
    PolygonHistogram,
    /// A bin of a TH2Poly or TProfile2Poly.
    Polygon,
    /// A TAxis of a histogram.
    Axis,
    /// A TGraph, with or without errors.
    Graph,
    /// A TParameter.
    Parameter,
    /// A TEfficiency, whose histograms are separate objects.
    Efficiency,
}

impl OwnerKind {
    /// The kind of a class whose objects can be added; None for all other classes.
    pub(crate) fn of_sum(class_name: &str, infos: &ClassInfos) -> Option<Self> {
        let lineage = infos.lineage(class_name);
        Self::ALL.iter().copied().find(|kind| kind.has_sums_of(class_name, &lineage))
    }

    /// Whether a class with the base classes `lineage` is of this kind, and its objects can be added without
    /// other objects.
    fn has_sums_of(self, class_name: &str, lineage: &[&str]) -> bool {
        let inherits = |name: &&str| lineage.contains(name);
        match self {
            Self::Histogram => inherits(&"TH1") && !OTHER_HISTOGRAMS.iter().any(inherits),
            Self::Grid => inherits(&"THnBase"),
            Self::PolygonHistogram => ["TH2Poly", "TProfile2Poly"].contains(&class_name),
            Self::Graph => GRAPHS.contains(&class_name),
            Self::Parameter => class_name.starts_with("TParameter<"),
            Self::Efficiency => class_name == "TEfficiency",
            // Parts of a histogram are added together with the histogram.
            Self::Cells | Self::Axis | Self::Polygon => false,
            // Trees are merged separately.
            Self::Tree | Self::Branch | Self::Leaf => false,
        }
    }

    /// Names of the members that may be replaced.
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

    /// Whether the objects that this object's pointers refer to can be added as well.
    pub(crate) fn is_open(self) -> bool {
        match self {
            Self::Efficiency | Self::Grid | Self::PolygonHistogram => true,
            Self::Histogram | Self::Cells | Self::Polygon | Self::Axis | Self::Graph | Self::Parameter => false,
            Self::Tree | Self::Branch | Self::Leaf => false,
        }
    }
}

/// Whether this is a container class whose elements are summed one by one.
pub(crate) fn is_container(class_name: &str) -> bool {
    CONTAINERS.contains(&class_name)
}

/// Whether objects of this class from several files are combined into one object.
pub fn adds_up(class_name: &str, infos: &ClassInfos) -> bool {
    is_container(class_name) || OwnerKind::of_sum(class_name, infos).is_some()
}
