"""Links: a long way, in numbers; and a shaped one, where jobs run in a network of their own, behind a pair of devices
with a rate in one direction.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass

from studies.yard.skipping import LackingError


@dataclass(frozen=True)
class WideArea:
    """A long way to a server, which a proxy makes: its round trip, and what passes in a second."""

    round_trip_ms: float
    mb_per_s: float

    @property
    def throttle(self) -> str:
        """As a proxy takes it."""
        return f"latency={self.round_trip_ms:g}ms,bandwidth={self.mb_per_s:g}MB/s"


class Link:
    """``prefix`` are the words before a command that runs behind the link; servers listen on ``host``."""

    def __init__(self, bits_per_s: int) -> None:
        if os.geteuid() != 0:
            raise LackingError("only root may make a network for the jobs")
        mark = secrets.token_hex(3)
        self._space, self._here, there = f"bls-{mark}", f"bl{mark}a", f"bl{mark}b"
        net = f"10.253.{secrets.randbelow(250) + 1}"
        self.host = f"{net}.1"
        self.prefix = [_program("ip"), "netns", "exec", self._space]
        _run("ip", "netns", "add", self._space)
        try:
            _run("ip", "link", "add", self._here, "type", "veth", "peer", "name", there, "netns", self._space)
            _run("ip", "address", "add", f"{net}.1/30", "dev", self._here)
            _run("ip", "link", "set", self._here, "up")
            _run(*self.prefix, "ip", "address", "add", f"{net}.2/30", "dev", there)
            for device in ("lo", there):
                _run(*self.prefix, "ip", "link", "set", device, "up")
            # A burst of some milliseconds, as the buffers of a switch; less is slower than the rate says.
            shape = ["tbf", "rate", f"{bits_per_s}bit", "burst", "512kb", "latency", "50ms"]
            _run("tc", "qdisc", "add", "dev", self._here, "root", *shape)
        except LackingError:
            self.close()
            raise

    def close(self) -> None:
        for words in (("link", "del", self._here), ("netns", "del", self._space)):
            with suppress(LackingError):
                _run("ip", *words)


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        raise LackingError(f"the program {name} is missing")
    return found


def _run(program: str, *arguments: str) -> None:
    words = [_program(program), *arguments]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise LackingError(f"{program} {' '.join(arguments)}: {done.stderr.strip()[-300:]}")
