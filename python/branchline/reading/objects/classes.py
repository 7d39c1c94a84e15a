"""What becomes of the objects of ROOT's classes: histograms, graphs, lists, texts. All others stay records.

What only histograms need is imported when the first one is made.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from branchline.reading.objects.graph import MultiGraph, graph_of
from branchline.reading.objects.installed import hist_is_needed
from branchline.reading.objects.lists import ObjectList, ObjectMap
from branchline.reading.objects.object_record import Record, register
from branchline.reading.objects.single_values import Parameter, Time

# Classes that inherit from one of those below and hold something else.
STAY_RECORDS = ("TH1K", "TH2Poly", "TProfile2Poly", "TGraphMultiErrors", "TGraphQQ")
# What a TParameter holds, as files write it.
PARAMETERS = (
    "bool",
    "int",
    "Int_t",
    "long",
    "Long_t",
    "Long64_t",
    "long long",
    "float",
    "Float_t",
    "double",
    "Double_t",
)
LISTS = ("TList", "THashList", "TSortedList", "TObjArray")


def _itself(record: Record) -> Record:
    return record


def _counts(record: Record, dimensions: int) -> Any:
    with hist_is_needed():
        from branchline.reading.objects.counts import histogram_of
    return histogram_of(record, dimensions)


def _profile(record: Record, dimensions: int) -> Any:
    with hist_is_needed():
        from branchline.reading.objects.profile import profile_of
    return profile_of(record, dimensions)


def _sparse(record: Record) -> Any:
    with hist_is_needed():
        from branchline.reading.objects.sparse import sparse_of
    return sparse_of(record)


def _dense(record: Record) -> Any:
    with hist_is_needed():
        from branchline.reading.objects.sparse import dense_of
    return dense_of(record)


def _efficiency(record: Record) -> Any:
    with hist_is_needed():
        from branchline.reading.objects.efficiency import Efficiency
    return Efficiency(record)


def _text(record: Record) -> str:
    text: str = record.raw("fString")
    return text


def _parameter(record: Record) -> Record:
    return Parameter(record)


def _time(record: Record) -> Record:
    return Time(record)


def register_all() -> None:
    """Registers all classes of which an object becomes something else than a record."""
    for name in STAY_RECORDS:
        register(name, _itself)
    for dimensions, name in enumerate(("TProfile", "TProfile2D", "TProfile3D"), start=1):
        register(name, partial(_profile, dimensions=dimensions))
    for dimensions, name in enumerate(("TH1", "TH2", "TH3"), start=1):
        register(name, partial(_counts, dimensions=dimensions))
    register("THnSparse", _sparse)
    register("THn", _dense)
    register("TEfficiency", _efficiency)
    register("TGraph", graph_of)
    register("TGraph2D", graph_of)
    register("TMultiGraph", MultiGraph)
    for content in PARAMETERS:
        register(f"TParameter<{content}>", _parameter)
    register("TDatime", _time)
    register("TMap", ObjectMap)
    register("TObjString", _text)
    for name in LISTS:
        register(name, ObjectList)
