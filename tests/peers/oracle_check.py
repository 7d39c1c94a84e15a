"""Read every branch of a file and compare it with its oracle, in a process of test_oracles.py."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.peers.peers import load_digest

# Outcomes of a branch.
MATCH = "match"  # read, and equal to the oracle
DIFFERS = "differs"  # read, and not equal
NOT_READ = "not read"  # refused, because its kind is not supported yet
UNCHECKED = "unchecked"  # read, but there are no expected values
FAILED = "failed"  # any other error
ADJUSTED = "adjusted"  # equals the digest only after as_the_oracle_shows_it
OUTCOMES = (MATCH, ADJUSTED, DIFFERS, NOT_READ, UNCHECKED, FAILED)

# Statuses of oracles whose digest is decisive. A difference from a digest that only uproot confirms may be an error of
# uproot.
DECIDING = ("agree", "root", "bytes")
COMPARED = (*DECIDING, "uproot")

MESSAGE_MAX = 200

_NUMBER = r"(b1|[iu][1248]|f[48])"
_FORM = re.compile(rf"(var\*)?(\d+\*)?{_NUMBER}|string")
_ELEMENT = r"(bool|u?int(8|16|32|64)_t|float|double|Double32_t|Float16_t)"
_TYPE = re.compile(rf"{_ELEMENT}(\[\d*\])*|std::vector<{_ELEMENT}>|std::string|TString|char\*")


@dataclass(frozen=True)
class Verdict:
    """The result for one branch of one tree."""

    file: str
    tree: str
    branch: str
    kind: str
    status: str
    type: str
    form: str
    outcome: str
    message: str = ""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.tree}: {self.branch}"


# ROOT's oracles of TObject::fBits include bits that TClonesArray and TRef set in memory: the object is on the heap, and
# a referenced object must be cleaned up.
_ON_HEAP, _REFERENCED, _MUST_CLEAN_UP = 0x01000000, 0x10, 0x8


def as_the_oracle_shows_it(name: str, form: str, array: Any) -> Any:
    """Convert values to the representation of an oracle: TObject::fBits as in ROOT's memory, and members with array
    lengths (type code 6) as unsigned integers, as in uproot. ROOT and Branchline read these as ints.
    """
    import awkward as ak
    import numpy as np

    if name.endswith(".fBits") and form == "var*u4":
        cleaned_up = (array & np.uint32(_REFERENCED)) // np.uint32(_REFERENCED // _MUST_CLEAN_UP)
        return array | np.uint32(_ON_HEAP) | cleaned_up
    if form in ("u4", "var*u4") and str(ak.type(array)).endswith(" int32"):
        return ak.values_astype(array, np.uint32)
    counters = [member for member in ak.fields(array) if f"{member}:u4" in form.strip("{}").split(",")]
    for member in counters:
        array = ak.with_field(array, as_the_oracle_shows_it(member, "u4", array[member]), member)
    return array


# Branches that Branchline, uproot, and ROOT without the experiment's libraries cannot read: their classes have custom
# streamers, or objects that refer to each other in cycles.
_PREAMBLE = "KM3NETDAQ::JDAQPreamble"
_SLICES = "km3net_timeslice_{0}/KM3NETDAQ::JDAQTimeslice"
OWN_STREAMERS = {
    f"KM3NeT_00000049_00008456.summaryslice-167941.root:KM3NET_SUMMARYSLICE: KM3NET_SUMMARYSLICE/{_PREAMBLE}",
    "KM3NeT_00000049_00008456.summaryslice-167941.root:KM3NET_SUMMARYSLICE: "
    "KM3NET_SUMMARYSLICE/vector<KM3NETDAQ::JDAQSummaryFrame>",
    f"KM3NeT_00000267_00025291_JDAQEvent_JDAQSummaryslice.root:KM3NET_EVENT: KM3NET_EVENT/{_PREAMBLE}",
    f"KM3NeT_00000267_00025291_JDAQEvent_JDAQSummaryslice.root:KM3NET_SUMMARYSLICE: KM3NET_SUMMARYSLICE/{_PREAMBLE}",
    f"mcv8.1.mupage_tuned_100G.sirene.jterbr00013288.10.root:KM3NET_EVENT: KM3NET_EVENT/{_PREAMBLE}",
    f"mcv8.1.mupage_tuned_100G.sirene.jterbr00013288.10.root:KM3NET_SUMMARYSLICE: KM3NET_SUMMARYSLICE/{_PREAMBLE}",
    *(
        f"mcv8.1.mupage_tuned_100G.sirene.jterbr00013288.10.root:KM3NET_TIMESLICE_{kind}: "
        f"{_SLICES.format(kind)}/{_PREAMBLE}"
        for kind in ("L1", "SN")
    ),
    "mcpool.root:Events: HepMCProduct_PythiaInput__HepMC./HepMCProduct_PythiaInput__HepMC.obj/"
    "HepMCProduct_PythiaInput__HepMC.obj.evt_",
    "skim.root:rootTree: Jpsi/Jpsi.jmu1",
    "skim.root:rootTree: Jpsi/Jpsi.jmu2",
    "uproot-issue475.root:Event/Elec/ElecHeader: ElecHeader/m_event",
    "uproot-issue475.root:Event/Sim/SimHeader: SimHeader/m_event",
    "uproot-issue475.root:Meta/navigator: EvtNavigator/m_refs",
}


# Oracles that are wrong because ROOT's formula misread the values, with the evidence in the same file. For the bits in
# mksm.root this is an inference, because the digests could not be reproduced from Branchline's values.
_ARRAYS = "the formula has one of an array of objects, with what lay in memory behind it"
_TYPES = "edm4hep_266.root:podio_metadata: {0}___CollectionTypeInfo/{0}___CollectionTypeInfo._1"
CONTRADICTED = {
    _TYPES.format("events"): "it has one text, the count and the other members say four",
    _TYPES.format("runs"): "it has one text, the count and the other members say none",
    "shorttrack.root:T: event/fTriggerBits/fTriggerBits.fAllBits": "it has one byte per entry, fNbytes says more",
    **{
        f"{file}:tree: branch/{member}": _ARRAYS
        for file, member in [
            ("test_stl_array.root", "m_arr_str[3]"),
            ("test_stl_array.root", "m_arr_vec_int[3]"),
            ("test_stl_array.root", "m_arr_tstr[3]"),
            ("test_stl_complicated.root", "m_carr_vec_int[5]"),
            ("test_stl_complicated.root", "m_carr_str[5]"),
            ("test_stl_complicated.root", "m_arr_vec_int[5]"),
            ("test_stl_complicated.root", "m_arr_str[5]"),
        ]
    },
    "mksm.root:mk: event/jetu/jetu.fBits": "the bit of the heap is set for two of three equal objects of entry 0",
    "mksm.root:mk: event/jetu/jetu.fP.fBits": "the bit of the heap is set for two of three equal objects of entry 0",
}


def must_be_read(form: str | None, type_name: str | None) -> bool:
    """Return whether Branchline must be able to read a branch: numbers, arrays of numbers (fixed-size, variable-size,
    or a vector), strings, and such members of split objects and of a split TClonesArray.
    """
    return bool(form and type_name and _FORM.fullmatch(form) and _TYPE.fullmatch(type_name))


@cache
def _digest_module(folder: Path) -> ModuleType:
    return load_digest(folder)


def in_short(error: BaseException) -> str:
    """Return the type and the first line of an error."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:MESSAGE_MAX]}"


def outcome_of(name: str, branch: Any, oracle: dict[str, Any], digest: ModuleType) -> tuple[str, str]:
    """Read a branch and compare it with its oracle. Returns the outcome and a message."""
    import branchline

    try:
        array = branch().array(library="ak")
    except branchline.UnsupportedBranchError as error:
        return NOT_READ, str(error)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        if oracle["status"] == "external" and isinstance(error, branchline.BranchlineError):
            return NOT_READ, str(error)
        return FAILED, in_short(error)
    if oracle["status"] not in COMPARED:
        return UNCHECKED, ""
    found = digest.check(oracle, array)
    adjusted = as_the_oracle_shows_it(name, oracle["form"], array) if found else None
    if adjusted is not None and not digest.check(oracle, adjusted):
        return ADJUSTED, "; ".join(found)
    return (DIFFERS, "; ".join(found)) if found else (MATCH, "")


def check_file(folder: Path, name: str, objects: dict[str, Any]) -> list[Verdict]:
    """Return the verdicts on all branches of all trees in a file."""
    import branchline

    digest = _digest_module(folder)
    verdicts = []
    file: Any = None
    for tree_name, entry in objects.items():
        try:
            file = branchline.open(folder / "root" / name) if file is None else file
            tree, error_of_tree = file[tree_name], None
        except branchline.UnsupportedBranchError as error:
            tree, error_of_tree = None, (NOT_READ, str(error))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            tree, error_of_tree = None, (FAILED, in_short(error))
        for branch_name, oracle in entry["branches"].items():

            def branch(tree: Any = tree, branch_name: str = branch_name) -> Any:
                return tree[branch_name]

            outcome, message = error_of_tree or outcome_of(branch_name, branch, oracle, digest)
            described = (entry["kind"], oracle["status"], oracle.get("type") or "", oracle.get("form") or "")
            verdicts.append(Verdict(name, tree_name, branch_name, *described, outcome, message))
    return verdicts


def summary(verdicts: list[Verdict]) -> str:
    """Return a table with the number of branches for each oracle status and outcome."""
    counts = Counter((v.status, v.outcome) for v in verdicts)
    statuses = sorted({v.status for v in verdicts}, key=lambda s: -sum(counts[s, o] for o in OUTCOMES))
    lines = ["{:10}".format("oracle") + "".join(f"{o:>11}" for o in OUTCOMES) + f"{'all':>11}"]
    for status in [*statuses, "all"]:
        row = [sum(n for (s, o), n in counts.items() if o == outcome and status in (s, "all")) for outcome in OUTCOMES]
        lines.append(f"{status:10}" + "".join(f"{n:>11}" for n in [*row, sum(row)]))
    return "\n".join(lines)
