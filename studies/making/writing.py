"""Writes files with ROOT, in a process of its own: `python -m studies.making.writing ORDER.json`."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from studies.making.forms import (
    ESD,
    ESD_TREE,
    ESDS,
    GENERATED,
    GENERATED_TREE,
    MC_HEADER,
    MC_PARTICLE,
    MC_REFERENCE,
    ObjectForm,
)
from studies.making.sources import source_of

ZLIB_1 = 101
BASKET_BYTES, SPLIT_LEVEL = 32_000, 98


@dataclass(frozen=True)
class Order:
    """Which files to write. ``kind`` is esd, with truth (``mc``) or without, or generated. File i has the seed
    ``seed`` + i. With ``flush`` 0 a basket is written when it is full, as ROOT did until 2010.
    """

    folder: str
    kind: str
    first: int
    count: int
    events: int
    cache: str
    mc: bool = False
    seed: int = 1
    flush: int = 0
    compression: int = ZLIB_1
    particles: int = 300
    order_version: int = 1


def loaded(cache: Path) -> Any:
    """ROOT with the classes of the files, compiled once into ``cache``."""
    warnings.simplefilter("ignore")
    import ROOT

    ROOT.gROOT.SetBatch(True)
    ROOT.gErrorIgnoreLevel = ROOT.kError
    text = source_of((*ESD, *GENERATED, MC_PARTICLE, MC_REFERENCE, MC_HEADER))
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / f"EsdForms_{sha256((text + ROOT.__version__).encode()).hexdigest()[:12]}.C"
    if not path.exists():
        path.write_text(text, encoding="ascii")
    if ROOT.gROOT.LoadMacro(f"{path}+O") != 0:
        raise RuntimeError("ROOT cannot compile the classes of the files: is g++ there?")
    return ROOT


class Writer:
    """Writes the files of an order."""

    def __init__(self, root: Any, order: Order) -> None:
        self._root, self._order = root, order
        self._random = root.TRandom3()

    def esd(self, folder: Path, number: int) -> None:
        """An ESD in a folder of its own, and beside it what the simulation knew."""
        folder.mkdir(parents=True, exist_ok=True)
        self._random.SetSeed(self._order.seed + 2 * number + 1)
        self._events(folder / ESDS, ESD_TREE, ESD)
        if self._order.mc:
            self._truth(folder)

    def generated(self, path: Path, number: int) -> None:
        self._random.SetSeed(self._order.seed + 2 * number + 2)
        self._events(path, GENERATED_TREE, GENERATED)

    def _file(self, path: Path) -> Any:
        return self._root.TFile(f"{path}?reproducible={path.name}", "RECREATE", "", self._order.compression)

    def _events(self, path: Path, name: str, forms: Sequence[ObjectForm]) -> None:
        file = self._file(path)
        tree = self._root.TTree(name, name)
        tree.SetAutoFlush(self._order.flush)
        tree.SetAutoSave(0)
        fillers = [self._branch(tree, one) for one in forms]
        for _ in range(self._order.events):
            for one in fillers:
                one()
            tree.Fill()
        tree.Write()
        file.Close()

    def _branch(self, tree: Any, form: ObjectForm) -> Any:
        """Adds a branch, and gives what fills it for an event."""
        root, random = self._root, self._random
        if form.mean:
            array = root.TClonesArray(form.class_name, 100)
            tree.Branch(form.branch, array, BASKET_BYTES, SPLIT_LEVEL)
            fill = getattr(root, f"fill_array_{form.class_name}")
            return lambda: fill(array, random.Poisson(form.mean), random)
        one = getattr(root, form.class_name)()
        tree.Branch(form.branch, one, BASKET_BYTES, SPLIT_LEVEL)
        fill_one = getattr(root, f"fill_{form.class_name}")
        return lambda: fill_one(one, random)

    def _truth(self, folder: Path) -> None:
        file = self._file(folder / "galice.root")
        tree = self._root.TTree("TE", "headers of events")
        fill = self._branch(tree, MC_HEADER)
        for _ in range(self._order.events):
            fill()
            tree.Fill()
        tree.Write()
        file.Close()
        self._tree_of_each_event(folder / "Kinematics.root", "TreeK", MC_PARTICLE, self._order.particles)
        self._tree_of_each_event(folder / "TrackRefs.root", "TreeTR", MC_REFERENCE, self._order.particles // 10)

    def _tree_of_each_event(self, path: Path, name: str, form: ObjectForm, mean: int) -> None:
        """A folder for each event with a tree in it, as ALICE's simulation writes them."""
        file = self._file(path)
        for event in range(self._order.events):
            file.mkdir(f"Event{event}").cd()
            tree = self._root.TTree(name, name)
            count = self._random.Poisson(mean)
            if form.mean:
                fill = self._branch(tree, form)
                for _ in range(count):
                    fill()
                    tree.Fill()
            else:
                one = getattr(self._root, form.class_name)()
                tree.Branch(form.branch, one, 4000, SPLIT_LEVEL)
                getattr(self._root, f"fill_tree_{form.class_name}")(tree, one, count, self._random)
            tree.Write()
            tree.__destruct__()
        file.Close()


def main() -> None:
    order = Order(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    writer = Writer(loaded(Path(order.cache)), order)
    folder = Path(order.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(order.first, order.first + order.count):
        if order.kind == "esd":
            writer.esd(folder / f"{number:04}", number)
        else:
            writer.generated(folder / f"{number:04}.root", number)


if __name__ == "__main__":
    main()
