"""The results of trains, after they ran: loaded as what the wagons returned, scaled to a luminosity, and drawn."""

from typing import TYPE_CHECKING

from branchline.lazily import lazily

if TYPE_CHECKING:
    from branchline.results.loading import Results, load
    from branchline.results.plotting import plot
    from branchline.results.workspaces import workspace

__all__ = ["Results", "load", "plot", "workspace"]

__getattr__ = lazily(
    __name__,
    {
        "branchline.results.loading": ("Results", "load"),
        "branchline.results.plotting": ("plot",),
        "branchline.results.workspaces": ("workspace",),
    },
)
