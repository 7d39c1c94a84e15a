"""Program of a trial's process, which runs user code.

Usage: ``python -m branchline.control.trials.trial_process REQUEST DESCRIPTOR``. The program reads a request from the
file REQUEST and writes an outcome to the open file descriptor DESCRIPTOR.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from branchline.control.trials.trial import Blame, TrialFrame, TrialOutcome, TrialProfile, TrialRequest, WagonTrial
from branchline.errors import BranchlineError
from branchline.trains.testing.cost_forecast import WagonForecast, forecast
from branchline.trains.testing.profiling import Profile


def tried(request: TrialRequest) -> TrialOutcome:
    """Try the wagons of a request. Errors become part of the outcome."""
    try:
        found = forecast(
            request.wagons,
            request.files,
            tree=request.tree or None,
            companions=request.companions or None,
            memory_limit=request.memory_limit,
            profile=request.profile,
        )
    except BranchlineError as error:
        return TrialOutcome(error=f"{type(error).__name__}: {error}")
    return TrialOutcome(
        wagons=[_wagon(one) for one in found.wagons],
        events=found.events,
        workers=found.workers,
        read_s_per_event=found.read_s_per_event,
        seconds=found.seconds,
        memory_bytes=found.memory_bytes,
        output_bytes=found.output_bytes,
        basis=list(found.basis),
        differences=[one.sentence() for one in found.differences],
        # Blame the wagons that change another wagon's data. If they are unknown, blame the wagon with changed results.
        blamed=[Blame(name, one.sentence()) for one in found.differences for name in one.changed_by or (one.wagon,)],
    )


def _wagon(found: WagonForecast) -> WagonTrial:
    error = found.error
    return WagonTrial(
        name=found.name,
        events=found.events,
        first_s=found.first_s,
        seconds_per_event=found.seconds_per_event,
        cpu_s_per_event=found.cpu_s_per_event,
        memory_bytes=found.memory_bytes,
        output_bytes=found.output_bytes,
        output_bytes_forecast=found.output_bytes_forecast,
        output_grows=found.output_grows,
        branches=list(found.branches),
        error="" if error is None else f"{error.type}: {error.message}",
        error_line="" if error is None else error.line,
        traceback="" if error is None else error.traceback,
        profile=None if found.profile is None else _profile(found.profile),
    )


def _profile(found: Profile) -> TrialProfile:
    own = f"{Path.cwd()}/"
    # Remove the package names, which contain hashes of the sources and mean nothing to users.
    frames = [
        TrialFrame(one.function, re.sub(r"^source_[0-9a-f]{16}/", "", one.file.removeprefix(own)), one.line)
        for one in found.frames
    ]
    return TrialProfile(frames, found.stacks, found.seconds)


def main() -> None:
    """Run the request from the command line."""
    request = TrialRequest.from_dict(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    content = json.dumps(tried(request).as_dict()).encode()
    with open(int(sys.argv[2]), "wb") as outcome:
        outcome.write(content)


if __name__ == "__main__":
    main()
