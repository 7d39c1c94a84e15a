"""A wagon with 60 variations of weights and 40 of columns: CPU time with Branchline, with coffea at its best chunks,
and with RDataFrame's Vary.

Each sample is a separate process on one core. All histograms of a round are compared.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import awkward as ak
import numpy as np

from benches.conditions import machine_lines
from benches.processes import measured, own_cpu_s
from benches.root_loops import compile_headers
from benches.rounds import Spread, UnequalWorkError
from benches.systematics_wagon import COLUMNS, WEIGHTS
from benches.tables import spread, table

HEADER = Path(__file__).with_name("systematics_root.h")
FILES = 2
# The last digits of sums of weights depend on the order of the chunks.
SUM_TOLERANCE = 1e-9
# Sums in single precision depend on their order: entries at the edge of a bin or of a selection may differ.
MOVED_MAX = 1e-3

#: Bin contents, including underflow and overflow, by histogram and variation.
Bins = dict[str, list[float]]


@dataclass(frozen=True)
class Sample:
    """CPU seconds of an arm, with and without the start of Python and imports, and its peak memory. ``step`` is the
    number of entries per chunk, None for the reader's default.
    """

    reader: str
    step: int | None
    run_cpu_s: float
    cpu_s: float
    peak_bytes: int

    @property
    def name(self) -> str:
        return self.reader if self.step is None else f"{self.reader}, {self.step} entries per chunk"


def systematics_page(
    cache: Path, events: int, repeats: int, say: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Make the files and measure; return the page and the rows."""
    paths = make(cache, events, say)
    compile_headers(cache, "systematics", [HEADER])
    per_file = events // FILES
    tried = [taken("coffea", step, cache, paths, say) for step in sorted({max(1, per_file // 4), per_file})]
    check_equal(tried)
    best = min((one for one, _ in tried), key=lambda one: one.run_cpu_s).step
    arms = [("Branchline", None), ("Branchline", best), ("coffea", best), ("RDataFrame", None)]
    rounds = []
    for number in range(repeats):
        turn = number % len(arms)
        found = [taken(reader, step, cache, paths, say) for reader, step in arms[turn:] + arms[:turn]]
        check_equal(found)
        rounds.append({one.name: one for one, _ in sorted(found, key=lambda one: one[0].name)})
    rows = [{"round": number, **asdict(one)} for number, found in enumerate(rounds) for one in found.values()]
    return page(rounds, [one for one, _ in tried], events, paths), rows


def make(cache: Path, events: int, say: Callable[[str], None]) -> list[str]:
    """Return the files with random events, which are created if they do not exist."""
    import branchline

    folder = cache / f"systematics-{events}"
    paths = [folder / f"{number}.root" for number in range(FILES)]
    for number, path in enumerate(paths):
        if path.exists():
            continue
        say(f"writing {path}")
        random, count = np.random.default_rng(number), events // FILES
        jets, muons = random.poisson(5, count), random.poisson(1, count)

        def jagged(values: np.ndarray, counts: np.ndarray) -> ak.Array:
            return ak.unflatten(values.astype(np.float32), counts)

        columns: dict[str, Any] = {
            "genWeight": random.normal(1, 0.1, count),
            "pdf": random.normal(1, 0.02, (count, WEIGHTS)).astype(np.float32),
        }
        for name, counts, hardness in (("Jet", jets, 45), ("Muon", muons, 30)):
            size = int(counts.sum())
            columns[f"{name}_pt"] = jagged(15 + random.exponential(hardness, size), counts)
            columns[f"{name}_eta"] = jagged(random.normal(0, 1.3, size), counts)
            columns[f"{name}_phi"] = jagged(random.uniform(-np.pi, np.pi, size), counts)
        with branchline.recreate(path) as file:
            file.mktree("Events", columns, counter_name=lambda name: "n" + name.split("_")[0])
    return [str(path) for path in paths]


def taken(
    reader: str, step: int | None, cache: Path, paths: list[str], say: Callable[[str], None]
) -> tuple[Sample, Bins]:
    """Run a reader in a separate process."""
    request = json.dumps({"reader": reader, "step": step, "cache": str(cache), "paths": paths})
    ended = measured([sys.executable, "-W", "ignore", "-m", "benches.systematics", request])
    outcome = json.loads(ended.printed.splitlines()[-1])
    sample = Sample(reader, step, ended.cpu_s - outcome["before_s"], ended.cpu_s, ended.peak_bytes)
    say(f"{reader}, {step}: {sample.run_cpu_s:.2f} s of CPU, {sample.peak_bytes / 1e6:.0f} MB")
    return sample, outcome["bins"]


def check_equal(found: list[tuple[Sample, Bins]]) -> None:
    """Raise UnequalWorkError unless all histograms equal the first, within rounding."""
    expected = next(bins for sample, bins in found if sample.reader != "RDataFrame")
    for sample, own in found:
        if own.keys() != expected.keys():
            raise UnequalWorkError(f"{sample.reader} differs in histograms {sorted(own.keys() ^ expected.keys())}")
        allowed = MOVED_MAX if sample.reader == "RDataFrame" else SUM_TOLERANCE
        for name, values in expected.items():
            moved = sum(abs(one - other) for one, other in zip(values, own[name], strict=True)) / 2
            if moved > allowed * sum(map(abs, values)):
                raise UnequalWorkError(f"{sample.reader} differs in {name}: {moved:g} of {sum(values):g}")


def with_branchline(paths: list[str], step: int | None) -> Callable[[], Bins]:
    import branchline
    from benches.systematics_wagon import wagon

    def run() -> Bins:
        results = branchline.run(wagon(), paths, workers=0, step_size=step)
        results.raise_error()
        return bins_of(results.outputs["selected"])

    return run


def with_coffea(paths: list[str], step: int | None) -> Callable[[], Bins]:
    from coffea import processor
    from coffea.nanoevents import BaseSchema

    from benches.systematics_wagon import varied_by_hand

    class Processor(processor.ProcessorABC):  # type: ignore[misc]
        def process(self, events: Any) -> Any:
            muons = ak.zip({name: events[f"Muon_{name}"] for name in ("pt", "eta", "phi")})
            jets = ak.zip({name: events[f"Jet_{name}"] for name in ("pt", "eta", "phi")})
            columns = {"Muon": muons, "Jet": jets, "pdf": events.pdf, "genWeight": events.genWeight}
            return varied_by_hand(ak.zip(columns, depth_limit=1))

        def postprocess(self, accumulator: Any) -> Any:
            return accumulator

    def run() -> Bins:
        executor = processor.IterativeExecutor(status=False)
        runner = processor.Runner(executor=executor, schema=BaseSchema, chunksize=step)
        return bins_of(runner({"sample": {"files": dict.fromkeys(paths, "Events")}}, Processor()))

    return run


def bins_of(output: Any) -> Bins:
    """Return the bins of all histograms."""
    return {
        f"{name}/{variation}": one.values(flow=True).tolist()
        for variation, histograms in output.items()
        for name, one in histograms.items()
    }


def with_root(cache: Path, paths: list[str]) -> Callable[[], Bins]:
    root = compile_headers(cache, "systematics", [HEADER])

    def run() -> Bins:
        found = root.RunSystematics(paths, COLUMNS, WEIGHTS)
        return {str(name): [float(one) for one in values] for name, values in found}

    return run


def page(rounds: list[dict[str, Sample]], tried: list[Sample], events: int, paths: list[str]) -> str:
    """Return the page of results in Markdown."""
    fastest = [min(one.run_cpu_s for one in found.values() if one.reader != "Branchline") for found in rounds]
    rows = []
    for name in rounds[0]:
        own = [found[name] for found in rounds]
        ratios = [one.run_cpu_s / peer for one, peer in zip(own, fastest, strict=True)]
        cells = [spread(Spread.of([one.run_cpu_s for one in own])), f"{median(one.cpu_s for one in own):.2f}"]
        peak = f"{median(one.peak_bytes for one in own) / 1e6:.0f}"
        rows.append([name, *cells, spread(Spread.of(ratios)), peak])
    tries = [[str(one.step), f"{one.run_cpu_s:.2f}", f"{one.peak_bytes / 1e6:.0f}"] for one in tried]
    size_bytes = sum(Path(path).stat().st_size for path in paths)
    lines = [
        "# A wagon with 100 systematic variations",
        "",
        f"One muon and at least four jets in {events} generated events ({size_bytes / 1e6:.0f} MB in {len(paths)} "
        f"files, from the page cache); four histograms for the nominal events, {WEIGHTS} variations of the weight and "
        f"{COLUMNS} of the momenta of jets.",
        "",
        "- **CPU s**: CPU time of all processes from the start of the analysis, including opening the files; *with "
        "imports*: from the start of Python. Wall time is not shown, since other programs used the machine",
        "- **x faster peer**: the ratio of CPU times to the faster of coffea and RDataFrame within a round",
        f"- values are medians of {len(rounds)} rounds with their range; each sample is a process bound to one core; "
        "the order of readers rotates",
        "- **Branchline**: `branchline.varied(...)` around a function without loops, `workers=0`; the number is "
        "`step_size`",
        "- **coffea**: a processor with a loop over variations that computes everything else once; "
        "`IterativeExecutor`, `BaseSchema`, the faster `chunksize` of the last table",
        "- **RDataFrame**: C++ compiled in advance with optimisation, `Vary` for all variations, one `RunGraphs`",
        "",
        "The histograms of a round were compared: Branchline and coffea agree to a relative difference of "
        f"{SUM_TOLERANCE:g}. RDataFrame may differ in a fraction of {MOVED_MAX:g} of the entries, since sums in single "
        "precision depend on their order.",
        "",
        *machine_lines(len(rounds)),
        "",
        table(["reader", "CPU s", "with imports", "x faster peer", "peak MB"], rows),
        "",
        "One sample of coffea for each chunk size:",
        "",
        table(["chunksize", "CPU s", "peak MB"], tries),
        "",
    ]
    return "\n".join(lines)


def main(argument: str) -> None:
    """Run one reader, and print its bins and the CPU time before the analysis started."""
    given = json.loads(argument)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    warnings.simplefilter("ignore")
    reader, paths, step = given["reader"], given["paths"], given["step"]
    if reader == "RDataFrame":
        run = with_root(Path(given["cache"]), paths)
    else:
        run = (with_branchline if reader == "Branchline" else with_coffea)(paths, step)
    before_s = own_cpu_s()
    print(json.dumps({"bins": run(), "before_s": before_s}))


if __name__ == "__main__":
    main(*sys.argv[1:])
