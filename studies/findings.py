"""Theirs beside ours: what a study's samples say of each published number and finding."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from branchline.lab.sampling.machine import was_busy
from branchline.lab.sampling.samples import SAMPLES, SampleFile, StudySample, load_kept
from branchline.lab.statistics import Ratio, paired_ratio
from branchline.lab.study import Study, arm_name
from studies.published import Finding, Levels, Number, Published

FOUND, NOT_FOUND, UNSURE, UNMEASURED = "found again", "not found", "not sure", "not measured"
#: Instead of a verdict: in the quick form, and for quantities that other programs on the machine change.
NOT_JUDGED = "not judged"
_DISTURBED_BY_LOAD = ("events_per_s", "bytes_per_s", "wall_s", "efficiency")


@dataclass(frozen=True)
class NumberHere:
    """A published number beside ours, the median over the samples of its arm."""

    number: Number
    ours: float | None
    samples: int


@dataclass(frozen=True)
class FindingHere:
    """A published finding beside ours: the verdict, and the ratio of pairs of the same rounds."""

    finding: Finding
    verdict: str
    ratio: Ratio | None


class Samples:
    """The samples of a study by arm and round."""

    def __init__(self, study: Study, samples: list[StudySample]) -> None:
        self._factors = [one.name for one in study.factors]
        self._by_arm: dict[str, dict[int, StudySample]] = {}
        for one in samples:
            if one.kind == "arm" and not one.error:
                self._by_arm.setdefault(one.arm, {})[one.round] = one

    @classmethod
    def of(cls, folder: Path) -> Samples:
        return cls(load_kept(folder).study, SampleFile(folder / SAMPLES).read())

    def values(self, levels: Levels, quantity: str) -> dict[int, float]:
        """The quantity of an arm in each round where it was measured."""
        name = arm_name({factor: levels[factor] for factor in self._factors if factor in levels})
        found = {number: quantity_of(one, quantity) for number, one in self._by_arm.get(name, {}).items()}
        return {number: value for number, value in found.items() if value is not None and value > 0}

    def was_busy(self, *arms: Levels) -> bool:
        """Whether the machine was busy with other programs during the samples of these arms."""
        names = [arm_name({factor: one[factor] for factor in self._factors if factor in one}) for one in arms]
        taken = [sample for name in names for sample in self._by_arm.get(name, {}).values()]
        return was_busy([(one.wall_s, one.surroundings) for one in taken])

    def has(self, levels: Levels) -> bool:
        return set(levels) == set(self._factors)


def quantity_of(sample: StudySample, quantity: str) -> float | None:
    """The value of a sample; None where its client does not know it."""
    size = sample.file_bytes
    if quantity in ("events_per_s", "bytes_per_s"):
        return sample.rate("event" if quantity == "events_per_s" else "byte")
    if quantity == "wall_s":
        return sample.wall_s
    if quantity == "cpu_s":
        return sample.cpu_s
    if quantity == "efficiency":
        wall_s = sum(one.wall_s for one in sample.jobs)
        return sample.cpu_s / wall_s if wall_s else None
    if quantity == "network_share":
        moved = sample.surroundings.network_bytes + sample.surroundings.loopback_bytes
        return moved / size if size else None
    amounts = [one.read_calls if quantity == "calls" else one.bytes_read for one in sample.jobs]
    total = None if None in amounts else float(sum(one for one in amounts if one is not None))
    return total if quantity == "calls" or total is None else (total / size if size else None)


def numbers_here(published: Published, samples: Samples) -> list[NumberHere]:
    found = []
    for one in published.numbers:
        values = sorted(samples.values(one.arm, one.quantity).values()) if one.arm and one.quantity else []
        middle = len(values) // 2
        ours = (values[middle] + values[-1 - middle]) / 2 if values else None
        found.append(NumberHere(one, ours, len(values)))
    return found


def findings_here(published: Published, samples: Samples, *, is_quick: bool) -> list[FindingHere]:
    """Compare each published finding with the samples. The quick form, with small files and one round, has no
    verdicts.
    """
    return [_finding_here(one, samples, is_quick=is_quick) for one in published.findings]


def _finding_here(finding: Finding, samples: Samples, *, is_quick: bool) -> FindingHere:
    above, below = samples.values(finding.of, finding.quantity), samples.values(finding.over, finding.quantity)
    rounds = sorted(above.keys() & below.keys())
    if not rounds:
        return FindingHere(finding, UNMEASURED, None)
    ratio = paired_ratio([below[one] for one in rounds], [above[one] for one in rounds])
    if is_quick or (finding.quantity in _DISTURBED_BY_LOAD and samples.was_busy(finding.of, finding.over)):
        return FindingHere(finding, NOT_JUDGED, ratio)
    return FindingHere(finding, verdict_of(finding, ratio), ratio)


def verdict_of(finding: Finding, ratio: Ratio) -> str:
    """Found where the whole interval is within the finding's bounds, not found where all of it is outside of them.
    What lies between, or has no interval, is not sure.
    """
    least, most = finding.least or 0.0, finding.most if finding.most is not None else float("inf")
    if ratio.low is None or ratio.high is None:
        return UNSURE
    if least <= ratio.low and ratio.high <= most:
        return FOUND
    return NOT_FOUND if ratio.high < least or ratio.low > most else UNSURE
