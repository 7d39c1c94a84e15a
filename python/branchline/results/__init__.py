"""The results of trains, after they ran: loaded again as what the wagons returned."""

from branchline.results.loading import Results, load

__all__ = ["Results", "load"]
