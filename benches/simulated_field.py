"""What a simulated cluster is like: its workers, its storage elements, what goes wrong there, how long a file takes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.elements import ElementSites

FILE_BYTES = 3_000_000
#: Seconds per MB of the files of a real job: the demo with all of its wagons and two workers. The variable
#: BRANCHLINE_JOB_RECORD names the job.json of another one.
RECORD = Path(__file__).with_name("file_seconds.json")


def seconds_per_byte(record: Path | None = None) -> tuple[float, ...]:
    """What the files of a real job took, in ascending order, by its record or by the numbers that are kept here."""
    given = record or os.environ.get("BRANCHLINE_JOB_RECORD")
    if not given:
        return tuple(sorted(one / 1e6 for one in json.loads(RECORD.read_text())["seconds_per_mb"]))
    files = [one for one in json.loads(Path(given).read_text())["files"] if one["size_bytes"] and one["wall_s"]]
    # The first file of a worker has the imports and compilation of its wagons, which are a start and not of the file.
    firsts = {one["worker"]: number for number, one in reversed(list(enumerate(files)))}.values()
    rest = [one for number, one in enumerate(files) if number not in firsts]
    return tuple(sorted(one["wall_s"] / one["size_bytes"] for one in rest))


@dataclass(frozen=True)
class Faults:
    """What goes wrong. Parts are from 0 to 1, and factors say how many times as long something takes."""

    #: Of the nodes these fail everything at once.
    black_holes: int = 2
    slow_nodes_part: float = 0.02
    slow_node_factor: float = 6.0
    #: Of the storage elements so many are slow.
    slow_elements: int = 1
    slow_element_factor: float = 3.0
    #: Attempts that take long by chance, as those that wait for a busy server.
    stragglers_part: float = 0.003
    straggler_factor: float = 15.0
    #: Attempts in which the worker process dies.
    crashes_part: float = 0.001
    #: Workers of the pool end after so long on the average, and come back after ``restart_s``.
    worker_life_s: float = 3600.0
    restart_s: float = 30.0


HEALTHY = Faults(0, 0.0, 1.0, 0, 1.0, 0.0, 1.0, 0.0, 1e12, 30.0)


@dataclass(frozen=True)
class Field:
    """A cluster at several sites, each with storage elements of its own."""

    workers: int = 1000
    workers_per_node: int = 8
    sites: int = 4
    elements_per_site: int = 2
    faults: Faults = Faults()
    #: A file of another site takes so many times as long as one of the own site.
    far_factor: float = 2.5
    #: From the start of a worker's process to its first sub-job, with what its wagons import and compile: 1.5 s, and
    #: the 4 s by which the first file of a worker took longer in that job; and from a group to the next one.
    process_start_s: float = 5.5
    group_start_s: float = 0.02
    #: What the submitting process needs to hand out a group, and to take and to fold a result: `dispatch` measures it.
    submit_s: float = 0.001
    fold_s: float = 0.0005
    #: Wagons take so many times as long as those of the job whose record is used.
    work_factor: float = 1.0
    #: Whether workers know where they stand.
    knows_sites: bool = True
    seed: int = 1

    def site(self, number: int) -> str:
        return f"SITE{number % self.sites}"

    def element(self, number: int) -> str:
        """A storage element; neighbours are at different sites."""
        return f"root://se{number}.site{number % self.sites}.example:1094"

    @property
    def elements(self) -> int:
        return self.sites * self.elements_per_site

    def files(self, count: int) -> list[DataFile]:
        """A dataset whose files lie at the storage elements in runs, as productions write them."""
        sites = ElementSites.of({self.element(one): self.site(one) for one in range(self.elements)})
        run = max(1, count // (self.elements * 4))
        return [
            DataFile(
                f"{self.element(index // run % self.elements)}//data/{index // 1000:03}/f{index:06}.root",
                "events",
                size_bytes=FILE_BYTES,
                sites=sites,
            )
            for index in range(count)
        ]


def drawn(sorted_values: Sequence[float], random: Random) -> float:
    """One of a distribution that is known by some of its values; between two of them it is even."""
    at = random.random() * (len(sorted_values) - 1)
    below = min(int(at), len(sorted_values) - 2)
    return sorted_values[below] + (at - below) * (sorted_values[below + 1] - sorted_values[below])


class Durations:
    """How long a sub-job takes: by its files, which are the same in each attempt, and by chance, which is not."""

    def __init__(self, field: Field, seconds_by_byte: Sequence[float]) -> None:
        self._field = field
        self._by_byte = seconds_by_byte
        slow = Random(f"{field.seed}-elements").sample(range(field.elements), field.faults.slow_elements)
        self._slow_elements = {field.element(one) for one in slow}

    def near_s(self, files: Sequence[DataFile], parts: int = 1) -> float:
        """At the site of the files, with nothing slow."""
        return sum(self._file_s(one) for one in files) / parts

    def attempt_s(self, files: Sequence[DataFile], parts: int, site: str, chance: Random) -> float:
        """On a worker at a site, one time."""
        field, faults, element = self._field, self._field.faults, files[0].elements[0]
        seconds = self.near_s(files, parts)
        if files[0].sites.site_of(files[0].path) != site:
            seconds *= field.far_factor
        if element in self._slow_elements:
            seconds *= faults.slow_element_factor
        return seconds * (faults.straggler_factor if chance.random() < faults.stragglers_part else 1.0)

    def _file_s(self, file: DataFile) -> float:
        random = Random(f"{self._field.seed}-{file.path}")
        return self._field.work_factor * (file.size_bytes or 0) * drawn(self._by_byte, random)
