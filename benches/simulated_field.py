"""The properties of a simulated cluster: workers, storage elements, failures, and the time per file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.elements import ElementSites

FILE_BYTES = 3_000_000
#: Seconds per MB of the files of a real job: the demo with all wagons and two workers. Set BRANCHLINE_JOB_RECORD to
#: the job.json of another job.
RECORD = Path(__file__).with_name("file_seconds.json")


def seconds_per_byte(record: Path | None = None) -> tuple[float, ...]:
    """Return the sorted seconds per byte of the files of a job, from its record or from the stored numbers."""
    given = record or os.environ.get("BRANCHLINE_JOB_RECORD")
    if not given:
        return tuple(sorted(one / 1e6 for one in json.loads(RECORD.read_text())["seconds_per_mb"]))
    files = [one for one in json.loads(Path(given).read_text())["files"] if one["size_bytes"] and one["wall_s"]]
    # Skip the first file of each worker, which includes imports and compilation.
    firsts = {one["worker"]: number for number, one in reversed(list(enumerate(files)))}.values()
    rest = [one for number, one in enumerate(files) if number not in firsts]
    return tuple(sorted(one["wall_s"] / one["size_bytes"] for one in rest))


@dataclass(frozen=True)
class Faults:
    """The failures of a cluster. Parts are fractions from 0 to 1; factors multiply durations."""

    #: Number of nodes that fail every sub-job immediately.
    black_holes: int = 2
    slow_nodes_part: float = 0.02
    slow_node_factor: float = 6.0
    #: Number of slow storage elements.
    slow_elements: int = 1
    slow_element_factor: float = 3.0
    #: Fraction of attempts that are slow by chance, such as during a temporary overload of a server.
    stragglers_part: float = 0.003
    straggler_factor: float = 15.0
    #: Fraction of attempts in which the worker process dies.
    crashes_part: float = 0.001
    #: Mean lifetime of a worker. It restarts after ``restart_s``.
    worker_life_s: float = 3600.0
    restart_s: float = 30.0


HEALTHY = Faults(0, 0.0, 1.0, 0, 1.0, 0.0, 1.0, 0.0, 1e12, 30.0)


@dataclass(frozen=True)
class Field:
    """A cluster with several sites, each with its own storage elements."""

    workers: int = 1000
    workers_per_node: int = 8
    sites: int = 4
    #: Number of sites with workers; 0 for all.
    worker_sites: int = 0
    elements_per_site: int = 2
    faults: Faults = Faults()
    #: Ratio of the times to read a file from another site and from the worker's own site.
    far_factor: float = 2.5
    #: Seconds from the start of a worker process to its first sub-job: 1.5 s, plus 4 s for imports and compilation of
    #: wagons, the additional time of the first file of each worker in the recorded job.
    process_start_s: float = 5.5
    #: Seconds between two groups on a worker.
    group_start_s: float = 0.02
    #: Seconds that the submitting process needs to submit a group and to merge a result, as measured by `dispatch`.
    submit_s: float = 0.001
    fold_s: float = 0.0005
    #: Factor for the time of wagons, relative to the recorded job.
    work_factor: float = 1.0
    #: Whether workers know their site.
    knows_sites: bool = True
    seed: int = 1

    def site(self, number: int) -> str:
        return f"SITE{number % self.sites}"

    def worker_site(self, node: int) -> str:
        """Return the site of a node, whether or not its workers know it."""
        return self.site(node % (self.worker_sites or self.sites))

    @property
    def nodes(self) -> int:
        return -(-self.workers // self.workers_per_node)

    @cached_property
    def slow_nodes(self) -> frozenset[int]:
        count = round(self.nodes * self.faults.slow_nodes_part)
        return frozenset(Random(f"{self.seed}-slow").sample(range(self.nodes), count))

    @cached_property
    def black_holes(self) -> frozenset[int]:
        return frozenset(Random(f"{self.seed}-holes").sample(range(self.nodes), self.faults.black_holes))

    def element(self, number: int) -> str:
        """Return a storage element; consecutive numbers are at different sites."""
        return f"root://se{number}.site{number % self.sites}.example:1094"

    @property
    def elements(self) -> int:
        return self.sites * self.elements_per_site

    def files(self, count: int) -> list[DataFile]:
        """Return a dataset whose files are stored in consecutive runs at the storage elements, as in productions."""
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
    """Draw a value from the distribution given by sorted values, with linear interpolation."""
    at = random.random() * (len(sorted_values) - 1)
    below = min(int(at), len(sorted_values) - 2)
    return sorted_values[below] + (at - below) * (sorted_values[below + 1] - sorted_values[below])


class Durations:
    """The durations of sub-jobs: a part by file, which is the same in each attempt, and a random part."""

    def __init__(self, field: Field, seconds_by_byte: Sequence[float]) -> None:
        self._field = field
        self._by_byte = seconds_by_byte
        slow = Random(f"{field.seed}-elements").sample(range(field.elements), field.faults.slow_elements)
        self._slow_elements = {field.element(one) for one in slow}

    def near_s(self, files: Sequence[DataFile], parts: int = 1) -> float:
        """Return the seconds at the site of the files, without slow storage elements and stragglers."""
        return sum(self._file_s(one) for one in files) / parts

    def attempt_s(self, files: Sequence[DataFile], parts: int, site: str, chance: Random) -> float:
        """Return the seconds of one attempt on a worker at a site."""
        field, faults, element = self._field, self._field.faults, files[0].elements[0]
        seconds = self.near_s(files, parts)
        if files[0].sites.site_of(files[0].path) != site:
            seconds *= field.far_factor
        seconds *= self.element_factor(element)
        return seconds * (faults.straggler_factor if chance.random() < faults.stragglers_part else 1.0)

    def element_factor(self, element: str) -> float:
        """Return the factor by which a storage element is slower than a healthy one."""
        return self._field.faults.slow_element_factor if element in self._slow_elements else 1.0

    def _file_s(self, file: DataFile) -> float:
        random = Random(f"{self._field.seed}-{file.path}")
        return self._field.work_factor * (file.size_bytes or 0) * drawn(self._by_byte, random)
