"""Functions that numba compiles are compiled by one worker of a machine; what they cost is a phase of its own."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.sampled import long_but

import branchline
from branchline.trains.wagons.clock import PhaseClock
from branchline.trains.worker.warm_up import WARM_UP, CompiledCode, WarmUp, _own_folder

pytest.importorskip("numba")

#: Each compilation of ``total`` is a line of a file: a process that is forked has none of another's.
WAGONS = """
import os
import numba
import numpy as np
from numba.core import event

class Listener(event.Listener):
    def on_start(self, event):
        with open("{log}", "a") as file:
            file.write(f"{{os.getpid()}} {{event.data['dispatcher'].py_func.__name__}}\\n")

    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
FACTOR = {factor}

@numba.njit
def part(value):
    return FACTOR * value

@numba.njit
def total(values):
    result = 0.0
    for one in values:
        result += part(one)
    return result

class Sums:
    branches = {branches}

    def process(self, events):
        return {{"sum": total(np.asarray(events.px)), "workers": {{str(os.getpid()): 1}}}}
"""


def wagons_in(folder: Path, branches: str, factor: float = 2.0) -> tuple[str, Path]:
    path, log = folder / "wagons.py", folder / "compiled.txt"
    path.write_text(WAGONS.format(log=log, branches=branches, factor=factor))
    log.unlink(missing_ok=True)
    return f"{path}:Sums", log


@pytest.mark.long
@pytest.mark.usefixtures("small_subjobs")
@pytest.mark.parametrize("branches", long_but(["None", '["px"]'], ["None"]), ids=["learned", "named"])
def test_one_worker_compiles_for_all(folder: Path, tmp_path: Path, branches: str) -> None:
    wagons, log = wagons_in(tmp_path, branches)
    results = branchline.run(wagons, str(folder), workers=4, step_size=300)
    results.raise_error()
    output = results.outputs["Sums"]
    assert len(output["workers"]) > 1
    assert sorted(line.split()[1] for line in log.read_text().splitlines()) == ["part", "total"]
    assert results.record.phases[WARM_UP] > 0
    # A constant that was compiled in is that of the next run.
    wagons, log = wagons_in(tmp_path, branches, factor=-2.0)
    again = branchline.run(wagons, str(folder), workers=2, step_size=300)
    assert again.outputs["Sums"]["sum"] == -output["sum"]
    assert len(log.read_text().splitlines()) == 2


def test_nobody_else_can_write_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = _own_folder("job")
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    folder.parent.chmod(0o777)
    with pytest.raises(PermissionError, match="not a folder that only this user can access"):
        _own_folder("job")
    folder.parent.chmod(0o700)
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    (folder.parent / "link").symlink_to(folder.parent / "elsewhere")
    with pytest.raises(PermissionError):
        _own_folder("link")
    CompiledCode.remove("job")
    assert not folder.exists()


def test_old_folders_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    old = _own_folder("old")
    os.utime(old, (0, 0))
    assert _own_folder("new").exists()
    assert not old.exists()


def test_imports_and_compilation_are_no_time_of_the_wagon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.2)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    clock = PhaseClock("wagons")
    warm_up = WarmUp(clock)
    with warm_up.measured():
        import slow_to_import  # type: ignore[import-not-found]
    imported_s = clock.seconds()[WARM_UP]
    assert slow_to_import.time is not None
    assert clock.phase == "wagons"
    assert imported_s >= 0.2
    function: Any = numba.njit(lambda value: value + 1)
    with warm_up.measured():
        assert function(1) == 2
    compiled_s = clock.seconds()[WARM_UP]
    assert compiled_s > imported_s
    with warm_up.measured():
        assert function(2) == 3
        import slow_to_import
    assert clock.seconds()[WARM_UP] == compiled_s


def test_warming_up_is_no_time_of_a_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "slow_imports.py").write_text("import time\ntime.sleep(1)\n")
    (tmp_path / "wagons.py").write_text(
        "def total(events):\n    import slow_imports\n    return float(events.px.to_numpy().sum())\n"
    )
    results = branchline.run(f"{tmp_path / 'wagons.py'}:total", str(folder), workers=1)
    results.raise_error()
    (phases,) = results.record.worker_phases
    assert phases.warmup >= 1
    # The parts of the worker's time follow on each other.
    files_s = sum(one.wall_s for one in results.record.files)
    assert files_s + phases.warmup <= phases.wall_s
    assert results.record.wagons[0].seconds + phases.warmup <= phases.wall_s
