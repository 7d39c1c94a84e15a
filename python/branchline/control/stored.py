"""How states and records of jobs are stored: as compressed JSON; and names from outside, as pages may show them."""

from __future__ import annotations

import json
import sqlite3
import zlib
from typing import Literal

from branchline.base.limits import NAME_LENGTH_MAX
from branchline.base.texts import printable


def keep_blob(connection: sqlite3.Connection, job_id: int, column: Literal["state", "record"], content: bytes) -> None:
    """Keeps the state or the record of a job in the place of what was there."""
    connection.execute(
        f"INSERT INTO job_blobs (job_id, {column}) VALUES (?, ?) ON CONFLICT (job_id)"  # noqa: S608 - ours
        f" DO UPDATE SET {column} = excluded.{column}",
        (job_id, content),
    )


def packed(plain: object) -> bytes:
    """Plain data as compressed JSON."""
    return zlib.compress(json.dumps(plain, separators=(",", ":")).encode(errors="surrogatepass"), 6)


def unpacked(content: bytes) -> dict[str, object]:
    """What ``packed`` was given."""
    found: dict[str, object] = json.loads(zlib.decompress(content))
    return found


def shown_name(text: str) -> str:
    """A name without control characters, cut where it is too long."""
    return printable(text)[:NAME_LENGTH_MAX]
