"""Runs one sub-job of an earlier train again, in this process, so that a debugger can look at it."""

from __future__ import annotations

import pdb
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

from branchline.errors import OptionError
from branchline.jobs.in_process import InThisProcess
from branchline.jobs.subjob import Finished, SubJob
from branchline.reading.datasets.data_file import absolute
from branchline.trains.plan import TrainPlan
from branchline.trains.reuse.stored_train import Learning
from branchline.trains.subjobs.share_result import ShareResult, WagonShare
from branchline.trains.subjobs.shares import Share
from branchline.trains.sums.digests import digest_of
from branchline.trains.wagons.wagons import Wagon
from branchline.trains.worker.train_worker import TrainWork

Debug = Callable[[TracebackType | None], None]


class _DebuggedWagon(Wagon):
    """A wagon whose errors a debugger sees before they stop it."""

    def __init__(self, wagon: Wagon, debug: Debug) -> None:
        vars(self).update(vars(wagon))
        self._debug = debug

    def process(self, events: Any) -> Any:
        try:
            return super().process(events)
        except Exception as error:
            self._debug(error.__traceback__)
            raise


def find_share(plan: TrainPlan, which: str) -> int:
    """The index of a sub-job that is named by its number or by a file that it reads. Raises OptionError."""
    if which.isdecimal():
        if int(which) < len(plan.shares):
            return int(which)
        last = len(plan.shares) - 1
        raise OptionError(f"there is no sub-job {which}", hint=f"give a number from 0 to {last}, or a file")
    path = absolute(which)
    found = [index for index, share in enumerate(plan.shares) if any(one.path == path for one in share.files)]
    if not found:
        raise OptionError(f"no sub-job reads {which}", hint="write the file as job.json does, or give a number")
    if len(found) > 1:
        hint = f"give a number from {found[0]} to {found[-1]}"
        raise OptionError(f"{len(found)} sub-jobs read parts of {which}", hint=hint)
    return found[0]


def rerun_share(plan: TrainPlan, learning: Learning, index: int, *, debug: bool) -> ShareResult:
    """The result of a sub-job, made in this process. With ``debug`` an error opens Python's debugger where it came
    from.
    """
    enter: Debug = pdb.post_mortem
    wagons = tuple(_DebuggedWagon(one, enter) for one in plan.loaded.wagons) if debug else plan.loaded.wagons
    work = TrainWork(
        wagons=wagons,
        named_branches=plan.named_branches,
        step_size=plan.settings.step_size,
        memory_limit_bytes=plan.settings.memory_limit_bytes,
        threads=1,
        skip_bad_files=plan.settings.skip_bad_files,
        access=plan.settings.access,
        seed=plan.settings.seed,
    )
    share = handed_out(plan, learning, index)
    left = [SubJob(index, share.label, share)]
    result = next(
        message.value
        for message in InThisProcess().run(work, lambda *_: left.pop() if left else None)
        if isinstance(message, Finished)
    )
    assert isinstance(result, ShareResult)
    if debug and result.error is not None:
        enter(result.error.error.__traceback__)
    return result


def handed_out(plan: TrainPlan, learning: Learning, index: int) -> Share:
    """A sub-job as the train handed it out."""
    learns = index < learning.shares_count or learning.step is None
    branches = plan.named_branches if learns else learning.branches
    share = learning.share(index, plan.shares[index], branches, plan.faults)
    return replace(share, learn=learns)


def same_as(kept: Mapping[str, WagonShare], result: ShareResult) -> dict[str, bool]:
    """Whether wagons that came through have the kept result, bit for bit; those without a kept one are left out."""
    return {
        name: digest_of(kept[name].total) == digest_of(one.total)
        for name, one in result.wagons.items()
        if one.error is None and name in kept and kept[name].error is None
    }
