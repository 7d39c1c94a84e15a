"""Arrays of ROOT's vector classes behave as vectors and return the same values as ROOT's own methods."""

from __future__ import annotations

import pickle
from pathlib import Path
from random import Random
from typing import Any

import awkward as ak
import numpy as np
import pytest
import vector

import branchline

ENTRIES = 20
SEED = 7
FOUR = (
    "TLorentzVector",
    "ROOT::Math::PxPyPzEVector",
    "ROOT::Math::PtEtaPhiMVector",
    "ROOT::Math::PtEtaPhiEVector",
    "ROOT::Math::PxPyPzMVector",
)
THREE = (
    "TVector3",
    "ROOT::Math::XYZVector",
    "ROOT::Math::Polar3DVector",
    "ROOT::Math::RhoEtaPhiVector",
    "ROOT::Math::RhoZPhiVector",
    "ROOT::Math::XYZPoint",
)
TWO = ("TVector2", "ROOT::Math::XYVector", "ROOT::Math::Polar2DVector")
ASKED = {
    2: {"x": "X", "y": "Y"},
    3: {"x": "X", "y": "Y", "z": "Z", "phi": "Phi", "theta": "Theta", "eta": "Eta"},
    4: {"px": "Px", "py": "Py", "pz": "Pz", "E": "E", "pt": "Pt", "eta": "Eta", "phi": "Phi", "mass": "M"},
}


def dimensions_of(class_name: str) -> int:
    return 4 if class_name in FOUR else 3 if class_name in THREE else 2


def filled(root: Any, class_name: str, rng: Random) -> Any:
    """Return a vector with random coordinates."""
    x, y, z = (rng.uniform(-5, 5) for _ in range(3))
    if class_name == "TLorentzVector":
        return root.TLorentzVector(x, y, z, 20)
    if class_name == "TVector2":
        return root.TVector2(x, y)
    if class_name == "TVector3":
        return root.TVector3(x, y, z)
    made = getattr(root.Math, class_name.rpartition("::")[2])()
    if class_name in FOUR:
        made.SetPxPyPzE(x, y, z, 20)
    elif class_name in THREE:
        made.SetXYZ(x, y, z)
    else:
        made.SetXY(x, y)
    return made


@pytest.fixture(scope="module")
def written(root: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, list[dict[str, float]]]]:
    """Write a tree with a branch of each class, and return it with the values of ROOT's methods for each vector."""
    rng = Random(SEED)
    path: Path = tmp_path_factory.mktemp("vectors") / "vectors.root"
    file = root.TFile.Open(str(path), "RECREATE")
    tree = root.TTree("tree", "of vectors")
    classes = (*FOUR, *THREE, *TWO)
    held = {name: filled(root, name, rng) for name in classes}
    for name, one in held.items():
        tree.Branch(name.replace("::", "_"), one, 32000, 0)
    lists = root.std.vector("TLorentzVector")()
    tree.Branch("lists", lists, 32000, 0)
    said: dict[str, list[dict[str, float]]] = {name: [] for name in classes}
    for entry in range(ENTRIES):
        lists.clear()
        for name, one in held.items():
            one.__assign__(filled(root, name, rng))
            said[name].append({ours: getattr(one, method)() for ours, method in ASKED[dimensions_of(name)].items()})
        for _ in range(entry % 4):
            lists.push_back(filled(root, "TLorentzVector", rng))
        tree.Fill()
    tree.Write()
    file.Close()
    return branchline.open(path)["tree"], said


@pytest.mark.peer
@pytest.mark.parametrize("class_name", [*FOUR, *THREE, *TWO])
def test_vectors_have_the_coordinates_that_root_gives(written: Any, class_name: str) -> None:
    tree, said = written
    vectors = tree[class_name.replace("::", "_")].array()
    for name in ASKED[dimensions_of(class_name)]:
        expected = [one[name] for one in said[class_name]]
        assert getattr(vectors, name).to_list() == pytest.approx(expected, rel=1e-9, abs=1e-6), name
        assert getattr(vectors[3], name) == pytest.approx(expected[3], rel=1e-9, abs=1e-6)


@pytest.mark.peer
def test_vectors_add_up_and_compare_as_those_of_vector(written: Any) -> None:
    tree, _ = written
    one, other = tree["TLorentzVector"].array(), tree["ROOT_Math_PtEtaPhiMVector"].array()
    ours = one.to_vector()
    assert isinstance(ours, vector.backends.awkward.MomentumArray4D)
    assert ak.almost_equal((one + other).px, one.px + other.px)
    assert ak.almost_equal((one + ours).E, 2 * one.E)
    assert ak.almost_equal((ours - other).pz, one.pz - other.pz)
    assert ak.almost_equal(one.deltaR(other), ours.deltaR(other.to_vector()))
    assert ak.almost_equal((2 * one * 0.5 / 2).pt, one.pt / 2)
    assert ak.all(one == ours)
    assert not ak.any(one != ours)
    assert ak.almost_equal(abs(one), one.mass)
    both = one[0] + other[0]
    assert pytest.approx(one.E[0] + other.E[0]) == both.E


@pytest.mark.peer
def test_lists_of_vectors_have_sums(written: Any) -> None:
    tree, _ = written
    lists = tree["lists"].array()
    assert ak.num(lists).to_list() == [entry % 4 for entry in range(ENTRIES)]
    sums = ak.sum(lists, axis=1)
    assert ak.almost_equal(sums.px, ak.sum(lists.fP.fX, axis=1))
    assert ak.almost_equal(sums.E, ak.sum(lists.fE, axis=1))
    assert ak.almost_equal(lists[lists.pt > 2].pt, lists.pt[lists.pt > 2])
    assert ak.almost_equal(lists.rotateZ(np.pi).px, -lists.px)


@pytest.mark.peer
def test_members_of_vectors_stay_what_they_are_in_the_file(written: Any) -> None:
    tree, _ = written
    vectors = tree["TLorentzVector"].array()
    assert vectors.fields == ["fP", "fE"]
    assert vectors.fP.fields == ["fX", "fY", "fZ"]
    assert ak.almost_equal(vectors.fP.mag, vectors.p)
    assert not hasattr(vectors, "no_such_coordinate")
    again = pickle.loads(pickle.dumps(vectors))
    assert ak.almost_equal(again.pt, vectors.pt)
