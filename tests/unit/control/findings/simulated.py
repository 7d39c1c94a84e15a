"""Sites and storage elements that a seed chooses, with one thing wrong or nothing: who is blamed?

``python -m tests.unit.control.findings.simulated --seeds 0:300`` prints how often it is the right one.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from branchline.control.findings.finding import BAD_ELEMENT, BAD_PATH, BAD_SITE, Finding
from branchline.control.findings.speed import slow_places
from branchline.control.findings.speed_samples import PlaceKey, Speeds, speeds_of

NOTHING, SITE, ELEMENT, PATH, WAY = "nothing", "a site", "a storage element", "a path", "the way out of a site"
FAULTS = (NOTHING, SITE, ELEMENT, PATH, WAY)
KINDS = {SITE: BAD_SITE, ELEMENT: BAD_ELEMENT, PATH: BAD_PATH, WAY: BAD_PATH}
LOCAL_BYTES_PER_S, REMOTE_BYTES_PER_S = 3.4e6, 0.8e6
# Standard deviations of logarithms: sites, elements and paths differ from each other, and jobs much more.
PLACES_DIFFER, JOBS_DIFFER = 0.15, 0.5


@dataclass(frozen=True)
class World:
    """Speeds of jobs, and what is wrong: ``site`` or ``element``, or both, where it is."""

    fault: str
    site: str
    element: str
    speeds: list[Speeds]


def world(seed: int, fault: str, slower: float = 3.0) -> World:
    """A world with one fault, which makes reading ``slower`` times slower."""
    chance = random.Random(f"{seed} {fault}")
    sites = [f"site{n}" for n in range(chance.randint(6, 14))]
    elements = [f"root://se.{one}" for one in sites[: chance.randint(5, len(sites))]]
    usual = {name: chance.gauss(0, PLACES_DIFFER) for name in sites + elements}
    # The fault is where it can be seen: storage of a site that others read from, too.
    site, element = sites[1], elements[chance.choice([2, 3])]
    readings = []
    for own, storage in ((own, storage) for own in sites for storage in elements):
        is_local = storage == f"root://se.{own}"
        is_there = is_local or own == site or storage == element or chance.random() < 0.7
        if not is_there:
            continue
        is_slow = {SITE: own == site, ELEMENT: storage == element, PATH: (own, storage) == (site, element),
                   WAY: own == site and not is_local}.get(fault, False)  # fmt: skip
        speed = LOCAL_BYTES_PER_S if is_local else REMOTE_BYTES_PER_S
        path = chance.gauss(0, PLACES_DIFFER)
        for _ in range(int(chance.lognormvariate(3.0, 1.0)) + 3):
            factor = 2.718281828 ** (usual[own] + usual[storage] + path + chance.gauss(0, JOBS_DIFFER))
            files = chance.randint(1, 6)
            size_bytes = 300_000_000 * files
            took_s = size_bytes / (speed * factor) * (slower if is_slow else 1.0)
            readings.append((PlaceKey(own, storage, is_local), files, size_bytes, took_s))
    return World(fault, site, element, speeds_of(readings))


def is_right(one: World, finding: Finding) -> bool:
    """Whether a finding is what is wrong."""
    if finding.kind != KINDS.get(one.fault):
        return False
    sites = {cell.site for cell in finding.cells}
    elements = {cell.storage_element for cell in finding.cells}
    return {
        SITE: sites == {one.site},
        ELEMENT: elements == {one.element},
        PATH: (sites, elements) == ({one.site}, {one.element}),
        WAY: sites == {one.site} and len(elements) > 1,
    }[one.fault]


def outcome(one: World) -> tuple[bool, int]:
    """Whether what is wrong was found, and how many other findings there are."""
    found = slow_places(one.speeds)
    right = [is_right(one, each) for each in found]
    return any(right), right.count(False)


def _lines(seeds: range, slower: float) -> Iterator[str]:
    for fault in FAULTS:
        found, false = 0, Counter[str]()
        worlds_with_false = 0
        for seed in seeds:
            one = world(seed, fault, slower)
            each = slow_places(one.speeds)
            right = [is_right(one, finding) for finding in each]
            found += any(right)
            wrong = [finding.kind for finding, is_it in zip(each, right, strict=True) if not is_it]
            false.update(wrong)
            worlds_with_false += bool(wrong)
        yield f"{fault}: found in {found} of {len(seeds)}; something else in {worlds_with_false} ({dict(false)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:100")
    parser.add_argument("--slower", type=float, default=3.0)
    given = parser.parse_args()
    first, last = map(int, given.seeds.split(":"))
    for line in _lines(range(first, last), given.slower):
        print(line)


if __name__ == "__main__":
    main()
