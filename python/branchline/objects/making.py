"""What becomes of a record: a histogram, a graph, a list, a text, or the record itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from branchline.errors import NoSuchKeyError, UnsupportedBranchError
from branchline.objects.efficiency import Efficiency
from branchline.objects.graph import MultiGraph, graph_of
from branchline.objects.histogram import histogram_of
from branchline.objects.lists import ObjectList
from branchline.objects.profile import profile_of
from branchline.objects.record import Record
from branchline.objects.sparse import dense_of, sparse_of

# Classes that inherit from one of those below and hold something else: they stay records.
OTHERWISE = frozenset({"TH1K", "TH2Poly", "TProfile2Poly", "TGraphMultiErrors", "TGraphQQ"})


def _map_of(record: Record) -> Any:
    """A TMap as a dict, if its keys have different names; else a list of pairs."""
    pairs = [(made(key), made(value)) for key, value in record.raw("objects")]
    texts = [key for key, _ in pairs if isinstance(key, str)]
    return dict(pairs) if len(set(texts)) == len(pairs) else pairs


def _text_of(record: Record) -> str:
    text: str = record.raw("fString")
    return text


# What members of other types than their class has, as in a damaged file, may raise.
DAMAGED = (AttributeError, LookupError, OverflowError, TypeError, ValueError, NoSuchKeyError)

MAKERS: dict[str, Callable[[Record], Any]] = {
    "TProfile": lambda record: profile_of(record, 1),
    "TProfile2D": lambda record: profile_of(record, 2),
    "TProfile3D": lambda record: profile_of(record, 3),
    "TH3": lambda record: histogram_of(record, 3),
    "TH2": lambda record: histogram_of(record, 2),
    "TH1": lambda record: histogram_of(record, 1),
    "THnSparse": sparse_of,
    "THn": dense_of,
    "TEfficiency": Efficiency,
    "TGraph": graph_of,
    "TGraph2D": graph_of,
    "TMultiGraph": MultiGraph,
    "TMap": _map_of,
    "TList": ObjectList,
    "THashList": ObjectList,
    "TSortedList": ObjectList,
    "TObjArray": ObjectList,
    "TObjString": _text_of,
}


def made(value: Any) -> Any:
    """What a record stands for, or several of them; anything else as it is. A record stays one, with its ``refusal``,
    if what its class stands for cannot hold it.
    """
    if isinstance(value, list | tuple):
        return type(value)(made(one) for one in value)
    if not isinstance(value, Record) or value.unread is not None:
        return value
    for name in value.lineage:
        if name in OTHERWISE:
            return value
        if name in MAKERS:
            try:
                return MAKERS[name](value)
            except UnsupportedBranchError as error:
                value.refusal = error.what
                return value
            except DAMAGED as error:
                value.refusal = f"its members are not those of a {name}: {error}"
                return value
    return value
