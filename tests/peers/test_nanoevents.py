"""NanoEvents from Branchline equal the events that coffea reads with uproot, column by column."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot
from tests.peers.peers import imported
from tests.sampled import long_but

import branchline
from branchline.errors import UnsupportedBranchError
from branchline.writing.merging.convert import convert

nanoevents = imported("coffea.nanoevents")

# Files of the shared test data, and the schemas for them.
FILES = {
    "NanoAODv5_sample.root": ("Events", "NanoAODSchema"),
    "nano_tt_v12.root": ("Events", "NanoAODSchema"),
    "treemaker.root": ("PreSelection", "TreeMakerSchema"),
    "p8_ee_WW_ecm240_edm4hep.root": ("events", "EDM4HEPSchema"),
    "Run2012BC_DoubleMuParked_Muons_rntuple_1000evts.root": ("Events", "BaseSchema"),
    "Run2012B_SingleMu_1000.root": ("Events", "BaseSchema"),
    "PHYSLITE_example.root": ("CollectionTree", "PHYSLITESchema"),
    "pduneana.root": ("pduneana/beamana", "PDUNESchema"),
    "pfnano.root": ("Events", "PFNanoAODSchema"),
    "uproot-issue513.root": ("Delphes", "OlderDelphes"),
}
# These files take most of the time. Other files have the same or similar schemas.
MANY_COLUMNS = {"NanoAODv5_sample.root", "pfnano.root", "p8_ee_WW_ecm240_edm4hep.root"}
# Collections that uproot does not read or misreads: links that are streamed memberwise, and TObject bits of referenced
# objects, which are followed by two extra bytes.
OURS_ALONE = {"egammaClusters", "EventInfo.hardScatterVertexLink", "egammaClusters."}
WRONG_BY_UPROOT = {"METAssoc_MET.jetLink"}
REFERENCED = ("EFlowPhoton", "Track", "EFlowNeutralHadron", "EFlowTrack")
WRONG_BY_UPROOT |= {f"{name}.fBits" for name in REFERENCED}
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]


def columns_of(events: ak.Array) -> dict[str, tuple[str, ...]]:
    """Return all fields of all collections."""
    columns = {}
    for name in events.fields:
        try:
            fields = events[name].fields
        except ValueError:  # the package vector rejects two names for a coordinate
            continue
        columns |= {f"{name}.{field}": (name, field) for field in fields} if fields else {name: (name,)}
    return columns


def values_of(events: ak.Array, where: tuple[str, ...]) -> ak.Array | None:
    """Return a column; None if coffea cannot create it, for example for two branches with the same name."""
    try:
        return ak.materialize(events[where[0]][where[1]] if len(where) > 1 else events[where[0]])
    except (ValueError, TypeError, KeyError):
        return None


def assert_same_events(got: ak.Array, wanted: ak.Array) -> None:
    """Check that all fields, types and values are equal, including cross-references."""
    assert sorted(got.fields) == sorted(wanted.fields)
    ours, theirs = columns_of(got), columns_of(wanted)
    assert set(ours) - OURS_ALONE == set(theirs) - OURS_ALONE
    different = []
    for name in set(theirs) & set(ours) - WRONG_BY_UPROOT:
        one, other = values_of(got, ours[name]), values_of(wanted, theirs[name])
        if other is None:
            continue
        if one is None or not ak.array_equal(one, other, equal_nan=True, check_parameters=False):
            different.append(name)
    assert different == []


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a file with muons and generated particles that refer to each other, as in NanoAOD."""
    rng = np.random.default_rng(11)
    path = tmp_path_factory.mktemp("nano") / "nano.root"
    counts, particles = rng.poisson(2, 200), rng.poisson(4, 200) + 1

    def numbers(counts: Any, values: Any) -> ak.Array:
        return ak.unflatten(np.asarray(values), counts)

    kinematics = ("pt", "eta", "phi", "mass")
    muons = {name: numbers(counts, rng.exponential(5, counts.sum()).astype("f4")) for name in kinematics}
    muons["charge"] = numbers(counts, rng.choice(np.array([-1, 1], "i4"), counts.sum()))
    muons["genPartIdx"] = numbers(counts, rng.integers(-1, 1, counts.sum()).astype("i4"))
    generated = {name: numbers(particles, rng.exponential(5, particles.sum()).astype("f4")) for name in kinematics}
    generated["pdgId"] = numbers(particles, rng.choice(np.array([-13, 13, 22], "i4"), particles.sum()))
    # The first particle of an event has no mother. The mother of every other particle is the previous particle.
    generated["genPartIdxMother"] = ak.values_astype(ak.local_index(generated["pt"]) - 1, "i4")
    columns = {
        "Muon": ak.zip(muons),
        "GenPart": ak.zip(generated),
        "run": np.full(200, 1, "u4"),
        "luminosityBlock": np.full(200, 1, "u4"),
        "event": np.arange(200, dtype="u8"),
        "MET_pt": rng.exponential(5, 200).astype("f4"),
        "MET_phi": rng.normal(0, 1, 200).astype("f4"),
    }
    with uproot.recreate(path) as file:
        file.mktree("Events", {name: ak.type(ak.Array(column)).content for name, column in columns.items()})
        file["Events"].extend(columns)
    return f"{path}:Events"


class OlderDelphes(nanoevents.DelphesSchema):
    """The schema for older files, whose tracks have no mass."""

    mixins: ClassVar[dict[str, str]] = {
        **nanoevents.DelphesSchema.mixins,
        "Track": "NanoCollection",
        "EFlowTrack": "NanoCollection",
    }


@pytest.mark.long
def test_events_of_fcc_are_those_of_uproot(shared: Path) -> None:
    schemas = imported("coffea.nanoevents.schemas.fcc")
    location = f"{shared / 'root' / 'p8_ee_WW_ecm240_edm4hep.root'}:events"
    schema = schemas.FCCSchema_edm4hep1
    assert_same_events(branchline.nanoevents(location, schema), by_uproot(location, schema))
    # Neither Branchline nor uproot can use the schema for older files with this file.
    with pytest.raises(branchline.OptionError, match="FCCSchema does not fit"):
        branchline.nanoevents(location, nanoevents.FCCSchema)
    with pytest.raises(RuntimeError):
        by_uproot(location, nanoevents.FCCSchema)


def by_uproot(location: str, schema: Any, **options: Any) -> ak.Array:
    path, tree = location.rsplit(":", 1)
    return nanoevents.NanoEventsFactory.from_root({path: tree}, schemaclass=schema, **options).events()


def test_nanoevents_are_those_of_uproot(nano: str) -> None:
    assert_same_events(branchline.nanoevents(nano), by_uproot(nano, nanoevents.NanoAODSchema))
    limits = {"entry_start": 50, "entry_stop": 120}
    assert_same_events(branchline.nanoevents(nano, **limits), by_uproot(nano, nanoevents.NanoAODSchema, **limits))


def test_nanoevents_refer_to_each_other_and_behave(nano: str) -> None:
    got, wanted = branchline.nanoevents(nano), by_uproot(nano, nanoevents.NanoAODSchema)
    for value in (
        lambda events: events.Muon.matched_gen.pt,
        lambda events: events.Muon.matched_gen.distinctParent.pdgId,
        lambda events: events.GenPart.children.pt,
        lambda events: (events.Muon + events.Muon).mass,
        lambda events: events.Muon[events.Muon.pt > 5].delta_r(events.Muon[events.Muon.pt > 5]),
        lambda events: events[ak.num(events.Muon) > 1].MET.pt,
    ):
        assert ak.array_equal(value(got), value(wanted), equal_nan=True)


def test_only_what_is_touched_is_read(nano: str) -> None:
    log: list[Any] = []
    events = branchline.nanoevents(nano, access_log=log)
    assert log == []
    ak.sum(events.Muon.pt)
    assert {one.branch for one in log} == {"nMuon", "Muon_pt"}


def test_metadata_are_those_of_the_caller(nano: str) -> None:
    first = branchline.nanoevents(nano, metadata={"dataset": "a"})
    second = branchline.nanoevents(nano, metadata={"dataset": "b"})
    assert (first.metadata, second.metadata) == ({"dataset": "a"}, {"dataset": "b"})
    assert first[:3].metadata == {"dataset": "a"}


@pytest.fixture(scope="module", params=["as converted", "as pyarrow writes"])
def parquet(nano: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Convert the file to Parquet, with required columns, and with optional columns, which are more common."""
    path = tmp_path_factory.mktemp("parquet") / "nano.parquet"
    convert(nano, path)
    if request.param == "as pyarrow writes":
        table = pq.read_table(path)
        fields = [
            pa.field(one.name, pa.list_(one.type.value_type) if pa.types.is_list(one.type) else one.type)
            for one in table.schema
        ]
        pq.write_table(table.cast(pa.schema(fields)), path)
    return str(path)


@pytest.mark.parametrize("schema", [None, nanoevents.BaseSchema])
def test_parquet_files_give_what_root_files_give(nano: str, parquet: str, schema: Any) -> None:
    assert_same_events(branchline.nanoevents(parquet_tree(parquet), schema), branchline.nanoevents(nano, schema))


def parquet_tree(path: str) -> branchline.Tree:
    tree: branchline.Tree = branchline.open(path)["Events"]
    return tree


def test_nanoevents_of_parquet_behave_in_a_train(nano: str, parquet: str) -> None:
    results = [branchline.run([Nearest()], [given], workers=1, tree="Events") for given in (nano, parquet)]
    assert [one.errors for one in results] == [[], []]
    assert results[0].outputs == results[1].outputs


class Nearest(imported("coffea.processor").ProcessorABC):  # type: ignore[misc]
    """Compute the distances between muons and the nearest generated particles."""

    schema = nanoevents.NanoAODSchema

    def process(self, events: Any) -> Any:
        muons = events.Muon[events.Muon.pt > 2]
        return {"r": float(ak.sum(muons.delta_r(muons.matched_gen))), "n": int(ak.sum(ak.num(muons)))}

    def postprocess(self, accumulator: Any) -> Any:
        return accumulator


def test_values_that_are_missing_are_named(tmp_path: Path) -> None:
    table = pa.table({"run": [1, 2], "luminosityBlock": [1, 1], "event": [1, 2], "MET_pt": [1.0, None]})
    pq.write_table(table, tmp_path / "nano.parquet")
    events = branchline.nanoevents(parquet_tree(str(tmp_path / "nano.parquet")), nanoevents.BaseSchema)
    assert events.run.to_list() == [1, 2]
    with pytest.raises(
        UnsupportedBranchError, match="branch MET_pt has missing values, which NanoEvents does not support"
    ):
        ak.materialize(events.MET_pt)


@pytest.mark.parametrize("wrong", ["NanoAODSchema", int, 3])
def test_what_is_no_schema_is_refused(nano: str, wrong: Any) -> None:
    with pytest.raises(branchline.OptionError, match="is not a schema"):
        branchline.nanoevents(nano, wrong)
    with pytest.raises(branchline.OptionError, match="is not a tree"):
        branchline.nanoevents(nano.rsplit(":", 1)[0])
    with pytest.raises(branchline.OptionError, match="DelphesSchema does not fit"):
        branchline.nanoevents(nano, nanoevents.DelphesSchema)


@pytest.mark.parametrize("name", long_but(FILES, sorted(set(FILES) - MANY_COLUMNS)))
def test_shared_files_give_what_uproot_gives(shared: Path, name: str) -> None:
    tree, schema = FILES[name]
    location = f"{shared / 'root' / name}:{tree}"
    schema = OlderDelphes if schema == "OlderDelphes" else getattr(nanoevents, schema)
    assert_same_events(branchline.nanoevents(location, schema), by_uproot(location, schema))
