"""Creates the files for the benchmarks. They are kept in a cache folder and recreated when their inputs change."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benches.rounds import Case
from benches.worker import REPOSITORY

TREE = "events"
# The codecs with ROOT's default levels: 100 * algorithm + level.
CODECS = {"zlib": 101, "zstd": 505, "LZ4": 404, "LZMA": 207}
SOME_BRANCHES = ["px", "py", "pz"]
SPLIT_TREE = "esdTree"
# Increase this if files are rewritten differently, so that they are recreated.
LAYOUT_VERSION = 1

Progress = Callable[[str], None]


def shared_folder() -> Path | None:
    """Return the folder of test data next to the repository, or None if it is missing."""
    folder = Path(os.environ.get("BRANCHLINE_SHARED", REPOSITORY.parent / "shared"))
    return folder if folder.is_dir() else None


def collisions(cache: Path, files: int, events: int, progress: Progress) -> list[Path]:
    """Create the files of the demo."""
    from branchline.trains.demo import demo_files as demo

    def report(state: demo.DemoProgress) -> None:
        if not state.kept:
            progress(f"simulating collisions: {state.files_done} of {state.files_count} files")

    folder = cache / f"collisions-{files}x{events}"
    return demo.make_data(folder, files=files, events_per_file=events, progress=report)


def rewritten(sources: list[Path], codec: str, cache: Path, progress: Progress) -> list[Path]:
    """Rewrite the trees with ROOT in one codec, so that they have ROOT's layout."""
    folder = cache / f"{sources[0].parent.name}-{codec}-v{LAYOUT_VERSION}"
    targets = [folder / source.name for source in sources]
    missing = [(s, t) for s, t in zip(sources, targets, strict=True) if not is_newer(t, s)]
    if missing:
        progress(f"rewriting {len(missing)} files with ROOT in {codec}")
        folder.mkdir(parents=True, exist_ok=True)
        arguments = [str(cache), TREE, str(CODECS[codec])] + [str(path) for pair in missing for path in pair]
        subprocess.run([sys.executable, "-m", "benches.data", *arguments], cwd=REPOSITORY, check=True)
    return targets


def is_newer(path: Path, source: Path) -> bool:
    return path.exists() and path.stat().st_mtime >= source.stat().st_mtime


def rewrite_with_root(arguments: list[str]) -> None:
    """Rewrite files in a child process of `rewritten`, to keep ROOT out of the process that measures time."""
    from benches.root_loops import compile_loops

    cache, tree, compression, *pairs = arguments
    root = compile_loops(Path(cache), {})
    for source, target in zip(pairs[::2], pairs[1::2], strict=True):
        part = f"{target}.part.root"
        root.RewriteFile(source, part, tree, int(compression))
        Path(part).rename(target)


def basket_sizes(files: list[Path], tree: str, branches: list[str] | None) -> dict[str, int]:
    """Return the uncompressed and compressed bytes and the number of baskets of the chosen branches."""
    import uproot

    sizes = {"plain_bytes": 0, "compressed_bytes": 0, "baskets": 0}
    for path in files:
        with uproot.open(path) as file:
            for branch in (b for n, b in file[tree].iteritems(full_paths=True) if branches is None or n in branches):
                sizes["plain_bytes"] += int(branch.uncompressed_bytes)
                sizes["compressed_bytes"] += int(branch.compressed_bytes)
                sizes["baskets"] += int(branch.num_baskets)
    return sizes


def flat_case(codec: str, files: list[Path], branches: list[str] | None, *, is_cold: bool = False) -> Case:
    """Return the case of reading these branches of the collisions in one codec."""
    selection = "all branches" if branches is None else f"{len(branches)} branches"
    selection += ", cold" if is_cold else ""
    sizes, paths = basket_sizes(files, TREE, branches), [str(path) for path in files]
    return Case(f"{codec}, {selection}", codec, selection, paths, TREE, branches, **sizes, is_cold=is_cold)


def esd_maker() -> Path:
    """Return the program that generates ESD-like files. Raises FileNotFoundError if it is missing."""
    shared = shared_folder()
    maker = shared / "data" / "make_esd_like.py" if shared else None
    if maker is None or not maker.exists():
        msg = "make_esd_like.py not found; set BRANCHLINE_SHARED to the folder that contains data/make_esd_like.py"
        raise FileNotFoundError(msg)
    return maker


def split_object_files(cache: Path, count: int, progress: Progress) -> list[Path]:
    """Create files of 100 events with 484 branches of split objects. Raises FileNotFoundError if their generator is
    missing.
    """
    maker = esd_maker()
    folder = cache / "split-objects"
    files = [folder / f"{i:03}" / "AliESDs.root" for i in range(count)]
    missing = [i for i, path in enumerate(files) if not path.exists()]
    if missing:
        progress(f"making {count - missing[0]} files of split objects")
        command = [sys.executable, str(maker), "--no-mc", "--out", str(folder), "--cache", str(cache / "split-loops")]
        command += ["--first", str(missing[0]), "--files", str(count - missing[0])]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return files


if __name__ == "__main__":
    rewrite_with_root(sys.argv[1:])
