"""Corrections and models of other libraries in wagons, loaded by `branchline.loaded`: the values of the library alone,
one loading in each worker, results that are reused until the file changes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from tests.unit.trains.wagons.test_loaded_files import FACTORS

FILES, ENTRIES = 4, 100
#: Every loading leaves a folder in `loads`.
HEAD = """
import os, time
import numpy as np
import branchline

def mark():
    os.makedirs("loads/%d" % os.getpid(), exist_ok=True)
    os.mkdir("loads/%d/%d" % (os.getpid(), time.monotonic_ns()))
"""


@dataclass(frozen=True)
class Library:
    """A library: writes a model that scales by a number, the wagon, and the values of the model for an array."""

    name: str
    write: Callable[[Path, float], None]
    wagon: str
    alone: Callable[[Path, Any], Any]


def write_correction(path: Path, scale: float) -> None:
    path.write_text(json.dumps(FACTORS).replace("2.0", str(scale)))


def correct(path: Path, x: Any) -> Any:
    import correctionlib

    return correctionlib.CorrectionSet.from_file(str(path))["scale"].evaluate(x)


def write_onnx(path: Path, scale: float) -> None:
    import onnx
    from onnx import TensorProto, helper

    node = helper.make_node("Mul", ["x", "scale"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in "xy"]
    weights = [helper.make_tensor("scale", TensorProto.FLOAT, [1], [scale])]
    graph = helper.make_graph([node], "scaled", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)


def infer(path: Path, x: Any) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x.astype(np.float32)})[0]


def write_xgboost(path: Path, scale: float) -> None:
    import xgboost

    x = np.linspace(0, 99, 50)
    settings = {"max_depth": 2, "nthread": 1}
    xgboost.train(settings, xgboost.DMatrix(x[:, None], scale * x), num_boost_round=5).save_model(path)


def predict(path: Path, x: Any) -> Any:
    import xgboost

    return xgboost.Booster(model_file=str(path)).inplace_predict(x[:, None])


def write_json(path: Path, scale: float) -> None:
    path.write_text(json.dumps({"scale": scale}))


LIBRARIES = (
    Library(
        "factors.json",
        write_correction,
        """
import correctionlib
def load(path):
    mark()
    return correctionlib.CorrectionSet.from_file(path)
class Sums:
    model = branchline.loaded(load, "factors.json")
    def process(self, events):
        return float(np.sum(self.model["scale"].evaluate(np.asarray(events.x))))
""",
        correct,
    ),
    Library(
        "scaled.onnx",
        write_onnx,
        """
import onnxruntime
def load(path):
    mark()
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
class Sums:
    def __init__(self):
        self.model = branchline.loaded(load, "scaled.onnx")
    def process(self, events):
        return float(np.sum(self.model.run(None, {"x": np.asarray(events.x).astype(np.float32)})[0]))
""",
        infer,
    ),
    Library(
        "trees.json",
        write_xgboost,
        """
import xgboost
def load(path):
    mark()
    return xgboost.Booster(model_file=path)
model = branchline.loaded(load, "trees.json")
class Sums:
    def process(self, events):
        return float(np.sum(model.inplace_predict(np.asarray(events.x)[:, None])))
""",
        predict,
    ),
    Library(
        "scale.json",
        write_json,
        """
import json
def load(path):
    mark()
    with open(path) as file:
        return json.load(file)
class Sums:
    def __init__(self):
        self.table = branchline.loaded(load, "scale.json")
    def process(self, events):
        return float(np.sum(np.asarray(events.x) * self.table["scale"]))
""",
        lambda path, x: x * json.loads(path.read_text())["scale"],
    ),
)
RUN = """
import json, sys
import branchline, branchline.trains.subjobs.shares as shares
shares.SUBJOB_MIN_BYTES = int(sys.argv[1])
done = branchline.run("wagons.py", "*.root", "out", workers=2, force=True)
record = done.record
print(json.dumps([done.outputs["Sums"], record.subjobs_reused, record.subjobs, record.wagons[0].not_reusable]))
"""


def write_events(folder: Path) -> None:
    for number in range(FILES):
        with uproot.recreate(folder / f"{number}.root") as file:
            file["events"] = {"x": np.linspace(0, 99, ENTRIES) + number}


def run(folder: Path) -> list[Any]:
    """The output, the numbers of reused and of all sub-jobs, and why the results cannot be reused."""
    size_bytes = str((folder / "0.root").stat().st_size)
    done = subprocess.run(
        [sys.executable, "-c", RUN, size_bytes], cwd=folder, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check(library: Library, folder: Path) -> None:
    """Run three times: with a new model, with the same one, with another one."""
    path = folder / library.name
    (folder / "wagons.py").write_text(HEAD + library.wagon)
    (folder / "loads").mkdir()
    write_events(folder)

    def expected() -> float:
        return sum(float(np.sum(library.alone(path, np.linspace(0, 99, ENTRIES) + number))) for number in range(FILES))

    library.write(path, 1.5)
    total, reused, subjobs, why = run(folder)
    assert why == ""
    assert (total, reused, subjobs) == (pytest.approx(expected(), rel=1e-6), 0, FILES)
    loads = {process.name: len(list(process.iterdir())) for process in (folder / "loads").iterdir()}
    assert set(loads.values()) == {1}
    assert 1 <= len(loads) <= 3
    assert run(folder) == [total, FILES, FILES, ""]
    library.write(path, 3.0)
    other, reused, _, _ = run(folder)
    assert (other, reused) == (pytest.approx(expected(), rel=1e-6), 0)
    assert other != total


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda one: one.name)
def test_library(library: Library, tmp_path: Path) -> None:
    check(library, tmp_path)


ONNX = 'onnxruntime.InferenceSession("scaled.onnx", providers=["CPUExecutionProvider"])'
CORRECTION = 'correctionlib.CorrectionSet.from_file({})["scale"].evaluate(1.0)'
UNKNOWN = "whose content is unknown: load it with branchline.loaded(LOADER, FILE), or create it in setup()"
#: What a wagon does instead: imports, its constructor, its setup, its process, and why its results cannot be reused.
INSTEAD = {
    "a correction of the constructor": (
        "import correctionlib",
        'self.it = correctionlib.CorrectionSet.from_file("factors.json")["scale"]',
        "",
        "self.it.evaluate(1.0)",
        f"is a correctionlib._core.Correction, {UNKNOWN}",
    ),
    "a file whose name is put together": (
        'import correctionlib, os\nHERE = os.path.join(".", "")',
        "",
        "",
        CORRECTION.format('HERE + "factors" + ".json"'),
        "but the file name is not in the source: use branchline.loaded(LOADER, FILE)",
    ),
    "a file whose name is an attribute": (
        "import correctionlib, os",
        'self.path = os.path.join(os.getcwd(), "factors.json")',
        "",
        CORRECTION.format("self.path"),
        "",
    ),
    "a file with a constant name": ("import correctionlib", "", "", CORRECTION.format('"factors.json"'), ""),
    "a cached loader": (
        "import correctionlib, functools\n@functools.lru_cache\ndef corrections(path):\n"
        "    return correctionlib.CorrectionSet.from_file(path)",
        "",
        "",
        'corrections("factors.json")["scale"].evaluate(1.0)',
        f"corrections is a functools._lru_cache_wrapper, {UNKNOWN}",
    ),
    "an ONNX session of the module": (
        f"import onnxruntime\nsession = {ONNX}",
        "",
        "",
        "session.get_inputs()",
        f"is a onnxruntime.capi.onnxruntime_pybind11_state.OrtEpDevice, {UNKNOWN}",
    ),
    "an ONNX session of setup": ("import onnxruntime", "", f"self.it = {ONNX}", "self.it.get_inputs()", ""),
    "trees of the constructor": (
        "import xgboost",
        'self.it = xgboost.Booster(model_file="trees.json")',
        "",
        "self.it.num_features()",
        UNKNOWN,
    ),
    "jets of the constructor": (
        "import fastjet",
        "self.it = fastjet.JetDefinition(fastjet.antikt_algorithm, 0.4)",
        "",
        "self.it.R()",
        UNKNOWN,
    ),
    "jets of setup": (
        "import fastjet",
        "",
        "self.it = fastjet.JetDefinition(fastjet.antikt_algorithm, 0.4)",
        "self.it.R()",
        "",
    ),
    "a mask of coffea": (
        "from coffea.lumi_tools import LumiMask",
        'self.it = LumiMask("golden.json")',
        "",
        "self.it",
        "",
    ),
}
WAGON = """
{imports}
class Sums:
    def __init__(self):
        {init}
    def setup(self):
        {setup}
    def process(self, events):
        {process}
        return len(events)
"""


def wagon(imports: str, init: str, setup: str, process: str) -> str:
    return WAGON.format(imports=imports, init=init or "pass", setup=setup or "pass", process=process)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_events(folder)
    for library in LIBRARIES:
        library.write(folder / library.name, 1.5)
    (folder / "golden.json").write_text('{"1": [[1, 2]]}')
    return folder


@pytest.mark.parametrize("what", INSTEAD)
def test_what_a_wagon_may_do_instead_runs_and_the_reason_names_the_remedy(what: str, models: Path) -> None:
    *parts, problem = INSTEAD[what]
    (models / "wagons.py").write_text(wagon(*parts))
    total, _, subjobs, why = run(models)
    assert total == FILES * ENTRIES
    assert problem in why
    assert bool(problem) == bool(why)
    assert run(models) == [total, 0 if problem else subjobs, subjobs, why]


def test_a_session_that_cannot_be_sent_is_named_with_the_remedy(models: Path) -> None:
    (models / "session.py").write_text(wagon("import onnxruntime", f"self.session = {ONNX}", "", "pass"))
    remedy = "load it with branchline.loaded(LOADER, FILE), or create it in setup()"
    for words in (["run", "session.py", "0.root", "-o", "session-out"], ["test", "session.py", "0.root"]):
        done = subprocess.run(
            [sys.executable, "-m", "branchline.cli", *words], cwd=models, capture_output=True, text=True, timeout=240
        )
        said = " ".join((done.stdout + done.stderr).split())
        assert done.returncode != 0
        assert "cannot be sent to workers: Sums.session._sess is a onnxruntime" in said
        assert remedy in said
        assert "bug" not in said
        assert "please report" not in said
