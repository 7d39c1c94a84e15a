"""The file with the configuration of a site, which batch systems and the map of sites are read from."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from branchline.errors import OptionError

VARIABLE = "BRANCHLINE_SITE_CONFIG"


def site_path() -> Path:
    """Where the configuration is looked for."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "branchline" / "site.toml"


def site_content() -> dict[str, Any]:
    """What the file holds; nothing where there is none. Raises OptionError."""
    path = site_path()
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if os.environ.get(VARIABLE):
            raise OptionError(f"{VARIABLE} names a file that is not there", path=str(path)) from None
        return {}
    except (OSError, ValueError) as error:
        raise OptionError(f"this is no configuration of a site: {error}", path=str(path), hint="write TOML") from None
