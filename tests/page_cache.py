"""Files held in the kernel's page cache while a test counts calls: reads of what is dropped take calls more."""

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
    """Inside the block all pages of these files are in memory: the kernel drops none that mlock(2) holds."""
    with ExitStack() as held:
        for one in files:
            address, size_bytes = held.enter_context(_mapped(one))
            _hold(one, address, size_bytes)
        yield


@contextmanager
def in_page_cache_except(file: Path, dropped: range) -> Iterator[None]:
    """Inside the block all bytes of a file are in memory but those of a range of whole pages, if the kernel lets go."""
    with _mapped(file) as (address, size_bytes):
        _hold(file, address, dropped.start)
        _hold(file, address + dropped.stop, size_bytes - dropped.stop)
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), dropped.start, len(dropped), os.POSIX_FADV_DONTNEED)
        yield


def _hold(file: Path, address: int, size_bytes: int) -> None:
    if _LIBC.mlock(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes)):
        pytest.fail(f"{file} cannot be held in memory: {os.strerror(ctypes.get_errno())}; see ulimit -l")


def is_in_page_cache(file: Path) -> bool:
    """Whether the kernel has all pages of a file in memory, by mincore(2)."""
    with _mapped(file) as (address, size_bytes):
        pages = (ctypes.c_ubyte * -(-size_bytes // mmap.PAGESIZE))()
        assert _LIBC.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes), pages) == 0
    return all(page & 1 for page in pages)


@contextmanager
def _mapped(file: Path) -> Iterator[tuple[int, int]]:
    """The address and the size of a file in memory."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
        content = np.frombuffer(mapped, np.uint8)
        try:
            yield content.ctypes.data, len(content)
        finally:
            # A map with a view of it cannot be closed.
            del content
