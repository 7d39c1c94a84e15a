"""python -m tests.faults.one_train PLACE KIND: runs a train with a faulty wagon, and prints what came of it as JSON.

It is a process of its own, since without workers some kinds end it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.faults.kinds import wagons

import branchline
from branchline.trains.subjobs import shares
from branchline.trains.sums.digests import digest_of

#: In place of a place: the wagons are tried, as by `branchline test`.
TEST = "test"
#: Seconds of silence after which a worker is ended.
TIMEOUT_S = 1.5


def main() -> None:
    place, kind = sys.argv[1], sys.argv[2] or None
    if place == TEST:
        found = branchline.forecast(wagons(kind), "data/*.root", tree="events").differences
        print(json.dumps({one.wagon: list(one.changed_by) for one in found}))
        return
    out = os.dup(1)
    settings: dict[str, Any] = {"worker_timeout": TIMEOUT_S}
    if place.startswith("dask="):
        settings["on"] = place
    else:
        settings["workers"] = int(place)
    # Every file is a sub-job of its own.
    shares.SUBJOB_MIN_BYTES = max(one.stat().st_size for one in Path("data").iterdir())
    result = branchline.run(wagons(kind), "data/*.root", tree="events", step_size=200, allow_partial=True, **settings)
    faults = {one.name: [one.error.type, one.error.message] for one in result.record.wagons if one.error is not None}
    digests = {name: digest_of(output) for name, output in result.outputs.items() if name != "faulty"}
    errors = [*(one.message for one in result.record.errors), *(one.cause for one in result.record.missing)]
    answer = {"faults": faults, "digests": digests, "errors": errors}
    os.write(out, (json.dumps(answer) + "\n").encode())
    os._exit(0)


if __name__ == "__main__":
    main()
