"""`python -m benches`: creates the data, runs the benchmarks, prints the tables and writes them to benches/results."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benches import data, tables
from benches.arms import one_core_arms, sensor_arms, two_core_arms
from benches.flattened import flattened_page
from benches.histograms import histograms_page
from benches.layouts import JOBS, layouts_page
from benches.merging import merging_page
from benches.ntuple import ntuple_page
from benches.objects import objects_page
from benches.opening import opening_page
from benches.planning import planning_page
from benches.queries import queries_page
from benches.readers import selection_name
from benches.root_loops import columns_of
from benches.rounds import Case, Sample, as_json, run_rounds
from benches.sensors_cost import sensors_page
from benches.split_objects import split_object_pages
from benches.worker import REPOSITORY

BENCHES = (
    "readers", "sensors", "split-objects", "objects", "flattened", "open", "ntuple", "queries", "agc", "storages",
    "systematics", "merging", "histograms", "layouts",
    "access", "links", "local-disk", "tracing", "reporting", "esd", "planning", "simulated", "dispatch",
    "cluster-peers", "serving", "control-room", "lab", "lab-storages", "lab-ratios", "advice-gains", "writing",
    "forecasts", "simulation", "advice",
)  # fmt: skip


@dataclass(frozen=True)
class Size:
    """Amounts of data and numbers of rounds."""

    files: int
    events: int
    repeats: int
    split_files: int
    split_repeats: int
    layout_repeats: int
    object_entries: int
    flattened_events: int
    ntuple_events: int
    query_events: int
    agc_events: int
    systematics_events: int
    storage_megabytes: int
    storage_repeats: int
    storages: int
    large_file_bytes: int
    local_disk_bytes: int
    histograms: int
    esd_files: int
    tracing_pairs: int
    reported_files: int
    reporting_rounds: int
    planned_files: int
    written_entries: int
    simulated_files: int
    simulated_workers: int
    simulated_seeds: int
    forecast_points: int
    simulation: tuple[int, int, int]
    lab_studies: int
    lab_pairs: int
    lab_storage_studies: int
    lab_ratio_studies: int
    advised_files: int
    dispatched: tuple[int, int]
    cluster_files: int
    cluster_events: int
    served: tuple[int, int, int, float]
    room_jobs: int
    room_rows: int


FULL = Size(
    files=24,
    events=150,
    repeats=7,
    split_files=100,
    split_repeats=3,
    layout_repeats=2,
    object_entries=40_000,
    flattened_events=2000,
    ntuple_events=100_000,
    query_events=10_000_000,
    agc_events=200_000,
    systematics_events=1_000_000,
    storage_megabytes=200,
    storage_repeats=5,
    storages=5,
    large_file_bytes=500_000_000,
    local_disk_bytes=1_000_000_000,
    histograms=10_000,
    esd_files=20,
    tracing_pairs=170,
    reported_files=200,
    reporting_rounds=30,
    planned_files=100_000,
    written_entries=200_000,
    simulated_files=10_000,
    simulated_workers=1000,
    simulated_seeds=20,
    forecast_points=72,
    simulation=(30_000_000, 10_000, 2),
    lab_studies=400,
    lab_pairs=12,
    lab_storage_studies=200,
    lab_ratio_studies=200,
    advised_files=30,
    dispatched=(20_000, 100_000),
    cluster_files=300,
    cluster_events=25_000,
    served=(20_000, 200, 50, 60.0),
    room_jobs=100_000,
    room_rows=10_000_000,
)
# Small enough for tests to run every line of the benchmarks.
QUICK = Size(
    files=2,
    events=20,
    repeats=1,
    split_files=2,
    split_repeats=1,
    layout_repeats=1,
    object_entries=200,
    flattened_events=50,
    ntuple_events=500,
    query_events=3000,
    agc_events=400,
    systematics_events=400,
    storage_megabytes=2,
    storage_repeats=1,
    storages=3,
    large_file_bytes=20_000_000,
    local_disk_bytes=4_000_000,
    histograms=60,
    esd_files=2,
    tracing_pairs=2,
    reported_files=6,
    reporting_rounds=1,
    planned_files=300,
    written_entries=2000,
    simulated_files=300,
    simulated_workers=48,
    simulated_seeds=2,
    forecast_points=5,
    simulation=(10_000_000, 100, 1),
    lab_studies=10,
    lab_pairs=6,
    lab_storage_studies=2,
    lab_ratio_studies=4,
    advised_files=1,
    dispatched=(20, 200),
    cluster_files=4,
    cluster_events=500,
    served=(20, 4, 3, 4.0),
    room_jobs=200,
    room_rows=10_000,
)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def write_results(folder: Path, name: str, page: str, cases: list[Case], samples: list[Sample]) -> None:
    """Write the page, and a JSON file with all raw samples."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(page)
    raw = {"cases": [{**asdict(c), "files": len(c.files)} for c in cases], "samples": as_json(samples)}
    (folder / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    print(page)


def cases_of(size: Size, codecs: list[str], cache: Path) -> list[Case]:
    """Return three cases for each codec: all branches, three branches, and three branches of cold files."""
    sources = data.collisions(cache, size.files, size.events, say)
    files = {codec: data.rewritten(sources, codec, cache, say) for codec in codecs}
    selections = ((None, False), (data.SOME_BRANCHES, False), (data.SOME_BRANCHES, True))
    return [data.flat_case(codec, files[codec], read, is_cold=cold) for codec in codecs for read, cold in selections]


def setup_for(cases: list[Case], cache: Path) -> dict[str, object]:
    """Return the setup of the workers: the columns of every selection, needed to compile ROOT's loops."""
    columns = {selection_name(c.branches): columns_of(c.files[0], c.tree, c.branches) for c in cases}
    return {"cache": str(cache), "columns": {name: [asdict(c) for c in many] for name, many in columns.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)
    parser.add_argument("benches", nargs="*", help=f"benchmarks to run, of {', '.join(BENCHES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that everything runs")
    parser.add_argument("--repeats", type=int, help="measured rounds")
    parser.add_argument("--seed", type=int, default=1, help="seed of simulated trains and studies (%(default)s)")
    parser.add_argument("--codecs", default=",".join(data.CODECS), help="comma-separated codecs (%(default)s)")
    parser.add_argument("--cache", type=Path, default=REPOSITORY / "target" / "benches", help="folder for cached data")
    parser.add_argument("--results", type=Path, help="folder for results (benches/results; with --quick in the cache)")
    arguments = parser.parse_args()
    unknown = set(arguments.benches) - set(BENCHES)
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}; choose from {', '.join(BENCHES)}")
    chosen = arguments.benches or BENCHES
    size = QUICK if arguments.quick else FULL
    repeats = arguments.repeats or size.repeats
    cache = arguments.cache.resolve()
    results = arguments.results or (cache / "results" if arguments.quick else REPOSITORY / "benches" / "results")

    if "readers" in chosen or "sensors" in chosen:
        cases = cases_of(size, arguments.codecs.split(","), cache)
        setup = setup_for(cases, cache)
        if "readers" in chosen:
            arms = one_core_arms() + two_core_arms()
            samples = run_rounds(arms, cases, repeats, setup, say)
            write_results(results, "readers", tables.readers_page(arms, cases, samples, repeats), cases, samples)
        if "sensors" in chosen:
            whole = [case for case in cases if case.branches is None]
            samples = run_rounds(sensor_arms(), whole, 3 * repeats, setup, say)
            write_results(results, "sensors", sensors_page(whole, samples, 3 * repeats), whole, samples)
    if "split-objects" in chosen:
        split_repeats = arguments.repeats or size.split_repeats
        page, cases, samples = split_object_pages(cache, size.split_files, split_repeats, say)
        write_results(results, "split-objects", page, cases, samples)
    if "objects" in chosen:
        page, cases, samples = objects_page(cache, size.object_entries, repeats, say)
        write_results(results, "objects", page, cases, samples)
    if "open" in chosen:
        page, cases, samples = opening_page(cache, repeats, say)
        write_results(results, "open", page, cases, samples)
    if "storages" in chosen:
        from benches.storage_places import MAKERS
        from benches.storages import storages

        storage_repeats = arguments.repeats or size.storage_repeats
        names = list(MAKERS)[: size.storages]
        page, cases, samples = storages(cache, results, size.storage_megabytes, names, storage_repeats, say)
        write_results(results, "storages", page, cases, samples)
    if "merging" in chosen:
        merging_repeats = arguments.repeats or size.split_repeats
        page, cases, samples = merging_page(cache, size.split_files, size.events, merging_repeats, say)
        write_results(results, "merging", page, cases, samples)
    if "layouts" in chosen:
        layout_repeats = arguments.repeats or size.layout_repeats
        page, cases, samples = layouts_page(cache, results, max(JOBS, size.split_files), layout_repeats, say)
        write_results(results, "layouts", page, cases, samples)
    run_events(chosen, size, cache, results, repeats)
    run_links(chosen, size, cache, results, arguments.repeats)
    run_lab(chosen, size, cache, results, arguments.seed, arguments.repeats)
    run_clusters(chosen, size, cache, results, arguments.seed, arguments.repeats)
    run_esd(chosen, size, cache, arguments.results or (results if arguments.quick else REPOSITORY / "docs"))


def run_events(chosen: Sequence[str], size: Size, cache: Path, results: Path, repeats: int) -> None:
    """Run the benchmarks of RNTuples, histograms and queries."""
    if "flattened" in chosen:
        write_rows(results, {"flattened": flattened_page(cache, size.flattened_events, repeats, say)})
    if "ntuple" in chosen:
        write_rows(results, {"ntuple": ntuple_page(cache, size.ntuple_events, repeats, say)})
    if "histograms" in chosen:
        write_rows(results, {"histograms": histograms_page(cache, size.histograms, repeats, say)})
    if "queries" in chosen:
        write_rows(results, {"queries": queries_page(cache, size.query_events, repeats, say)})
    if "agc" in chosen:
        from benches.agc import agc_page

        write_rows(results, {"agc": agc_page(cache, size.agc_events, repeats, say)})
    if "systematics" in chosen:
        from benches.systematics import systematics_page

        write_rows(results, {"systematics": systematics_page(cache, size.systematics_events, repeats, say)})


def run_esd(chosen: Sequence[str], size: Size, cache: Path, folder: Path) -> None:
    """Write the page about reads of ESD-like files, and its pictures, to a folder."""
    if "esd" not in chosen:
        return
    from benches.esd import esd_page

    page = esd_page(cache, folder, size.esd_files, say)
    (folder / "reads-of-esd.md").write_text(page)
    print(page)


def run_links(chosen: Sequence[str], size: Size, cache: Path, results: Path, repeats: int | None) -> None:
    """Run the benchmarks with a real server. Each has its own format of rows."""
    pages = {}
    if "access" in chosen:
        from benches.access import access_page

        pages["access"] = access_page(cache, size.split_files, results, say)
    if "links" in chosen:
        from benches.links import links_page

        pages["links"] = links_page(cache, (size.split_files, size.large_file_bytes), results, say)
    if "local-disk" in chosen:
        from benches.local_disk import local_disk_page

        pages["local-disk"] = local_disk_page(cache, size.local_disk_bytes, repeats or size.storage_repeats, say)
    if "tracing" in chosen:
        from benches.tracing_cost import tracing_page

        pages["tracing"] = tracing_page(cache, size.split_repeats, size.events, repeats or size.tracing_pairs, say)
    if "reporting" in chosen:
        from benches.reporting import reporting_page

        rounds, copies = repeats or size.reporting_rounds, size.reported_files
        pages["reporting"] = reporting_page(cache, size.split_repeats, size.events, copies, rounds, say)
    if "writing" in chosen:
        from benches.writing import writing_page

        pages["writing"] = writing_page(size.written_entries, repeats or size.split_repeats, say)
    write_rows(results, pages)


def run_clusters(chosen: Sequence[str], size: Size, cache: Path, results: Path, seed: int, repeats: int | None) -> None:
    """Run the benchmarks of trains on many machines."""
    pages = {}
    if "planning" in chosen:
        pages["planning"] = planning_page(cache, size.planned_files, repeats or size.split_repeats, say)
    if "simulated" in chosen:
        from benches.simulated import simulated_page
        from benches.simulated_policies import policies_part

        files, workers = size.simulated_files, size.simulated_workers
        page, rows = simulated_page(files, workers, seed, say)
        part, of_part = policies_part(files * 2 // 5, max(8, workers * 2 // 5), size.simulated_seeds, say)
        pages["simulated"] = page + part, rows + of_part
    if "dispatch" in chosen:
        from benches.dispatch import dispatch_page

        pages["dispatch"] = dispatch_page(size.dispatched, repeats or size.split_repeats, say)
    if "cluster-peers" in chosen:
        from benches.cluster_peers import cluster_peers_page

        rounds = repeats or size.repeats
        page = cluster_peers_page(cache, size.cluster_files, size.cluster_events, rounds, say)
        pages["cluster-peers"] = page
    if "serving" in chosen:
        from benches.serving import serving_page

        pages["serving"] = serving_page(*size.served, say)
    if "control-room" in chosen:
        from benches.control_room import control_room_page

        jobs, rows = size.room_jobs, size.room_rows
        pages["control-room"] = control_room_page(cache, jobs, rows, repeats or size.repeats, say)
    write_rows(results, pages)


def run_lab(chosen: Sequence[str], size: Size, cache: Path, results: Path, seed: int, repeats: int | None) -> None:
    """Run the benchmarks of studies, forecasts, simulations and advice."""
    pages = {}
    if "lab" in chosen:
        from benches.lab import lab_page

        pages["lab"] = lab_page(repeats or size.lab_studies, seed, size.lab_pairs, say)
    if "lab-storages" in chosen:
        from benches.lab_storages import lab_storages_page

        count = repeats or size.lab_storage_studies
        pages["lab-storages"] = lab_storages_page(cache, count, seed, size.lab_pairs, say)
    if "lab-ratios" in chosen:
        from benches.lab_ratios import lab_ratios_page

        pages["lab-ratios"] = lab_ratios_page(cache, repeats or size.lab_ratio_studies, seed, say)
    if "forecasts" in chosen:
        from benches.forecasts import forecasts_page

        pages["forecasts"] = forecasts_page(cache, repeats or size.forecast_points, seed, say)
    if "simulation" in chosen:
        from benches.simulation import simulation_page

        file_bytes, jobs, rounds = size.simulation
        pages["simulation"] = simulation_page(cache, file_bytes, jobs, repeats or rounds, say)
    if "advice" in chosen:
        from benches.advice import advice_page

        pages["advice"] = advice_page(cache, say, is_proved=size is FULL)
    if "advice-gains" in chosen:
        from benches.advice_gains import advice_gains_page

        pages["advice-gains"] = advice_gains_page(cache, repeats or size.advised_files, say)
    write_rows(results, pages)


def write_rows(results: Path, pages: Mapping[str, tuple[str, Any]]) -> None:
    """Write pages that each have their own format of rows."""
    for name, (page, rows) in pages.items():
        write_results(results, name, page, [], [])
        (results / f"{name}.json").write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
