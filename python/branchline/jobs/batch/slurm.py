"""Slurm: each step of a job consists of one or more job arrays, which depend on the arrays of the previous step."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from branchline.base.limits import BATCH_CALL_TIMEOUT_S, SLURM_ARRAY_TASKS
from branchline.errors import BatchError
from branchline.jobs.batch.site_settings import Site
from branchline.jobs.batch.task_steps import (
    JobArray,
    State,
    Submitted,
    TaskState,
    TaskStep,
    TooManyJobsError,
    call,
    script,
)

WHERE = "submit on a login node of the cluster, or install the package slurm-client"
TASK_END_TIMEOUT_S = 30.0
_NODE = '"$SLURMD_NODENAME"'
_EXCLUDE = ("--exclude", "-x")
_RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING", "STAGE_OUT", "SIGNALING", "STOPPED"}
_ENDED = {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "DEADLINE"}
_ENDED |= {"BOOT_FAIL", "REVOKED"}
#: Parts of the reasons that squeue shows for held jobs: "JobHeldUser", "launch failed requeued held" and
#: "JobHoldMaxRequeue", but not "QOSUsageThreshold".
_HELD_WORDS = ("held", "jobhold")
_WORDS = {
    "CANCELLED": "it was cancelled",
    "DEADLINE": "its deadline passed",
    "FAILED": "it ended with exit code {code}",
    "NODE_FAIL": "its node failed",
    "OUT_OF_MEMORY": "it used more memory than requested",
    "PREEMPTED": "it was preempted",
    "TIMEOUT": "it reached its time limit",
}


class Slurm:
    """The batch system Slurm, controlled by its command-line tools."""

    name = "slurm"
    can_submit_from_nodes = True
    passes_environment = True

    def check(self, folder: Path) -> None:
        """Check that the controller answers."""
        del folder
        call(["squeue", "--version"], WHERE)
        call(["squeue", "--noheader", "--me", "--states=RUNNING"], WHERE)

    def submit(
        self, name: str, steps: Sequence[TaskStep], folder: Path, site: Site, excluded: Sequence[str] = ()
    ) -> Submitted:
        """Submit the arrays of each step; if Slurm refuses an array, cancel the arrays already submitted."""
        site = site.with_options(_excluding(site, excluded))
        # Slurm requires that task numbers in an array are less than MaxArraySize.
        size = max(1, self._setting("MaxArraySize") or SLURM_ARRAY_TASKS)
        arrays: list[JobArray] = []
        try:
            for number, step in enumerate(steps):
                before = [one.id for one in arrays if one.step == number - 1]
                for first in range(0, step.tasks, size):
                    words = self._words(f"{name}.{number}", step, range(first, min(first + size, step.tasks)), site)
                    words += [f"--dependency=afterany:{':'.join(before)}"] if before else []
                    path = self._write_script(step, first, folder, site)
                    answer = _sbatch([*words, str(path)])
                    arrays.append(JobArray(answer.strip().split(";")[0], number, first))
        except BatchError:
            self.cancel(Submitted(self.name, tuple(arrays)))
            raise
        return Submitted(self.name, tuple(arrays))

    def room(self) -> int | None:
        """Return the number of tasks that can be submitted before MaxJobCount is reached.

        Beyond this limit, sbatch blocks for minutes and then fails.
        """
        most = self._setting("MaxJobCount")
        if most is None:
            return None
        # MaxJobCount applies to the jobs of all users. Jobs that finished less than MinJobAge ago count but are not
        # listed.
        listed = call(["squeue", "--noheader", "--array", "--all", "--states=all", "--format=%i"], WHERE)
        return max(0, most - 1 - len(listed.splitlines()))

    def task_end_s(self, site: Site) -> float:
        """Return the end of the task's time limit, which is that of the partition if the site sets none."""
        del site
        # Slurm sets this variable since version 23.02.
        known = os.environ.get("SLURM_JOB_END_TIME", "")
        if known.isdecimal():
            return float(known)
        job = os.environ.get("SLURM_JOB_ID")
        if job is None:
            return math.inf
        with suppress(BatchError, ValueError):
            shown = call(["squeue", "--noheader", f"--jobs={job}", "--format=%e"], WHERE, TASK_END_TIMEOUT_S).strip()
            # In the time zone of the machine; "N/A" without a limit.
            return math.inf if shown == "N/A" else datetime.fromisoformat(shown).timestamp()
        return 0.0

    def states(self, submitted: Submitted, timeout_s: float = BATCH_CALL_TIMEOUT_S) -> list[TaskState]:
        """Return the tasks listed by squeue."""
        # Query all jobs of the user: Slurm forgets an array minutes after its end, and squeue then rejects the array's
        # ID.
        answer = call(["squeue", "--noheader", "--me", "--array", "--format=%F %K %T %r"], WHERE, timeout_s)
        arrays = {one.id: one for one in submitted.arrays}
        found = []
        for line in answer.splitlines():
            job, task, state, reason = (*line.split(maxsplit=3), "")[:4]
            if job in arrays and state not in _ENDED and task.isdigit():
                array = arrays[job]
                found.append(TaskState(array.step, array.first_task + int(task), state_of(state, reason), reason))
        return found

    def causes(self, submitted: Submitted, timeout_s: float = BATCH_CALL_TIMEOUT_S) -> dict[tuple[int, int], str]:
        """Return why tasks failed, according to the accounting database.

        Without an accounting database, the reasons come from the controller, which forgets jobs minutes after their
        end.
        """
        causes: dict[tuple[int, int], str] = {}
        for array in submitted.arrays:
            try:
                ended = self._from_accounting(array.id, timeout_s)
            except BatchError:
                ended = self._from_controller(array.id, timeout_s)
            for task, (state, code) in ended.items():
                if state in _WORDS:
                    # Slurm writes an exit code as CODE:SIGNAL.
                    signal = code.partition(":")[2]
                    killed = f"it was killed by signal {signal}" if signal.isdigit() and int(signal) else ""
                    what = killed or _WORDS[state].format(code=code.partition(":")[0])
                    causes[array.step, array.first_task + task] = f"Slurm reports {state}: {what}"
        return causes

    def release_command(self, submitted: Submitted, held: Sequence[TaskState]) -> str:
        """Return a call of scontrol for the arrays of the held tasks."""
        jobs = dict.fromkeys(submitted.array_of(one).id for one in held)
        return f"scontrol release {' '.join(jobs)}"

    def cancel(self, submitted: Submitted) -> None:
        """Cancel the job, starting with the last step, so that no step starts in the meantime."""
        for job in reversed(submitted.ids):
            call(["scancel", "--quiet", job], WHERE)

    def _setting(self, name: str) -> int | None:
        """Return an integer from Slurm's configuration, or None if the setting does not exist."""
        found = re.search(rf"^{name}\s*=\s*(\d+)", call(["scontrol", "show", "config"], WHERE), re.MULTILINE)
        return None if found is None else int(found[1])

    def _write_script(self, step: TaskStep, first: int, folder: Path, site: Site) -> Path:
        """Write the batch script of the array whose first task is ``first``; return its path."""
        words = ("apptainer", "exec", site.image, *step.words) if site.image else step.words
        step = replace(step, words=words)
        if first == 0:
            path = folder / f"{step.label}.sh"
            path.write_text(script(step, site.prologue, "$SLURM_ARRAY_TASK_ID", _NODE))
            return path
        path = folder / f"{step.label}.from{first}.sh"
        log = f"{shlex.quote(str(_log_prefix(step, first)))}.$SLURM_ARRAY_TASK_ID.log"
        path.write_text(script(step, site.prologue, f"$((SLURM_ARRAY_TASK_ID + {first}))", _NODE, log))
        return path

    def _words(self, name: str, step: TaskStep, tasks: range, site: Site) -> list[str]:
        log = step.log_of("%a") if tasks.start == 0 else f"{_log_prefix(step, tasks.start)}.%a.log"
        arguments = [
            "--parsable",
            f"--job-name={name}",
            f"--array=0-{len(tasks) - 1}",
            f"--output={log}",
            "--open-mode=append",
            f"--cpus-per-task={site.cpus}",
        ]
        requested = {"partition": site.partition, "account": site.account, "mem": site.memory, "time": site.time}
        arguments += [f"--{option}={value}" for option, value in requested.items() if value is not None]
        return arguments + [word for option in site.options for word in shlex.split(option)]

    def _from_accounting(self, job: str, timeout_s: float) -> dict[int, tuple[str, str]]:
        words = ["sacct", "--jobs", job, "--allocations", "--parsable2", "--noheader", "-o", _SACCT]
        answer = call(words, WHERE, timeout_s)
        ended = {}
        for line in answer.splitlines():
            name, state, code = line.split("|")[:3]
            task = name.partition("_")[2]
            if task.isdigit():
                ended[int(task)] = (state.split()[0], code)
        return ended

    def _from_controller(self, job: str, timeout_s: float) -> dict[int, tuple[str, str]]:
        try:
            answer = call(["scontrol", "--oneliner", "show", "job", job], WHERE, timeout_s)
        except BatchError:
            return {}
        ended = {}
        for line in answer.splitlines():
            values = dict(re.findall(r"(\w+)=(\S+)", line))
            task = values.get("ArrayTaskId", "")
            if task.isdigit():
                ended[int(task)] = (values.get("JobState", ""), values.get("ExitCode", ""))
        return ended


def state_of(state: str, reason: str) -> State:
    """Return the state of an unfinished task from the state and the reason that squeue shows."""
    if state in _RUNNING:
        return "running"
    return "held" if any(word in reason.lower() for word in _HELD_WORDS) else "queued"


def _excluding(site: Site, nodes: Sequence[str]) -> tuple[str, ...]:
    """Return the option ``--exclude`` for nodes. It overrides the site's ``--exclude``, so it also lists the nodes that
    the site excludes.
    """
    if not nodes:
        return ()
    words = iter([word for option in site.options for word in shlex.split(option)])
    before = [word.partition("=")[2] or next(words, "") for word in words if word.partition("=")[0] in _EXCLUDE]
    return (f"--exclude={shlex.quote(','.join([*filter(None, before[-1:]), *nodes]))}",)


def _log_prefix(step: TaskStep, first: int) -> Path:
    """Return the path prefix of the logs of an array that does not start at task 0. Slurm names these logs by array
    index instead of task number, so the usual path of a task's log is a symbolic link to them.
    """
    return step.logs / f"array.{step.label}.from{first}"


def _sbatch(words: Sequence[str]) -> str:
    try:
        return call(["sbatch", *words], WHERE)
    except BatchError as error:
        refused = next((what for mark, what in _REFUSED.items() if mark in str(error)), None)
        if refused is None:
            raise
        hint = "give fewer --tasks, or wait until some of your jobs have finished"
        raise TooManyJobsError(f"Slurm accepts no more jobs: {refused} ({error})", hint=hint, retry=True) from None


_SACCT = "JobID,State,ExitCode"
# Parts of sbatch's error messages that mean that there are too many jobs.
_REFUSED = {
    "job submit limit": "the limit of your account or its quality of service is reached",
    "SubmitJob": "the limit of your account or its quality of service is reached",
    "temporarily unable to accept job": "its queue is full",
    "Invalid job array specification": "the array has too many tasks",
}
