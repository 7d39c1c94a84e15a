"""The same analysis with uproot. coffea has no schema for files of ALICE, and reads only one tree of each file."""

import glob
import sys

import awkward as ak
import hist
import numpy as np
import uproot

VERTEX_CM, ETA_MAX, CLUSTERS_MIN = 10.0, 0.8, 70
EDGES_GEV = [0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 7, 10]
ESD = ["PrimaryVertex.AliVertex.fPosition[3]", "Tracks.fP[5]", "Tracks.fTPCncls"]


def spectrum(pt, slope, clusters, collisions):
    chosen = (abs(np.arcsinh(slope)) < ETA_MAX) & (clusters >= CLUSTERS_MIN)
    filled = hist.Hist.new.Var(EDGES_GEV, name="pt", label="$p_T$ [GeV]").Double().fill(ak.flatten(pt[chosen]))
    return {"pt": filled, "collisions": collisions}


def from_ao2d(path):
    total = {"pt": 0, "collisions": 0}
    with uproot.open(path) as file:
        for folder in file.keys(filter_name="DF_*", recursive=False, cycle=False):
            position = file[f"{folder}/O2collision_001"]["fPosZ"].array()
            tracks = file[f"{folder}/O2track_iu"].arrays(["fIndexCollisions", "fSigned1Pt", "fTgl"])
            tracks["clusters"] = file[f"{folder}/O2trackextra_002"]["fTPCNClsFindable"].array()
            index = np.asarray(tracks.fIndexCollisions)
            # Tracks are in the order of their collisions.
            numbers = np.bincount(index[index >= 0], minlength=len(position))
            tracks = ak.unflatten(tracks[index >= 0], numbers)[abs(position) < VERTEX_CM]
            one = spectrum(1 / abs(tracks.fSigned1Pt), tracks.fTgl, tracks.clusters, len(tracks))
            total = {name: total[name] + value for name, value in one.items()}
    return total


def from_esd(path):
    total = {"pt": 0, "collisions": 0}
    for events in uproot.iterate(f"{path}:esdTree", ESD):
        central = abs(events[ESD[0]][:, 2]) < VERTEX_CM
        parameters, clusters = events[ESD[1]][central], events[ESD[2]][central]
        one = spectrum(1 / abs(parameters[..., 4]), parameters[..., 3], clusters, len(parameters))
        total = {name: total[name] + value for name, value in one.items()}
    return total


def run(files):
    """Return the spectrum and the number of collisions."""
    read = from_esd if "AliESDs" in files else from_ao2d
    found = [read(path) for path in sorted(glob.glob(files))]
    return {name: sum(one[name] for one in found) for name in ("pt", "collisions")}


if __name__ == "__main__":
    print(run(sys.argv[1]))
