"""Convert values for the database tables of jobs: states and records to compressed JSON, and names to clean names."""

from __future__ import annotations

import json
import sqlite3
import zlib
from typing import Literal

from branchline.base.limits import NAME_LENGTH_MAX
from branchline.base.texts import printable


def keep_blob(connection: sqlite3.Connection, job_id: int, column: Literal["state", "record"], content: bytes) -> None:
    """Store a job's state or record (``column``). Replaces an older value."""
    connection.execute(
        f"INSERT INTO job_blobs (job_id, {column}) VALUES (?, ?) ON CONFLICT (job_id)"  # noqa: S608 - constant
        f" DO UPDATE SET {column} = excluded.{column}",
        (job_id, content),
    )


def packed(plain: object) -> bytes:
    """Serialize JSON-compatible data to compressed JSON."""
    return zlib.compress(json.dumps(plain, separators=(",", ":")).encode(errors="surrogatepass"), 6)


def unpacked(content: bytes) -> dict[str, object]:
    """Deserialize the result of ``packed``."""
    found: dict[str, object] = json.loads(zlib.decompress(content))
    return found


def shown_name(text: str) -> str:
    """Return a name without control characters, truncated to the maximum length of names."""
    return printable(text)[:NAME_LENGTH_MAX]
