"""What is known of this machine and of storages from measurements that were made for it, kept in a file of the user."""

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

#: The version of the form of the file; a reader refuses a newer one.
CALIBRATION_VERSION = 1
#: Codecs that are measured, with the level that files most often have.
CODECS = {"zlib": "zlib:1", "zstd": "zstd:5", "lz4": "lz4:4", "lzma": "lzma:8"}
#: Entries of the tree on which codecs are measured, and its branches: 4 MB.
ENTRIES, BRANCHES = 50_000, 20
#: Small files on which the cost of a file is measured, their entries, and how often they are read.
SMALL_FILES, SMALL_ENTRIES, SMALL_ROUNDS = 200, 100, 7
#: A calibration that is older is said to be old: machines and links change in such a time.
OLD_DAYS = 30


@dataclass(frozen=True)
class StorageRates:
    """A storage element: the round trip, bytes per second (0 if too little was read to know), and what a call costs
    besides.
    """

    round_trip_s: float
    bytes_per_second: float
    call_s: float
    measured_at: str


@dataclass(frozen=True)
class Calibration:
    """Rates of a machine: seconds of a core for a byte after decompression, to decode it and to decompress it by codec.

    ``file_s`` is what a near file takes besides its values: it is opened, its metadata are decoded, and what it has is
    handed from thread to thread and to Python; 0 where it was not measured. ``storages`` are those that were measured
    from here. ``measured_at`` is in UTC, as ISO 8601.
    """

    machine: str
    measured_at: str
    decode_s_per_byte: float
    decompress_s_per_byte: dict[str, float]
    storages: dict[str, StorageRates] = field(default_factory=dict)
    file_s: float = 0.0
    calibration_version: int = CALIBRATION_VERSION

    def age_days(self, now: datetime | None = None) -> float:
        """Days since the machine was measured."""
        then = datetime.fromisoformat(self.measured_at)
        return max(0.0, ((now or datetime.now(UTC)) - then).total_seconds() / 86400)

    def age_words(self, now: datetime | None = None) -> str:
        """The age in words."""
        days = self.age_days(now)
        if days < 1:
            return "of today" if days * 24 >= 1 else "of the last hour"
        old = "; it is old: branchline calibrate" if days > OLD_DAYS else ""
        return f"{days:.0f} days old{old}"


def calibration_path() -> Path:
    """The file of the user. Raises OptionError where there is no home directory."""
    return state_folder() / "calibration.json"


def load_calibration(path: Path | None = None) -> Calibration | None:
    """That of this machine; None if there is none, or one of another machine. Raises BadFileError for a file that is
    none, or of a later version.
    """
    try:
        path = path or calibration_path()
        if path.stat().st_size > CALIBRATION_FILE_MAX_BYTES:
            raise BadFileError(f"{path} is too large for a calibration", path=str(path))
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, OptionError):
        return None
    except (OSError, ValueError) as error:
        raise _bad(path, str(error)) from error
    version = plain.get("calibration_version") if isinstance(plain, dict) else None
    if not isinstance(version, int) or version > CALIBRATION_VERSION:
        raise _bad(path, f"its version {version!r:.20} is not known here")
    try:
        found: Calibration = from_plain(Calibration, plain)
        found.age_days()
    except (ValueError, TypeError) as error:
        raise _bad(path, str(error)) from error
    return found if found.machine == machine_name() else None


def _bad(path: Path | None, why: str) -> BadFileError:
    hint = "branchline calibrate writes it anew, after it is removed"
    return BadFileError(f"{path} is no calibration: {why}", path=str(path), hint=hint)


def save_calibration(calibration: Calibration, path: Path | None = None) -> Path:
    """Writes it whole; returns where. Raises StorageError and OptionError."""
    path = path or calibration_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"the folder of the calibration cannot be made: {error}", path=str(path)) from error
    write_whole(path, json.dumps(finite(to_plain(calibration)), indent=1).encode())
    return path


def calibrate(files: Sequence[DataFile], access: Access, before: Calibration | None = None) -> Calibration:
    """Measures this machine in all codecs, and the storage of some files if there are any. What was known ``before``
    of other storages is kept. Raises what reading and writing raise.
    """
    decode_s, decompress_s = _codecs()
    storages = dict(before.storages) if before else {}
    if files:
        storages |= _storages(files, access)
    return Calibration(machine_name(), now_text(), decode_s, decompress_s, storages, _file_s())


def _codecs() -> tuple[float, dict[str, float]]:
    """Seconds to decode a byte, and to decompress one by codec."""
    from branchline.writing.recreate.writable_file import recreate

    random = np.random.default_rng(1)
    # Of a few digits, as the numbers of detectors are: they compress to a half.
    values = {f"b{number}": random.normal(size=ENTRIES).astype("f2").astype("f4") for number in range(BRANCHES)}
    decompress: dict[str, float] = {}
    decode: list[float] = []
    with tempfile.TemporaryDirectory(prefix="branchline-calibration-") as folder:
        for codec, level in CODECS.items():
            path = Path(folder) / f"{codec}.root"
            with recreate(path, compression=level) as file:
                file.mktree("events", values)
            rates = measured([DataFile(str(path), "events")], None, Access())
            decompress[codec] = rates.decompress_s_per_byte[codec]
            decode.append(rates.decode_s_per_byte)
    return float(np.median(decode)), decompress


def _file_s() -> float:
    """What a small near file costs: the time of many of them over that of one. The quickest rounds count, as what other
    programs make of a file would be multiplied by all.
    """
    from branchline.writing.recreate.writable_file import recreate

    with tempfile.TemporaryDirectory(prefix="branchline-calibration-") as folder:
        paths = [Path(folder) / f"{number}.root" for number in range(SMALL_FILES)]
        with recreate(paths[0], compression=CODECS["zstd"]) as file:
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


def _storages(files: Sequence[DataFile], access: Access) -> dict[str, StorageRates]:
    """The storage of some files, as reading them sees it."""
    rates = measured(files, None, access)
    names = {_core.File(one.opens, Access(mode="plain")).store for one in files[:1]}
    found = StorageRates(rates.round_trip_s, rates.bytes_per_second, rates.call_s, now_text())
    return dict.fromkeys(names, found)


def with_calibrated(rates: Rates, calibration: Calibration | None) -> Rates:
    """The rates, with the cost of a file and the rates of codecs that only the calibration knows, scaled to the speed
    that was measured.
    """
    if calibration is None:
        return rates
    known = calibration.decompress_s_per_byte
    both = [rates.decompress_s_per_byte[one] / known[one] for one in rates.decompress_s_per_byte if known.get(one)]
    factor = float(np.median(both)) if both else 1.0
    others = {codec: factor * value for codec, value in known.items() if codec not in rates.decompress_s_per_byte}
    return replace(rates, file_s=calibration.file_s, decompress_s_per_byte={**rates.decompress_s_per_byte, **others})
