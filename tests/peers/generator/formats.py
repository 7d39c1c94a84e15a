"""The formats of the generator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.peers.generator import cases, cycle_cases, ntuple_cases, written_cases
from tests.peers.generator.cases import Outcome
from tests.peers.generator.families import Family, Maker, build
from tests.peers.generator.ntuple_families import FieldMaker
from tests.peers.generator.values import INT, Container, Text

# Number of cases per family. Compiling the dictionary of a family takes as long as many cases.
CASES_PER_FAMILY = 20


@dataclass(frozen=True)
class Format:
    """Functions that run the cases of a format. Formats without classes need no family."""

    run_case: Callable[[Any, Any, int, Path], Outcome]
    warm_up: Callable[[Any, Any, Path], None]
    make_family: Callable[[int], Family] | None = None
    driver: str = ""

    def prepared_family(self, root: Any, number: int, folder: Path) -> Family | None:
        """Return the family with this number, and load its dictionary."""
        if self.make_family is None:
            return None
        family = self.make_family(number)
        build(root, family, folder, self.driver)
        return family

    def prepare(self, root: Any, folder: Path) -> None:
        """Compile the code that the cases of all families need, using ROOT."""
        family = None
        if self.make_family is not None:
            family = Family("prepared", tops=[Text(), Container("std::vector", INT)])
            build(root, family, folder, self.driver)
        self.warm_up(root, family, folder)


FORMATS = {
    "TTree": Format(cases.run_case, cases.warm_up, lambda number: Maker(number).make(), "driver.h"),
    "RNTuple": Format(
        ntuple_cases.run_case, ntuple_cases.warm_up, lambda number: FieldMaker(number).make(), "ntuple.h"
    ),
    # Columns of DataFrames and tables, which Branchline writes.
    "written": Format(written_cases.run_case, written_cases.warm_up),
    # Objects with the same name, whose cycle numbers overflow.
    "cycles": Format(cycle_cases.run_case, cycle_cases.warm_up),
}
