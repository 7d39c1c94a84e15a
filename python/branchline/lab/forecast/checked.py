"""Forecasts, also of advice, with the times that were measured afterwards, kept in a file of the user, newest last.

These checked forecasts show the accuracy of forecasts on a machine. Later forecasts get their intervals from them by
split conformal prediction: the quantiles of the errors of held-out points contain the next error with the same
frequency, whatever the distribution of the errors (Vovk et al. 2005, section 4.1).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from branchline.base.plain import check_types, finite, from_plain, to_plain
from branchline.base.user_state import state_folder
from branchline.base.whole_files import write_whole
from branchline.errors import BadFileError, OptionError, StorageError
from branchline.lab.limits import CHECKED_FILE_MAX_BYTES, CHECKED_KEPT, CHECKED_LOCK_S, CHECKED_LOCK_TURN_S

#: The 5 % and 95 % quantiles of log(measured / forecast) for reads on a slow and on a fast link, which were forecast
#: from reads under other conditions, on a machine with other load. The quantiles come from an earlier run of `python -m
#: benches forecasts` with different points. Over a slow link, most of the time is spent on the link; over a fast one,
#: on this machine, where other load affects the time.
SLOW_LINK, FAST_LINK = (-0.17, 0.2), (-0.15, 0.5)
#: A link is fast if its bandwidth in bytes per second is above the first value or its round trip in seconds is below
#: the second.
FAST_BYTES_PER_S, NEAR_S = 50e6, 2e-3
#: Minimum number of checked forecasts on this machine for their errors to be used: fewer have no 5 % quantile.
PAIRS_MIN = 20
#: Target coverage of the intervals.
HELD = 0.9
#: Version of the file format, increased when a field changes its meaning. Files with newer versions are rejected.
CHECKED_VERSION = 1
#: Minimum measured gain in seconds for the error of a forecast gain to be computed.
GAIN_MIN_S = 0.01


@dataclass(frozen=True)
class Checked:
    """A forecast of ``said_s`` seconds for work that took ``measured_s`` seconds.

    ``is_held`` is true if the interval of the forecast contained the measured time, None without an interval.
    ``measured_at`` is in UTC, in ISO 8601 format.

    For advice that was followed, ``advice`` is its ID and ``before_s`` the time of the work before. ``low_s`` and
    ``high_s`` are the interval of the measured saving, computed from ``pairs`` pairs of runs; None if there were too
    few.
    """

    about: str
    said_s: float
    measured_s: float
    machine: str
    measured_at: str
    is_held: bool | None = None
    advice: str = ""
    before_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    pairs: int = 0

    @property
    def saving_said_s(self) -> float | None:
        """The saving that advice forecast, in seconds."""
        return None if self.before_s is None else self.before_s - self.said_s

    @property
    def saving_s(self) -> float | None:
        """The measured saving of advice, in seconds."""
        return None if self.before_s is None else self.before_s - self.measured_s

    @property
    def log_error(self) -> float | None:
        """Logarithm of the ratio of measured to forecast time; None unless both are positive."""
        return math.log(self.measured_s / self.said_s) if self.said_s > 0 and self.measured_s > 0 else None


@dataclass(frozen=True)
class CheckedForecasts:
    """All checked forecasts. Only the latest `CHECKED_KEPT` are kept."""

    forecasts: tuple[Checked, ...] = ()
    checked_version: int = CHECKED_VERSION

    def here(self) -> CheckedForecasts:
        """Return the forecasts that were checked on this machine, since several machines may share the home
        directory.
        """
        name = machine_name()
        return replace(self, forecasts=tuple(one for one in self.forecasts if one.machine == name))

    def log_errors(self) -> list[float]:
        """Return the logarithmic errors of all forecasts."""
        return [one.log_error for one in self.forecasts if one.log_error is not None]

    def median_error(self) -> float | None:
        """Return the median relative error of the forecasts; None without forecasts."""
        errors = [abs(one.said_s / one.measured_s - 1) for one in self.forecasts if one.measured_s > 0]
        return statistics.median(errors) if errors else None

    def coverage(self) -> float | None:
        """Return the fraction of the intervals that contained the measured time, ideally 0.9; None without
        intervals.
        """
        held = [one.is_held for one in self.forecasts if one.is_held is not None]
        return sum(held) / len(held) if held else None

    def savings_error(self) -> float | None:
        """Return the median relative error of the savings that advice forecast; None for fewer than two savings."""
        pairs = [(one.saving_said_s, one.saving_s) for one in self.forecasts]
        errors = [abs(said / saved - 1) for said, saved in pairs if said is not None and saved and saved > GAIN_MIN_S]
        return statistics.median(errors) if len(errors) > 1 else None


def checked_path() -> Path:
    """Return the path of the user's file of checked forecasts. Raises OptionError without a home directory."""
    return state_folder() / "checked-forecasts.json"


def load_checked(path: Path | None = None) -> CheckedForecasts:
    """Load the checked forecasts; empty if the file is missing. Raises BadFileError for an invalid file or a newer
    version.
    """
    try:
        path = path or checked_path()
        if path.stat().st_size > CHECKED_FILE_MAX_BYTES:
            raise _bad(path, "it is too large")
        plain = json.loads(path.read_text(encoding="utf-8"))
        version = plain["checked_version"]
        if not isinstance(version, int) or version > CHECKED_VERSION:
            raise _bad(path, f"unsupported version {version!r:.20}")
        found: CheckedForecasts = from_plain(CheckedForecasts, plain)
        for one in found.forecasts:
            check_types(one)
    except (FileNotFoundError, OptionError):
        return CheckedForecasts()
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _bad(path, str(error)) from error
    return found


def _bad(path: Path | None, why: str) -> BadFileError:
    hint = "move it away; the next check of a forecast creates a new one"
    return BadFileError(f"{path} contains no checked forecasts: {why}", path=str(path), hint=hint)


def keep_checked(new: Sequence[Checked], path: Path | None = None) -> Path:
    """Add checked forecasts and return the path of their file.

    Concurrent processes wait for each other, also on file systems without locks. Raises BadFileError, OptionError and
    StorageError, which is retryable if another process holds the lock.
    """
    path = path or checked_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create the folder of checked forecasts: {error}", path=str(path)) from error
    with _alone(path):
        known = load_checked(path)
        kept = replace(known, forecasts=(*known.forecasts, *new)[-CHECKED_KEPT:])
        write_whole(path, json.dumps(finite(to_plain(kept)), indent=1).encode())
    return path


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock for adding forecasts. The lock has its own file, since the file of forecasts is replaced each time.
    The system releases the lock when the process ends.
    """
    try:
        lock = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _not_added(error, path) from error
    try:
        is_locked = _wait_for(lock, path)
        with contextlib.nullcontext() if is_locked else _alone_by_name(path):
            yield
    finally:
        os.close(lock)


def _wait_for(lock: int, path: Path) -> bool:
    """Acquire the lock, waiting for other processes. Returns False on a file system without locks."""
    for _ in _turns():
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        except OSError:
            return False
        return True
    raise StorageError("another process adds checked forecasts and holds the lock", path=str(path), retry=True)


@contextlib.contextmanager
def _alone_by_name(path: Path) -> Iterator[None]:
    """Substitute for the lock on file systems without locks: only one process at a time can create the file
    ``.adding``. A killed process leaves this file behind, which other processes cannot detect, so the error names the
    file.
    """
    name = path.with_suffix(".adding")
    for _ in _turns():
        try:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            continue
        except OSError as error:
            raise _not_added(error, path) from error
        break
    else:
        hint = f"if no such process is running, one was killed: remove {name}"
        raise StorageError(f"{name} exists: another process adds checked forecasts", path=str(path), hint=hint)
    try:
        yield
    finally:
        name.unlink(missing_ok=True)


def _turns() -> Iterator[None]:
    """Yield once, and then repeatedly after pauses until the lock timeout has passed."""
    until_s = time.monotonic() + CHECKED_LOCK_S
    yield
    while time.monotonic() <= until_s:
        time.sleep(CHECKED_LOCK_TURN_S)
        yield


def _not_added(error: OSError, path: Path) -> StorageError:
    return StorageError(f"cannot add checked forecasts: {error}", path=str(path))


# --- intervals --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Errors:
    """The ends of an interval for log(measured / forecast), and the number of checked forecasts from which the ends
    were computed; 0 for built-in errors.
    """

    low: float
    high: float
    pairs: int = 0


def usual_errors(round_trip_s: float, bytes_per_s: float) -> Errors:
    """Return the built-in errors for a link. A bandwidth of 0 stands for unlimited bandwidth."""
    is_fast = round_trip_s <= NEAR_S or bytes_per_s >= FAST_BYTES_PER_S or bytes_per_s <= 0
    return Errors(*(FAST_LINK if is_fast else SLOW_LINK))


def errors_seen(logarithms: Sequence[float]) -> Errors | None:
    """Return the errors of the forecasts that were checked on this machine; None if there are too few."""
    count = len(logarithms)
    if count < PAIRS_MIN:
        return None
    ordered = sorted(logarithms)
    # The rank is computed for one more than the number of errors, since the next error may lie anywhere between them.
    rank = min(count, math.ceil((count + 1) * (1 + HELD) / 2))
    return Errors(ordered[count - rank], ordered[rank - 1], count)


# --- this machine -----------------------------------------------------------------------------------------------------


def machine_name() -> str:
    """Return a string that identifies this machine: its host name, processor type and number of cores."""
    return f"{platform.node()}, {platform.machine()}, {os.cpu_count()} cores"


def now_text() -> str:
    """Return the current time in UTC in ISO 8601 format."""
    return datetime.now(UTC).isoformat(timespec="seconds")
