"""The options of `branchline.plot`, which describes them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from branchline.errors import OptionError
from branchline.trains.results.systematics import Systematics

#: Names of the styles and of the panels below a figure.
STYLES = ("root", "cms", "atlas", "lhcb", "alice", "dune")
PANELS = ("ratio", "pull", "difference", "none")
# A number, optionally with a unit.
_ENERGY = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?( ?[kMGTPE]?eV)?")


@dataclass(frozen=True, kw_only=True)
class PlotOptions:
    """The options of a figure. Raises OptionError for an unknown style or panel and for an invalid energy."""

    signal: Sequence[str] = ()
    panel: str = "ratio"
    overflow: bool = True
    log: bool = False
    style: str = "root"
    label: str = ""
    energy: float | str | None = None
    systematics: Systematics = field(default_factory=Systematics)
    blind: bool = False

    def __post_init__(self) -> None:
        for what, value, known in (("style", self.style, STYLES), ("panel", self.panel, PANELS)):
            if value not in known:
                raise OptionError(f"unknown {what} {value!r}", hint=f"choose one of {', '.join(known)}")
        energy = self.energy
        if isinstance(energy, str):
            is_valid = _ENERGY.fullmatch(energy) is not None
        else:
            is_valid = energy is None or (not isinstance(energy, bool) and math.isfinite(energy) and energy > 0)
        if not is_valid:
            raise OptionError(f"invalid energy: {energy!r}", hint='give a number in TeV, or a text such as "900 GeV"')
