"""Parse file locations: paths, URLs and patterns, optionally followed by ``:tree``."""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from urllib.parse import unquote_to_bytes

from branchline import _core
from branchline.base.limits import BRACE_NAMES_MAX
from branchline.errors import BranchlineWarning, DatasetError, warn

#: Suffixes of Parquet files, and of folders of them.
PARQUET_ENDINGS = (".parquet", ".pq")
#: Prefixes of names that are not data files of a Parquet table: metadata, markers and unfinished files.
NO_PARTS = ("_", ".")
# A folder stands for its ROOT files, or for its Parquet files if it has no ROOT files.
ROOT_ENDING = ".root"
#: Separator between the replicas of a file.
BETWEEN_REPLICAS = " | "
#: Prefix of the names of datasets in Rucio: ``rucio:SCOPE:NAME[:TREE]``.
RUCIO_PREFIX = "rucio:"
# Separator between the links of an fsspec chain; does not match inside an IPv6 address.
BETWEEN_LINKS = re.compile(r"::(?![0-9A-Fa-f:.%]*\])")
# Schemes that Branchline reads itself, so they do not start a chain: `::` may be part of a tree name.
NOT_CHAINED = ("file", "root", "roots", "xroot", "xroots", "http", "https", "dav", "davs", "s3", "hdfs")
# A file URL without the slashes before a host.
FILE_WITHOUT_HOST = re.compile(r"file:(?!//)(.+)", re.IGNORECASE | re.DOTALL)
# The name of a ROOT file, a colon and the name of a tree.
ROOT_FILE_AND_TREE = re.compile(r"(.+\.root(?:\.[0-9]+)?):(.*)", re.IGNORECASE | re.DOTALL)

# The cycle of a directory inside a path.
_CYCLE_BEFORE_SLASH = re.compile(r";\d+(?=/)")

# Brace expansion as in a shell: `{1,2}`. Braces without a comma are ordinary characters.
ALTERNATIVES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def text_of(location: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> str:
    """Convert a location to text. Raises DatasetError for file names that are not UTF-8, which the engine does not
    support.
    """
    text = with_slashes(os.fsdecode(location))
    try:
        text.encode()
    except UnicodeEncodeError:
        named = text.encode(errors="surrogateescape").decode(errors="backslashreplace")
        hint = "rename it, or make a symbolic link to it"
        raise DatasetError(f"the name of the file {named} is not UTF-8", hint=hint) from None
    return text


def with_slashes(location: str) -> str:
    """Return ``file:/data/f.root`` (RFC 8089) and ``file:f.root`` (accepted by uproot) as ``file:///...``, the form
    that the engine takes. Other locations are returned unchanged.
    """
    found = FILE_WITHOUT_HOST.fullmatch(location)
    if found is None or os.path.exists(location):
        return location
    return f"file://{os.path.abspath(found[1])}"


def path_of_file_url(url: str) -> str | None:
    """Return the path of a local ``file://`` URL: literally if such a file exists, otherwise with ``%XX`` decoded.

    Returns None for any other URL.
    """
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if scheme.lower() != "file" or host.lower() not in ("", "localhost") or not slash:
        return None
    written = slash + path
    return written if os.path.lexists(written) else os.fsdecode(unquote_to_bytes(written))


def split_location(location: str) -> tuple[str, str | None]:
    """Split ``file.root:tree`` into path and tree; the tree is None if none is given.

    A colon in the name of an existing file, before a port, or in a query does not separate a tree.
    """
    location = with_slashes(location)
    if os.path.exists(location):
        return location, None
    if BETWEEN_REPLICAS in location:
        all_of_them = [split_location(one) for one in replicas_in(location)]
        trees = [tree for _, tree in all_of_them if tree is not None]
        return BETWEEN_REPLICAS.join(path for path, _ in all_of_them), trees[0] if trees else None
    if len(links := links_in(location)) > 1:
        return _split_chain(links)
    found = ROOT_FILE_AND_TREE.fullmatch(location)
    if is_url(location) and not found and ("?" in location or ":" not in location.split("://", 1)[1].partition("/")[2]):
        return location, None
    path, tree = found.groups() if found else (location.rpartition(":")[0], location.rpartition(":")[2])
    if not path or (not found and (tree.startswith("//") or ".root" in tree)):
        return location, None
    return path, tree or None


def path_in_file(name: str) -> str:
    """Return the path of an object in a file without repeated or outer slashes, and without the cycles of its
    directories, which ROOT ignores.

    >>> path_in_file("/DF_1;1/O2track_iu;2")
    'DF_1/O2track_iu;2'
    """
    return _CYCLE_BEFORE_SLASH.sub("", re.sub("/+", "/", name).strip("/"))


def links_in(location: str) -> list[str]:
    """Split an fsspec chain such as ``zip://f.root::https://host/a.zip`` into its links; anything else is one link."""
    links = BETWEEN_LINKS.split(location)
    begins = re.match(r"[A-Za-z][A-Za-z0-9+.-]*(?=://|::)", links[0] + "::")
    is_chain = begins and begins[0].lower() not in NOT_CHAINED and "://" in location and "/" in links[-1]
    return links if is_chain else [location]


def _split_chain(links: list[str]) -> tuple[str, str | None]:
    """Split an fsspec chain into location and tree. The tree may follow any link of the chain."""
    for number, link in enumerate(links[:-1]):
        if found := ROOT_FILE_AND_TREE.fullmatch(link):
            return "::".join([*links[:number], found[1], *links[number + 1 :]]), found[2] or None
    path, tree = split_location(links[-1])
    return "::".join([*links[:-1], path]), tree


def is_url(path: str) -> bool:
    """Whether a location is a URL such as ``root://...`` or ``https://...``."""
    return "://" in path


def is_rucio_name(location: str) -> bool:
    """Whether a location is the name of a dataset in Rucio."""
    return location.startswith(RUCIO_PREFIX)


def replicas_in(location: str) -> list[str]:
    """Split a text into the replicas of a file, which are separated by a pipe between spaces."""
    if BETWEEN_REPLICAS not in location or os.path.exists(location):
        return [location]
    return [one.strip() for one in location.split(BETWEEN_REPLICAS) if one.strip()]


def without_braces(path: str) -> list[str]:
    """Expand braces as a shell does, in order: ``x_{1,2}.root`` gives two locations.

    Names of existing files, fsspec chains, replicas and URL queries are returned unchanged. Raises DatasetError for
    more names than ``BRACE_NAMES_MAX``.
    """
    if not ALTERNATIVES.search(path) or len(replicas_in(path)) > 1 or len(links_in(path)) > 1 or os.path.exists(path):
        return [path]
    path, mark, query = path.partition("?") if is_url(path) else (path, "", "")
    found = [path]
    while any(ALTERNATIVES.search(one) for one in found):
        found = list(dict.fromkeys(name for one in found for name in _alternatives_in(one)))
        if len(found) > BRACE_NAMES_MAX:
            hint = "give a pattern with *, or a list of files"
            raise DatasetError(f"braces expand to more than {BRACE_NAMES_MAX} names", path=shown(path), hint=hint)
    return [one + mark + query for one in found]


def _alternatives_in(path: str) -> list[str]:
    """Return one path for each alternative in the first braces of the path."""
    braces = ALTERNATIVES.search(path)
    if braces is None:
        return [path]
    return [path[: braces.start()] + one + path[braces.end() :] for one in braces[1].split(",")]


def without_secrets(location: str) -> str:
    """Return the location with passwords and secret query parameters replaced by ``***``."""
    return _core.without_secrets(location) if is_url(location) else location


def shown_command(words: Iterable[str]) -> str:
    """A shell command line for records, with the secrets of URLs removed."""
    return shlex.join(without_secrets(word) for word in words)


def shown(location: str) -> str:
    """The name of a file in records and messages: its first replica, without secrets."""
    return without_secrets(replicas_in(location)[0])


def is_pattern(path: str) -> bool:
    """Whether a path is a glob pattern, and not the name of an existing file."""
    return not is_url(path) and glob.has_magic(path) and not os.path.exists(path)


def files_at(path: str) -> list[str]:
    """Return the local files of a folder or of a pattern (``**`` matches any number of folders), sorted by name; any
    other path is returned as the only file. Raises DatasetError if nothing matches.
    """
    if os.path.isdir(path):
        return files_in(path)
    if not is_pattern(path):
        return [path]
    found: list[str] = []
    for one in sorted(text_of(name) for name in glob.glob(path, recursive=True)):
        if os.path.isfile(one):
            found.append(one)
        elif is_parquet(one):
            found += _parts_below(one)
    if not found:
        hint = f"the pattern is relative to {os.getcwd()}" if not os.path.isabs(path) else None
        raise DatasetError(f"no file matches {path}", hint=hint)
    return list(dict.fromkeys(found))


def is_parquet(path: str) -> bool:
    """Whether a path or URL has a suffix of Parquet files, which folders of Parquet files may also have."""
    return path.partition("?")[0].partition("#")[0].rstrip("/").lower().endswith(PARQUET_ENDINGS)


def files_in(folder: str) -> list[str]:
    """Return all ROOT files below a folder, sorted by name, or else its Parquet files, ordered by the numbers in their
    names. Raises DatasetError if the folder has neither.
    """
    found = [] if is_parquet(folder) else sorted(_named_below(folder, (ROOT_ENDING,)))
    found = found or _parts_below(folder)
    if not found:
        what = f"the directory {folder} contains neither *{ROOT_ENDING} nor *{PARQUET_ENDINGS[0]} files"
        raise DatasetError(what, path=folder)
    return found


def _parts_below(folder: str) -> list[str]:
    return parts_of(os.path.join(folder, ""), _named_below(folder, PARQUET_ENDINGS))


def parts_of(folder: str, files: Iterable[str]) -> list[str]:
    """Return the data files of a Parquet table, ``part.2`` before ``part.10``. ``files`` are paths that start with
    ``folder``. Metadata and hidden files are left out, and all files in folders with such names.
    """
    below = {one: one.removeprefix(folder).split("/") for one in files}
    found = [one for one, names in below.items() if not any(name.startswith(NO_PARTS) for name in names)]
    keys = sorted({name.partition("=")[0] for one in found for name in below[one][:-1] if "=" in name})
    if keys:
        what = f"{without_secrets(folder)}: {', '.join(keys)} from the names of its folders is not read as a branch"
        warn(what, BranchlineWarning)
    return sorted(found, key=_by_numbers)


def _named_below(folder: str, endings: tuple[str, ...]) -> Iterator[str]:
    for parent, _, names in os.walk(folder):
        yield from (text_of(os.path.join(parent, name)) for name in names if name.lower().endswith(endings))


def _by_numbers(name: str) -> tuple[list[str | int], str]:
    """A sort key in which numbers compare by value."""
    parts = re.split(r"([0-9]+)", name)
    return [int(one) if index % 2 else one for index, one in enumerate(parts)], name
