"""Every public module of the Rust crates has an example, which `cargo test` compiles and runs."""

from __future__ import annotations

import re
from pathlib import Path

#: Crates without examples. `bindings` is the compiled part of the Python package and is not used from Rust.
WITHOUT_EXAMPLES = {"bindings"}
PUBLIC_MODULE = re.compile(r"^pub mod (\w+);", re.MULTILINE)
EXAMPLE = re.compile(r"^\s*//[/!] ```(no_run|standalone_crate)?$.*?^\s*//[/!] ```$", re.MULTILINE | re.DOTALL)


def public_modules(path: Path) -> list[Path]:
    """Return the files of a public module and of all public modules inside it."""
    folder = path.parent if path.name == "lib.rs" else path.with_suffix("")
    inner = [folder / f"{name}.rs" for name in PUBLIC_MODULE.findall(path.read_text(encoding="utf-8"))]
    return [path, *(module for one in inner for module in public_modules(one))]


def test_public_modules_have_examples(repository: Path) -> None:
    roots = sorted((repository / "crates").glob("*/src/lib.rs"))
    modules = [module for root in roots if root.parts[-3] not in WITHOUT_EXAMPLES for module in public_modules(root)]
    assert len(modules) > 50
    missing = [
        str(module.relative_to(repository))
        for module in modules
        if not EXAMPLE.search(module.read_text(encoding="utf-8"))
    ]
    assert not missing, missing
