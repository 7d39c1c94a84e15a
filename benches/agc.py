"""The AGC's analysis of top quark pairs: CPU time with Branchline, with coffea at its best chunk size, and with
RDataFrame.

Each sample is a separate process, bound to as many cores as it has workers. All histograms of a round are compared.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benches import nano_data
from benches.conditions import machine_lines
from benches.processes import measured, own_cpu_s
from benches.root_loops import compile_headers
from benches.rounds import Spread, UnequalWorkError
from benches.tables import spread, table

HEADER = Path(__file__).with_name("agc_root.h")
WORKERS = (1, 2)
# The last digits of sums of weights depend on the order of the chunks.
SUM_TOLERANCE = 1e-9
# Arrays use single precision and C++ double: entries at the edge of a bin or of a selection may differ.
MOVED_MAX = 1e-3

#: Bin contents, including underflow and overflow, by region, process and variation.
Bins = dict[str, list[float]]


@dataclass(frozen=True)
class Arm:
    """A reader with its settings. ``step`` is the number of entries per chunk, None for the reader's default."""

    reader: str
    workers: int
    step: int | None = None

    @property
    def name(self) -> str:
        return self.reader if self.step is None else f"{self.reader}, {self.step}"


@dataclass(frozen=True)
class Outcome:
    """The histogram of an arm, and the CPU time of its process before the analysis started."""

    bins: Bins
    chunks: int
    before_s: float


@dataclass(frozen=True)
class Sample:
    """Peak memory, and CPU seconds of all processes of an arm, with and without the start of Python and imports."""

    arm: Arm
    chunks: int
    run_cpu_s: float
    cpu_s: float
    peak_bytes: int


def agc_page(cache: Path, events: int, repeats: int, say: Callable[[str], None]) -> tuple[str, list[dict[str, Any]]]:
    """Make the files and measure; return the page and the rows."""
    paths = sample_files(cache, events, say)
    compile_headers(cache, "agc", [HEADER])
    tried = [taken(Arm("coffea", 1, step), cache, paths, events, say) for step in (events // 2, events)]
    check_equal(tried)
    best = min((one for one, _ in tried), key=lambda one: one.run_cpu_s).arm.step
    arms = [
        Arm(reader, workers, step)
        for workers in WORKERS
        for reader, step in (("coffea", best), ("Branchline", None), ("Branchline", best), ("RDataFrame", None))
    ]
    rounds = []
    for number in range(repeats):
        turn = number % len(arms)
        found = [taken(arm, cache, paths, events, say) for arm in arms[turn:] + arms[:turn]]
        check_equal(found)
        rounds.append({one.arm: one for one, _ in found})
    rows = [{"round": number, **asdict(one)} for number, found in enumerate(rounds) for one in found.values()]
    rows += [{"round": None, **asdict(one)} for one, _ in tried]
    return page(arms, rounds, [one for one, _ in tried], events, Path(paths[0]).stat().st_size), rows


def sample_files(cache: Path, events: int, say: Callable[[str], None]) -> list[str]:
    """Return a file for each sample. They are copies of one file, since only the weights of the samples differ."""
    from benches.agc_wagon import SAMPLES

    (first,) = nano_data.make(cache, 1, events, say, nano_data.with_tops)
    paths = [first, *(first.with_name(f"copy-{number}.root") for number in range(1, len(SAMPLES)))]
    for path in paths:
        if not path.exists():
            shutil.copyfile(first, path)
    return [str(path) for path in paths]


def taken(arm: Arm, cache: Path, paths: list[str], events: int, say: Callable[[str], None]) -> tuple[Sample, Bins]:
    """Run an arm in a separate process."""
    request = json.dumps({**asdict(arm), "cache": str(cache), "paths": paths, "events": events})
    ended = measured([sys.executable, "-W", "ignore", "-m", "benches.agc", request])
    outcome = Outcome(**json.loads(ended.printed.splitlines()[-1]))
    sample = Sample(arm, outcome.chunks, ended.cpu_s - outcome.before_s, ended.cpu_s, ended.peak_bytes)
    say(f"{arm.name}, {arm.workers} workers: {sample.run_cpu_s:.2f} s of CPU, {sample.peak_bytes / 1e6:.0f} MB")
    return sample, outcome.bins


def check_equal(found: list[tuple[Sample, Bins]]) -> None:
    """Raise UnequalWorkError unless all histograms equal the first, within rounding."""
    expected = next(bins for sample, bins in found if sample.arm.reader != "RDataFrame")
    for sample, own in found:
        if own.keys() != expected.keys():
            raise UnequalWorkError(f"{sample.arm.name} differs in histograms {sorted(own.keys() ^ expected.keys())}")
        allowed = MOVED_MAX if sample.arm.reader == "RDataFrame" else SUM_TOLERANCE
        for name, values in expected.items():
            moved = sum(abs(one - other) for one, other in zip(values, own[name], strict=True)) / 2
            if moved > allowed * sum(map(abs, values)):
                raise UnequalWorkError(f"{sample.arm.name} differs in {name}: {moved:g} of {sum(values):g}")


def with_branchline(arm: Arm, paths: list[str], events: int) -> Callable[[], dict[str, Any]]:
    import branchline
    from benches.agc_wagon import TtbarAnalysis, fileset

    def run() -> dict[str, Any]:
        # With one worker, run in this process, like coffea's executor.
        workers = 0 if arm.workers == 1 else arm.workers
        results = branchline.run(TtbarAnalysis(), fileset(paths, events), workers=workers, step_size=arm.step)
        results.raise_error()
        output: dict[str, Any] = results.outputs["TtbarAnalysis"]
        return output

    return run


def with_coffea(arm: Arm, paths: list[str], events: int) -> Callable[[], dict[str, Any]]:
    from coffea import processor
    from coffea.nanoevents import NanoAODSchema

    from benches.agc_wagon import TtbarAnalysis, fileset

    NanoAODSchema.warn_missing_crossrefs = False

    def run() -> dict[str, Any]:
        executor = (
            processor.IterativeExecutor(status=False)
            if arm.workers == 1
            else processor.FuturesExecutor(workers=arm.workers, status=False)
        )
        runner = processor.Runner(executor=executor, schema=NanoAODSchema, chunksize=arm.step)
        output: dict[str, Any] = runner(fileset(paths, events), TtbarAnalysis())
        return output

    return run


def histogram_bins(output: dict[str, Any]) -> Bins:
    """Return the filled bins of the histogram."""
    histogram = output["histogram"]
    bins = {}
    for region in histogram.axes["region"]:
        for process in histogram.axes["process"]:
            for variation in histogram.axes["variation"]:
                chosen = histogram[{"region": region, "process": process, "variation": variation}]
                values = chosen.values(flow=True)
                if values.any():
                    bins[f"{region}/{process}/{variation}"] = values.tolist()
    return bins


def with_root(arm: Arm, cache: Path, paths: list[str], events: int) -> Callable[[], Bins]:
    from benches.agc_wagon import LUMINOSITY, PROCESSES, SAMPLES

    root = compile_headers(cache, "agc", [HEADER])
    if arm.workers > 1:
        root.EnableImplicitMT(arm.workers)

    def run() -> Bins:
        analysis = root.TopPairs()
        for (process, variation), path in zip(SAMPLES, paths, strict=True):
            weight = PROCESSES[process] * LUMINOSITY / events
            analysis.Add(f"{process}/{variation}", path, weight, variation == "nominal", process == "wjets")
        bins = {}
        for key, values in analysis.Run():
            region, process, variation, *own = str(key).split("/")
            own_name = own[0].partition(":")[2] if own and ":" in own[0] else variation
            name = f"pt_{own_name}" if own_name in ("scale_up", "res_up") else own_name
            bins[f"{region}/{process}/{name}"] = [float(one) for one in values]
        return bins

    return run


def page(arms: list[Arm], rounds: list[dict[Arm, Sample]], tried: list[Sample], events: int, size_bytes: int) -> str:
    """Return the page of results in Markdown."""
    head = ["workers", "reader, entries per chunk", "chunks", "CPU s", "with imports", "x coffea", "peak MB"]
    rows = []
    for arm in arms:
        own = [found[arm] for found in rounds]
        (peer,) = [one for one in arms if one.reader == "coffea" and one.workers == arm.workers]
        ratios = [found[arm].run_cpu_s / found[peer].run_cpu_s for found in rounds]
        rows.append(
            [
                str(arm.workers),
                arm.name,
                str(own[0].chunks or "-"),
                spread(Spread.of([one.run_cpu_s for one in own])),
                f"{median(one.cpu_s for one in own):.2f}",
                spread(Spread.of(ratios)),
                f"{median(one.peak_bytes for one in own) / 1e6:.0f}",
            ]
        )
    tries = []
    for one in tried:
        measures = [f"{one.run_cpu_s:.2f}", f"{one.peak_bytes / 1e6:.0f}"]
        tries.append([str(one.arm.step), str(one.chunks), *measures])
    from benches.agc_wagon import SAMPLES

    lines = [
        "# The AGC's analysis of top quark pairs",
        "",
        f"The analysis of the Analysis Grand Challenge (CMS Open Data, without machine learning) of {len(SAMPLES)} "
        f"samples: one lepton, at least four jets, two regions by b tags, the mass of three jets, and variations of "
        f"jet momenta and of weights. It reads 18 of 947 branches. Each sample is a file of {events} generated events "
        f"with the branches of a published NanoAOD file, {size_bytes / 1e6:.0f} MB, from the page cache.",
        "",
        "- **CPU s**: CPU time of all processes from the start of the analysis, including opening the files; *with "
        "imports*: from the start of Python. Wall time is not shown, since other programs used the machine",
        "- **x coffea**: the ratio of CPU times within a round",
        "- **peak MB**: peak memory, summed over all processes, without the page cache",
        f"- values are medians of {len(rounds)} rounds with their range; each sample is a process bound to as many "
        "cores as it has workers; the order of readers rotates",
        "- **Branchline**: `branchline.run(TtbarAnalysis(), fileset)`, with `workers=0` in one process, and "
        "`workers=2`; the number is `step_size`",
        "- **coffea**: the same processor and fileset with `Runner`, `NanoAODSchema` (virtual arrays), "
        "`IterativeExecutor` and `FuturesExecutor`; the number is `chunksize`, the best value of the last table",
        "- **RDataFrame**: C++ compiled in advance with optimisation, `Vary` for the variations, all samples in one "
        "`RunGraphs`; implicit threads with two workers",
        "",
        "The histograms of a round were compared: Branchline and coffea agree to a relative difference of "
        f"{SUM_TOLERANCE:g}. RDataFrame may differ in a fraction of {MOVED_MAX:g} of the entries, since arrays use "
        "single precision.",
        "",
        *machine_lines(len(rounds)),
        "",
        table(head, rows),
        "",
        "One sample of coffea with one worker for each chunk size:",
        "",
        table(["chunksize", "chunks", "CPU s", "peak MB"], tries),
        "",
    ]
    return "\n".join(lines)


def main(request: str) -> None:
    """Run one sample in this process and print the outcome."""
    given = json.loads(request)
    cache, paths, events = Path(given.pop("cache")), given.pop("paths"), given.pop("events")
    arm = Arm(**given)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arm.workers])
    warnings.simplefilter("ignore")
    if arm.reader == "RDataFrame":
        run_root = with_root(arm, cache, paths, events)
        before_s = own_cpu_s()
        outcome = Outcome(run_root(), 0, before_s)
    else:
        run = (with_branchline if arm.reader == "Branchline" else with_coffea)(arm, paths, events)
        before_s = own_cpu_s()
        output = run()
        outcome = Outcome(histogram_bins(output), output["chunks"], before_s)
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main(*sys.argv[1:])
