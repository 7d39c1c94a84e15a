"""What counts as silence of a worker."""

from __future__ import annotations

import subprocess

from branchline.jobs.workers.heartbeat import HeartbeatReader


def test_the_time_that_a_worker_waited_for_the_job_is_no_silence() -> None:
    # It starts with less than a tick of CPU time: Python would be seen to compute meanwhile.
    sleeping = subprocess.Popen(["sleep", "100"])
    reader = HeartbeatReader()

    def is_silent(now_s: float) -> bool:
        return reader.silence(sleeping.pid, now_s, 0.5, 0.5) is not None

    try:
        assert not is_silent(0.0)  # its first step
        assert not is_silent(0.1)  # from here on it is known how much it computes
        reader.heard()
        assert not is_silent(1.5)
        assert not is_silent(1.9)
        assert is_silent(2.1)
    finally:
        sleeping.kill()
        sleeping.wait()
        reader.handed_over()
