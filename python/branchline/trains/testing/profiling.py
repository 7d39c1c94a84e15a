"""A sampling profiler, which records the stack of a thread many times per second with almost no overhead."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from branchline.base.limits import PROFILE_DEPTH_MAX, PROFILE_INTERVAL_S, PROFILE_STACKS_MAX
from branchline.base.processes import package_folder

_OWN = str(package_folder())


@dataclass(frozen=True)
class ProfileFrame:
    """A frame on the stack: the function, its file and the current line."""

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class Profile:
    """Sampled stacks and the seconds spent in each, longest first. A stack is a list of indices into ``frames``,
    outermost frame first. ``left_out_s`` is the total time of dropped stacks.
    """

    frames: list[ProfileFrame] = field(default_factory=list)
    stacks: list[list[int]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    left_out_s: float = 0.0


class Profiler:
    """Samples the stack of the thread that created the profiler, while this thread is inside ``during``."""

    def __init__(self) -> None:
        self._thread_id = threading.get_ident()
        self._seconds: dict[tuple[ProfileFrame, ...], float] = {}
        self._is_on = threading.Event()
        self._is_over = False
        # Number of outer frames that are left out, because they were already on the stack before ``during``.
        self._base = 0
        self._thread = threading.Thread(target=self._look, name="branchline-profiler", daemon=True)
        self._thread.start()

    @contextmanager
    def during(self) -> Iterator[None]:
        """Sample the stack inside this block."""
        # Do not count the two frames of this context manager.
        self._base = _depth(sys._getframe()) - 2
        self._is_on.set()
        try:
            yield
        finally:
            self._is_on.clear()

    def profile(self) -> Profile:
        """Stop sampling, and return the profile."""
        self._is_over = True
        self._is_on.set()
        self._thread.join()
        longest = sorted(self._seconds.items(), key=lambda one: -one[1])
        kept = longest[:PROFILE_STACKS_MAX]
        index = {frame: None for stack, _ in kept for frame in stack}
        numbers = {frame: number for number, frame in enumerate(index)}
        return Profile(
            list(numbers),
            [[numbers[frame] for frame in stack] for stack, _ in kept],
            [seconds for _, seconds in kept],
            sum(seconds for _, seconds in longest[PROFILE_STACKS_MAX:]),
        )

    def _look(self) -> None:
        while True:
            self._is_on.wait()
            if self._is_over:
                return
            began_s = time.perf_counter()
            time.sleep(PROFILE_INTERVAL_S)
            frame = sys._current_frames().get(self._thread_id) if self._is_on.is_set() else None
            if frame is not None and not self._is_over:
                stack = _stack(frame, self._base)
                # Code that holds the GIL is sampled less often, so each sample counts for the time since the previous
                # one.
                took_s = time.perf_counter() - began_s
                self._seconds[stack] = self._seconds.get(stack, 0.0) + took_s


def _depth(frame: FrameType | None) -> int:
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def _stack(frame: FrameType | None, base: int) -> tuple[ProfileFrame, ...]:
    """Return the frames inside ``during``, starting with the first frame outside this package, up to the maximum
    depth.
    """
    found: list[ProfileFrame] = []
    while frame is not None:
        code = frame.f_code
        found.append(ProfileFrame(code.co_qualname, code.co_filename, frame.f_lineno or code.co_firstlineno))
        frame = frame.f_back
    above = found[::-1][base:]
    first = next((index for index, one in enumerate(above) if not one.file.startswith(_OWN)), 0)
    return tuple(above[first : first + PROFILE_DEPTH_MAX])
