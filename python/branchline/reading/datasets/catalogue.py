"""Files as listed by a catalogue: their names, sizes, checksums and URLs are validated before they are used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from branchline.base.texts import escaped
from branchline.reading.datasets.data_file import CatalogueLookup, DataFile
from branchline.reading.datasets.elements import ElementSites, server_of

#: URL schemes of replicas that Branchline reads. A catalogue cannot refer to files of this machine.
READABLE_SCHEMES = ("root", "roots", "xroot", "xroots", "davs", "dav", "https", "http", "s3")
# Maximum lengths of names and URLs. Rucio limits names to 500 characters; signed URLs are longer.
_NAME_LENGTH_MAX, _URL_LENGTH_MAX = 1000, 8000


@dataclass(frozen=True)
class CatalogueFile:
    """A file of a catalogue. ``rse_by_url`` has the RSE of each replica, in the order in which replicas are read; the
    RSE is empty if the catalogue does not name it. ``version`` is a checksum, or empty.
    """

    name: str
    size_bytes: int | None
    version: str
    rse_by_url: Mapping[str, str]
    tape_replicas: int = 0


def checked_name(given: object, what: str) -> str:
    """Return a name from a catalogue. Raises ValueError for a name that is empty or long, or contains whitespace,
    control characters or invisible characters.
    """
    if not isinstance(given, str) or not 0 < len(given) <= _NAME_LENGTH_MAX or not _is_plain(given):
        raise ValueError(f"{what} is {given!r:.80}")
    return given


def checked_url(given: object, schemes: Iterable[str]) -> str | None:
    """Return the URL of a replica; None if its scheme is not among ``schemes``. Raises ValueError if it is not a URL of
    a file on a server.
    """
    if not isinstance(given, str) or len(given) > _URL_LENGTH_MAX or not _is_plain(given):
        raise ValueError(f"the URL of a replica is {given!r:.80}")
    scheme, separator, rest = given.partition("://")
    host, slash, path = rest.partition("/")
    if separator and scheme.lower() not in schemes:
        return None
    if not separator or not host or not slash or not path:
        raise ValueError(f"the URL of a replica is {given!r:.80}")
    return given


def _is_plain(text: str) -> bool:
    return escaped(text) == text and not any(map(str.isspace, text))


def data_files(
    found: Iterable[CatalogueFile], lookup: CatalogueLookup, template: DataFile, site_by_rse: Mapping[str, str]
) -> list[DataFile]:
    """Return the files of a dataset, sorted by name. A file without replicas is absent.

    ``template`` provides the other fields; the sites in it take precedence over ``site_by_rse``.
    """
    files = sorted(found, key=lambda one: one.name)
    lookup = replace(
        lookup,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        files=len(files),
        replicas=dict(Counter(rse for one in files for rse in sorted(set(one.rse_by_url.values())) if rse)),
        tape_replicas=sum(one.tape_replicas for one in files),
        without_replicas=tuple(one.name for one in files if not one.rse_by_url),
    )
    pairs = ((url, site_by_rse.get(rse, rse)) for one in files for url, rse in one.rse_by_url.items())
    template = template.changed(sites=sites_of_servers(pairs).with_others(template.sites), lookup=lookup)
    return [_data_file(one, template) for one in files]


def _data_file(one: CatalogueFile, template: DataFile) -> DataFile:
    if not one.rse_by_url:
        return template.changed(path=one.name, is_absent=True)
    # If there is no checksum, the storage is queried for size and version.
    size_bytes = one.size_bytes if one.version else None
    return template.at(list(one.rse_by_url)).changed(size_bytes=size_bytes, version=one.version)


def sites_of_servers(replicas: Iterable[tuple[str, str]]) -> ElementSites:
    """Return the sites of servers, given pairs of URL and site. Servers with replicas of several sites, such as a
    redirector, have no site.
    """
    sites: dict[str, set[str]] = {}
    for url, site in replicas:
        sites.setdefault(server_of(url), set()).add(site)
    return ElementSites.of({server: min(some) for server, some in sites.items() if len(some) == 1 and "" not in some})
