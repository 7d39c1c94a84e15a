"""The place of a worker: its machine and its site."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass

from branchline.jobs.sites.site_map import SiteMap

#: Variables by which workers know their site, the first that is set holds: ours; CMS's and OSG's pilots; ATLAS, as
#: Rucio's client looks for it; DIRAC; ALICE.
SITE_VARIABLES = (
    "BRANCHLINE_SITE",
    "GLIDEIN_CMSSite",
    "ATLAS_SITE_NAME",
    "OSG_SITE_NAME",
    "GLIDEIN_Site",
    "DIRACSITE",
    "ALIEN_SITE",
)
_NO_SITES = ("unknown", "none")


@dataclass(frozen=True, order=True)
class Spot:
    """A machine and its site; each is empty if unknown."""

    host: str = ""
    site: str = ""

    @classmethod
    def of(cls, host: str, environment: Mapping[str, str], sites: SiteMap) -> Spot:
        """By the environment, else by the site's file, else by the domain of the machine's name."""
        for name in SITE_VARIABLES:
            site = environment.get(name, "").strip()
            if site and site.lower() not in _NO_SITES:
                return cls(host, site)
        return cls(host, sites.site_of_host(host) or host.partition(".")[2])


def own_spot() -> Spot:
    """The place of this process. Raises OptionError for an invalid site file."""
    return Spot.of(platform.node() or "localhost", os.environ, SiteMap.load())
