"""Forecasts, also of advice, with the times measured afterwards: kept in one file of the user, newest last.

They show how good forecasts are on a machine, and give later forecasts their intervals, by split conformal prediction:
the quantiles of the errors of held-out points hold the next one as often, whatever their distribution (Vovk et al.
2005, section 4.1).
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

#: The 5 % and the 95 % quantile of log(measured / said) of reads that were forecast from reads under other conditions,
#: on a machine that other programs used, too: of an earlier run of `python -m benches forecasts`, with other points.
#: Where the link is slow, it has most of the time; where it is fast, this machine has, and what else runs on it.
SLOW_LINK, FAST_LINK = (-0.17, 0.2), (-0.15, 0.5)
#: A link is fast from this many bytes per second on, or up to this round trip.
FAST_BYTES_PER_S, NEAR_S = 50e6, 2e-3
#: Checked forecasts on this machine from which on their errors are used instead: fewer have no 5 % quantile.
PAIRS_MIN = 20
#: The part of the forecasts that an interval is to hold.
HELD = 0.9
#: Increased when a field changes its meaning; a reader refuses a newer one.
CHECKED_VERSION = 1
#: A gain that was measured below this many seconds says nothing about the error of its forecast.
GAIN_MIN_S = 0.01


@dataclass(frozen=True)
class Checked:
    """A forecast of ``said_s`` seconds for work that then took ``measured_s`` on a ``machine``, and whether its
    interval held that (None where it had none). ``measured_at`` is in UTC, as ISO 8601.

    Of advice that was followed ``advice`` is its kind, and ``before_s`` what the same work took without it; ``low_s``
    and ``high_s`` are the interval of the seconds that it saved, from so many ``pairs`` (None where they were too few).
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
        """What advice was to save."""
        return None if self.before_s is None else self.before_s - self.said_s

    @property
    def saving_s(self) -> float | None:
        """What it has saved."""
        return None if self.before_s is None else self.before_s - self.measured_s

    @property
    def log_error(self) -> float | None:
        """The logarithm of what was measured over what was said; None where one of them is no time."""
        return math.log(self.measured_s / self.said_s) if self.said_s > 0 and self.measured_s > 0 else None


@dataclass(frozen=True)
class CheckedForecasts:
    """All that were checked; the oldest are left out once there are `CHECKED_KEPT`."""

    forecasts: tuple[Checked, ...] = ()
    checked_version: int = CHECKED_VERSION

    def here(self) -> CheckedForecasts:
        """Those of this machine: others may share the home directory."""
        name = machine_name()
        return replace(self, forecasts=tuple(one for one in self.forecasts if one.machine == name))

    def log_errors(self) -> list[float]:
        """Those of all forecasts."""
        return [one.log_error for one in self.forecasts if one.log_error is not None]

    def median_error(self) -> float | None:
        """By which part what was measured differed from what was said (median); None for none."""
        errors = [abs(one.said_s / one.measured_s - 1) for one in self.forecasts if one.measured_s > 0]
        return statistics.median(errors) if errors else None

    def coverage(self) -> float | None:
        """The part of the intervals that held, 0.9 if they are right; None where there is none."""
        held = [one.is_held for one in self.forecasts if one.is_held is not None]
        return sum(held) / len(held) if held else None

    def savings_error(self) -> float | None:
        """By which part the time that advice saved differed from what was said (median); None for fewer than two."""
        pairs = [(one.saving_said_s, one.saving_s) for one in self.forecasts]
        errors = [abs(said / saved - 1) for said, saved in pairs if said is not None and saved and saved > GAIN_MIN_S]
        return statistics.median(errors) if len(errors) > 1 else None


def checked_path() -> Path:
    """The file of the user. Raises OptionError where there is no home directory."""
    return state_folder() / "checked-forecasts.json"


def load_checked(path: Path | None = None) -> CheckedForecasts:
    """All that are kept; none if there is no file. Raises BadFileError for one that is none, or of a later version."""
    try:
        path = path or checked_path()
        if path.stat().st_size > CHECKED_FILE_MAX_BYTES:
            raise _bad(path, "it is too large")
        plain = json.loads(path.read_text(encoding="utf-8"))
        version = plain["checked_version"]
        if not isinstance(version, int) or version > CHECKED_VERSION:
            raise _bad(path, f"its version {version!r:.20} is not known here")
        found: CheckedForecasts = from_plain(CheckedForecasts, plain)
        for one in found.forecasts:
            check_types(one)
    except (FileNotFoundError, OptionError):
        return CheckedForecasts()
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _bad(path, str(error)) from error
    return found


def _bad(path: Path | None, why: str) -> BadFileError:
    hint = "move it away: the next forecast that is checked begins another"
    return BadFileError(f"{path} has no checked forecasts: {why}", path=str(path), hint=hint)


def keep_checked(new: Sequence[Checked], path: Path | None = None) -> Path:
    """Adds forecasts that were checked; returns where they are kept. Several processes that add at once wait for each
    other, on file systems without locks, too. Raises BadFileError, StorageError (one to be tried again where another
    does not let go), OptionError.
    """
    path = path or checked_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"the folder of checked forecasts cannot be made: {error}", path=str(path)) from error
    with _alone(path):
        known = load_checked(path)
        kept = replace(known, forecasts=(*known.forecasts, *new)[-CHECKED_KEPT:])
        write_whole(path, json.dumps(finite(to_plain(kept)), indent=1).encode())
    return path


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While one adds to the file no other does. The lock has a file of its own, since each adding puts a new file in
    the place of the old one; the system lets go of it when its process ends.
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
    """Whether the lock is ours; False on a file system that has no locks."""
    for _ in _turns():
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        except OSError:
            return False
        return True
    raise StorageError("another process adds checked forecasts and does not end", path=str(path), retry=True)


@contextlib.contextmanager
def _alone_by_name(path: Path) -> Iterator[None]:
    """The same where there are no locks: only one of several processes makes a file of a name. One that was killed
    leaves it, and no other can know that: the error names the file.
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
        hint = f"this file system has no locks: if no other process adds, one was killed; remove {name}"
        raise StorageError(f"{name} is there: another process adds checked forecasts", path=str(path), hint=hint)
    try:
        yield
    finally:
        name.unlink(missing_ok=True)


def _turns() -> Iterator[None]:
    """Once, and again after pauses, until others had time enough."""
    until_s = time.monotonic() + CHECKED_LOCK_S
    yield
    while time.monotonic() <= until_s:
        time.sleep(CHECKED_LOCK_TURN_S)
        yield


def _not_added(error: OSError, path: Path) -> StorageError:
    return StorageError(f"checked forecasts cannot be added: {error}", path=str(path))


# --- intervals --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Errors:
    """Logarithms of measured over said: the lower and the upper end of an interval, and of how many pairs they are; 0
    for those that every installation has.
    """

    low: float
    high: float
    pairs: int = 0


def usual_errors(round_trip_s: float, bytes_per_s: float) -> Errors:
    """Those that every installation has, for such a link; 0 bytes per second are no bound."""
    is_fast = round_trip_s <= NEAR_S or bytes_per_s >= FAST_BYTES_PER_S or bytes_per_s <= 0
    return Errors(*(FAST_LINK if is_fast else SLOW_LINK))


def errors_seen(logarithms: Sequence[float]) -> Errors | None:
    """The errors of forecasts that were checked on this machine; None if there are not enough."""
    count = len(logarithms)
    if count < PAIRS_MIN:
        return None
    ordered = sorted(logarithms)
    # With one more than there are, as the next one may lie anywhere between them.
    rank = min(count, math.ceil((count + 1) * (1 + HELD) / 2))
    return Errors(ordered[count - rank], ordered[rank - 1], count)


# --- this machine -----------------------------------------------------------------------------------------------------


def machine_name() -> str:
    """Return the identity of this machine: its name, the kind of its processor and the number of cores."""
    return f"{platform.node()}, {platform.machine()}, {os.cpu_count()} cores"


def now_text() -> str:
    """The present moment in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
