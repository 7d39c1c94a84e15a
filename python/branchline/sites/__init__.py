"""Sites: where workers stand, where storage elements are, and what is near to what."""

from branchline.sites.elements import LOCAL_ELEMENT, ElementSites, server_of
from branchline.sites.nearness import Distances, Nearness, is_near, nearness
from branchline.sites.site_file import VARIABLE, site_content, site_file
from branchline.sites.site_map import SiteMap
from branchline.sites.spot import Spot, own_spot

__all__ = [
    "LOCAL_ELEMENT",
    "VARIABLE",
    "Distances",
    "ElementSites",
    "Nearness",
    "SiteMap",
    "Spot",
    "is_near",
    "nearness",
    "own_spot",
    "server_of",
    "site_content",
    "site_file",
]
