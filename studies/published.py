"""What was published: the numbers and the findings of a table or figure, and what a study of it needs here.

Each study is two files of one name: NAME.toml asks the question as `branchline study run` reads it, NAME.published.toml
says where it comes from, what was found there, and which data and places it needs.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

STUDIES = Path(__file__).parent

Levels = dict[str, str]
#: Quantities of arms that numbers and findings can be about, and their units.
QUANTITIES = {
    "events_per_s": "events/s",
    "bytes_per_s": "MB/s",
    "efficiency": "%",
    "calls": "read calls",
    "read_share": "bytes read for each byte",
    "network_share": "bytes over the network for each byte",
    "wall_s": "s",
    "cpu_s": "s of CPU",
}


@dataclass(frozen=True)
class Number:
    """A published number: what it is of, and the arm that measures the same here, if any does."""

    what: str
    value: float
    unit: str
    where: str = ""
    arm: Levels | None = None
    quantity: str = ""


@dataclass(frozen=True)
class Finding:
    """A published finding: the ``quantity`` of arm ``of``, divided by that of arm ``over``, is at least ``least`` and
    at most ``most``. ``theirs`` is their ratio, where it is known. ``if_not`` says what may be the reason here.
    """

    text: str
    quantity: str
    of: Levels
    over: Levels
    least: float | None = None
    most: float | None = None
    theirs: float | None = None
    where: str = ""
    if_not: str = ""


@dataclass(frozen=True)
class Published:
    """A study's origin and needs. With ``cannot`` it is not run: that is the reason."""

    title: str
    document: str
    objects: str
    scale: str = ""
    sets: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    cannot: str = ""
    numbers: tuple[Number, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Document:
    """One of the documents: what people call it, and its full name."""

    name: str
    title: str
    about: str


def documents() -> list[Document]:
    content = tomllib.loads((STUDIES / "documents.toml").read_text(encoding="utf-8"))
    return [Document(name, **one) for name, one in content.items()]


@dataclass(frozen=True)
class StudyPair:
    """The two files of a study."""

    name: str
    asked: Path
    published: Published


def all_studies() -> list[StudyPair]:
    """All of them, in the order of the documents and of their names."""
    found = []
    for document in documents():
        for path in sorted((STUDIES / document.name).glob("*.published.toml")):
            name = path.name.removesuffix(".published.toml")
            found.append(StudyPair(f"{document.name}-{name}", path.with_name(f"{name}.toml"), load(path)))
    return found


def load(path: Path) -> Published:
    """Raises ValueError, with the file, for what is not as it has to be."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        numbers = tuple(Number(**one) for one in content.pop("numbers", []))
        findings = tuple(Finding(**one) for one in content.pop("findings", []))
        sets, places = tuple(content.pop("sets", ())), tuple(content.pop("places", ()))
        found = Published(
            document=path.parent.name, numbers=numbers, findings=findings, sets=sets, places=places, **content
        )
    except (TypeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    for quantity in [*(one.quantity for one in numbers), *(one.quantity for one in findings)]:
        if quantity and quantity not in QUANTITIES:
            raise ValueError(f"{path}: there is no quantity {quantity!r}")
    if any(one.least is None and one.most is None for one in findings):
        raise ValueError(f"{path}: a finding has least, most or both")
    return found
