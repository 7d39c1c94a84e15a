"""The requests that Linux makes of a disk for the reads of a program, where nothing of a file is in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

#: The page of the page cache.
PAGE = 4096
#: What `/sys/block/DEVICE/queue/read_ahead_kb` is for a disk (`VM_READAHEAD_PAGES`).
READ_AHEAD_BYTES = 128 * 1024
#: What `max_sectors_kb` is for a disk: one read that is larger than the read-ahead is cut here.
REQUEST_BYTES_MAX = 1280 * 1024
#: The list of names of a file's folder, on ext4. Inodes come many at a time, and other files of the folder need
#: nothing more; the first files of a file system take three to five.
OPENING_REQUESTS = 1


@dataclass(frozen=True)
class Read:
    """A call that reads: where it begins in the file, and bytes."""

    offset: int
    size_bytes: int


@dataclass(frozen=True)
class KernelSettings:
    """Of a block device and its file system: the read-ahead and the largest request, bytes; and whether pages are kept
    in folios of several, as ext4 does since 6.16, XFS since 5.18.
    """

    read_ahead_bytes: int = READ_AHEAD_BYTES
    request_bytes_max: int = REQUEST_BYTES_MAX
    has_folios: bool = True


def kernel_requests(reads: Iterable[Read], file_bytes: int, settings: KernelSettings | None = None) -> list[list[Read]]:
    """What each read of one file by one descriptor, in order, makes the kernel request of the disk; nothing where all
    is in memory by then. Opening is not counted.

    Done as `mm/readahead.c` of Linux 6.16 to 6.18 does (`page_cache_sync_ra`, `page_cache_async_ra`,
    `page_cache_ra_order`). A read that finds no page in memory, and begins at the file's first page or where the one
    before ended, makes a window: four or two times the pages that it wants, the whole read-ahead where these are many.
    A read that meets the mark in a window requests the next one, four or two times as large, up to the read-ahead.
    Other reads that find no page get what they want; more where pages before theirs are in memory. All is cut at the
    end of the file. A file in several pieces on the disk needs more requests than are said here.
    """
    cache = _PageCache(file_bytes, settings or KernelSettings())
    return [cache.read(one) for one in reads]


class _PageCache:
    """The pages of a file in memory, with what the kernel keeps of its reads (`struct file_ra_state`), in pages."""

    def __init__(self, file_bytes: int, settings: KernelSettings) -> None:
        self._sent: list[Read] = []
        self._file_bytes = file_bytes
        self._end = -(-file_bytes // PAGE)
        self._ahead = settings.read_ahead_bytes // PAGE
        self._largest = max(settings.request_bytes_max // PAGE, 1)
        self._has_folios = settings.has_folios
        self._cached = bytearray(self._end)
        #: For each page of a marked folio its first page.
        self._marks: dict[int, int] = {}
        self._start = self._size = self._later = self._order = 0
        self._before: int | None = None

    def read(self, one: Read) -> list[Read]:
        """What is requested for a read."""
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
        """`page_cache_sync_ra`."""
        most = self._most(wanted)
        self._order = 0
        is_next = self._before is not None and 0 <= page - self._before <= 1
        if self._ahead and (page == 0 or wanted > most or is_next):
            size = _first_window(wanted, most)
            self._window(page, size, size - wanted if size > wanted else size // 2)
            return
        known = self._known_before(page, most)
        if known <= wanted or not self._ahead:
            self._pages(page, wanted, 0)
            return
        # In memory from the first page on: it will be read to its end.
        self._window(page, min((2 * known if known == page else known) + wanted, most), 1)

    def _meet_mark(self, page: int, last: int) -> None:
        """`page_cache_async_ra`."""
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
            # Begun within a folio, `page_cache_next_miss` is behind by a page: what it finds is one too far.
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
        """`ractl_max_pages`: the read-ahead; more for a call that wants more."""
        return max(self._ahead, min(wanted, self._largest))

    def _known_before(self, page: int, most: int) -> int:
        """Pages in memory right before this one, at most so many."""
        known = 0
        while known < min(most, page) and self._cached[page - known - 1]:
            known += 1
        return known

    def _window(self, start: int, size: int, later: int) -> None:
        """`page_cache_ra_order`: folios as large as they may be, until one is in memory; then page by page."""
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
        """`do_page_cache_ra`: what of these pages is not in memory; the first of the ``later`` ones is marked."""
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
        """Pages that are not in memory, in requests no larger than the device takes."""
        for first in range(begin, end, self._largest):
            last = min(first + self._largest, end)
            self._cached[first:last] = b"\1" * (last - first)
            self._sent.append(Read(first * PAGE, min(last * PAGE, self._file_bytes) - first * PAGE))


def _first_window(wanted: int, most: int) -> int:
    """`get_init_ra_size`."""
    size = 1 << (wanted - 1).bit_length()
    if size <= most // 32:
        return 4 * size
    return 2 * size if size <= most // 4 else most


def _next_window(size: int, most: int) -> int:
    """`get_next_ra_size`."""
    if size < most // 16:
        return 4 * size
    return 2 * size if size <= most // 2 else most
