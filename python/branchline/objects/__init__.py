"""What files hold beside trees: histograms and graphs as what Python knows of them, all else as records."""

from branchline.objects.efficiency import Efficiency
from branchline.objects.graph import Graph, MultiGraph
from branchline.objects.histogram import Histogram
from branchline.objects.lists import ObjectList
from branchline.objects.making import made
from branchline.objects.record import Origin, Record, record_of
from branchline.objects.sparse import SparseHistogram

__all__ = [
    "Efficiency",
    "Graph",
    "Histogram",
    "MultiGraph",
    "ObjectList",
    "Origin",
    "Record",
    "SparseHistogram",
    "made",
    "record_of",
]
