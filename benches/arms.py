"""The arms of the comparisons. An arm is a reader with its settings on a given number of cores."""

from __future__ import annotations

from dataclasses import dataclass, field

# A family contains the arms of the same reader; tables show its fastest arm.
BRANCHLINE = "Branchline"
UPROOT = "uproot"
GET_ENTRY = "GetEntry"
DATA_FRAME = "RDataFrame"
LIMIT = "limit"
PEERS = (UPROOT, GET_ENTRY, DATA_FRAME)


@dataclass(frozen=True)
class Arm:
    """A reader with its settings. `reader` names the factory in readers.py that gets the `options`."""

    name: str
    family: str
    reader: str
    cores: int = 1
    options: dict[str, str | int] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.name}, {self.cores} core{'s' if self.cores > 1 else ''}"


def one_core_arms() -> list[Arm]:
    """Return each reader on one core, with the settings that could be its fastest."""
    return [
        Arm("Branchline", BRANCHLINE, "branchline"),
        Arm("limit: decompression alone", LIMIT, "limit"),
        Arm("uproot, library ak", UPROOT, "uproot", options={"library": "ak"}),
        Arm("uproot, library np", UPROOT, "uproot", options={"library": "np"}),
        Arm("GetEntry, TTreeCache", GET_ENTRY, "get_entry"),
        Arm("GetEntry, no TTreeCache", GET_ENTRY, "get_entry", options={"cache_bytes": 0}),
        Arm("RDataFrame", DATA_FRAME, "data_frame"),
    ]


def two_core_arms() -> list[Arm]:
    """Return each reader on two cores. uproot and GetEntry also divide the files among processes or threads."""
    return [
        Arm("Branchline", BRANCHLINE, "branchline", 2),
        Arm("limit: decompression alone", LIMIT, "limit", 2),
        Arm("uproot, library ak, executors", UPROOT, "uproot", 2, {"library": "ak", "threads": 2}),
        Arm("uproot, library np, executors", UPROOT, "uproot", 2, {"library": "np", "threads": 2}),
        Arm("uproot, library np, processes", UPROOT, "uproot", 2, {"library": "np", "processes": 2}),
        Arm("GetEntry, threads over files", GET_ENTRY, "get_entry", 2, {"threads": 2}),
        Arm("GetEntry, implicit threads", GET_ENTRY, "get_entry", 2, {"implicit_threads": 2}),
        Arm("RDataFrame, implicit threads", DATA_FRAME, "data_frame", 2, {"implicit_threads": 2}),
    ]


def sensor_arms() -> list[Arm]:
    """Return Branchline with and without its sensors."""
    off = {"BRANCHLINE_SENSORS": "off"}
    return [
        Arm("sensors on", BRANCHLINE, "branchline"),
        Arm("sensors off", BRANCHLINE, "branchline", environment=off),
        Arm("sensors on", BRANCHLINE, "branchline", 2),
        Arm("sensors off", BRANCHLINE, "branchline", 2, environment=off),
    ]


def split_object_arms() -> list[Arm]:
    """Return the readers of trees with hundreds of branches of split objects."""
    return [
        Arm("Branchline", BRANCHLINE, "branchline_split"),
        Arm("uproot, library ak", UPROOT, "uproot_split", options={"library": "ak"}),
        Arm("GetEntry, TTreeCache", GET_ENTRY, "get_split_entry"),
        Arm("GetEntry, no TTreeCache", GET_ENTRY, "get_split_entry", options={"cache_bytes": 0}),
        Arm("Branchline", BRANCHLINE, "branchline_split", 2),
        Arm("GetEntry, threads over files", GET_ENTRY, "get_split_entry", 2, {"threads": 2}),
    ]


def arms_of_objects() -> list[Arm]:
    """Return the readers of objects and containers, on one core."""
    limit = Arm("limit: decompression alone", LIMIT, "limit")
    return [*(arm for arm in split_object_arms() if arm.cores == 1), limit]


def arms_of_opening() -> list[Arm]:
    """Return the readers that open files, for the first and for later files of a process."""
    return [
        Arm(f"{family}, {when}", family, f"{family.lower()}_open", options={"is_first": is_first})
        for family in (BRANCHLINE, UPROOT)
        for when, is_first in (("first", 1), ("again", 0))
    ]
