"""The example of the documentation with a PyTorch model: the values of PyTorch alone, one loading in each worker, and
results that are reused until the file changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import REPOSITORY
from tests.docs.snippets import snippets_of
from tests.ecosystem.test_libraries import Library, check
from tests.peers.peers import imported

PAGE = REPOSITORY / "docs" / "guides" / "physicist.md"


def write_network(path: Path, scale: float) -> None:
    torch = imported("torch")
    torch.save({"weight": torch.tensor([[scale]]), "bias": torch.tensor([1.0])}, path)


def infer(path: Path, x: Any) -> Any:
    torch = imported("torch")
    network = torch.nn.Linear(1, 1)
    network.load_state_dict(torch.load(path, weights_only=True))
    with torch.no_grad():
        return network(torch.as_tensor(x, dtype=torch.float32)[:, None]).numpy()


def test_a_network_of_pytorch(tmp_path: Path) -> None:
    [example] = [one.text for one in snippets_of(PAGE) if one.kind == "skipped" and "import torch" in one.text]
    wagon = example.replace("class Tagged", "class Sums").replace("(path):\n", "(path):\n    mark()\n")
    assert "mark()" in wagon
    check(Library("tagger.pt", write_network, wagon, infer), tmp_path)
