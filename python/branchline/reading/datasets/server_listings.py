"""Folder listings of servers: names and sizes, as reported by XRootD, WebDAV, nginx, S3 and HDFS."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Literal
from urllib.parse import quote, unquote, urljoin, urlsplit

from branchline import _core
from branchline.errors import MissingFileError, StorageError
from branchline.reading.access import Access
from branchline.reading.datasets.untrusted_xml import elements, parse_xml, text_in
from branchline.reading.locations import without_secrets

#: URL schemes for which this module lists folders itself; for all others, it uses fsspec or hdfs-native.
OWN_SCHEMES = ("root", "roots", "xroot", "xroots", "http", "https", "dav", "davs", "s3")
#: Formats of listings: the responses of XRootD, WebDAV and S3, nginx's JSON, and HTML pages.
ListingForm = Literal["xrootd", "webdav", "json", "html", "s3"]
# Bit in XRootD's file status flags that marks a folder.
IS_FOLDER = 2


@dataclass(frozen=True)
class ListingEntry:
    """An entry of a folder. ``name`` is not URL-encoded; ``size_bytes`` is None if the server does not report the size.

    ``version`` changes when the file is rewritten. It is the ETag or modification time; empty if the server reports
    neither.

    Raises ValueError for an invalid name.
    """

    name: str
    is_folder: bool
    size_bytes: int | None = None
    version: str = ""

    def __post_init__(self) -> None:
        if "/" in self.name or "\0" in self.name or (self.size_bytes or 0) < 0:
            raise ValueError("not a valid file name")


def list_folder(url: str, access: Access | None = None, *, once: bool = False) -> list[ListingEntry]:
    """Return the entries of the folder at ``url``, sorted by name.

    ``access`` contains the timeouts and retries; ``once`` disables retries, for optional listings. Raises
    MissingFileError if the folder does not exist, and StorageError if the folder cannot be listed.
    """
    scheme = url.split("://", 1)[0].lower()
    if scheme in OWN_SCHEMES:
        listing = _core.list_folder(url, access, once)
        found = [entry for page in listing.pages for entry in entries_in(listing.form, page, url)]
    else:
        found = _listed_by_library(url, scheme, _core.listing_wait_s(url, access, once))
    # Several servers of a cluster may report the same file.
    return sorted(
        {one.name: one for one in found if one.name not in ("", ".", "..")}.values(), key=lambda one: one.name
    )


def _listed_by_library(url: str, scheme: str, patience_s: float) -> list[ListingEntry]:
    # Imported lazily, because most files need none of these libraries.
    from branchline.reading.bridge.bridged_file import BridgeError, in_time
    from branchline.reading.bridge.fsspec_files import list_by_fsspec
    from branchline.reading.bridge.hdfs_files import list_by_hdfs

    listed = list_by_hdfs if scheme == "hdfs" else list_by_fsspec
    try:
        found = in_time(lambda: listed(url, patience_s), patience_s, "the library that lists it")
        return [ListingEntry(*one) for one in found]
    except BridgeError as error:
        shown = without_secrets(url)
        if error.kind == "missing":
            raise MissingFileError("this folder does not exist", path=shown) from error
        raise StorageError(f"the folder cannot be listed: {error}", path=shown, retry=error.retry) from error


def entries_in(form: ListingForm, page: bytes, url: str) -> Iterator[ListingEntry]:
    """Parse a page of a server's listing; ``form`` is a key of ``_READERS``.

    Raises StorageError if the page cannot be parsed.
    """
    try:
        yield from _READERS[form](page, url)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"the server's listing of this folder cannot be parsed ({type(error).__name__})"
        raise StorageError(reason, path=without_secrets(url)) from error


def _xrootd(page: bytes, _url: str) -> Iterator[ListingEntry]:
    """Parse alternating lines with a name and with ``id size flags time ...``; the first two lines are a header."""
    lines = page.rstrip(b"\0").decode(errors="surrogateescape").split("\n")
    for name, status in zip(lines[2::2], lines[3::2], strict=False):
        _, size, flags, *times = status.split()
        is_folder = bool(int(flags) & IS_FOLDER)
        version = f"written {times[0]} s" if times else ""
        yield ListingEntry(posixpath.basename(name.rstrip("/")), is_folder, None if is_folder else int(size), version)


def _webdav(page: bytes, url: str) -> Iterator[ListingEntry]:
    """Parse the ``response`` elements (RFC 4918, 14.24), and skip the one for the folder itself."""
    own = unquote(urlsplit(url).path).strip("/")
    for response in elements(parse_xml(page), "response"):
        path = unquote(urlsplit(text_in(response, "href")).path)
        if path.strip("/") == own:
            continue
        is_folder = path.endswith("/") or next(elements(response, "collection"), None) is not None
        size = text_in(response, "getcontentlength")
        version = text_in(response, "getetag") or text_in(response, "getlastmodified")
        yield ListingEntry(
            posixpath.basename(path.rstrip("/")), is_folder, None if is_folder or not size else int(size), version
        )


def _json(page: bytes, _url: str) -> Iterator[ListingEntry]:
    """Parse the output of nginx with `autoindex_format json`."""
    for one in json.loads(page):
        is_folder = one["type"] == "directory"
        size = one.get("size")
        version = str(one.get("mtime") or "")
        yield ListingEntry(str(one["name"]), is_folder, None if is_folder or size is None else int(size), version)


def _html(page: bytes, url: str) -> Iterator[ListingEntry]:
    """Parse the links of an HTML page that refer to direct children of the folder."""
    links = _Links()
    links.feed(page.decode(errors="replace"))
    base = urlsplit(url if url.endswith("/") else url + "/")
    for link in links.found:
        target = urlsplit(urljoin(base.geturl(), link))
        if target.netloc != base.netloc or target.query or not target.path.startswith(base.path):
            continue
        inner = target.path.removeprefix(base.path)
        if inner and "/" not in inner.rstrip("/"):
            yield ListingEntry(unquote(inner.rstrip("/")), inner.endswith("/"))


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def _s3(page: bytes, url: str) -> Iterator[ListingEntry]:
    """Parse ``Contents`` and ``CommonPrefixes`` of S3's ListObjectsV2, whose keys are URL-encoded."""
    _, _, prefix = url.split("://", 1)[1].partition("/")
    prefix = prefix.rstrip("/") + "/" if prefix.strip("/") else ""
    listing = parse_xml(page)
    for one in elements(listing, "Contents"):
        name = unquote(text_in(one, "Key").replace("+", " ")).removeprefix(prefix)
        version = text_in(one, "ETag") or text_in(one, "LastModified")
        yield ListingEntry(name, is_folder=False, size_bytes=int(text_in(one, "Size")), version=version)
    for one in elements(listing, "CommonPrefixes"):
        yield ListingEntry(
            unquote(text_in(one, "Prefix").replace("+", " ")).removeprefix(prefix).rstrip("/"), is_folder=True
        )


_READERS: dict[ListingForm, Callable[[bytes, str], Iterator[ListingEntry]]] = {
    "xrootd": _xrootd, "webdav": _webdav, "json": _json, "html": _html, "s3": _s3,
}  # fmt: skip


def encoded(name: str, scheme: str) -> str:
    """Encode a name for a URL with ``scheme``. Names in S3, HDFS and XRootD URLs are not encoded."""
    return quote(name) if scheme in ("http", "https", "dav", "davs") else name
