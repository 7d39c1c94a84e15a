"""The configuration file of a site: the settings of its batch system and the map of sites."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from branchline.errors import OptionError

VARIABLE = "BRANCHLINE_SITE_CONFIG"


def site_path() -> Path:
    """The path of the configuration."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "branchline" / "site.toml"


@dataclass(frozen=True)
class SiteFile:
    """The content of a site's configuration file, and its path."""

    path: Path
    content: Mapping[str, object]

    @classmethod
    def load(cls) -> SiteFile:
        """The configuration of this site; empty if there is no file. Raises OptionError."""
        path = site_path()
        try:
            return cls(path, tomllib.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            if os.environ.get(VARIABLE):
                raise OptionError(f"{VARIABLE} names a file that is not there", path=str(path)) from None
            return cls(path, {})
        except (OSError, ValueError) as error:
            what = f"the configuration of the site cannot be read: {error}"
            raise OptionError(what, path=str(path), hint="write TOML") from None

    def section(self, name: str, hint: str) -> Mapping[str, object]:
        """A section of it; empty if there is none. Raises OptionError, with ``hint``, for another value."""
        found = self.content.get(name, {})
        if not isinstance(found, Mapping):
            raise OptionError(f"{name} is not a section", path=str(self.path), hint=hint)
        return found
