"""The options of `branchline.plot`, which describes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from branchline.errors import OptionError
from branchline.trains.results.systematics import Systematics

#: Names of the styles and of the panels below a figure.
STYLES = ("root", "cms", "atlas", "lhcb", "alice", "dune")
PANELS = ("ratio", "pull", "difference", "none")


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
        if energy is None or isinstance(energy, str):
            return
        if isinstance(energy, bool) or not (math.isfinite(energy) and energy > 0):
            raise OptionError(f"invalid energy: {energy!r}", hint='give a number in TeV, or a text such as "900 GeV"')
