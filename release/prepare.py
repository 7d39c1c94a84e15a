"""Prepares a release: sets the version in all files, dates the changelog, commits, and tags. It pushes nothing.

python release/prepare.py VERSION
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from pathlib import Path

VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
BRANCH = "main"
UNRELEASED = "## [Unreleased]"
# Files that contain the version, with a pattern whose first group precedes it.
VERSION_LINES = {
    "Cargo.toml": r'(?m)^(version = ")[^"]+',
    "CITATION.cff": r"(?m)^(version: )\S+",
    "release/conda/recipe.yaml": r'(?m)^(  version: ")[^"]+',
}
LOCKED_CRATE = r'(name = "branchline-(?!fuzz)[a-z]+"\nversion = ")[^"]+'
LOCK_FILE = "Cargo.lock"


class ReleaseError(Exception):
    """The tree cannot be released as it is."""


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def parsed(version: str) -> tuple[int, ...]:
    found = VERSION.fullmatch(version)
    if found is None:
        raise ReleaseError(f"invalid version {version!r}; use three numbers, such as 0.1.0")
    return tuple(int(part) for part in found.groups())


def check_tree(version: str) -> None:
    """Raises ReleaseError unless HEAD is a clean `main` and the version is newer than each tag."""
    new = parsed(version)
    branch = git("rev-parse", "--abbrev-ref", "HEAD")
    if branch != BRANCH:
        raise ReleaseError(f"releases are made from {BRANCH}, this is {branch}; run git switch {BRANCH}")
    changes = git("status", "--porcelain")
    if changes:
        raise ReleaseError(f"the tree has uncommitted changes; commit or stash them:\n{changes}")
    for tag in git("tag", "--list", "v*").split():
        if VERSION.fullmatch(tag[1:]) and parsed(tag[1:]) >= new:
            raise ReleaseError(f"version {version} is not newer than the tag {tag}; choose a newer one")


def replaced(name: str, pattern: str, version: str) -> str:
    """Returns the text of a file with the version set wherever the pattern matches."""
    text, count = re.subn(pattern, rf"\g<1>{version}", Path(name).read_text(encoding="utf-8"))
    if count == 0:
        raise ReleaseError(f"{name} contains no version to set; expected {pattern}")
    return text


def dated_changelog(version: str, today: datetime.date) -> str:
    """Returns the changelog with the unreleased changes under the version, and an empty section above."""
    text = Path("CHANGELOG.md").read_text(encoding="utf-8")
    if text.count(UNRELEASED + "\n") != 1:
        raise ReleaseError(f"CHANGELOG.md must contain one line {UNRELEASED!r}")
    before, after = text.split(UNRELEASED + "\n")
    changes = re.split(r"(?m)^## |^\[", after)[0]
    if not re.search(r"(?m)^- ", changes):
        raise ReleaseError(f"CHANGELOG.md lists no changes under {UNRELEASED!r}; add them")
    introduction, heading, listed = changes.partition("\n### ")
    if not heading or re.search(r"(?m)^- ", introduction):
        raise ReleaseError("CHANGELOG.md has changes above the first heading, such as '### Fixed'; move them below one")
    # The introduction of the first release says that there is none yet.
    notes = heading.lstrip() + listed
    return f"{before}{UNRELEASED}\n\n## {version} - {today.isoformat()}\n\n{notes}{after[len(changes) :]}"


def main(words: list[str]) -> int:
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    (version,) = words
    try:
        check_tree(version)
        patterns = VERSION_LINES | {LOCK_FILE: LOCKED_CRATE}
        texts = {name: replaced(name, pattern, version) for name, pattern in patterns.items()}
        texts["CHANGELOG.md"] = dated_changelog(version, datetime.datetime.now(datetime.UTC).date())
        for name, text in texts.items():
            Path(name).write_text(text, encoding="utf-8")
        git("commit", "--all", "--message", f"Release {version}", "--allow-empty")
        git("tag", "--annotate", f"v{version}", "--message", f"Branchline {version}")
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"tagged v{version}; publish it with: git push origin {BRANCH} v{version}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
