"""A Ctrl-C that a library swallowed while a picture was drawn still ends the drawing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import hist

from branchline.records.output import write_out
from branchline.records.sensors.record import JobRecord


def test_no_picture_is_begun_once_somebody_asked_to_stop(tmp_path: Path) -> None:
    histograms = {name: hist.new.Reg(3, 0, 1).Double() for name in "abc"}
    result = SimpleNamespace(
        outputs={"wagon": histograms},
        record=JobRecord(status="finished"),
        sensors=[],
        close_clock=lambda: None,
    )
    asked = iter([False, True])
    write_out(tmp_path, result, lambda: next(asked))
    assert result.record.status == "partial"
    assert result.record.interrupted
    rows = [row for row in result.record.results if row.kind == "histogram"]
    assert [row.picture is not None for row in rows] == [True, False, False]
    assert all(row.root for row in rows)
