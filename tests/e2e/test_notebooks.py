"""A notebook that a real kernel executes: tables in HTML, and a bar while a train runs."""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.peers.peers import imported

import branchline

#: A kernel imports NumPy and awkward on a machine that has other work.
WAIT_S = 240
WAGONS = """
import numpy as np

class Sums:
    name = "sums"
    branches = ["x"]

    def process(self, events):
        return float(np.sum(np.asarray(events.x)))

class Failing:
    name = "failing"
    branches = ["x"]

    def process(self, events):
        raise ValueError("<b>not here</b>")
"""
CELLS = (
    "import branchline",
    "branchline.open('a.root')",
    "branchline.open('a.root')['events']",
    "branchline.Dataset.of('*.root')",
    "import warnings; warnings.simplefilter('ignore')\nresult = branchline.run('wagons.py', '*.root', workers=0)",
    "result",
    "quiet = branchline.run('wagons.py', '*.root', workers=0, progress=lambda now: None)",
)


class Executed:
    """The outputs of the cells, and the bars that were shown on the way."""

    def __init__(self, notebook: Any, moves: dict[int, list[str]]) -> None:
        self.notebook = notebook
        self.moves = moves

    def html(self, cell: int) -> str:
        """The HTML of a cell's value."""
        (found,) = [one for one in self.notebook.cells[cell].outputs if one.output_type == "execute_result"]
        return str(found.data["text/html"])

    def said(self, cell: int) -> str:
        """What a cell printed."""
        return "".join(one.text for one in self.notebook.cells[cell].outputs if one.output_type == "stream")

    def traceback(self, cell: int) -> list[str]:
        """The lines that a cell shows for an error."""
        (found,) = [one for one in self.notebook.cells[cell].outputs if one.output_type == "error"]
        return "\n".join(found.traceback).splitlines()


def execute(folder: Path, cells: Sequence[str]) -> Executed:
    """Execute cells in a new kernel, which is ended. Cells may raise."""
    nbclient, nbformat = imported("nbclient"), imported("nbformat")
    imported("ipykernel")
    moves: dict[int, list[str]] = {}

    class Client(nbclient.NotebookClient):  # type: ignore[misc, name-defined] # the package comes with the tests
        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            if msg["header"]["msg_type"] == "update_display_data":
                moves.setdefault(cell_index, []).append(msg["content"]["data"]["text/html"])
            return super().process_message(msg, cell, cell_index)

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    places = [str(Path(branchline.__file__).parents[1]), *sys.path]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", ":".join(place for place in places if place))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        settings = {"timeout": WAIT_S, "allow_errors": True, "resources": {"metadata": {"path": str(folder)}}}
        Client(notebook, **settings).execute()
    return Executed(notebook, moves)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Executed:
    folder = tmp_path_factory.mktemp("notebook")
    for name in "ab":
        with branchline.recreate(folder / f"{name}.root") as file:
            file.mktree("events", {"x": np.arange(1000.0)})
    (folder / "wagons.py").write_text(WAGONS)
    return execute(folder, CELLS)


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning")
def test_files_trees_and_datasets_are_tables(executed: Executed) -> None:
    assert "<td>events;1</td><td>TTree</td>" in executed.html(1)
    assert "events: 1 000 entries" in executed.html(2)
    assert "Dataset: 2 files" in executed.html(3)
    assert "<td>a.root</td>" in executed.html(3)


@pytest.mark.peer
def test_the_result_of_a_train_is_a_table_of_its_wagons_with_errors_escaped(executed: Executed) -> None:
    shown = executed.html(5)
    assert "2 000 events in" in shown
    assert "<td>sums</td><td>2 000</td>" in shown
    assert "&lt;b&gt;not here&lt;/b&gt;" in shown
    assert "<b>not here" not in shown


@pytest.mark.peer
def test_a_bar_moves_while_a_train_runs_and_goes_away(executed: Executed) -> None:
    moves = executed.moves[4]
    assert any("<progress" in one and "events/s" in one for one in moves)
    assert moves[-2:] == ["", ""]


@pytest.mark.peer
def test_progress_that_the_caller_takes_shows_no_bar(executed: Executed) -> None:
    assert 6 not in executed.moves


SLOW = """
import time
from pathlib import Path

class Slow:
    branches = ["x"]

    def process(self, events):
        Path(f"{events.metadata['filename'].rpartition('/')[2]}.mark").touch()
        if "c.root" in events.metadata["filename"]:
            time.sleep(60)
        return {"events": len(events)}
"""


def outputs_of(client: Any, code: str) -> list[dict[str, Any]]:
    """What a cell writes, up to its end."""
    request = client.execute(code)
    return list(messages_to_the_end(client, request))


def messages_to_the_end(client: Any, request: str) -> Iterator[dict[str, Any]]:
    while True:
        message = client.get_iopub_msg(timeout=WAIT_S)
        if message["parent_header"].get("msg_id") != request:
            continue
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            return
        yield message


@pytest.mark.peer
@pytest.mark.parametrize("workers", [0, 1])
def test_ctrl_c_keeps_what_is_finished_and_ends_the_cell_alone(tmp_path: Path, workers: int) -> None:
    imported("ipykernel")
    manager_module = imported("jupyter_client.manager")
    for name in "abc":
        with branchline.recreate(tmp_path / f"{name}.root") as file:
            # Larger than what is joined to one sub-job.
            file["events"] = {"x": np.random.default_rng(1).uniform(size=200_000)}
    (tmp_path / "slow.py").write_text(SLOW)
    places = [str(Path(branchline.__file__).parents[1]), *sys.path]
    environment = {**os.environ, "PYTHONPATH": ":".join(place for place in places if place)}
    environment["IPYTHONDIR"] = str(tmp_path / "ipython")
    manager, client = manager_module.start_new_kernel(cwd=str(tmp_path), env=environment)
    try:
        code = f"import branchline; branchline.run('slow.py', '*.root', 'out', workers={workers}, pictures='none')"
        request = client.execute(code)
        end_s = time.monotonic() + WAIT_S
        while not (tmp_path / "c.root.mark").exists():
            assert time.monotonic() < end_s
            time.sleep(0.05)
        manager.interrupt_kernel()
        said = list(messages_to_the_end(client, request))
        [error] = [one["content"] for one in said if one["msg_type"] == "error"]
        assert error["ename"] == "KeyboardInterrupt"
        assert "repeat the call to continue" in error["evalue"]
        job = json.loads((tmp_path / "out" / "job.json").read_text())
        assert job["interrupted"]
        assert job["events"] >= 200_000
        assert job["wagons"][0]["status"] == "partial"
        # The kernel goes on.
        [value] = [one for one in outputs_of(client, "1 + 1") if one["msg_type"] == "execute_result"]
        assert value["content"]["data"]["text/plain"] == "2"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


#: The cells of an analysis whose code is in the notebook alone. Every file is a sub-job.
OWN_CODE = """
import branchline, hist, numpy as np, os, time
import branchline.trains.running.notebook_view as view, branchline.trains.subjobs.shares as shares
shares.SUBJOB_MIN_BYTES = 1
view.PARTIAL_INTERVAL_S, view.PARTIAL_PART_MAX = 0.0, 1.0
CUT = 0.5
def total(output): return float(output["x"].sum(flow=True))
def reused(result): return result.record.subjobs_reused, result.record.subjobs
# %%
def shifted(values):
    return values + 1

class Spectrum:
    edge = 2.0
    def process(self, events):
        events = events.x[events.x > CUT]
        return {"x": hist.Hist.new.Reg(10, 0, self.edge, name="x").Double().fill(shifted(events)), "pid": {os.getpid()}}
# %%
events = {1, 2}, object()
first = branchline.run(Spectrum(), "*.root", "out", workers=2)
print(total(first.outputs["Spectrum"]), reused(first), os.getpid() in first.outputs["Spectrum"]["pid"])
# %%
print(reused(branchline.run(Spectrum(), "*.root", "out", workers=2)))
# %%
old = Spectrum()
CUT = 0.75
print(*reused(result := branchline.run(Spectrum(), "*.root", "out", workers=2)), total(result.outputs["Spectrum"]))
# %%
class Spectrum:
    edge = 2.0
    def process(self, events):
        return {"x": hist.Hist.new.Reg(10, 0, self.edge, name="x").Double().fill(events.x), "pid": {os.getpid()}}
# %%
print(*reused(result := branchline.run(Spectrum(), "*.root", "out", workers=2)), total(result.outputs["Spectrum"]))
print(*reused(result := branchline.run(old, "*.root", "out", workers=2)), total(result.outputs["Spectrum"]))
Spectrum.edge = 3.0
print(*reused(branchline.run(Spectrum(), "*.root", "out", workers=2)))
# %%
class Reads:
    def process(self, events):
        with open("".join(["CU", "TS"])) as file:
            return len(file.read())
open("CUTS", "w").write("abc")
print(branchline.run(Reads(), "*.root", "reads", workers=0).record.wagons[0].not_reusable)
# %%
from concurrent.futures import ThreadPoolExecutor
from distributed import LocalCluster
many = lambda events: int(np.sum(events.x > 0.5))
print(branchline.run(many, "*.root", workers=2).outputs)
with ThreadPoolExecutor(2) as executor:
    print(branchline.run(many, "*.root", on=executor).outputs)
with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
    print(branchline.run([many, old], "*.root", on=cluster).outputs["lambda"])
# %%
class Slow:
    def process(self, events):
        time.sleep(0.2)
        return hist.Hist.new.Reg(10, 0, 1, name="x").Double().fill(events.x)
slow = branchline.run(Slow(), "*.root", workers=1)
# %%
slow
# %%
from branchline.trains.reuse.result_keys import WagonKeys
from branchline.trains.wagons.wagons import wagons_of
def keys():
    found = [next(iter(WagonKeys(wagons_of(one)[0]).by_name.values())) for one in (default, Held(), doubled)]
    return [one.key or one.unknown for one in found]
N, found = 1, []
# %%
import functools
def default(events, n=N):
    return n
class Base:
    "A class."
    __slots__ = ("a",)
    def process(self, events):
        return super().__init__()
class Held(Base):
    edges = np.linspace(0, 1, N + 1)
    def process(self, events):
        return len(self.edges)
def scaled(factor):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(events):
            return factor * function(events)
        return wrapper
    return decorate
@scaled(N)
def doubled(events):
    return 1
found.append(keys())
# %%
N = 2
found.append(keys())
# %%
{defined_again}
# %%
N = 1
# %%
{defined_again}
# %%
first, changed, again, back = found
print(len(first[0]), first == back, [one != other for one, other in zip(changed, again)])
print(len({one for some in (first, changed, again) for one in some}))
Held.process = lambda self, events: 1
print(keys()[1])
# %%
def fails(events):
    scale = 2
    return events.nosuch * scale
result = branchline.run(fails, "*.root", workers=2)
# %%
result.raise_error()
# %%
%xmode Verbose
# %%
result.raise_error()
"""
CELLS_OF_OWN_CODE = OWN_CODE.strip().split("\n# %%\n")
CELLS_OF_OWN_CODE = [CELLS_OF_OWN_CODE[12] if one == "{defined_again}" else one for one in CELLS_OF_OWN_CODE]
FILES, ENTRIES = 4, 500


def pictures(html: str) -> list[str]:
    """The pictures in some HTML, as SVG."""
    return [base64.b64decode(one).decode() for one in re.findall(r"data:image/svg\+xml;base64,([^\"]+)", html)]


@pytest.fixture(scope="module")
def own_code(tmp_path_factory: pytest.TempPathFactory) -> tuple[Executed, Path]:
    folder = tmp_path_factory.mktemp("own")
    for index in range(FILES):
        with branchline.recreate(folder / f"{index}.root") as file:
            file["events"] = {"x": np.linspace(0, 1, ENTRIES)}
    return execute(folder, CELLS_OF_OWN_CODE), folder


@pytest.mark.peer
def test_results_of_code_in_a_notebook_are_reused_until_the_code_changes(own_code: tuple[Executed, Path]) -> None:
    done, folder = own_code
    assert done.said(2) == "1000.0 (0, 4) False\n"
    assert done.said(3) == "(4, 4)\n"
    # Another value of a variable, another class of this name, the class before, another class attribute.
    assert done.said(4) == "0 4 500.0\n"
    assert done.said(6) == "0 4 2000.0\n4 4 500.0\n0 4\n"
    assert "a cell of the notebook: line 3 reads a file with open()" in done.said(7)
    # Another kernel.
    cells = CELLS_OF_OWN_CODE
    again = "CUT = 0.75\nprint(reused(branchline.run(Spectrum(), '*.root', 'out', workers=2, force=True)))"
    assert execute(folder, [cells[0], cells[1], again]).said(2) == "(4, 4)\n"


@pytest.mark.peer
def test_a_key_covers_what_a_definition_took_from_variables_when_it_ran(own_code: tuple[Executed, Path]) -> None:
    """Defaults of functions, attributes of classes, and what a decorator encloses."""
    done, _ = own_code
    assert done.said(17).splitlines() == [
        "64 True [True, True, True]",
        "9",
        "the method process of Held was replaced after its definition",
    ]


@pytest.mark.peer
def test_a_lambda_and_a_class_of_a_notebook_run_at_every_place(own_code: tuple[Executed, Path]) -> None:
    done, _ = own_code
    many = FILES * ENTRIES // 2
    assert [line for line in done.said(8).splitlines() if "lambda" in line] == [f"{{'lambda': {many}}}"] * 2
    assert f"\n{many}\n" in done.said(8)


@pytest.mark.peer
def test_histograms_of_the_finished_part_are_shown_while_a_train_runs(own_code: tuple[Executed, Path]) -> None:
    done, _ = own_code
    shown = [one for html in done.moves[9] for one in pictures(html)]
    assert any(f"{ENTRIES} events so far" in one for one in shown)
    assert done.moves[9][-2:] == ["", ""]
    [final] = pictures(done.html(10))
    assert f"{FILES * ENTRIES:,} events".replace(",", "\N{NO-BREAK SPACE}") in final or "2 000 events" in final


@pytest.mark.peer
def test_a_traceback_is_short_and_names_the_line_of_the_cell(own_code: tuple[Executed, Path]) -> None:
    done, _ = own_code
    lines = done.traceback(19)
    assert len(lines) <= 5
    assert lines[0] == "Cell In[20], line 1: result.raise_error()"
    assert 'has no branch "nosuch"' in lines[1]
    assert lines[2] == "wagon fails, cell 19, line 3: return events.nosuch * scale"
    assert "(cell 19, line 3)" in done.said(18)
    full = "\n".join(done.traceback(21))
    assert "result.py" in full
    assert 'has no branch "nosuch"' in full
