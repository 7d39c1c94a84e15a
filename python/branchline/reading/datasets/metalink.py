"""Reads metalink files (RFC 5854, and version 3), in which catalogues such as Rucio write the replicas of files."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from branchline.base.quantities import MB, size
from branchline.errors import DatasetError
from branchline.reading.datasets.catalogue import (
    READABLE_SCHEMES,
    CatalogueFile,
    checked_name,
    checked_url,
    data_files,
)
from branchline.reading.datasets.data_file import CatalogueLookup, DataFile
from branchline.reading.datasets.identity import checked_size, checksum_version
from branchline.reading.datasets.untrusted_xml import elements, parse_xml, text_in

#: Maximum size of a metalink: 100,000 files with a kilobyte each.
METALINK_MAX_BYTES = 100 * MB
# Names of checksums in metalinks, best first, and in versions.
_CHECKSUMS = {"adler32": "adler32", "sha-256": "sha256", "sha256": "sha256", "md5": "md5"}
# The preference of a URL without one: behind all others (RFC 5854, 4.2.16.1).
_LAST = 999_999


def read_metalink(path: str, template: DataFile) -> list[DataFile]:
    """Return the files of a metalink, sorted by name, with their replicas by priority.

    Sizes and checksums are the versions of the files. The location of a URL is its RSE, as Rucio writes it, unless it
    is a country. Raises DatasetError for a file that is not a valid metalink.
    """
    with open(path, "rb") as file:
        content = file.read(METALINK_MAX_BYTES + 1)
    if len(content) > METALINK_MAX_BYTES:
        what = f"this metalink has more than {size(METALINK_MAX_BYTES)}"
        raise DatasetError(what, path=path, hint="split it into several files")
    try:
        root = parse_xml(content)
        if root.tag.rpartition("}")[2] != "metalink":
            raise ValueError(f"its root element is {root.tag!r:.80}")
        found = [_file(one) for one in elements(root, "file")]
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"not a valid metalink: {error}", path=path) from error
    if not found:
        raise DatasetError("this metalink contains no files", path=path)
    return data_files(found, CatalogueLookup(path), template, {})


def _file(element: ElementTree.Element) -> CatalogueFile:
    name = checked_name(text_in(element, "identity") or element.get("name"), "the name of a file")
    # Rucio writes None for an unknown size.
    size_text = text_in(element, "size").removesuffix("None")
    if size_text and not (size_text.isascii() and size_text.isdecimal() and len(size_text) < 20):
        raise ValueError(f"the size of {name} is {size_text!r:.80}")
    hashes = {one.get("type", "").lower(): (one.text or "").strip() for one in elements(element, "hash")}
    version = next((f"{_CHECKSUMS[kind]}:{hashes[kind]}" for kind in _CHECKSUMS if hashes.get(kind)), "")
    return CatalogueFile(
        name=name,
        size_bytes=checked_size(int(size_text) if size_text else None),
        version=checksum_version(version) if version else "",
        rse_by_url=dict(_replicas(element)),
    )


def _replicas(element: ElementTree.Element) -> Iterator[tuple[str, str]]:
    """Yield the URL and RSE of each replica that Branchline can read, by priority."""
    for one in sorted(elements(element, "url"), key=_rank):
        url = checked_url((one.text or "").strip(), READABLE_SCHEMES)
        location = one.get("location", "")
        if url is not None:
            yield url, checked_name(location, "the location of a URL") if len(location) > len("de") else ""


def _rank(url: ElementTree.Element) -> int:
    """Return the priority of a URL, where 1 is best; in version 3, the preference, where 100 is best."""
    for name, sign in (("priority", 1), ("preference", -1)):
        given = url.get(name, "")
        if given.isascii() and given.isdecimal() and len(given) < 10:
            return sign * int(given)
    return _LAST
