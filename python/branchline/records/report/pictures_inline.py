"""The histograms' pictures inside the report, so that it stays one file."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from branchline.records.diagnosis.figures import partial_note
from branchline.records.sensors.record import JobRecord

#: More pictures, or more bytes of them, would make a page too long to read and too large for mail servers.
INLINE_MAX = 48
INLINE_BYTES_MAX = 8_000_000


class Picture(NamedTuple):
    """One picture: whose histogram it shows, its file, its content as a data URI, and what it lacks."""

    wagon: str
    name: str
    file: str
    source: Markup
    partial: str


class Gallery(NamedTuple):
    """The pictures on the page, and how many more are only files next to it."""

    shown: list[Picture]
    beside_count: int


def gallery(job: JobRecord, out_dir: Path) -> Gallery:
    """Return the first pictures of the job, read from ``out_dir``."""
    drawn = [(result, result.picture) for result in job.results if result.picture]
    shown: list[Picture] = []
    room_bytes = INLINE_BYTES_MAX
    for result, picture in drawn[:INLINE_MAX]:
        try:
            content = (out_dir / picture).read_bytes()
        except OSError:
            continue
        room_bytes -= len(content)
        if room_bytes < 0:
            break
        # Base64 has no letter that means something in HTML.
        source = Markup("data:image/svg+xml;base64," + base64.b64encode(content).decode("ascii"))  # noqa: S704
        shown.append(Picture(result.wagon, result.key, picture, source, partial_note(job, result.wagon)))
    return Gallery(shown, len(drawn) - len(shown))
