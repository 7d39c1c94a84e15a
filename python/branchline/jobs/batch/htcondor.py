"""HTCondor: each step of a job is a set of nodes in a DAG. DAGMan, which is itself a job, submits the steps in
order.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypedDict, cast

from branchline.base.limits import BATCH_CALL_TIMEOUT_S, BATCH_TASKS_MAX
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

WHERE = "submit on an access point of the pool, or install the package condor"
# Directories that are private to each job in most pools, which list them in MOUNT_UNDER_SCRATCH.
OWN_FOLDERS = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - compared with, never written to
# Shell expression for the node's name, read from the machine ad, a file that HTCondor gives every job.
_NODE = """"$(sed -n 's/^Machine = "\\(.*\\)"$/\\1/p' "$_CONDOR_MACHINE_AD")\""""
_STATES: dict[int, State] = {1: "queued", 2: "running", 5: "held", 6: "running", 7: "running"}
# Matches jobs that are held because of their memory use (code 34, or the text of a pool's policy). Held jobs wait
# indefinitely. These jobs are removed instead, so that the DAG continues, and Branchline can resubmit them with more
# memory.
_HELD_FOR_MEMORY = (
    "JobStatus == 5 && (HoldReasonCode =?= 34"
    ' || regexp("over (cgroup )?memory limit|memory usage exceeded", HoldReason ?: "", "i"))'
)
# Name of the setting with additional environment variables for jobs. By default, DAGMan passes only a few of the user's
# variables.
_GETENV_OF_DAGMAN = "_CONDOR_DAGMAN_MANAGER_JOB_APPEND_GETENV"
# Environment variables that jobs inherit. HTCondor shows the values to all users, so the list has paths and options but
# no secrets.
_ENVIRONMENT = ", ".join(
    (
        *("HOME", "PATH", "LANG", "X509_*", "KRB5*", "XRD_*", "Xrd*", "!XrdSecCREDS", "BEARER_TOKEN_FILE"),
        *("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"),
        *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL*", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"),
        *("AWS_NO_SIGN_REQUEST", "AWS_SKIP_SIGNATURE"),
        *("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME"),
        *("BRANCHLINE_*", "!BRANCHLINE_*TOKEN"),
    )
)
# Environment variables that hold secrets, each with the variables that can provide the secret from a file instead.
_SECRETS = {
    "BEARER_TOKEN": ("BEARER_TOKEN_FILE",),
    "AWS_SECRET_ACCESS_KEY": (
        *("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"),
        "AWS_WEB_IDENTITY_TOKEN_FILE",
    ),
}
# Matches characters that paths must not contain, because HTCondor and DAGMan would split or expand the paths there.
_NOT_IN_PATHS = re.compile(r"[\s\"'\\$]")


class HTCondor:
    """The batch system HTCondor, controlled by its command-line tools."""

    name = "htcondor"
    can_submit_from_nodes = False
    # False, because HTCondor shows the environment of jobs to all users.
    passes_environment = False

    def check(self, folder: Path) -> None:
        """Check that the schedd answers, that jobs can access the folder, and that jobs do not need a secret that is
        only in an environment variable.
        """
        found = _NOT_IN_PATHS.search(str(folder))
        if found is not None:
            raise BatchError(
                f"the path of this folder contains {found[0]!r}, which submit files of HTCondor cannot express",
                path=str(folder),
                hint="choose a path without spaces, quotes, backslashes and dollar signs",
            )
        _refuse_secrets()
        call(["condor_version"], WHERE)
        call(["condor_q", "-totals"], WHERE)
        for own in OWN_FOLDERS:
            if folder.resolve().is_relative_to(own):
                raise BatchError(
                    f"this folder is inside {own}, which is private to each HTCondor job",
                    path=str(folder),
                    hint="choose a folder on a file system shared by all nodes",
                )

    def submit(
        self, name: str, steps: Sequence[TaskStep], folder: Path, site: Site, excluded: Sequence[str] = ()
    ) -> Submitted:
        """Submit all steps as one DAG."""
        _refuse_secrets()
        site = site.with_options(_excluding(site, excluded))
        if site.partition is not None:
            raise BatchError("HTCondor has no partitions", hint="set requirements = ... in options")
        for number, step in enumerate(steps):
            path = folder / f"{step.label}.sh"
            path.write_text(script(step, site.prologue, "$1", _NODE))
            path.chmod(0o755)
            (folder / f"{step.label}.sub").write_text("\n".join(self._description(step, number, path, site)) + "\n")
            if step.afterwards:
                afterwards = _afterwards(folder, step)
                log = shlex.quote(str(step.logs / f"{step.label}.afterwards.log"))
                afterwards.write_text(f"#!/bin/bash\nexec {shlex.join(step.afterwards)} > {log} 2>&1\n")
                afterwards.chmod(0o755)
        graph = folder / f"{steps[0].label}.dag"
        graph.write_text("\n".join(_graph(steps, folder)) + "\n")
        words = ["condor_submit_dag", "-force", "-notification", "never", "-batch-name", name, *self._waves()]
        named = {_GETENV_OF_DAGMAN: _ENVIRONMENT.replace(" ", "")}
        # Secrets are removed from the environment, because DAGMan writes BEARER_TOKEN to its job ad, whatever `getenv`
        # lists.
        answer = call([*words, str(graph)], WHERE, variables=named, without=_SECRETS)
        found = re.search(r"submitted to cluster (\d+)", answer)
        if found is None:
            raise BatchError(f"condor_submit_dag printed no cluster number: {answer.strip()}")
        return Submitted(self.name, (JobArray(found[1]),))

    def room(self) -> int | None:
        """Return None: DAGMan throttles its own submissions."""
        return None

    def _waves(self) -> list[str]:
        """Return the option that keeps the user's jobs, including DAGMan, within MAX_JOBS_PER_OWNER; empty without this
        limit.
        """
        try:
            most = call(["condor_config_val", "-schedd", "MAX_JOBS_PER_OWNER"], WHERE).strip()
        except BatchError:
            return []  # no limit is configured
        if not most.isdigit():
            return []
        own = len(call(["condor_q", "-af", "ClusterId"], WHERE).split())
        left = int(most) - own - 1
        if left < 1:
            what = f"HTCondor accepts no more jobs: you have {own}, and MAX_JOBS_PER_OWNER is {most}"
            raise TooManyJobsError(what, hint="wait until some of your jobs have finished", retry=True)
        return ["-maxjobs", str(left)]

    def task_end_s(self, site: Site) -> float:
        """Return 0 if the site limits the duration of jobs, because HTCondor does not tell a job when it began."""
        is_limited = site.time is not None or any("duration" in one.lower() for one in site.options)
        return 0.0 if is_limited else math.inf

    def states(self, submitted: Submitted, timeout_s: float = BATCH_CALL_TIMEOUT_S) -> list[TaskState]:
        """Return the tasks listed by condor_q, or a single queued placeholder if DAGMan has not submitted any tasks
        yet.
        """
        attributes = ["JobStatus", "BranchlineStep", "BranchlineTask", "HoldReason", "HoldReasonCode"]
        found = []
        for one in _ads("condor_q", submitted, attributes, timeout_s=timeout_s):
            state = _STATES.get(one.get("JobStatus", 0))
            if state is not None and "BranchlineTask" in one:
                step, task = int(one["BranchlineStep"]), int(one["BranchlineTask"])
                found.append(TaskState(step, task, state, str(one.get("HoldReason", ""))))
        manager = call(["condor_q", submitted.ids[0], "-af", "JobStatus"], WHERE, timeout_s).strip()
        if manager and not any(one.step >= 0 for one in found):
            found.append(TaskState(-1, 0, "queued", "DAGMan has not submitted it yet"))
        return found

    def causes(self, submitted: Submitted, timeout_s: float = BATCH_CALL_TIMEOUT_S) -> dict[tuple[int, int], str]:
        """Return why tasks failed, according to the job history."""
        attributes = ["BranchlineStep", "BranchlineTask", "ExitBySignal", "ExitSignal", "ExitCode", "RemoveReason"]
        attributes += ["HoldReason", "LastHoldReason"]
        causes = {}
        try:
            limit = ("-limit", str(2 * BATCH_TASKS_MAX))
            history = _ads("condor_history", submitted, attributes, *limit, timeout_s=timeout_s)
        except BatchError:
            return {}
        # Reversed, because condor_history lists the newest jobs first and the last entry of a task counts.
        for one in reversed(history):
            if "BranchlineTask" not in one:
                continue
            cause = ""
            held = one.get("HoldReason") or one.get("LastHoldReason")
            if held and "PeriodicRemove" in one.get("RemoveReason", ""):
                cause = f"HTCondor reports that it was held and then removed: {held}"
            elif one.get("RemoveReason"):
                cause = f"HTCondor reports that it was removed: {one['RemoveReason']}"
            elif one.get("ExitBySignal"):
                cause = f"HTCondor reports that it was killed by signal {one.get('ExitSignal')}"
            elif one.get("ExitCode"):
                cause = f"HTCondor reports that it exited with code {one['ExitCode']}"
            causes[int(one["BranchlineStep"]), int(one["BranchlineTask"])] = cause
        return {key: cause for key, cause in causes.items() if cause}

    def release_command(self, submitted: Submitted, held: Sequence[TaskState]) -> str:
        """Return a call of condor_release for all jobs of the DAG, which changes only held jobs."""
        del held
        return f"condor_release -constraint 'DAGManJobId == {submitted.ids[0]}'"

    def cancel(self, submitted: Submitted) -> None:
        """Remove the DAG, which also removes its jobs."""
        for number in submitted.ids:
            if call(["condor_q", number, "-af", "ClusterId"], WHERE).strip():
                call(["condor_rm", number], WHERE)

    def _description(self, step: TaskStep, number: int, path: Path, site: Site) -> Iterator[str]:
        yield "universe = vanilla"
        yield f"executable = {path}"
        yield "arguments = $(task)"
        yield f"output = {step.log_of('$(task)')}"
        yield f"error = {step.log_of('$(task)')}"
        yield f"getenv = {_ENVIRONMENT}"
        yield "should_transfer_files = NO"
        yield f"request_cpus = {site.cpus}"
        yield f"periodic_remove = {_HELD_FOR_MEMORY}"
        yield f"My.BranchlineStep = {number}"
        yield "My.BranchlineTask = $(task)"
        if site.memory is not None:
            yield f"request_memory = {site.memory}"
        if site.time is not None:
            yield f"allowed_execute_duration = {site.time}"
        if site.image is not None:
            yield f"container_image = {site.image}"
        if site.account is not None:
            yield f"accounting_group = {site.account}"
        yield from site.options
        yield "queue 1"


def _refuse_secrets() -> None:
    """Raise BatchError if a secret that jobs need is only in an environment variable."""
    for secret, files in _SECRETS.items():
        if os.environ.get(secret) and not any(os.environ.get(one) for one in files):
            raise BatchError(
                f"HTCondor shows the environment of jobs to all users, so {secret} is not passed to them",
                hint=f"write it to a file that all nodes can read and set {files[0]} to its path; or unset {secret}",
            )


def _excluding(site: Site, nodes: Sequence[str]) -> tuple[str, ...]:
    """Return the option ``requirements`` that excludes nodes. It overrides the site's option of this name, so it
    repeats the site's conditions.
    """
    if not nodes:
        return ()
    own = [value for name, _, value in (one.partition("=") for one in site.options) if name.strip() == "requirements"]
    wanted = [f"({one.strip()})" for one in own[-1:]] + [f'(Machine =!= "{node}")' for node in nodes]
    return (f"requirements = {' && '.join(wanted)}",)


def _graph(steps: Sequence[TaskStep], folder: Path) -> Iterator[str]:
    """Generate a DAG. Each task is a separate node, because DAGMan removes all tasks of a node if one of them fails."""
    before: list[str] = []
    for number, step in enumerate(steps):
        names = [f"step{number}task{task}" for task in range(step.tasks)]
        for task, name in enumerate(names):
            yield f"JOB {name} {folder / f'{step.label}.sub'}"
            yield f'VARS {name} task="{task}"'
            # Without a POST script, DAGMan would not start the next step after a failed task. That step reports missing
            # results.
            yield f"SCRIPT POST {name} {_afterwards(folder, step) if step.afterwards else '/bin/true'}"
            if step.afterwards:
                yield f"RETRY {name} 1"
        if before:
            yield f"PARENT {' '.join(before)} CHILD {' '.join(names)}"
        before = names


def _afterwards(folder: Path, step: TaskStep) -> Path:
    return folder / f"{step.label}.afterwards.sh"


class _JobAd(TypedDict, total=False):
    """The queried attributes of a job."""

    JobStatus: int
    BranchlineStep: int
    BranchlineTask: int
    HoldReason: str
    HoldReasonCode: int
    LastHoldReason: str
    ExitBySignal: bool
    ExitSignal: int
    ExitCode: int
    RemoveReason: str


def _ads(command: str, submitted: Submitted, attributes: Sequence[str], *words: str, timeout_s: float) -> list[_JobAd]:
    """Return the attributes of the DAG's jobs, as listed by ``command``."""
    condition = f"DAGManJobId == {submitted.ids[0]}"
    words = ("-constraint", condition, "-json", "-attributes", ",".join(attributes), *words)
    answer = call([command, *words], WHERE, timeout_s)
    try:
        found = json.loads(answer or "[]")
    except ValueError:
        raise BatchError(f"{command} printed invalid JSON: {answer[:200]}", retry=True) from None
    return [cast(_JobAd, one) for one in found if isinstance(one, dict)]
