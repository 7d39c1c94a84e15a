"""What is written for files, wherever files are asked for: a path, a pattern, and a tree behind either."""

from __future__ import annotations

import glob
import os
import re

# A tree behind a file whose name ends as those of ROOT files do, or behind any other.
ROOT_FILE_AND_TREE = re.compile(r"(.+\.root(?:\.[0-9]+)?):(.*)", re.IGNORECASE | re.DOTALL)


def split_location(location: str) -> tuple[str, str | None]:
    """``file.root:tree`` as path and tree; a path without a tree is left as it is, also one with a colon in it.

    The port of a URL and what is in its query are no trees.
    """
    if os.path.exists(location):
        return location, None
    found = ROOT_FILE_AND_TREE.fullmatch(location)
    if is_url(location) and not found and ("?" in location or ":" not in location.split("://", 1)[1].partition("/")[2]):
        return location, None
    path, tree = found.groups() if found else (location.rpartition(":")[0], location.rpartition(":")[2])
    if not path or (not found and (tree.startswith("//") or ".root" in tree)):
        return location, None
    return path, tree or None


def is_url(path: str) -> bool:
    """True for ``root://...``, ``https://...`` and the like."""
    return "://" in path


# Parts of a query that give access to whoever knows them: by the ends of their names, or by the whole of them. The same
# are hidden where files are read (`crates/storage/src/url.rs`), so that both show the same name of a file.
SECRET_ENDS = ("authz", "access_token", "token", "signature", "password", "credential", "macaroon", "xrd.ztn")
SECRET_NAMES = ("key", "sig")


def without_secrets(location: str) -> str:
    """What may be shown of a URL: passwords and the values of secret parameters become ``***``."""
    if not is_url(location):
        return location
    scheme, rest = location.split("://", 1)
    end = min((rest.index(mark) for mark in "/?" if mark in rest), default=len(rest))
    who, at, address = rest[:end].rpartition("@")
    if ":" in who:
        who = who.split(":", 1)[0] + ":***"
    head, mark, query = (who + at + address + rest[end:]).partition("?")
    return f"{scheme}://{head}{mark}{'&'.join(map(_without_value, query.split('&')))}"


def _without_value(parameter: str) -> str:
    key, _, value = parameter.partition("=")
    is_secret = key.lower().endswith(SECRET_ENDS) or key.lower() in SECRET_NAMES
    return f"{key}=***" if is_secret and value else parameter


def is_pattern(path: str) -> bool:
    """True for what stands for the files that match it, and is not itself the name of one."""
    return not is_url(path) and glob.has_magic(path) and not os.path.exists(path)


def files_matching(pattern: str) -> list[str]:
    """The files that match a pattern (``**`` for folders at any depth), sorted by name."""
    return sorted(one for one in glob.glob(pattern, recursive=True) if os.path.isfile(one))
