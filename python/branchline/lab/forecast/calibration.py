"""Calibrations of this machine and of storage elements, kept in a file of the user."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from branchline import _core
from branchline.base.codecs import CODECS, DEFAULT_CODEC
from branchline.base.plain import finite, from_plain, to_plain
from branchline.base.user_state import state_folder
from branchline.base.whole_files import write_whole
from branchline.errors import BadFileError, OptionError, StorageError
from branchline.lab.forecast.checked import machine_name, now_text
from branchline.lab.forecast.rates import Rates, measured
from branchline.lab.limits import CALIBRATION_FILE_MAX_BYTES
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream

#: Version of the file format. Files with newer versions are rejected.
CALIBRATION_VERSION = 1
#: The codecs that are measured, with their usual levels.
SETTINGS = {one.name: one.setting for one in CODECS if one.level}
#: Number of entries and of branches of the tree with which codecs are measured, 4 MB in total.
ENTRIES, BRANCHES = 50_000, 20
#: Number of small files with which the overhead per file is measured, number of their entries, and number of rounds.
SMALL_FILES, SMALL_ENTRIES, SMALL_ROUNDS = 200, 100, 7
#: Age in days at which a calibration is reported as old, since machines and links change.
OLD_DAYS = 30


@dataclass(frozen=True)
class StorageRates:
    """Rates of a storage element: the round trip, the bandwidth (0 if too little was read to measure it), and the time
    per call in addition to the round trip.
    """

    round_trip_s: float
    bytes_per_second: float
    call_s: float
    measured_at: str


@dataclass(frozen=True)
class Calibration:
    """Rates of a machine.

    ``decode_s_per_byte`` is the CPU time for decoding a decompressed byte, ``decompress_s_per_byte`` that for
    decompression, by codec. ``file_s`` is the overhead of a nearby file: opening it, decoding its metadata, and passing
    its data between threads and to Python; 0 if it was not measured. ``storages`` are the storage elements that were
    measured from this machine. ``measured_at`` is in UTC, in ISO 8601 format.
    """

    machine: str
    measured_at: str
    decode_s_per_byte: float
    decompress_s_per_byte: dict[str, float]
    storages: dict[str, StorageRates] = field(default_factory=dict)
    file_s: float = 0.0
    calibration_version: int = CALIBRATION_VERSION

    def age_days(self, now: datetime | None = None) -> float:
        """Return the number of days since the machine was measured."""
        then = datetime.fromisoformat(self.measured_at)
        return max(0.0, ((now or datetime.now(UTC)) - then).total_seconds() / 86400)

    def age_words(self, now: datetime | None = None) -> str:
        """Return the age as text."""
        days = self.age_days(now)
        if days < 1:
            return "less than a day old" if days * 24 >= 1 else "less than an hour old"
        old = "; repeat it with: branchline calibrate" if days > OLD_DAYS else ""
        return f"{days:.0f} days old{old}"


def calibration_path() -> Path:
    """Return the path of the user's calibration file. Raises OptionError without a home directory."""
    return state_folder() / "calibration.json"


def load_calibration(path: Path | None = None) -> Calibration | None:
    """Load the calibration of this machine; None if the file is missing, or if it contains the calibration of another
    machine. Raises BadFileError for an invalid file or a newer version.
    """
    try:
        path = path or calibration_path()
        if path.stat().st_size > CALIBRATION_FILE_MAX_BYTES:
            raise _bad(path, "it is too large")
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, OptionError):
        return None
    except (OSError, ValueError) as error:
        raise _bad(path, str(error)) from error
    version = plain.get("calibration_version") if isinstance(plain, dict) else None
    if not isinstance(version, int) or version > CALIBRATION_VERSION:
        raise _bad(path, f"unsupported version {version!r:.20}")
    try:
        found: Calibration = from_plain(Calibration, plain)
        found.age_days()
    except (ValueError, TypeError) as error:
        raise _bad(path, str(error)) from error
    return found if found.machine == machine_name() else None


def _bad(path: Path | None, why: str) -> BadFileError:
    hint = "remove it and run: branchline calibrate"
    return BadFileError(f"{path} is not a valid calibration: {why}", path=str(path), hint=hint)


def save_calibration(calibration: Calibration, path: Path | None = None) -> Path:
    """Write the calibration and return the path of its file. Raises StorageError and OptionError."""
    path = path or calibration_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create the folder of the calibration: {error}", path=str(path)) from error
    write_whole(path, json.dumps(finite(to_plain(calibration)), indent=1).encode())
    return path


def calibrate(files: Sequence[DataFile], access: Access, before: Calibration | None = None) -> Calibration:
    """Measure this machine with all codecs, and the storage element of ``files`` if there are any. Storage elements
    measured in the previous calibration ``before`` are kept. Raises the errors of reading and writing.
    """
    decode_s, decompress_s = _codecs()
    storages = dict(before.storages) if before else {}
    if files:
        # The storage element is measured by reading the files, as jobs do.
        rates = measured(files, None, access)
        name = _core.File(files[0].opens, Access(mode="plain")).store
        storages[name] = StorageRates(rates.round_trip_s, rates.bytes_per_second, rates.call_s, now_text())
    return Calibration(machine_name(), now_text(), decode_s, decompress_s, storages, _file_s())


def _codecs() -> tuple[float, dict[str, float]]:
    """Return the time in seconds for decoding a byte, and the times for decompressing a byte by codec."""
    from branchline.writing.recreate.writable_file import recreate

    random = np.random.default_rng(1)
    # Values with few significant digits, like detector data, which compress to about one half.
    values = {f"b{number}": random.normal(size=ENTRIES).astype("f2").astype("f4") for number in range(BRANCHES)}
    decompress: dict[str, float] = {}
    decode: list[float] = []
    with tempfile.TemporaryDirectory(prefix="branchline-calibration-") as folder:
        for codec, level in SETTINGS.items():
            path = Path(folder) / f"{codec}.root"
            with recreate(path, compression=level) as file:
                file.mktree("events", values)
            rates = measured([DataFile(str(path), "events")], None, Access())
            decompress[codec] = rates.decompress_s_per_byte[codec]
            decode.append(rates.decode_s_per_byte)
    return float(np.median(decode)), decompress


def _file_s() -> float:
    """Return the overhead of a small nearby file: the difference between reading many files and reading one, per file.
    Uses the fastest rounds, since forecasts multiply the noise per file by the number of files.
    """
    from branchline.writing.recreate.writable_file import recreate

    with tempfile.TemporaryDirectory(prefix="branchline-calibration-") as folder:
        paths = [Path(folder) / f"{number}.root" for number in range(SMALL_FILES)]
        with recreate(paths[0], compression=DEFAULT_CODEC) as file:
            file.mktree("events", {f"b{number}": np.arange(SMALL_ENTRIES, dtype="f4") for number in range(BRANCHES)})
        for path in paths[1:]:
            shutil.copyfile(paths[0], path)
        times = [(_read_s(paths), _read_s(paths[:1])) for _ in range(SMALL_ROUNDS)]
    many_s, one_s = min(many for many, _ in times), min(one for _, one in times)
    return max(0.0, many_s - one_s) / (SMALL_FILES - 1)


def _read_s(paths: Sequence[Path]) -> float:
    begin_s = time.monotonic()
    with ChunkStream([Source(str(path), "events") for path in paths], None, threads=1) as stream:
        for chunk in stream:
            del chunk
    return time.monotonic() - begin_s


def with_calibrated(rates: Rates, calibration: Calibration | None) -> Rates:
    """Return the rates with additions from the calibration: the overhead of a file, and the rates of codecs that were
    not measured, scaled to the measured speed.
    """
    if calibration is None:
        return rates
    known = calibration.decompress_s_per_byte
    both = [rates.decompress_s_per_byte[one] / known[one] for one in rates.decompress_s_per_byte if known.get(one)]
    factor = float(np.median(both)) if both else 1.0
    others = {codec: factor * value for codec, value in known.items() if codec not in rates.decompress_s_per_byte}
    return replace(rates, file_s=calibration.file_s, decompress_s_per_byte={**rates.decompress_s_per_byte, **others})
