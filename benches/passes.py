"""Runs readers as processes, one pass at a time, in rounds with rotating order.

A temporary slowdown of the machine then affects all readers of a round. The first round is a warm-up and is discarded.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from benches.worker import REPOSITORY, bind_to_cores

#: Requests a pass from a reader and returns its answer.
Ask = Callable[[], dict[str, Any]]


@contextmanager
def asked(module: str, arguments: Sequence[str]) -> Iterator[Ask]:
    """Yield a function that requests passes from a process of a module of benches. It raises RuntimeError if the
    process ends.
    """
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    given, said = process.stdin, process.stdout

    def one_pass() -> dict[str, Any]:
        with suppress(BrokenPipeError):
            given.write("\n")
            given.flush()
        if not (line := said.readline()):
            msg = f"{' '.join(command[2:])} ended with exit code {process.wait()}"
            raise RuntimeError(msg)
        answer: dict[str, Any] = json.loads(line)
        return answer

    try:
        yield one_pass
    finally:
        given.close()
        said.close()
        process.wait()


def rounds(module: str, readers: Sequence[Sequence[str]], repeats: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the passes of the readers with these arguments, one round at a time. The first round is the warm-up."""
    with ExitStack() as stack:
        arms = [stack.enter_context(asked(module, arguments)) for arguments in readers]
        for number in range(-1, repeats):
            turn = max(number, 0) % len(arms)
            yield [one_pass() for one_pass in arms[turn:] + arms[:turn]]


def serve(cores: int, prepare: Callable[[], Ask]) -> None:
    """Run a pass for each line of standard input, with the function that ``prepare`` returns after the process is bound
    to its cores.

    Answers use a separate channel, since libraries print to standard output.
    """
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    bind_to_cores(cores)
    run = prepare()
    for _ in sys.stdin:
        channel.write(json.dumps(run()) + "\n")
        channel.flush()


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
