"""What the files hold: the branches of an event summary (ESD) with their members, and of a generated event.

The numbers are those of ESD files of proton collisions of 2009: some 480 branches, of which most fill one basket in 100
events, and a few one basket for each event or two.
"""

from __future__ import annotations

from dataclasses import dataclass

ESD_TREE, GENERATED_TREE = "esdTree", "events"
ESDS, MC_FILES = "AliESDs.root", ("galice.root", "Kinematics.root", "TrackRefs.root")


@dataclass(frozen=True)
class Members:
    """``count`` members of one C++ type, arrays of ``length`` where that is above 0. ``fill`` says what is in them:
    constants, small whole numbers, normally distributed ones, or mostly zeros.
    """

    name: str
    kind: str
    fill: str
    count: int = 1
    length: int = 0

    @property
    def names(self) -> list[str]:
        return [self.name] if self.count == 1 else [f"{self.name}{number}" for number in range(self.count)]


@dataclass(frozen=True)
class ObjectForm:
    """A branch with an object of a class for each event, or a TClonesArray with ``mean`` of them on average."""

    branch: str
    class_name: str
    members: tuple[Members, ...]
    mean: float = 0.0


_TRACK = (
    Members("fX", "Double32_t", "normal"),
    Members("fAlpha", "Double32_t", "normal"),
    Members("fP", "Double32_t", "normal", length=5),
    Members("fC", "Double32_t", "normal", length=15),
    Members("fFlags", "ULong64_t", "small"),
    Members("fLabel", "Int_t", "small", 5),
    Members("fPid", "Double32_t", "mostly zero", 6, 5),
    Members("fIndex", "Int_t", "mostly zero", 8, 3),
    Members("fSignal", "Float_t", "normal", 14),
    Members("fChi2", "Double32_t", "normal", 8),
    Members("fImpact", "Float_t", "normal", 10),
    Members("fClusters", "UShort_t", "small", 8),
    Members("fMap", "UChar_t", "small", 10),
    Members("fTrdSlices", "Float_t", "mostly zero", 6),
)
_PARTICLES = (
    Members("fParam", "Double32_t", "normal", 4, 5),
    Members("fCov", "Double32_t", "normal", 3, 6),
    Members("fMomentum", "Double32_t", "normal", 3, 3),
    Members("fMass", "Float_t", "normal", 12),
    Members("fStatus", "Short_t", "small", 8),
    Members("fAngle", "Double32_t", "mostly zero", 9),
)
_SINGLE = (
    Members("fEnergy", "Double32_t", "normal", 6),
    Members("fTower", "Double32_t", "mostly zero", 4, 5),
    Members("fWord", "UInt_t", "constant", 5),
    Members("fCount", "Short_t", "small", 5),
)
#: FMD has a branch with a basket for each event and one with a basket for two; the second group of calorimeters, too.
_FMD = (
    Members("fMultiplicity", "Float_t", "mostly zero", length=9000),
    Members("fEta", "Float_t", "mostly zero", length=3800),
    Members("fNoise", "Float_t", "constant", 18),
)
_CALO = (
    Members("fEnergy", "Double32_t", "normal", 8),
    Members("fPosition", "Double32_t", "normal", length=3),
    Members("fPid", "Double32_t", "mostly zero", length=10),
    Members("fCells", "UShort_t", "small", length=12),
    Members("fType", "Char_t", "small", 12),
)

ESD: tuple[ObjectForm, ...] = (
    ObjectForm("AliESDRun.", "EsdRun", _SINGLE),
    ObjectForm("AliESDHeader.", "EsdHeader", _SINGLE),
    ObjectForm("AliESDZDC.", "EsdZdc", _SINGLE),
    ObjectForm("AliESDFMD.", "EsdFmd", _FMD),
    ObjectForm("AliESDVZERO.", "EsdVzero", (Members("fAdc", "Short_t", "small", 6, 64), *_SINGLE)),
    ObjectForm("AliESDTZERO.", "EsdTzero", _SINGLE),
    ObjectForm("TPCVertex.", "EsdTpcVertex", _SINGLE),
    ObjectForm("SPDVertex.", "EsdSpdVertex", _SINGLE),
    ObjectForm("PrimaryVertex.", "EsdPrimaryVertex", _SINGLE),
    ObjectForm("AliMultiplicity.", "EsdMultiplicity", (Members("fTheta", "Double32_t", "normal", 4, 20), *_SINGLE)),
    ObjectForm("Tracks", "EsdTrack", _TRACK, 40),
    ObjectForm("MuonTracks", "EsdMuonTrack", _PARTICLES, 0.4),
    ObjectForm("PmdTracks", "EsdPmdTrack", _SINGLE, 20),
    ObjectForm("V0s", "EsdV0", _PARTICLES, 3),
    ObjectForm("Cascades", "EsdCascade", _PARTICLES, 0.5),
    ObjectForm("Kinks", "EsdKink", _PARTICLES, 0.8),
    ObjectForm("CaloClusters", "EsdCaloCluster", _CALO, 9),
    ObjectForm("AliESDACORDE.", "EsdAcorde", (Members("fMuon", "Bool_t", "mostly zero", 2, 60),)),
)
#: What two thirds of a train's tasks do without: FMD and the clusters of calorimeters.
NOT_FOR_THE_TRAIN = ("AliESDFMD.", "CaloClusters")

GENERATED: tuple[ObjectForm, ...] = (
    ObjectForm(
        "particles",
        "GeneratedParticle",
        (
            Members("fMomentum", "Double32_t", "normal", 4),
            Members("fVertex", "Double32_t", "mostly zero", 4),
            Members("fMother", "Int_t", "small", 2),
            Members("fDaughter", "Int_t", "small", 2),
            Members("fCode", "Int_t", "small", 3),
            Members("fMass", "Double32_t", "constant", 2),
        ),
        500,
    ),
)
MC_PARTICLE = ObjectForm("Particles", "McParticle", GENERATED[0].members)
MC_REFERENCE = ObjectForm("TrackReferences", "McReference", (Members("fPoint", "Float_t", "normal", 9),), 16)
MC_HEADER = ObjectForm("Header", "McHeader", (Members("fPayload", "Float_t", "normal", length=1500),))
