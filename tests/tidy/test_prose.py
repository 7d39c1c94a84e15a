"""Comments, docstrings, messages and documents rarely contain phrases that are not standard English."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.tidy.prose import prose_of, prose_of_markdown, prose_of_python, prose_of_rust

PER_10_000_WORDS_MAX = 8
PER_DOCUMENT_MAX = 2

#: Patterns of phrases to avoid. Instead, write a number, a noun, the name of who does something, or the standard term.
PHRASES = [
    r"so (?:many|much|few|often|long|large)(?! (?:as|that|to)\b)",
    r"(?<!there )(?:is|are|was|were) (?-i:none)",
    r"(?<!there )(?:is|are|was|were) no (?!longer|more|need|way|such)\w+",
    r"(?:somebody|nobody|anybody|whoever)",
    r"(?:anew|hereby|thereby|therein|thereof|wherein|whereof)",
    r"(?:is|are|was|were) (?:not )?(?:told|said)",
    r"(?:of whom|of whose|in whose|to whom|those that|in which there)",
    r"(?<!soon )(?<!long )as (?:it|they) (?:is|are|stands?)",
    r"of (?:then|before|now|today|theirs|ours)",
    r"behind (?:it|its|the|them|this|these|that|a|an)",
    r"one (?:of|by) (?:its|his|her|their) own",
    r"impossible",
    r"without (?:a )?rest",
]
PHRASE = re.compile("|".join(rf"\b{one}\b" for one in PHRASES), re.IGNORECASE)
#: A sentence that begins with a relative clause: "What is read is kept".
RIDDLE = re.compile(r"(?:^|[.;:] )What (?!is |are |if |to )\w+[^?]*$")


@dataclass(frozen=True)
class Hit:
    """A phrase that was found in a file."""

    path: str
    line: int
    phrase: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.phrase!r} in {self.text.strip()[:120]!r}"


def areas(repository: Path) -> dict[str, list[Path]]:
    """Return the files of each package and crate, and the documents."""
    package = repository / "python" / "branchline"
    found = {"branchline": [*package.glob("*.py"), *package.glob("*.pyi")]}
    for one in sorted(package.glob("*/__init__.py")):
        found[one.parent.name] = sorted(one.parent.rglob("*.py"))
    for one in sorted((repository / "crates").glob("*/Cargo.toml")):
        found[f"crates/{one.parent.name}"] = sorted((one.parent / "src").rglob("*.rs"))
    return found | {"docs": documents(repository)}


def documents(repository: Path) -> list[Path]:
    """Return the pages written by people, and those of the studies. Generated pages are written by programs."""
    pages = sorted((repository / "docs").rglob("*.md"))
    kept = [one for one in pages if not {"generated", "_build"} & set(one.parts)]
    return [*kept, *(repository / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG"))]


def hits_of(path: Path, repository: Path, allowed: set[str]) -> Iterator[Hit]:
    name = path.relative_to(repository).as_posix()
    for prose in prose_of(path):
        for number, line in enumerate(prose.text.splitlines(), start=prose.line):
            for match in (*PHRASE.finditer(line), *RIDDLE.finditer(line)):
                if f"{name}: {line.strip()}" not in allowed:
                    yield Hit(name, number, match[0], line)


@pytest.fixture(scope="module")
def allowed(repository: Path) -> set[str]:
    lines = (repository / "tests" / "tidy" / "prose_allowed.txt").read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def test_phrases_are_rare_in_each_package_and_crate(repository: Path, allowed: set[str]) -> None:
    reports = []
    for area, paths in areas(repository).items():
        words = sum(len(prose.text.split()) for path in paths for prose in prose_of(path))
        hits = [hit for path in paths for hit in hits_of(path, repository, allowed)]
        # One hit is fine in a package of any size.
        if len(hits) > max(1, words * PER_10_000_WORDS_MAX / 10_000):
            rate = 10_000 * len(hits) / words
            reports.append("\n".join([f"{area}: {len(hits)} in {words} words, {rate:.0f} per 10,000", *map(str, hits)]))
    assert not reports, "\n".join(reports)


def test_phrases_are_rare_in_each_document(repository: Path, allowed: set[str]) -> None:
    found = {page: list(hits_of(page, repository, allowed)) for page in documents(repository)}
    wrong = [str(hit) for hits in found.values() if len(hits) > PER_DOCUMENT_MAX for hit in hits]
    assert not wrong, "\n".join(wrong)


def test_allowed_sentences_still_exist(repository: Path, allowed: set[str]) -> None:
    for line in allowed:
        name, _, text = line.partition(": ")
        assert text in (repository / name).read_text(encoding="utf-8"), line


def test_prose_of_sources_is_found() -> None:
    python = '"""First.\n\nSecond."""\nname = "short text"\nwhat = f"this {name} is short"  # a comment\n'
    assert [one.text for one in prose_of_python(python)] == ["First.\n\nSecond.", "a comment"]
    rust = '/// Docs.\nfn f() { refuse("four words are enough", "few words") }\n'
    assert [one.text for one in prose_of_rust(rust)] == ["Docs.", "four words are enough"]
    assert [one.text for one in prose_of_markdown("# Title `code`\n```python\nx = 1\n```\ntext\n")] == [
        "# Title x",
        "text",
    ]


@pytest.mark.parametrize(
    ("text", "is_odd"),
    [
        ("the file is none", True),
        ("None if there is none", False),
        ("the size is None", False),
        ("so many requests are in flight", True),
        ("so many that memory runs out", False),
        ("What was read is kept.", True),
        ("What to do when a job fails", False),
        ("the value is no longer used", False),
        ("the lock behind it", True),
        ("retries the request three times", False),
    ],
)
def test_phrases(text: str, is_odd: bool) -> None:
    assert bool(PHRASE.search(text) or RIDDLE.search(text)) is is_odd
