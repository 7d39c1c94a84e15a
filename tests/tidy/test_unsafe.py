"""Few files contain unsafe Rust: Miri runs the tests of three, and fuzz/miri lists the others with the reason."""

from __future__ import annotations

import re
from pathlib import Path

UNDER_MIRI = {"crates/slab/src/lib.rs", "crates/slab/src/kept_mappings.rs", "crates/slab/src/mapped.rs"}
UNSAFE = re.compile(r"\bunsafe (?:\{|fn|impl|extern)")


def test_unsafe_code_is_run_by_miri_or_named_as_what_it_cannot_run(repository: Path) -> None:
    sources = (repository / "crates").rglob("*.rs")
    files = {str(path.relative_to(repository)) for path in sources if UNSAFE.search(path.read_text(encoding="utf-8"))}
    named = set(
        re.findall(r"^#   (crates/\S+\.rs) ", (repository / "fuzz/miri").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert files == UNDER_MIRI | named
