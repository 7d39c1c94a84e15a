"""A notebook that a real kernel executes: tables in HTML, and a bar while a train runs."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
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


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Executed:
    nbclient, nbformat = imported("nbclient"), imported("nbformat")
    imported("ipykernel")
    folder = tmp_path_factory.mktemp("notebook")
    for name in "ab":
        with branchline.recreate(folder / f"{name}.root") as file:
            file.mktree("events", {"x": np.arange(1000.0)})
    (folder / "wagons.py").write_text(WAGONS)
    moves: dict[int, list[str]] = {}

    class Client(nbclient.NotebookClient):  # type: ignore[misc, name-defined] # the package comes with the tests
        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            if msg["header"]["msg_type"] == "update_display_data":
                moves.setdefault(cell_index, []).append(msg["content"]["data"]["text/html"])
            return super().process_message(msg, cell, cell_index)

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    places = [str(Path(branchline.__file__).parents[1]), *sys.path]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", ":".join(place for place in places if place))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        Client(notebook, timeout=WAIT_S, resources={"metadata": {"path": str(folder)}}).execute()
    return Executed(notebook, moves)


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
    assert moves[-1] == ""


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
