"""What is compared: every arm is one reader in one setting on a given number of cores."""

from __future__ import annotations

from dataclasses import dataclass, field

# The arms of a family are settings of the same reader; tables quote the family's fastest one.
BRANCHLINE = "Branchline"
UPROOT = "uproot"
GET_ENTRY = "GetEntry"
DATA_FRAME = "RDataFrame"
LIMIT = "limit"
PEERS = (UPROOT, GET_ENTRY, DATA_FRAME)


@dataclass(frozen=True)
class Arm:
    """One reader in one setting: `reader` names its maker in readers.py, which gets the `options`."""

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
    """Each reader on one core, in the settings that have a chance to be its best."""
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
    """Each reader on two cores. uproot and GetEntry also with the files split between processes or threads."""
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
    """Branchline with its sensors and without."""
    off = {"BRANCHLINE_SENSORS": "off"}
    return [
        Arm("sensors on", BRANCHLINE, "branchline"),
        Arm("sensors off", BRANCHLINE, "branchline", environment=off),
        Arm("sensors on", BRANCHLINE, "branchline", 2),
        Arm("sensors off", BRANCHLINE, "branchline", 2, environment=off),
    ]


def split_object_arms() -> list[Arm]:
    """The readers of trees of split objects with hundreds of branches."""
    return [
        Arm("Branchline", BRANCHLINE, "branchline_split"),
        Arm("uproot, library ak", UPROOT, "uproot_split", options={"library": "ak"}),
        Arm("GetEntry, TTreeCache", GET_ENTRY, "get_split_entry"),
        Arm("GetEntry, no TTreeCache", GET_ENTRY, "get_split_entry", options={"cache_bytes": 0}),
        Arm("Branchline", BRANCHLINE, "branchline_split", 2),
        Arm("GetEntry, threads over files", GET_ENTRY, "get_split_entry", 2, {"threads": 2}),
    ]


def arms_of_objects() -> list[Arm]:
    """The readers of objects and containers, on one core."""
    limit = Arm("limit: decompression alone", LIMIT, "limit")
    return [*(arm for arm in split_object_arms() if arm.cores == 1), limit]


def arms_of_opening() -> list[Arm]:
    """Those who open files, in processes that have opened none before and in one that has."""
    return [
        Arm(f"{family}, {when}", family, f"{family.lower()}_open", options={"is_first": is_first})
        for family in (BRANCHLINE, UPROOT)
        for when, is_first in (("first", 1), ("again", 0))
    ]
