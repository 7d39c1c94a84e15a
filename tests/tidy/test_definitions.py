"""Lists of codecs, batch systems and job states, colors, and unit factors are each defined in a single module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from branchline.base.codecs import CODECS
from branchline.jobs.batch.system import BATCH_SYSTEMS
from branchline.records.sensors.record import FAILED, FINISHED, PARTIAL, RUNNING

PACKAGE = Path("python", "branchline")
#: For each list of names: the names, the number of names in one literal that counts as a second definition, the module
#: that defines the list, and modules with an exception.
FACTS = {
    "codecs": ({one.name for one in CODECS}, 3, "base/codecs.py", {"trains/demo/demo_files.py"}),
    "batch systems": (set(BATCH_SYSTEMS), 2, "jobs/batch/system.py", set()),
    "states of jobs": ({RUNNING, FINISHED, PARTIAL, FAILED}, 3, "records/sensors/record.py", set()),
}
#: Unit factors. `NOT_UNITS` has the modules that use such a number for something else, with the reason.
UNIT_FACTORS = {2**10, 2**20, 2**30, 10**6, 10**9}
UNITS_HOME = "base/quantities.py"
NOT_UNITS = {
    "jobs/batch/site_settings.py": "multiples of 1 KiB, as Slurm writes them",
    "reading/trees/file.py": "an offset in version numbers of ROOT",
    "trains/demo/demo_files.py": "a stride of seeds",
}
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b")


def constants(node: ast.AST) -> set[object]:
    """Return the constants in a list, tuple, set, dict or `Literal`."""
    if isinstance(node, ast.Dict):
        parts: list[ast.expr | None] = [*node.keys, *node.values]
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        parts = [*node.elts]
    else:
        return set()
    return {one.value for one in parts if isinstance(one, ast.Constant)}


def modules(repository: Path) -> Iterator[tuple[str, str]]:
    for path in sorted((repository / PACKAGE).rglob("*.py")):
        yield path.relative_to(repository / PACKAGE).as_posix(), path.read_text(encoding="utf-8")


@cache
def nodes_of(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_is_defined_once(repository: Path, fact: str) -> None:
    names, least, home, others = FACTS[fact]
    assert len(names) >= least
    found = [
        f"{name}:{node.lineno}"
        for name, text in modules(repository)
        if name not in {home, *others}
        for node in nodes_of(text)
        if isinstance(node, ast.expr) and len(constants(node) & names) >= least
    ]
    assert not found, f"{fact} are defined in {home}, and again in {', '.join(found)}"


def test_the_same_test_finds_a_second_definition() -> None:
    names, least, *_ = FACTS["codecs"]
    for text in (
        'SLOW = ("lzma", "zlib", "old CS")',
        'X = {"zlib": 1, "lz4": 2, "zstd": 3}',
        'Literal["zlib", "lzma", "lz4"]',
    ):
        assert any(len(constants(node) & names) >= least for node in ast.walk(ast.parse(text)))
    assert not any(len(constants(node) & names) >= least for node in ast.walk(ast.parse('("zlib", "zstd")')))


def test_colours_are_those_of_the_palette(repository: Path) -> None:
    found = [
        f"{name} {', '.join(sorted(set(_COLOUR.findall(text))))}"
        for name, text in modules(repository)
        if name != "base/palette.py" and _COLOUR.search(text)
    ]
    scripts = [path for path in sorted((repository / PACKAGE).rglob("*.js")) if _COLOUR.search(path.read_text())]
    assert not found, found
    assert not scripts, scripts


def _value(node: ast.expr) -> object:
    """Return the value of a constant, of a power of constants or of a shifted constant; None for other expressions."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift):
        left, right = _value(node.left), _value(node.right)
        if isinstance(left, int) and isinstance(right, int) and 0 <= right < 64:
            return left**right if isinstance(node.op, ast.Pow) else left << right
    return node.value if isinstance(node, ast.Constant) else None


def unit_factors(text: str) -> Iterator[int]:
    """Yield the lines with a unit factor in a product or quotient, or assigned to a name that ends with `_bytes`."""
    for node in nodes_of(text):
        numbers: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv | ast.Mod):
            numbers = [node.left, node.right]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            pairs: Iterable[tuple[ast.expr, ast.expr]] = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = zip(target.elts, node.value.elts, strict=False)
            numbers = [value for name, value in pairs if ast.unparse(name).lower().endswith("_bytes")]
        if any(_value(one) in UNIT_FACTORS for one in numbers):
            yield node.lineno


def test_factors_of_units_have_one_home(repository: Path) -> None:
    found = [
        f"{name}:{line}"
        for name, text in modules(repository)
        if name != UNITS_HOME and name not in NOT_UNITS
        for line in unit_factors(text)
    ]
    templates = sorted((repository / PACKAGE).rglob("*.html"))
    found += [str(path) for path in templates if re.search(r"/ *1(e6|e9|_000_000)\b", path.read_text(encoding="utf-8"))]
    assert not found, f"import KIB, MIB, GIB, MB, GB, NS_PER_MS or NS_PER_S of {UNITS_HOME} in {', '.join(found)}"
    for name in NOT_UNITS:
        assert list(unit_factors((repository / PACKAGE / name).read_text(encoding="utf-8"))), f"{name} has none"


@pytest.mark.parametrize(
    ("text", "is_factor"),
    [
        ("print(size / 1e6)", True),
        ("LIMIT = 64 * 2**20", True),
        ("PIECE_BYTES = 1 << 20", True),
        ("A_BYTES, B_BYTES = 1000, 10**9", True),
        ("seconds = took_ns // 1_000_000_000", True),
        ("limit_bytes: int = 2**30", True),
        ("A_BYTES, ROWS = 1000, 10**9", False),
        ("seed = randrange(10**6)", False),
        ("ROWS_MAX = 1_000_000", False),
        ("is_far = value > 1e9", False),
    ],
)
def test_the_same_test_finds_factors(text: str, is_factor: bool) -> None:
    assert bool(list(unit_factors(text))) == is_factor
