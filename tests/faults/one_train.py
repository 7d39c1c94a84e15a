"""python -m tests.faults.one_train PLACE KIND: runs a train with a faulty wagon, and prints what came of it as JSON.

It is a process of its own, since without workers some kinds end it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.faults.kinds import wagons

import branchline
from branchline.records.sensors.record import JobRecord
from branchline.trains.subjobs import shares
from branchline.trains.sums.digests import digest_of

#: In place of a place: the wagons are tried, as by `branchline test`.
TEST = "test"
#: Seconds of silence after which a worker is ended.
TIMEOUT_S = 1.5


def each_file_is_a_subjob() -> None:
    """Small files would share one."""
    shares.SUBJOB_MIN_BYTES = max(one.stat().st_size for one in Path("data").iterdir())


def answer_of(outputs: Mapping[str, Any], record: JobRecord) -> dict[str, Any]:
    """The faults of wagons, the digests of the results of those that are not faulty, and the errors of the train."""
    faults = {one.name: [one.error.type, one.error.message] for one in record.wagons if one.error is not None}
    digests = {name: digest_of(outputs[name]) for name in outputs if name != "faulty"}
    errors = [*(one.message for one in record.errors), *(one.cause for one in record.missing)]
    return {"faults": faults, "digests": digests, "errors": errors}


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
    each_file_is_a_subjob()
    result = branchline.run(wagons(kind), "data/*.root", tree="events", step_size=200, allow_partial=True, **settings)
    os.write(out, (json.dumps(answer_of(result.outputs, result.record)) + "\n").encode())
    os._exit(0)


if __name__ == "__main__":
    main()
