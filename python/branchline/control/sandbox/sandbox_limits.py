"""Bounds of trains whose code is of others. An operator of the server can set those of the sandbox."""

from __future__ import annotations

from dataclasses import dataclass

from branchline.base.limits import TRIAL_SPACE_BYTES, parse_bytes
from branchline.control.sandbox.sandbox import SandboxLimits
from branchline.errors import OptionError

# A train in the sandbox: what all its processes take together, for how long, and what it may write.
SANDBOX_MEMORY = "64 GiB"
SANDBOX_MEMORY_BYTES = parse_bytes(SANDBOX_MEMORY)
SANDBOX_TASKS = 2000
SANDBOX_HOURS = 24.0
SANDBOX_SPACE = "100 GiB"
SANDBOX_RESULTS_BYTES = parse_bytes(SANDBOX_SPACE)
# CPU time of one of its processes: as if it had 8 threads all the time.
SANDBOX_THREADS_OF_PROCESS = 8
# How often it is looked at, and its folder, of which each file is asked.
SANDBOX_LOOK_S, SANDBOX_FOLDER_LOOK_S = 0.5, 5.0
# A train that is cancelled keeps what is done, and writes that within this time.
SANDBOX_END_S = 30.0
# Files in the folder of a train: tables have pieces for each sub-job while they are written.
WRITTEN_FILES_MAX = 200_000

# Results are taken over whole: so many files and bytes, and each name with so many characters, within this time.
TAKEN_FILES_MAX = 20_000
TAKEN_BYTES_MAX = SANDBOX_RESULTS_BYTES
TAKEN_NAME_MAX = 1000
TAKEN_S = 1800.0
TAKEN_PIECE_BYTES = 2**20

# Calls of a process of another user. It may ask a batch system twice, which has a minute for each answer.
OWNER_CALL_S = 180.0
OWNER_ANSWER_MAX_BYTES = 32 * 2**20
# What is sent to it: the sources of all wagons of a train.
OWNER_REQUEST_MAX_BYTES = 512 * 2**20
# Trains of other users that are looked at once: one whose process hangs must not keep others waiting.
OWNER_LOOKS_AT_ONCE = 8
# Who runs a train again waits so long for a look at it, in which its results may be taken over.
TRAIN_IN_HAND_S = 10.0


@dataclass(frozen=True)
class TrainLimits:
    """What all processes of a train in the sandbox may take together: memory, their number, hours, and the bytes of
    its results.
    """

    memory_bytes: int = SANDBOX_MEMORY_BYTES
    tasks: int = SANDBOX_TASKS
    hours: float = SANDBOX_HOURS
    results_bytes: int = SANDBOX_RESULTS_BYTES

    def check(self) -> None:
        """Raises OptionError for what no train could run with."""
        if min(self.memory_bytes, self.tasks, self.hours, self.results_bytes) <= 0:
            raise OptionError("a train needs some memory, processes, time and space")

    def of_processes(self) -> SandboxLimits:
        """Those that the kernel has for each process."""
        cpu_s = int(3600 * self.hours * SANDBOX_THREADS_OF_PROCESS)
        return SandboxLimits(self.memory_bytes, max(cpu_s, 1), self.tasks, self.results_bytes, TRIAL_SPACE_BYTES)
