"""Memory that arrays leave behind, kept for the next ones."""

from __future__ import annotations

import ctypes
import functools
import os

from branchline.base.limits import FREED_MEMORY_KEPT_BYTES, LARGE_BLOCK_BYTES

# The names that malloc.h has for these settings.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# The names that an environment has for them.
CHOSEN_BY_USERS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


@functools.cache
def keep_freed_memory() -> bool:
    """Has this process keep some of the memory that is freed, and tells whether it does.

    Wagons make and drop arrays of some MB all the time. The C library gives each back to the system and asks for the
    next, whose pages the system has to clear. Nothing is done with another C library than that of GNU, or where the
    environment has settings: of the user, or of Dask, whose workers give memory back by its own configuration.
    """
    if any(name in os.environ for name in CHOSEN_BY_USERS):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version") or not hasattr(library, "mallopt"):
        return False
    settings = ((_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES), (_M_TRIM_THRESHOLD, FREED_MEMORY_KEPT_BYTES))
    return all(library.mallopt(name, value) == 1 for name, value in settings)
