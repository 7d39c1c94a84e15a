"""The first file of a train is opened once, also where it is far: to learn what wagons read, and to read it."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import awkward as ak
import pytest
from tests.stores.conftest import Served
from tests.stores.scripted import http_request, scripted

import branchline
from branchline.writing.merging.convert import convert


class Sums:
    """Touches a branch that nobody named."""

    name = "sums"

    def process(self, events: Any) -> dict[str, float]:
        return {"px": float(ak.sum(events.px)), "events": len(events)}


class Fails:
    """Ends at the first events, and with it the reading."""

    name = "fails"

    def process(self, events: Any) -> float:
        raise ValueError(f"none of {len(events)} events")


class Ranges:
    """Serves one file, and keeps the ranges that were requested of it."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.asked: list[range] = []

    def __call__(self, _: int, connection: socket.socket) -> None:
        while (headers := http_request(connection)) is not None:
            found = re.fullmatch(r"bytes=(\d+)-(\d+)", headers["range"])
            assert found is not None, headers
            one = range(int(found[1]), min(int(found[2]) + 1, len(self.content)))
            self.asked.append(one)
            head = [
                "HTTP/1.1 206 Partial Content",
                f"Content-Range: bytes {one.start}-{one.stop - 1}/{len(self.content)}",
                f"Content-Length: {len(one)}",
                'ETag: "1"',
            ]
            connection.sendall("\r\n".join([*head, "", ""]).encode() + self.content[one.start : one.stop])


@pytest.mark.parametrize("ending", ["root", "parquet"])
@pytest.mark.parametrize("access", ["planned", "prefetch", "plain"])
def test_it_is_opened_once(served: Served, tmp_path: Path, ending: str, access: str) -> None:
    path = served.data / "events.root"
    if ending == "parquet":
        path = tmp_path / "events.parquet"
        convert(served.data / "events.root", path)
    expected = branchline.run([Sums()], [str(path)], workers=0)
    ranges = Ranges(path.read_bytes())
    with scripted(ranges) as server:
        url = f"http://127.0.0.1:{server.port}/events.{ending}"
        result = branchline.run([Sums()], [url], workers=0, access=access)
    assert result.outputs == expected.outputs
    asked = [one for one in ranges.asked if len(one) > 1]
    # Opening reads the head of a ROOT file, and the tail of a Parquet file.
    at_opening = 0 if ending == "root" else len(ranges.content) - 1
    assert sum(at_opening in one for one in asked) == 1, ranges.asked
    # The others, of a byte, ask for the size of the file: for the dataset, and where the opening does not tell it.
    assert 1 <= len(ranges.asked) - len(asked) <= 2
    [record] = result.record.files
    assert (record.read_calls, record.bytes_read) == (len(asked), sum(map(len, asked)))
    assert record.events == record.entries == result.outputs["sums"]["events"]
    assert record.baskets == sum(one.baskets for one in result.record.branches)


def test_what_was_read_is_counted_where_nothing_follows(served: Served) -> None:
    ranges = Ranges((served.data / "events.root").read_bytes())
    with scripted(ranges) as server, pytest.warns(UserWarning, match="none of"):
        result = branchline.run([Fails()], [f"http://127.0.0.1:{server.port}/events.root"], workers=0)
    [record] = result.record.files
    assert record.bytes_read > 0
    assert record.read_calls <= len(ranges.asked) - 1
