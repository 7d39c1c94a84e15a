"""What is in a folder at a server: names and sizes, from what XRootD, WebDAV, nginx, S3 and HDFS write down."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Literal
from urllib.parse import quote, unquote, urljoin, urlsplit
from xml.etree import ElementTree

from branchline import _core
from branchline.errors import MissingFileError, StorageError
from branchline.reading.locations import without_secrets

#: Schemes whose folders are listed here; fsspec lists those of others.
OWN_SCHEMES = ("root", "roots", "xroot", "xroots", "http", "https", "dav", "davs", "s3")
#: The forms of listings: the answers of XRootD, WebDAV and S3, nginx's JSON, and pages of HTML.
ListingForm = Literal["xrootd", "webdav", "json", "html", "s3"]
# Of the flags in XRootD's status of a file: it is a folder.
IS_FOLDER = 2


@dataclass(frozen=True)
class Entry:
    """A name in a folder, decoded; ``size_bytes`` is None where the server does not say it. ``version`` is another one
    when the file was written again: its ETag or its time, empty where the server says neither.

    Raises ValueError for what is no name.
    """

    name: str
    is_folder: bool
    size_bytes: int | None = None
    version: str = ""

    def __post_init__(self) -> None:
        if "/" in self.name or "\0" in self.name or (self.size_bytes or 0) < 0:
            raise ValueError("no name of a file")


def list_folder(url: str, *, once: bool = False) -> list[Entry]:
    """What is in the folder at ``url``, sorted by name; tried ``once`` where it would only be good to know.

    Raises MissingFileError if there is no such folder, and StorageError if it cannot be listed.
    """
    scheme = url.split("://", 1)[0].lower()
    if scheme in OWN_SCHEMES:
        listing = _core.list_folder(url, once)
        found = [entry for page in listing.pages for entry in entries_in(listing.form, page, url)]
    else:
        found = _listed_by_library(url, scheme, _core.listing_wait_s(url, once))
    # Several servers of a cluster may have the same.
    return sorted(
        {one.name: one for one in found if one.name not in ("", ".", "..")}.values(), key=lambda one: one.name
    )


def _listed_by_library(url: str, scheme: str, patience_s: float) -> list[Entry]:
    # Imported late: most files need none of these libraries.
    from branchline.reading.bridge.bridged_file import BridgeError, in_time
    from branchline.reading.bridge.fsspec_files import list_by_fsspec
    from branchline.reading.bridge.hdfs_files import list_by_hdfs

    listed = list_by_hdfs if scheme == "hdfs" else list_by_fsspec
    try:
        found = in_time(lambda: listed(url, patience_s), patience_s, "the library that lists it")
        return [Entry(*one) for one in found]
    except BridgeError as error:
        shown = without_secrets(url)
        if error.kind == "missing":
            raise MissingFileError("there is no such folder", path=shown) from error
        raise StorageError(f"the folder cannot be listed: {error}", path=shown, retry=error.retry) from error


def entries_in(form: ListingForm, page: bytes, url: str) -> Iterator[Entry]:
    """The entries in a page of a server's listing; ``form`` is a key of ``_READERS``.

    Raises StorageError if the page is not understood.
    """
    try:
        yield from _READERS[form](page, url)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ElementTree.ParseError) as error:
        reason = f"the server's listing of this folder is not understood ({type(error).__name__})"
        raise StorageError(reason, path=without_secrets(url)) from error


def _xrootd(page: bytes, _url: str) -> Iterator[Entry]:
    """A line with a name, and one with ``id size flags time ...``; the first two are of no file."""
    lines = page.rstrip(b"\0").decode(errors="surrogateescape").split("\n")
    for name, status in zip(lines[2::2], lines[3::2], strict=False):
        _, size, flags, *times = status.split()
        is_folder = bool(int(flags) & IS_FOLDER)
        version = f"written {times[0]} s" if times else ""
        yield Entry(posixpath.basename(name.rstrip("/")), is_folder, None if is_folder else int(size), version)


def _webdav(page: bytes, url: str) -> Iterator[Entry]:
    """The ``response`` elements of RFC 4918, 14.24, but that of the folder itself."""
    own = unquote(urlsplit(url).path).strip("/")
    for response in _elements(page, "response"):
        path = unquote(urlsplit(_text(response, "href")).path)
        if path.strip("/") == own:
            continue
        is_folder = path.endswith("/") or _first(response, "collection") is not None
        size = _text(response, "getcontentlength")
        version = _text(response, "getetag") or _text(response, "getlastmodified")
        yield Entry(
            posixpath.basename(path.rstrip("/")), is_folder, None if is_folder or not size else int(size), version
        )


def _json(page: bytes, _url: str) -> Iterator[Entry]:
    """The `autoindex_format json` of nginx."""
    for one in json.loads(page):
        is_folder = one["type"] == "directory"
        size = one.get("size")
        version = str(one.get("mtime") or "")
        yield Entry(str(one["name"]), is_folder, None if is_folder or size is None else int(size), version)


def _html(page: bytes, url: str) -> Iterator[Entry]:
    """The links of a page that lead to what is directly in the folder."""
    links = _Links()
    links.feed(page.decode(errors="replace"))
    base = urlsplit(url if url.endswith("/") else url + "/")
    for link in links.found:
        target = urlsplit(urljoin(base.geturl(), link))
        if target.netloc != base.netloc or target.query or not target.path.startswith(base.path):
            continue
        inner = target.path.removeprefix(base.path)
        if inner and "/" not in inner.rstrip("/"):
            yield Entry(unquote(inner.rstrip("/")), inner.endswith("/"))


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def _s3(page: bytes, url: str) -> Iterator[Entry]:
    """``Contents`` and ``CommonPrefixes`` of ListObjectsV2, whose keys are encoded as in URLs."""
    _, _, prefix = url.split("://", 1)[1].partition("/")
    prefix = prefix.rstrip("/") + "/" if prefix.strip("/") else ""
    for one in _elements(page, "Contents"):
        name = unquote(_text(one, "Key").replace("+", " ")).removeprefix(prefix)
        version = _text(one, "ETag") or _text(one, "LastModified")
        yield Entry(name, is_folder=False, size_bytes=int(_text(one, "Size")), version=version)
    for one in _elements(page, "CommonPrefixes"):
        yield Entry(unquote(_text(one, "Prefix").replace("+", " ")).removeprefix(prefix).rstrip("/"), is_folder=True)


_READERS: dict[ListingForm, Callable[[bytes, str], Iterator[Entry]]] = {
    "xrootd": _xrootd, "webdav": _webdav, "json": _json, "html": _html, "s3": _s3,
}  # fmt: skip


def _elements(page: bytes, name: str) -> Iterator[ElementTree.Element]:
    if b"<!DOCTYPE" in page or b"<!ENTITY" in page:
        raise ValueError("a listing declares nothing")  # entities of entities would fill the memory
    for element in ElementTree.fromstring(page).iter():  # noqa: S314 - without declarations there is nothing to expand
        if element.tag.rpartition("}")[2] == name:
            yield element


def _first(element: ElementTree.Element, name: str) -> ElementTree.Element | None:
    return next((one for one in element.iter() if one.tag.rpartition("}")[2] == name), None)


def _text(element: ElementTree.Element, name: str) -> str:
    found = _first(element, name)
    return "" if found is None else (found.text or "").strip()


def encoded(name: str, scheme: str) -> str:
    """A name as it stands in a URL of this scheme: S3, HDFS and XRootD take it as it is."""
    return quote(name) if scheme in ("http", "https", "dav", "davs") else name
