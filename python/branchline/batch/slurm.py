"""Slurm: a step is a job array, which depends on the array of the step before."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from branchline.batch.calls import BatchError, call
from branchline.batch.site import Site
from branchline.batch.steps import State, Step, Submitted, TaskState, script

WHERE = "submit on a login node of the cluster, or install its package slurm-client"
_RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING", "STAGE_OUT", "SIGNALING", "STOPPED"}
_ENDED = {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "DEADLINE"}
_ENDED |= {"BOOT_FAIL", "REVOKED"}
_WORDS = {
    "CANCELLED": "it was cancelled",
    "DEADLINE": "its deadline passed",
    "FAILED": "it ended with exit code {code}",
    "NODE_FAIL": "its node failed",
    "OUT_OF_MEMORY": "it took more memory than it had asked for",
    "PREEMPTED": "it was preempted",
    "TIMEOUT": "it reached its time limit",
}


class Slurm:
    """Slurm through its commands."""

    name = "slurm"

    def check(self, folder: Path) -> None:
        """Looks whether the controller answers."""
        del folder
        call(["squeue", "--version"], WHERE)
        call(["squeue", "--noheader", "--me", "--states=RUNNING"], WHERE)

    def submit(self, name: str, steps: Sequence[Step], folder: Path, site: Site) -> Submitted:
        """Submits an array for each step; if one is refused, those before are cancelled."""
        ids: list[str] = []
        for number, step in enumerate(steps):
            path = folder / f"{step.label}.sh"
            words = step.words
            if site.image:
                words = ("apptainer", "exec", site.image, *words)
            path.write_text(script(replace(step, words=words), site.prologue, "$SLURM_ARRAY_TASK_ID"))
            arguments = self._arguments(f"{name}.{number}", step, site)
            if ids:
                arguments += [f"--dependency=afterany:{ids[-1]}"]
            try:
                answer = call(["sbatch", *arguments, str(path)], WHERE)
            except BatchError:
                if ids:
                    self.cancel(Submitted(self.name, tuple(ids)))
                raise
            ids.append(answer.strip().split(";")[0])
        return Submitted(self.name, tuple(ids))

    def states(self, submitted: Submitted) -> list[TaskState]:
        """What squeue lists."""
        # An array that has ended is forgotten after some minutes, and then squeue refuses its number.
        answer = call(["squeue", "--noheader", "--me", "--array", "--format=%F %K %T %r"], WHERE)
        steps = {one: number for number, one in enumerate(submitted.ids)}
        found = []
        for line in answer.splitlines():
            job, task, state, reason = (*line.split(maxsplit=3), "")[:4]
            if job in steps and state not in _ENDED and task.isdigit():
                shown: State = "running" if state in _RUNNING else "queued"
                found.append(TaskState(steps[job], int(task), shown, reason))
        return found

    def causes(self, submitted: Submitted) -> dict[tuple[int, int], str]:
        """What the accounting says, or where there is none the controller, which forgets after some minutes."""
        causes: dict[tuple[int, int], str] = {}
        for step, job in enumerate(submitted.ids):
            try:
                ended = self._from_accounting(job)
            except BatchError:
                ended = self._from_controller(job)
            for task, (state, code) in ended.items():
                if state in _WORDS:
                    causes[step, task] = f"Slurm says {state}: {_WORDS[state].format(code=code)}"
        return causes

    def cancel(self, submitted: Submitted) -> None:
        """The last step first, so that none begins in between."""
        for job in reversed(submitted.ids):
            call(["scancel", "--quiet", job], WHERE)

    def _arguments(self, name: str, step: Step, site: Site) -> list[str]:
        arguments = [
            "--parsable",
            f"--job-name={name}",
            f"--array=0-{step.tasks - 1}",
            f"--output={step.log_of('%a')}",
            "--open-mode=append",
            f"--cpus-per-task={site.cpus}",
        ]
        asked = {"partition": site.partition, "account": site.account, "mem": site.memory, "time": site.time}
        arguments += [f"--{option}={value}" for option, value in asked.items() if value is not None]
        return arguments + [word for option in site.options for word in shlex.split(option)]

    def _from_accounting(self, job: str) -> dict[int, tuple[str, str]]:
        answer = call(["sacct", "--jobs", job, "--allocations", "--parsable2", "--noheader", "-o", _SACCT], WHERE)
        ended = {}
        for line in answer.splitlines():
            name, state, code = line.split("|")[:3]
            task = name.partition("_")[2]
            if task.isdigit():
                ended[int(task)] = (state.split()[0], code)
        return ended

    def _from_controller(self, job: str) -> dict[int, tuple[str, str]]:
        try:
            answer = call(["scontrol", "--oneliner", "show", "job", job], WHERE)
        except BatchError:
            return {}
        ended = {}
        for line in answer.splitlines():
            values = dict(re.findall(r"(\w+)=(\S+)", line))
            task = values.get("ArrayTaskId", "")
            if task.isdigit():
                ended[int(task)] = (values.get("JobState", ""), values.get("ExitCode", ""))
        return ended


_SACCT = "JobID,State,ExitCode"
