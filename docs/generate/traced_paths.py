"""Draws the paths of a read and of a train from the breakpoints in ARCHITECTURE.md, checked against a traced run."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType

import numpy as np
from docs.generate.drawing import Box, Picture

import branchline

PACKAGE = branchline.__file__.removesuffix("__init__.py")
#: Size of a box, and the space between two of them.
WIDTH, HEIGHT, GAP = 310, 72, 30
ROW = re.compile(r"\| ([^|]+) \| `([\w.]+)` \| `([\w./]+)` \|")

#: Number of calls by file and function, in the order of their first calls.
Calls = Counter[tuple[str, str]]


@dataclass(frozen=True)
class Step:
    """A row of a table of breakpoints."""

    what: str
    function: str
    file: str

    @property
    def key(self) -> tuple[str, str]:
        return self.file, self.function


def write(folder: Path, architecture: str) -> None:
    """Write life-of-a-read.svg and life-of-a-train.svg. Raises ValueError if a run does not take these steps."""
    with tempfile.TemporaryDirectory() as data:
        file = os.path.join(data, "events.root")
        with branchline.recreate(file) as made:
            made["events"] = {"pt": np.linspace(0, 100, 500), "charge": np.ones(500, np.int32)}

        def read() -> None:
            with branchline.open(file) as opened:
                opened["events"].arrays()

        def train() -> None:
            branchline.run(_Events(), [file], os.path.join(data, "out"), workers=0)

        for name, run in (("read", read), ("train", train)):
            picture = drawn(f"The path of a {name}", steps_of(architecture, name), traced(run))
            (folder / f"life-of-a-{name}.svg").write_text(picture.svg(), encoding="utf-8")


def steps_of(architecture: str, name: str) -> list[Step]:
    """Return the steps in the table under the heading `The path of a NAME` of ARCHITECTURE.md."""
    (section,) = re.findall(rf"^## The path of a {name}\n(.*?)(?=^## )", architecture, re.MULTILINE | re.DOTALL)
    return [Step(what.replace("`", ""), function, file) for what, function, file in ROW.findall(section)]


def traced(run: Callable[[], None]) -> Calls:
    """Run the function and count the calls of Branchline's functions in this thread."""
    calls: Calls = Counter()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            calls[frame.f_code.co_filename.removeprefix(PACKAGE), frame.f_code.co_qualname] += 1

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


def drawn(title: str, steps: list[Step], calls: Calls) -> Picture:
    """Draw the steps as boxes in two columns. Raises ValueError if the calls do not follow the steps."""
    in_python = [step.key for step in steps if step.file.endswith(".py")]
    order = [key for key in calls if key in set(in_python)]
    if order != in_python:
        raise ValueError(f"{title} in ARCHITECTURE.md lists {in_python}, but the traced run called {order}")
    rows = (len(steps) + 1) // 2
    picture = Picture(3 * GAP + 2 * WIDTH, rows * (HEIGHT + GAP) + 2 * GAP, title)
    boxes = [_box(picture, number, step) for number, step in enumerate(steps)]
    for number, (one, following) in enumerate(pairwise(boxes)):
        if number % 2:
            picture.arrow(one.bottom, following.top)
        elif number % 4:
            picture.arrow(one.left, following.right)
        else:
            picture.arrow(one.right, following.left)
    functions = [key for key in calls if "<" not in key[1]]
    files = {file for file, _ in functions}
    picture.label(GAP, picture.height - GAP, "Blue: Python, traced. Plain: Rust. Green: your code.")
    picture.label(
        picture.width - GAP,
        picture.height - GAP,
        f"{len(functions)} functions in {len(files)} files were called",
        "end",
    )
    return picture


def _box(picture: Picture, number: int, step: Step) -> Box:
    row, column = divmod(number, 2)
    # Alternate the direction of rows, so that arrows connect neighbouring boxes.
    x = GAP + (column if row % 2 == 0 else 1 - column) * (WIDTH + GAP)
    kind = "ours" if step.file.endswith(".py") else "box"
    if step.function == "Wagon.process":
        kind = "yours"
    return picture.box(x, GAP + row * (HEIGHT + GAP), WIDTH, HEIGHT, step.function, step.file, step.what, kind=kind)


class _Events:
    """Counts events."""

    def process(self, events: branchline.train.Events) -> int:
        events.pt  # noqa: B018 - reads the branch
        return len(events)
