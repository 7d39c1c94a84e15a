"""`python -m benches.chunk_sizes`: CPU time of an analysis of 15 of 947 branches, by chunk size, in pairs.

Each sample is a separate process on one core. Its CPU time is measured, since other programs may use the machine. The
histograms of each round are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benches import nano_data
from benches.conditions import machine_lines
from benches.rounds import UnequalWorkError
from benches.tables import table
from benches.worker import REPOSITORY

COFFEA_CHUNKS = (100_000, 200_000)
ARMS = ("branchline", "branchline 200000", *(f"coffea {one}" for one in COFFEA_CHUNKS), "rdataframe")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all rounds and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=REPOSITORY / "target" / "bench-data")
    parser.add_argument("--events", type=int, default=200_000, help="events per file")
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--arm", choices=ARMS, help="run one sample in this process")
    parser.add_argument("paths", nargs="*")
    given = parser.parse_args(arguments)
    if given.arm:
        print(json.dumps(_sample(given.arm, given.paths)))
        return 0
    # The other files are copies: their content does not matter, and generating a file takes minutes.
    (first,) = nano_data.make(given.cache, 1, given.events, lambda text: print(text, file=sys.stderr))
    paths = [str(first), *(str(_copied(first, number)) for number in range(1, given.files))]
    rounds = [_round(paths, number) for number in range(given.rounds)]
    results = REPOSITORY / "benches" / "results"
    (results / "chunk-sizes.json").write_text(json.dumps(rounds, indent=1) + "\n")
    (results / "chunk-sizes.md").write_text(_page(rounds, given.files, given.events, first.stat().st_size))
    print((results / "chunk-sizes.md").read_text())
    return 0


def _copied(first: Path, number: int) -> Path:
    path = first.with_name(f"copy-{number}.root")
    if not path.exists():
        shutil.copyfile(first, path)
    return path


def _round(paths: list[str], seed: int) -> dict[str, Any]:
    arms = list(ARMS)
    random.Random(seed).shuffle(arms)
    found = {}
    for arm in arms:
        words = [sys.executable, "-W", "ignore", "-m", "benches.chunk_sizes", "--arm", arm, *paths]
        done = subprocess.run(words, cwd=REPOSITORY, check=True, capture_output=True, text=True)
        found[arm] = json.loads(done.stdout.splitlines()[-1])
        print(seed, arm, f"{found[arm]['cpu_s']:.2f} s of CPU, {found[arm]['chunks']} chunks", file=sys.stderr)
    _compare({arm: one.pop("bins") for arm, one in found.items()})
    return found


def _compare(bins: dict[str, dict[str, list[float]]]) -> None:
    """Raise UnequalWorkError if histograms differ by more than the effect of single precision on entries at an edge."""
    expected = bins["branchline"]
    for arm, own in bins.items():
        for name, values in expected.items():
            moved = sum(abs(one - other) for one, other in zip(values, own[name], strict=True)) / 2
            if moved > 0.002 * sum(map(abs, values)):
                raise UnequalWorkError(f"histogram {name} of {arm} differs in {moved:.0f} entries")


def _sample(arm: str, paths: list[str]) -> dict[str, Any]:
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    kind, _, step = arm.partition(" ")
    before_s = _cpu_s()
    if kind == "rdataframe":
        from benches.chunk_wagon import with_root

        return {"bins": with_root(paths), "chunks": 0, "cpu_s": _cpu_s(), "run_s": _cpu_s() - before_s}
    output, before_s = (_with_branchline if kind == "branchline" else _with_coffea)(paths, int(step) if step else None)
    after_s = _cpu_s()
    bins = {name: output[name].values().tolist() for name in ("ht", "mass", "met")}
    return {"bins": bins, "chunks": output["chunks"], "cpu_s": after_s, "run_s": after_s - before_s}


def _with_branchline(paths: list[str], step: int | None) -> tuple[dict[str, Any], float]:
    from coffea.nanoevents import NanoAODSchema

    import branchline
    from benches.chunk_wagon import Top

    class Wagon(Top):
        schema = NanoAODSchema

    before_s = _cpu_s()
    results = branchline.run(Wagon(), paths, workers=0, step_size=step)
    results.raise_error()
    output: dict[str, Any] = results.outputs["Wagon"]
    return output, before_s


def _with_coffea(paths: list[str], chunksize: int | None) -> tuple[dict[str, Any], float]:
    from coffea import processor
    from coffea.nanoevents import NanoAODSchema

    from benches.chunk_wagon import Top

    class Processor(Top, processor.ProcessorABC):  # type: ignore[misc]  # coffea has no types
        pass

    before_s = _cpu_s()
    executor = processor.IterativeExecutor(status=False)
    run = processor.Runner(executor=executor, schema=NanoAODSchema, chunksize=chunksize)
    output: dict[str, Any] = run({"all": {"treename": nano_data.TREE, "files": paths}}, Processor())
    return output, before_s


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _page(rounds: list[dict[str, Any]], files: int, events: int, size_bytes: int) -> str:
    best = min(ARMS[2:-1], key=lambda arm: statistics.median(one[arm]["run_s"] for one in rounds))
    rows = []
    for arm in ARMS:
        ratios = sorted(one[arm]["run_s"] / one[best]["run_s"] for one in rounds)
        rows.append(
            [
                arm,
                str(rounds[0][arm]["chunks"] or "-"),
                f"{statistics.median(one[arm]['run_s'] for one in rounds):.2f}",
                f"{statistics.median(one[arm]['cpu_s'] for one in rounds):.2f}",
                f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})",
            ]
        )
    head = ["reader", "chunks", "CPU s", "with imports", f"x {best}"]
    return "\n".join(
        [
            "# Chunk sizes",
            "",
            f"An analysis like the AGC's (top quarks with one lepton) of 15 of 947 branches: {files} files of {events} "
            f"events, {size_bytes / 1e6:.0f} MB each, from the page cache, with the branches of a published NanoAOD "
            "file. The number after a name is `step_size` or `chunksize`. Each sample is a process on one core. Its "
            f"CPU time is shown, since other programs used the machine. Values are medians of {len(rounds)} rounds in "
            "random order; the last column is the ratio within a round, with its range. The CPU time of RDataFrame "
            "includes the compilation of its expressions.",
            "",
            *machine_lines(len(rounds)),
            "",
            table(head, rows),
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
