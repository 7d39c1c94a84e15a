"""The files of the user that travel with a train: all that the wagons import, and nothing that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchline.errors import WagonError
from branchline.trains.reuse.stored_train import load_names, sources_of
from branchline.trains.wagons.wagons import load_wagons

WAGONS = """
import numpy as np
from ship_cuts import LARGEST
from ship_pack.inner import deep


class Counts:
    name = "counts"

    def process(self, events):
        import ship_late

        return len(events) * ship_late.FACTOR
"""


@pytest.fixture
def wagons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(str(tmp_path))
    pack = tmp_path / "ship_pack"
    pack.mkdir()
    (pack / "__init__.py").write_text("")
    (pack / "inner.py").write_text("from . import deep\nfrom .deep import VALUE\n")
    (pack / "deep.py").write_text("VALUE = 7\n")
    (tmp_path / "ship_cuts.py").write_text("LARGEST = 2.5\n")
    (tmp_path / "ship_late.py").write_text("FACTOR = 2\n")
    (tmp_path / "ship_other.py").write_text("raise ValueError\n")
    path = tmp_path / "ship_wagons.py"
    path.write_text(WAGONS)
    return str(path)


def test_what_wagons_import_travels(wagons: str) -> None:
    found, modules = load_wagons(wagons)
    sources = {one.path: one.content for one in sources_of(found, modules)}
    pack = {f"ship_pack/{name}.py" for name in ("__init__", "inner", "deep")}
    assert set(sources) == {"ship_wagons.py", "ship_cuts.py", "ship_late.py"} | pack
    assert sources["ship_cuts.py"] == b"LARGEST = 2.5\n"
    [module] = load_names(modules)
    assert module.path == "ship_wagons.py"
    assert module.name.endswith("ship_wagons")


def test_too_much_is_refused(wagons: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.trains.reuse.stored_train.SHIPPED_MAX_BYTES", 20)
    with pytest.raises(WagonError, match="install them where the workers run"):
        sources_of(*load_wagons(wagons))
