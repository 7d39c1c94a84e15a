"""`branchline demo-data`: simulate collisions and write them as ROOT files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.base.codecs import CodecName
from branchline.base.quantities import count, counted, size
from branchline.base.whole_files import failed_writing
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log_stopping, print_out
from branchline.cli.progress_bar import progress_bar

if TYPE_CHECKING:
    from branchline.trains.demo.demo_files import DemoProgress


def demo_data(
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder to write the files to.")] = Path("demo-data"),
    files: Annotated[int, Option("--files", minimum=1, help="Number of files.")] = 24,
    events: Annotated[int, Option("--events", minimum=1, help="Events in each file.")] = 125,
    seed: Annotated[int, Option("--seed", minimum=0, help="Random seed; the same seed gives the same events.")] = 1,
    compression: Annotated[CodecName, Option("--compression", help="Codec of the baskets.")] = "zlib",
    workers: Annotated[
        int | None, Option("--workers", "-j", minimum=1, help="Number of processes (default: one per core).")
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace files with the same names but different content.")] = False,
) -> None:
    """Simulate proton collisions at 14 TeV with Pythia 8 and write them as ROOT files; existing files with the same
    events are kept.

    Examples:
        Make the data that the tutorial uses:
            branchline demo-data demo-data --files 4 --events 50

    """
    # Imported here since it imports Pythia.
    from branchline.trains.demo.demo_files import LIST_NAME, make_data

    kept = 0
    with progress_bar("simulate", unit="files") as update:

        def report(progress: DemoProgress) -> None:
            nonlocal kept
            kept += progress.kept
            if update is not None:
                update(progress.files_done, files, f"{count(progress.events_done)} events")

        with failed_writing(folder):
            paths = make_data(folder, files, events, seed, compression, workers, report, log_stopping, force=force)
    size_bytes = sum(path.stat().st_size for path in paths)
    existing = f", {kept} of them existed" if kept else ""
    print_out(f"{folder / LIST_NAME}: {counted(files, 'file')} of {count(events)} events, {size(size_bytes)}{existing}")
