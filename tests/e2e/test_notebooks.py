"""A notebook that a real kernel executes: tables in HTML, and a bar while a train runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.peers.peers import imported

import branchline

#: A kernel imports NumPy and awkward on a machine that has other work.
WAIT_S = 90
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
            file["events"] = {"x": np.arange(1000.0)}
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
