"""A thousand readings from a storage that fails as a seed draws: the right arrays, or an error that names the file.

Wrong bytes that no checksum covers cannot be seen. Such readings are counted, and the count is printed: they may only
be of files whose codec has no checksum.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.sampled import long_but
from tests.stores.conftest import Served
from tests.stores.servers import Folder, Nginx

import branchline
from branchline import Access, BranchlineError
from branchline.errors import StuckError
from branchline.records.sensors.storage_counts import take_troubles

pytestmark = pytest.mark.slow

SEEDS_IN_A_BLOCK = 100
BLOCKS = 10
KINDS = ("stall,for=2ms", "reset", "short", "missing", "wrong")
#: Far more than any of these readings may take with all its tries.
DEADLINE_S = 120.0
WITH_CHECKSUM = {
    "zlib": uproot.ZLIB(5),
    "lzma": uproot.LZMA(2),
    "lz4": uproot.LZ4(4),
}
WITHOUT = {"zstd": uproot.ZSTD(5), "none": None}
ENTRIES = 2000
#: How files are read; `kept` are the ranges of a cache on the local disk, which several seeds share.
WAYS = ("plain", "cache", "planned", "prefetch", "stage", "kept")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Two files of each codec; each has a replica in another folder."""
    folder = tmp_path_factory.mktemp("seeded")
    (folder / "replica").mkdir()
    made: dict[str, list[Path]] = {}
    for codec, compression in {**WITH_CHECKSUM, **WITHOUT}.items():
        for number in range(2):
            path = folder / f"{codec}{number}.root"
            # Such numbers compress: what does not is stored as it is, and then no codec's checksum covers it.
            numbers = np.arange(ENTRIES) // 7 + number
            with uproot.recreate(path, compression=compression) as file:
                file["t"] = {"x": numbers, "y": numbers * 0.5, "z": ak.unflatten(np.repeat(numbers, 2), 2)}
            (folder / "replica" / path.name).write_bytes(path.read_bytes())
            made.setdefault(codec, []).append(path)
    return made


@pytest.fixture(scope="module")
def server(files: dict[str, list[Path]], served: Served) -> Iterator[str]:
    """The same files at a server, without which nothing is staged or kept."""
    folder = Folder()
    data = files["none"][0].parent
    for one in (*data.parents, data, *data.rglob("*")):
        one.chmod(one.stat().st_mode | 0o055)
    nginx = Nginx(folder.below("nginx"), data, served.certificates)
    try:
        nginx.start()
        yield f"http://127.0.0.1:{nginx.port}"
    finally:
        nginx.kill()
        folder.remove()


def drawn(seed: int, files: dict[str, list[Path]], server: str, copies: Path) -> tuple[str, list[str], Access]:
    """The codec, the locations and the way of reading of a seed."""
    draw = random.Random(seed)
    codec = draw.choice(sorted(files))
    kinds = ",".join(draw.sample(KINDS, draw.randint(1, 3)))
    fault = f"{kinds},every={draw.randint(1, 5)},after={draw.randint(0, 2)},seed={seed}"
    replicated = draw.random() < 0.4
    # Drawn last, so that the others stay what they were for each seed.
    way = draw.choice(WAYS)
    access = Access(mode="planned" if way == "kept" else way, fault=fault)
    if way in ("stage", "kept"):
        folder = {"stage": "stage_dir", "kept": "cache_dir"}[way]
        # Wrong bytes that nothing shows to be wrong are kept as they came, and are wrong for all who share them.
        kind = "wrong" if "wrong" in kinds else "right"
        access = replace(access, **{folder: copies / f"{way}-{kind}{draw.randrange(3)}"})
    paths = []
    for one in files[codec]:
        here, other = str(one), f"{one.parent / 'replica' / one.name}"
        if way in ("stage", "kept"):
            here, other = f"{server}/{one.name}", f"{server}/replica/{one.name}"
        paths.append(f"{here} | {other}" if replicated else here)
    return codec, paths, access


def read(paths: list[str], access: Access) -> Any:
    return ak.concatenate(list(branchline.iterate([f"{one}:t" for one in paths], access=access, step_size=700)))


@pytest.mark.parametrize("block", long_but(range(BLOCKS), range(3)))
def test_a_seed_gives_the_right_arrays_or_an_error(
    block: int,
    files: dict[str, list[Path]],
    server: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Any,
) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_PAUSE", "0.0005")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "3")
    right = {codec: read([str(one) for one in paths], Access()) for codec, paths in files.items()}
    outcomes: Counter[str] = Counter()
    ways: Counter[str] = Counter()
    take_troubles()
    seeds = range(block * SEEDS_IN_A_BLOCK, (block + 1) * SEEDS_IN_A_BLOCK)
    for seed in seeds:
        codec, paths, access = drawn(seed, files, server, tmp_path)
        ways["kept" if access.cache_dir else str(access.mode)] += 1
        started = time.monotonic()
        try:
            found = read(paths, access)
        except BranchlineError as error:
            outcomes[
                "an error" if f"{codec}0.root" in str(error) or f"{codec}1.root" in str(error) else f"unnamed {error}"
            ] += 1
        else:
            is_right = ak.array_equal(found, right[codec])
            assert is_right or (codec in WITHOUT and "wrong" in str(access.fault)), (seed, codec, access)
            outcomes["right" if is_right else f"wrong unseen ({codec})"] += 1
        assert time.monotonic() - started < DEADLINE_S, (seed, access)
    assert not [outcome for outcome in outcomes if outcome.startswith("unnamed")]
    met = take_troubles()
    assert sum(one.retries for one in met) > 0
    # A busy machine makes more of the requests late; most of the others are right.
    assert outcomes["right"] > SEEDS_IN_A_BLOCK / 10, outcomes
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    by_way = ", ".join(f"{count} {way}" for way, count in sorted(ways.items()))
    assert set(ways) == set(WAYS)
    record_property("summary", f"seeds {seeds[0]} to {seeds[-1]} at the fault store: {counts}; read {by_way}")


def test_replicas_go_on_where_one_never_answers(files: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "0.5")
    path = files["zlib"][0]
    right = read([str(path)], Access())
    take_troubles()
    for seed in range(5):
        both = f"{path} | {path.parent / 'replica' / path.name}"
        assert ak.array_equal(read([both], Access(fault=f"hang,every=3,seed={seed}")), right)
    assert sum(one.timeouts for one in take_troubles()) > 0


def test_what_never_answers_ends_in_an_error_that_names_it(
    files: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "0.6")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")
    monkeypatch.setenv("BRANCHLINE_STORAGE_WAIT", "0")
    path = files["zlib"][0]
    for after, at in ((0, "opening it"), (1, "bytes at offset 0 from local:")):
        with pytest.raises(StuckError, match=f"{path.name}: .*{at}.* made no progress"):
            read([str(path)], Access(fault=f"hang,after={after}"))


def test_whichever_thread_gets_no_answer_the_job_ends_and_names_the_file(
    files: dict[str, list[Path]], server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "1.5")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")
    monkeypatch.setenv("BRANCHLINE_STORAGE_WAIT", "0")
    paths = [f"{server}/{path.name}" for of_codec in files.values() for path in of_codec]
    ways = (
        Access(mode="plain"),
        Access(mode="cache"),
        Access(mode="planned", requests_in_flight=4),
        Access(mode="prefetch", requests_in_flight=2),
        Access(mode="stage", stage_dir=tmp_path),
    )

    def outcome(way: Access, after: int) -> str:
        started = time.monotonic()
        with pytest.raises(StuckError, match=r"\d\.root: .* made no progress"):
            read(paths, replace(way, fault=f"hang,after={after},seed={after}"))
        return "ended" if time.monotonic() - started < DEADLINE_S else "ended late"

    with ThreadPoolExecutor(2) as pool:
        ended = [pool.submit(outcome, way, after) for way in ways for after in (1, 4)]
        assert {one.result(timeout=2 * DEADLINE_S) for one in ended} == {"ended"}


@pytest.mark.parametrize("mode", long_but(["stage", "prefetch"], ["stage"]))
def test_large_files_over_a_slow_link_are_waited_for(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Opening is stuck after 2.4 s without a sign of progress.
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "0.8")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")
    monkeypatch.setenv("BRANCHLINE_STORAGE_WAIT", "0")
    numbers = np.random.default_rng(1).random(16_000_000)
    paths = [tmp_path / f"{number}.root" for number in range(2)]
    for path in paths:
        with uproot.recreate(path, compression=None) as file:
            file["t"] = {"x": numbers}
    # Each takes 3.2 s. Staging gives a sign after each piece of 0.4 s.
    access = Access(mode=mode, stage_dir=tmp_path / "stage", throttle="bandwidth=40MB/s")
    chunks = branchline.iterate([f"{path}:t" for path in paths], access=access, step_size="100 MB")
    assert ak.array_equal(ak.concatenate(list(chunks)).x, np.tile(numbers, 2))
