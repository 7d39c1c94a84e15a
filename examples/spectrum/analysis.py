"""The analysis: the transverse momenta of charged particles per collision, from AO2D files or from ESD files of ALICE.

branchline run examples/spectrum/analysis.py:from_ao2d "DATA/AO2D-*.root:DF_*/O2collision_001" -o out \\
    --join "Tracks=O2track_iu + O2trackextra_002 by fIndexCollisions"
branchline run examples/spectrum/analysis.py:from_esd "DATA/AliESDs*.root:esdTree" -o out
python examples/spectrum/fit.py out
"""

import awkward as ak
import hist
import numpy as np

import branchline

VERTEX_CM, ETA_MAX, CLUSTERS_MIN = 10.0, 0.8, 70
EDGES_GEV = [0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 7, 10]


def from_ao2d(events):
    """Return the spectrum of tracks in collisions near the centre of the detector, and the number of collisions."""
    tracks = events[abs(events.fPosZ) < VERTEX_CM].Tracks
    return spectrum(1 / abs(tracks.fSigned1Pt), tracks.fTgl, tracks.fTPCNClsFindable, len(tracks))


def from_esd(events):
    """Return the same from the parameters of tracks and the primary vertex of ESD files."""
    central = abs(events["PrimaryVertex.AliVertex.fPosition[3]"][:, 2]) < VERTEX_CM
    parameters = events["Tracks.fP[5]"][central]
    clusters = events["Tracks.fTPCncls"][central]
    return spectrum(1 / abs(parameters[..., 4]), parameters[..., 3], clusters, len(parameters))


def spectrum(pt, slope, clusters, collisions):
    chosen = (abs(np.arcsinh(slope)) < ETA_MAX) & (clusters >= CLUSTERS_MIN)
    filled = hist.Hist.new.Var(EDGES_GEV, name="pt", label="$p_T$ [GeV]").Double().fill(ak.flatten(pt[chosen]))
    return {"pt": filled, "collisions": collisions}


wagons = [from_ao2d, from_esd]


def run(files):
    """Return the spectrum and the number of collisions."""
    if "AliESDs" in files:
        return branchline.run([from_esd], files, tree="esdTree", workers=0).outputs["from_esd"]
    join = {"Tracks": "O2track_iu + O2trackextra_002 by fIndexCollisions"}
    trees = f"{files}:DF_*/O2collision_001"
    return branchline.run([from_ao2d], trees, join=join, workers=0).outputs["from_ao2d"]
