"""Keep files in the page cache while a test counts read calls, because reading evicted pages takes extra calls."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

_LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def in_page_cache(*files: Path) -> Iterator[None]:
    """Keep all pages of these files in memory inside the block. The kernel does not evict pages that are locked with
    mlock(2).
    """
    with ExitStack() as held:
        for one in files:
            address, size_bytes = held.enter_context(_mapped(one))
            _hold(one, address, size_bytes)
        yield


@contextmanager
def in_page_cache_except(file: Path, dropped: range) -> Iterator[None]:
    """Keep a file in memory inside the block, except for a range of whole pages. The kernel may keep these, too."""
    with _mapped(file) as (address, size_bytes):
        _hold(file, address, dropped.start)
        _hold(file, address + dropped.stop, size_bytes - dropped.stop)
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), dropped.start, len(dropped), os.POSIX_FADV_DONTNEED)
        yield


def _hold(file: Path, address: int, size_bytes: int) -> None:
    if _LIBC.mlock(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes)):
        pytest.fail(f"{file} cannot be locked in memory: {os.strerror(ctypes.get_errno())}; see ulimit -l")


def is_in_page_cache(file: Path) -> bool:
    """Return whether all pages of a file are in the page cache, according to mincore(2)."""
    with _mapped(file) as (address, size_bytes):
        pages = (ctypes.c_ubyte * -(-size_bytes // mmap.PAGESIZE))()
        assert _LIBC.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes), pages) == 0
    return all(page & 1 for page in pages)


@contextmanager
def _mapped(file: Path) -> Iterator[tuple[int, int]]:
    """Map a file into memory, and yield the address and the size of the mapping."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
        content = np.frombuffer(mapped, np.uint8)
        try:
            yield content.ctypes.data, len(content)
        finally:
            # A mapping cannot be closed while an array refers to it.
            del content
