"""The objects of a file that are no trees: histograms, graphs, lists, and records of any other class."""

from typing import TYPE_CHECKING

from branchline.lazily import lazily
from branchline.objects.graph import Graph, MultiGraph
from branchline.objects.lists import ObjectList, ObjectMap
from branchline.objects.making import register_all
from branchline.objects.record import KeyPlace, Origin, Record, made, record_of

if TYPE_CHECKING:
    from branchline.objects.efficiency import Efficiency
    from branchline.objects.histogram import Histogram
    from branchline.objects.sparse import SparseHistogram

__all__ = [
    "Efficiency",
    "Graph",
    "Histogram",
    "KeyPlace",
    "MultiGraph",
    "ObjectList",
    "ObjectMap",
    "Origin",
    "Record",
    "SparseHistogram",
    "made",
    "record_of",
]

register_all()

# These need hist, which takes long to import.
__getattr__ = lazily(
    __name__,
    {
        "branchline.objects.efficiency": ("Efficiency",),
        "branchline.objects.histogram": ("Histogram",),
        "branchline.objects.sparse": ("SparseHistogram",),
    },
)
