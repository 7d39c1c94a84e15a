"""The functions of the tutorial on PHYSLITE follow ElementLinks as a loop over uproot's values does."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import uproot
from tests.conftest import REPOSITORY
from tests.docs.snippets import snippets_of

import branchline

pytestmark = pytest.mark.peer

ELECTRONS, TRACKS, KEY = "AnalysisElectronsAuxDyn", "GSFTrackParticlesAuxDyn", 776133387


@pytest.fixture
def links(tmp_path: Path) -> ModuleType:
    """The module that the page writes."""
    page = REPOSITORY / "docs" / "guides" / "physlite.md"
    (text,) = [one.text for one in snippets_of(page) if one.kind == "file" and one.note == "links.py"]
    (tmp_path / "links.py").write_text(text)
    found = importlib.util.spec_from_file_location("links", tmp_path / "links.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "tree", "mark"),
    [
        ("PHYSLITE_example.root", "CollectionTree", "."),
        ("uproot-physlite-rntuple_v1-0-0-0.root", "EventData", ":"),
    ],
)
def test_the_page_follows_links(links: ModuleType, shared: Path, name: str, tree: str, mark: str) -> None:
    path = shared / "root" / name

    def followed(events: Any) -> Any:
        phi = links.column(events, TRACKS, "phi")
        best = links.first_links(links.link(events, ELECTRONS, "trackParticleLinks"))
        ambiguous = links.link(events, ELECTRONS, "ambiguityLink")
        return {"best": links.linked(phi, best, KEY).to_list(), "keys": ambiguous.m_persKey.to_list()}

    result = branchline.run([followed], f"{path}:{tree}", workers=0)
    assert result.errors == []
    with uproot.open(path) as file:
        chains = file[tree][f"{ELECTRONS}{mark}trackParticleLinks"].array().to_list()
        phis = file[tree][f"{TRACKS}{mark}phi"].array().to_list()
    expected = [
        [
            phi[one[0]["m_persIndex"]] if one and one[0]["m_persKey"] == KEY else None  # the first link
            for one in electrons
        ]
        for electrons, phi in zip(chains, phis, strict=True)
    ]
    assert sum(one is not None for electrons in expected for one in electrons) > 50
    assert result.outputs["followed"]["best"] == expected
    assert list(map(len, result.outputs["followed"]["keys"])) == list(map(len, expected))
