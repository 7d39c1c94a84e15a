"""Predict the disk requests that the Linux kernel makes for the reads of a program, starting with an empty page
cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from branchline.base.quantities import KIB

#: Size of a page of the page cache.
PAGE = 4096
#: Default read-ahead in bytes, `/sys/block/DEVICE/queue/read_ahead_kb` (`VM_READAHEAD_PAGES`).
READ_AHEAD_BYTES = 128 * KIB
#: Default maximum size of a disk request in bytes (`max_sectors_kb`). Reads that are larger than the read-ahead are
#: split at this size.
REQUEST_BYTES_MAX = 1280 * KIB
#: Number of requests for opening a file on ext4: one for its directory. Inodes are read in groups, so other files in
#: the folder need no further requests. The first files on a file system need three to five.
OPENING_REQUESTS = 1


@dataclass(frozen=True)
class ReadCall:
    """A read call: the offset in the file and the size in bytes."""

    offset: int
    size_bytes: int


@dataclass(frozen=True)
class KernelSettings:
    """Settings of a block device and its file system.

    ``read_ahead_bytes`` is the read-ahead, ``request_bytes_max`` the maximum size of a request. ``has_folios`` is true
    if the page cache uses large folios, as with ext4 since Linux 6.16 and with XFS since 5.18.
    """

    read_ahead_bytes: int = READ_AHEAD_BYTES
    request_bytes_max: int = REQUEST_BYTES_MAX
    has_folios: bool = True


def kernel_requests(
    reads: Iterable[ReadCall], file_bytes: int, settings: KernelSettings | None = None
) -> list[list[ReadCall]]:
    """Return the disk requests that each read causes. The reads use one file descriptor, in order. The list for a read
    is empty if all its data is cached. Opening the file is not included.

    Follows `mm/readahead.c` of Linux 6.16 to 6.18 (`page_cache_sync_ra`, `page_cache_async_ra`, `page_cache_ra_order`):

    - A read that misses the cache, and starts at the first page or at the end of the previous read, creates a window of
      four or two times the wanted pages, or of the whole read-ahead if many pages are wanted.
    - A read that meets the mark in a window requests the next window, which is four or two times as large, up to the
      read-ahead.
    - Other misses request the wanted pages, and more pages if the preceding pages are cached.

    Requests end at the end of the file. Files that are fragmented on the disk need more requests than predicted.
    """
    cache = _PageCache(file_bytes, settings or KernelSettings())
    return [cache.read(one) for one in reads]


class _PageCache:
    """The cached pages of a file, with the kernel's state of its reads (`struct file_ra_state`), in units of pages."""

    def __init__(self, file_bytes: int, settings: KernelSettings) -> None:
        self._sent: list[ReadCall] = []
        self._file_bytes = file_bytes
        self._end = -(-file_bytes // PAGE)
        self._ahead = settings.read_ahead_bytes // PAGE
        self._largest = max(settings.request_bytes_max // PAGE, 1)
        self._has_folios = settings.has_folios
        self._cached = bytearray(self._end)
        #: Maps each page of a marked folio to the first page of the folio.
        self._marks: dict[int, int] = {}
        self._start = self._size = self._later = self._order = 0
        self._before: int | None = None

    def read(self, one: ReadCall) -> list[ReadCall]:
        """Return the disk requests for a read."""
        self._sent = []
        end_bytes = min(one.offset + one.size_bytes, self._file_bytes)
        if end_bytes <= one.offset:
            return self._sent
        last = -(-end_bytes // PAGE)
        for page in range(one.offset // PAGE, last):
            if not self._cached[page]:
                self._miss(page, last - page)
            if page in self._marks:
                self._meet_mark(page, last)
        self._before = end_bytes // PAGE
        return self._sent

    def _miss(self, page: int, wanted: int) -> None:
        """Handle a page that is not cached, as `page_cache_sync_ra` does."""
        most = self._most(wanted)
        self._order = 0
        is_next = self._before is not None and 0 <= page - self._before <= 1
        if self._ahead and (page == 0 or wanted > most or is_next):
            size = _first_window(wanted, most)
            self._window(page, size, size - wanted if size > wanted else size // 2)
            return
        # Number of cached pages directly before the missing page.
        known = 0
        while known < min(most, page) and self._cached[page - known - 1]:
            known += 1
        if known <= wanted or not self._ahead:
            self._pages(page, wanted, 0)
            return
        # If all pages before the missing one are cached, the file is probably read to its end.
        self._window(page, min((2 * known if known == page else known) + wanted, most), 1)

    def _meet_mark(self, page: int, last: int) -> None:
        """Handle a page with a mark, as `page_cache_async_ra` does."""
        first = self._marks[page]
        pages = [one for one, of in self._marks.items() if of == first]
        for one in pages:
            del self._marks[one]
        most = self._most(last - first)
        expected = self._start + self._size - self._later
        if first == expected // len(pages) * len(pages):
            self._start += self._size
            size = max(self._size, _next_window(self._size, most))
        else:
            start = first + 1
            while start < self._end and self._cached[start]:
                start += 1
            # Within a folio, the kernel's `page_cache_next_miss` returns one page too far.
            start += 1 if len(pages) > 1 else 0
            if start - first > most:
                return
            self._start = start
            size = _next_window(start - first + last - first, most)
        if self._has_folios:
            self._order += 2
            align = min(1 << self._order, most & -most)
            end = (self._start + size) // align * align
            size = end - self._start if end > self._start else size
        self._window(self._start, size, size)

    def _most(self, wanted: int) -> int:
        """Return the maximum size of a window, as `ractl_max_pages` does: the read-ahead, or more for a larger read."""
        return max(self._ahead, min(wanted, self._largest))

    def _window(self, start: int, size: int, later: int) -> None:
        """Request a window, as `page_cache_ra_order` does: folios that are as large as possible, and single pages from
        the first cached page on.
        """
        self._start, self._size, self._later = start, size, later
        self._order = min(self._order, size.bit_length() - 1)
        end, page, mark = min(start + size, self._end), start, start + size - later
        while page < end:
            order = min(self._order, (page & -page).bit_length() - 1) if page else self._order
            while page + (1 << order) > end:
                order -= 1
            count = 1 << order
            if any(self._cached[page : page + count]):
                break
            if page == -(-mark // count) * count and later:
                self._marks |= dict.fromkeys(range(page, page + count), page)
            page += count
        self._request(start, page)
        if page < end:
            self._pages(page, start + size - page, later)

    def _pages(self, start: int, size: int, later: int) -> None:
        """Request the pages that are not cached, as `do_page_cache_ra` does. The first of the last ``later`` pages is
        marked.
        """
        end, mark = min(start + size, self._end), start + size - later
        if later and start <= mark < end and not self._cached[mark]:
            self._marks[mark] = mark
        begin = start
        for page in range(start, end):
            if self._cached[page]:
                self._request(begin, page)
                begin = page + 1
        self._request(begin, end)

    def _request(self, begin: int, end: int) -> None:
        """Request pages that are not cached, in requests of at most the maximum size."""
        for first in range(begin, end, self._largest):
            last = min(first + self._largest, end)
            self._cached[first:last] = b"\1" * (last - first)
            self._sent.append(ReadCall(first * PAGE, min(last * PAGE, self._file_bytes) - first * PAGE))


def _first_window(wanted: int, most: int) -> int:
    """Return the size of a first window, as `get_init_ra_size` does."""
    size = 1 << (wanted - 1).bit_length()
    if size <= most // 32:
        return 4 * size
    return 2 * size if size <= most // 4 else most


def _next_window(size: int, most: int) -> int:
    """Return the size of the next window, as `get_next_ra_size` does."""
    if size < most // 16:
        return 4 * size
    return 2 * size if size <= most // 2 else most
