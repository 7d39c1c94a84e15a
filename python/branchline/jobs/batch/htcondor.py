"""HTCondor: the steps are nodes of a graph that DAGMan, a job of its own, submits one after the other."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypedDict, cast

from branchline.base.limits import BATCH_TASKS_MAX
from branchline.errors import BatchError
from branchline.jobs.batch.site_settings import Site
from branchline.jobs.batch.task_steps import JobArray, State, Step, Submitted, TaskState, TooManyJobsError, call, script

WHERE = "submit on an access point of the pool, or install HTCondor's package condor"
# Folders of which each job has a copy of its own, by the setting MOUNT_UNDER_SCRATCH of most pools.
OWN_FOLDERS = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - named to be refused
# The name of the node, from the description of the slot, a file that each job has.
_NODE = """"$(sed -n 's/^Machine = "\\(.*\\)"$/\\1/p' "$_CONDOR_MACHINE_AD")\""""
_STATES: dict[int, State] = {1: "queued", 2: "running", 5: "held", 6: "running", 7: "running"}
# Held jobs wait for ever. Those held for memory (code 34, or a policy of the pool that says so) are removed instead, so
# that the graph goes on and they are sent again with more.
_HELD_FOR_MEMORY = (
    "JobStatus == 5 && (HoldReasonCode =?= 34"
    ' || regexp("over (cgroup )?memory limit|memory usage exceeded", HoldReason ?: "", "i"))'
)
# DAGMan submits the jobs, and has only some variables of its user's, unless this setting names more.
_GETENV_OF_DAGMAN = "_CONDOR_DAGMAN_MANAGER_JOB_APPEND_GETENV"
# Variables of the submitting user that jobs get. HTCondor shows them to everybody: paths and options, and no secrets.
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
# Secrets that are values of variables, with what names a file of them instead: any of these will do.
_SECRETS = {
    "BEARER_TOKEN": ("BEARER_TOKEN_FILE",),
    "AWS_SECRET_ACCESS_KEY": (
        *("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"),
        "AWS_WEB_IDENTITY_TOKEN_FILE",
    ),
}
# A path with one of these cannot be written into the files of HTCondor and DAGMan, which split lines into words.
_NOT_IN_PATHS = re.compile(r"[\s\"'\\$]")


class HTCondor:
    """HTCondor through its commands."""

    name = "htcondor"
    can_submit_from_nodes = False

    def check(self, folder: Path) -> None:
        """Checks that the schedd answers, that jobs can see the folder and that no secret is to travel with them."""
        found = _NOT_IN_PATHS.search(str(folder))
        if found is not None:
            raise BatchError(
                f"the path of this folder has {found[0]!r} in it, and HTCondor's files cannot name it",
                path=str(folder),
                hint="choose one without blanks, quotes, backslashes and dollar signs",
            )
        _refuse_secrets()
        call(["condor_version"], WHERE)
        call(["condor_q", "-totals"], WHERE)
        for own in OWN_FOLDERS:
            if folder.resolve().is_relative_to(own):
                raise BatchError(
                    f"this folder lies in {own}, which each job of HTCondor has for itself",
                    path=str(folder),
                    hint="choose one on a file system that all nodes see",
                )

    def submit(
        self, name: str, steps: Sequence[Step], folder: Path, site: Site, excluded: Sequence[str] = ()
    ) -> Submitted:
        """Submits the graph."""
        _refuse_secrets()
        site = site.with_options(_excluding(site, excluded))
        if site.partition is not None:
            raise BatchError("HTCondor has no partitions", hint="write requirements = ... among the options")
        for number, step in enumerate(steps):
            path = folder / f"{step.label}.sh"
            path.write_text(script(step, site.prologue, "$1", _NODE))
            path.chmod(0o755)
            (folder / f"{step.label}.sub").write_text("\n".join(self._description(step, number, path, site)) + "\n")
            if step.afterwards:
                afterwards = _afterwards(folder, step)
                afterwards.write_text(_afterwards_script(step))
                afterwards.chmod(0o755)
        graph = folder / f"{steps[0].label}.dag"
        graph.write_text("\n".join(_graph(steps, folder)) + "\n")
        words = ["condor_submit_dag", "-force", "-notification", "never", "-batch-name", name, *self._waves()]
        named = {_GETENV_OF_DAGMAN: _ENVIRONMENT.replace(" ", "")}
        # By itself DAGMan's ad has BEARER_TOKEN, whatever is named.
        answer = call([*words, str(graph)], WHERE, variables=named, without=_SECRETS)
        found = re.search(r"submitted to cluster (\d+)", answer)
        if found is None:
            raise BatchError(f"condor_submit_dag gave no number: {answer.strip()}")
        return Submitted(self.name, (JobArray(found[1]),))

    def room(self) -> int | None:
        """Any number: DAGMan submits them in waves."""
        return None

    def _waves(self) -> list[str]:
        """The option that keeps the jobs, DAGMan included, below the limit of the schedd for each user."""
        try:
            most = call(["condor_config_val", "-schedd", "MAX_JOBS_PER_OWNER"], WHERE).strip()
        except BatchError:
            return []  # It has no limit.
        if not most.isdigit():
            return []
        own = len(call(["condor_q", "-af", "ClusterId"], WHERE).split())
        left = int(most) - own - 1
        if left < 1:
            what = f"HTCondor takes no more jobs: you have {own}, and MAX_JOBS_PER_OWNER is {most}"
            raise TooManyJobsError(what, hint="wait until jobs of yours have ended", retry=True)
        return ["-maxjobs", str(left)]

    def states(self, submitted: Submitted) -> list[TaskState]:
        """The tasks that condor_q lists, and one for all that DAGMan has not submitted yet."""
        attributes = ["JobStatus", "BranchlineStep", "BranchlineTask", "HoldReason", "HoldReasonCode"]
        found = []
        for one in _ads("condor_q", submitted, attributes):
            state = _STATES.get(one.get("JobStatus", 0))
            if state is not None and "BranchlineTask" in one:
                step, task = int(one["BranchlineStep"]), int(one["BranchlineTask"])
                found.append(TaskState(step, task, state, str(one.get("HoldReason", ""))))
        manager = call(["condor_q", submitted.ids[0], "-af", "JobStatus"], WHERE).strip()
        if manager and not any(one.step >= 0 for one in found):
            found.append(TaskState(-1, 0, "queued", "DAGMan has not submitted it yet"))
        return found

    def causes(self, submitted: Submitted) -> dict[tuple[int, int], str]:
        """From the history of ended jobs."""
        attributes = ["BranchlineStep", "BranchlineTask", "ExitBySignal", "ExitSignal", "ExitCode", "RemoveReason"]
        attributes += ["HoldReason", "LastHoldReason"]
        causes = {}
        try:
            history = list(_ads("condor_history", submitted, attributes, "-limit", str(2 * BATCH_TASKS_MAX)))
        except BatchError:
            return {}
        # The newest come first.
        for one in reversed(history):
            if "BranchlineTask" not in one:
                continue
            cause = ""
            held = one.get("HoldReason") or one.get("LastHoldReason")
            if held and "PeriodicRemove" in one.get("RemoveReason", ""):
                cause = f"HTCondor says that it was held, and then removed: {held}"
            elif one.get("RemoveReason"):
                cause = f"HTCondor says that it was removed: {one['RemoveReason']}"
            elif one.get("ExitBySignal"):
                cause = f"HTCondor says that it was killed by signal {one.get('ExitSignal')}"
            elif one.get("ExitCode"):
                cause = f"HTCondor says that it ended with exit code {one['ExitCode']}"
            causes[int(one["BranchlineStep"]), int(one["BranchlineTask"])] = cause
        return {key: cause for key, cause in causes.items() if cause}

    def cancel(self, submitted: Submitted) -> None:
        """Removes the graph, and with it its jobs."""
        for number in submitted.ids:
            if call(["condor_q", number, "-af", "ClusterId"], WHERE).strip():
                call(["condor_rm", number], WHERE)

    def _description(self, step: Step, number: int, path: Path, site: Site) -> Iterator[str]:
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
    """Raises BatchError for a secret that jobs need and could only have in their environment."""
    for secret, files in _SECRETS.items():
        if os.environ.get(secret) and not any(os.environ.get(one) for one in files):
            raise BatchError(
                f"HTCondor shows the environment of jobs to everybody, so {secret} does not travel in it",
                hint=f"write it to a file that all nodes see, and name that in {files[0]}; or unset {secret}",
            )


def _excluding(site: Site, nodes: Sequence[str]) -> tuple[str, ...]:
    """The requirements that leave nodes out. They come last and replace those of the site, so they have them, too."""
    if not nodes:
        return ()
    own = [value for name, _, value in (one.partition("=") for one in site.options) if name.strip() == "requirements"]
    wanted = [f"({one.strip()})" for one in own[-1:]] + [f'(Machine =!= "{node}")' for node in nodes]
    return (f"requirements = {' && '.join(wanted)}",)


def _graph(steps: Sequence[Step], folder: Path) -> Iterator[str]:
    """A node for each task: DAGMan removes the other tasks of a node when one of them fails."""
    before: list[str] = []
    for number, step in enumerate(steps):
        names = [f"step{number}task{task}" for task in range(step.tasks)]
        for task, name in enumerate(names):
            yield f"JOB {name} {folder / f'{step.label}.sub'}"
            yield f'VARS {name} task="{task}"'
            # A task that fails is no reason not to begin the next step, which says what is missing.
            yield f"SCRIPT POST {name} {_afterwards(folder, step) if step.afterwards else '/bin/true'}"
            if step.afterwards:
                yield f"RETRY {name} 1"
        if before:
            yield f"PARENT {' '.join(before)} CHILD {' '.join(names)}"
        before = names


def _afterwards(folder: Path, step: Step) -> Path:
    return folder / f"{step.label}.afterwards.sh"


def _afterwards_script(step: Step) -> str:
    log = shlex.quote(str(step.logs / f"{step.label}.afterwards.log"))
    return f"#!/bin/bash\nexec {shlex.join(step.afterwards)} > {log} 2>&1\n"


class _JobAd(TypedDict, total=False):
    """The attributes of a job that are requested."""

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


def _ads(command: str, submitted: Submitted, attributes: Sequence[str], *words: str) -> list[_JobAd]:
    """The jobs of a graph as the command lists them."""
    condition = f"DAGManJobId == {submitted.ids[0]}"
    answer = call([command, "-constraint", condition, "-json", "-attributes", ",".join(attributes), *words], WHERE)
    try:
        found = json.loads(answer or "[]")
    except ValueError:
        raise BatchError(f"{command} gave no JSON: {answer[:200]}", retry=True) from None
    return [cast(_JobAd, one) for one in found if isinstance(one, dict)]
