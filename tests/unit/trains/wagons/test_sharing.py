"""What a wagon shares goes to the wagons that require it, and into no result."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from tests.unit.trains.wagons.test_companions import EVENTS, FILES, particles_of, write_set

import branchline
from branchline import Shared
from branchline.trains.sums.accumulators import CannotAddError
from branchline.trains.wagons.views import without_shared

WAGONS = """
import awkward as ak
import numpy as np

import branchline


class Truth:
    name = "truth"

    def process(self, events):
        found = events.companion["Kinematics"]
        return {"pt": branchline.Shared(found.pt), "hard": branchline.Shared(found.pt[found.pt > 5]), "n": len(events)}


class Count:
    requires = ["truth"]

    def process(self, events):
        truth = events.outputs["truth"]
        truth["pt"] = truth["pt"] * NUMBER
        return {"sum": float(ak.sum(truth["pt"])), "hard": int(ak.count(truth["hard"])), "n": truth["n"]}


class CountAgain(Count):
    name = "again"


wagons = [Truth(), Count(), CountAgain()]
"""


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets")
    for number in range(FILES):
        (folder / str(number)).mkdir()
        write_set(folder / str(number), number)
    return folder


def run(sets: Path, folder: Path, number: int, **options: Any) -> Any:
    (folder / "wagons.py").write_text(WAGONS.replace("NUMBER", str(number)))
    files = [str(sets / str(one) / "main.root") for one in range(FILES)]
    return branchline.run(folder / "wagons.py", files, folder / "out", companions=["Kinematics.root"], **options)


@pytest.mark.parametrize("workers", [0, 2])
def test_several_wagons_use_what_one_has_joined_with_a_companion(sets: Path, tmp_path: Path, workers: int) -> None:
    result = run(sets, tmp_path, 1, workers=workers, step_size=5)
    every = np.concatenate(
        [particles_of(one, event) for one in range(FILES) for event in range(EVENTS) if (one, event) != (1, 4)]
    )
    expected = {"sum": pytest.approx(float(every.sum())), "hard": int((every > 5).sum()), "n": FILES * EVENTS}
    assert result.outputs["Count"] == expected
    assert result.outputs["again"] == expected, "it sees what another wagon did to its own copy"
    assert result.outputs["truth"] == {"n": FILES * EVENTS}


def test_a_changed_wagon_has_what_is_shared_although_the_rest_is_reused(sets: Path, tmp_path: Path) -> None:
    first = run(sets, tmp_path, 1, workers=1)
    second = run(sets, tmp_path, 2, workers=1, force=True)
    assert second.outputs["Count"]["sum"] == pytest.approx(2 * first.outputs["Count"]["sum"])
    assert second.outputs["truth"] == first.outputs["truth"]


def test_the_forecast_sees_it_too(sets: Path, tmp_path: Path) -> None:
    (tmp_path / "wagons.py").write_text(WAGONS.replace("NUMBER", "1"))
    files = [str(sets / str(one) / "main.root") for one in range(FILES)]
    found = branchline.forecast(tmp_path / "wagons.py", files, companions=["Kinematics.root"], workers=1)
    assert not found.failed
    assert max(one.output_bytes for one in found.wagons) < 500


def test_only_what_is_shared_is_left_out() -> None:
    array = ak.Array([1, 2])
    whole = {"a": 1, "b": (1, [2])}
    assert without_shared(whole) is whole
    assert without_shared(Shared(array)) is None
    assert without_shared({"a": 1, "b": {"c": Shared(array), "d": 2}, "e": (Shared(array), 3)}) == {
        "a": 1,
        "b": {"d": 2},
        "e": (None, 3),
    }
    kept = without_shared(defaultdict(int, a=1, b=Shared(array)))
    assert (type(kept), dict(kept), kept["new"]) == (defaultdict, {"a": 1}, 0)
    with pytest.raises(CannotAddError, match="in a list"):
        without_shared({"a": [Shared(array)]})
