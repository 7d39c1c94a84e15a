"""The sets of files that studies read: made once into a folder, and kept."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from branchline.writing.merging.merge import merge
from branchline.writing.merging.skim import MergeOptions
from studies.making.writing import Order

REPOSITORY = Path(__file__).parents[2]
#: Making all of a set; one of the full size takes some minutes on a busy machine.
MAKING_S = 1800
#: Layouts of one merge: the options of `branchline.merge`.
ORDERS: dict[str, MergeOptions] = {
    "offset": {"order": "offset"},
    "branch": {"order": "branch"},
    "entry": {"order": "entry"},
    "clusters": {"cluster_bytes": "4 MB"},
}
#: Small files of a file of each step of `sizes`, and their total number.
STEPS = (1, 2, 4, 8, 16)
STEPS_FILES = 64


@dataclass(frozen=True)
class Scale:
    """How large the sets are. A large file is a merge of ``merged`` small ones."""

    name: str
    files: int
    events: int
    generated_events: int
    merged: int

    @property
    def large(self) -> int:
        return self.files // self.merged


FULL = Scale("full", files=128, events=100, generated_events=190, merged=4)
QUICK = Scale("quick", files=16, events=10, generated_events=20, merged=2)


class Sets:
    """The sets of a scale below a folder. A set that was begun and not finished is made again."""

    def __init__(self, folder: Path, scale: Scale, say: Callable[[str], None]) -> None:
        self.scale, self._say = scale, say
        self._top, self.folder = folder, folder / scale.name
        self._makers: dict[str, Callable[[Path], None]] = {
            "small": self._small,
            "generated": self._generated,
            "large": lambda to: self._merged(self.made("small"), "*/AliESDs.root", to),
            "large-generated": lambda to: self._merged(self.made("generated"), "*.root", to),
            "generated-plain": self._uncompressed,
            "unordered": self._unordered,
            "reordered": self._reordered,
            "orders": self._orders,
            "sizes": self._sizes,
        }

    @property
    def names(self) -> set[str]:
        return set(self._makers)

    def made(self, name: str) -> Path:
        """The folder of a set, which is made where it is missing."""
        folder = self.folder / name
        if (folder / ".complete").exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        self._say(f"making the files of {name}, {self.scale.name}")
        self._makers[name](folder)
        (folder / ".complete").touch()
        return folder

    def _small(self, to: Path) -> None:
        self._order(Order(str(to), "esd", 0, self.scale.files, self.scale.events, self._cache, mc=True))

    def _generated(self, to: Path) -> None:
        scale = self.scale
        self._order(Order(str(to), "generated", 0, scale.files, scale.generated_events, self._cache))

    @property
    def _cache(self) -> str:
        return str((self._top / "compiled").resolve())

    def _order(self, order: Order) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "order.json"
        path.write_text(json.dumps(dataclasses.asdict(order)), encoding="utf-8")
        _run([sys.executable, "-m", "studies.making.writing", str(path)])

    def _merged(self, small: Path, pattern: str, to: Path) -> None:
        """Each so many neighbours become one file."""
        to.mkdir(parents=True)
        files = sorted(small.glob(pattern))
        for number in range(self.scale.large):
            some = files[number * self.scale.merged : (number + 1) * self.scale.merged]
            _merge(some, to / f"{number:04}.root")

    def _uncompressed(self, to: Path) -> None:
        to.mkdir(parents=True)
        for one in sorted(self.made("generated").glob("*.root")):
            _merge([one], to / one.name, codec="none")

    def _unordered(self, to: Path) -> None:
        """Baskets lie as they became full, in files as large as merged ones."""
        scale = self.scale
        raw = self.folder / "unordered-raw"
        shutil.rmtree(raw, ignore_errors=True)
        self._order(Order(str(raw), "esd", 1000, scale.large, scale.events * scale.merged, self._cache))
        to.mkdir(parents=True)
        for number, one in enumerate(sorted(raw.glob("*/AliESDs.root"))):
            os.replace(one, to / f"{number:04}.root")
        shutil.rmtree(raw)

    def _reordered(self, to: Path) -> None:
        to.mkdir(parents=True)
        for one in sorted(self.made("unordered").glob("*.root")):
            _merge([one], to / one.name, order="entry")

    def _orders(self, to: Path) -> None:
        for name, options in ORDERS.items():
            (to / name).mkdir(parents=True)
            files = sorted(self.made("small").glob("*/AliESDs.root"))
            for number in range(self.scale.large):
                some = files[number * self.scale.merged : (number + 1) * self.scale.merged]
                _merge(some, to / name / f"{number:04}.root", **options)

    def _sizes(self, to: Path) -> None:
        """The same events in ever larger files."""
        files = sorted(self.made("small").glob("*/AliESDs.root"))[:STEPS_FILES]
        for step in STEPS:
            (to / f"{step:02}").mkdir(parents=True)
            for number in range(0, len(files), step):
                _merge(files[number : number + step], to / f"{step:02}" / f"{number:04}.root")


def _merge(files: list[Path], to: Path, **options: Unpack[MergeOptions]) -> None:
    options["sync"] = False
    merge([str(one) for one in files], to, **options)


def _run(words: list[str]) -> None:
    search = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    environment = os.environ | {"PYTHONPATH": search}
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=MAKING_S, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words[:5])} failed: {done.stderr[-2000:]}")
