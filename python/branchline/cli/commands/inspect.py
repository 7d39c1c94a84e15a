"""`branchline inspect` and `locate`: show the layout of files on disk, and list the replicas of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.base.exit_codes import EXIT_ERROR, EXIT_INCOMPLETE, EXIT_OK
from branchline.base.limits import DISK_PAGE_BYTES
from branchline.base.option_fields import comma_separated
from branchline.base.plain import to_plain
from branchline.cli.options import Trace, requests_recorded
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import print_error, print_json, print_out
from branchline.cli.progress_bar import located_progress_bar
from branchline.cli.tables.lines import print_advice
from branchline.errors import BranchlineError, InternalError, OptionError

if TYPE_CHECKING:
    from branchline.reading.datasets.data_file import DataFile
    from branchline.records.diagnosis.advice import Advice


def inspect(
    location: Annotated[
        list[str], Argument(metavar="FILE[:TREE]...", help="A file with the name of a tree, or a dataset.")
    ],
    branches: Annotated[
        str | None,
        Option(
            "--branches",
            metavar="NAMES",
            help="Branches that the physical layout assumes to be read: names and patterns, separated by commas.",
        ),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print everything as JSON.")] = False,
    picture: Annotated[
        Path | None,
        Option("--picture", metavar="FILE", help="Draw the baskets, offset against entry, to an .svg or .png file."),
    ] = None,
    page_bytes: Annotated[
        int, Option("--page-size", minimum=512, metavar="BYTES", help="Page size of the disk.")
    ] = DISK_PAGE_BYTES,
    trace_to: Trace = None,
) -> int:
    """Show how a tree is stored in its file, or how the files of a dataset differ, and what to improve.

    Also prints the advice of `branchline advise`, which reads a sample of the files.

    Examples:
        Show where the baskets of a tree are:
            branchline inspect file.root:Events
        Compare the files of a dataset:
            branchline inspect "data/*.root"

    """
    # Imported here since it imports numpy.
    from branchline.reading.datasets.dataset import Dataset

    with requests_recorded(trace_to):
        with located_progress_bar():
            files = tuple(Dataset.of(location))
        if len(files) == 1:
            _inspect_file(files[0], branches, as_json=as_json, picture=picture, page_bytes=page_bytes)
            return EXIT_OK
        if branches or picture:
            raise OptionError("--branches and --picture need a single file")
        return _inspect_dataset(files, as_json=as_json)


def _inspect_dataset(files: tuple[DataFile, ...], *, as_json: bool) -> int:
    from branchline.cli.tables.layout_tables import print_dataset
    from branchline.reading.layout.dataset_layout import inspect_dataset

    dataset = inspect_dataset(files)
    bad = {path for path, _ in dataset.bad}
    advice = _advice([_location(one) for one in files if one.path not in bad], None)
    if as_json:
        print_json({**dataset.as_json(), "advice": _plain(advice)})
    else:
        print_dataset(dataset)
        _print_known(advice)
    if not dataset.bad:
        return EXIT_OK
    return EXIT_INCOMPLETE if dataset.files else EXIT_ERROR


def _inspect_file(
    file: DataFile, branches: str | None, *, as_json: bool, picture: Path | None, page_bytes: int
) -> None:
    from branchline.cli.tables.layout_tables import print_file
    from branchline.cli.tables.terminal import console
    from branchline.reading.layout.file_layout import inspect_file

    layout = inspect_file(_location(file), comma_separated(branches), page_bytes=page_bytes)
    advice = _advice([_location(file)], layout.wanted if branches else None)
    if picture is not None:
        from branchline.reading.layout.file_picture import draw

        draw(layout, picture)
    if as_json:
        print_json({**layout.as_json(), "advice": _plain(advice)})
        return
    print_file(layout, console())
    _print_known(advice)
    if picture is not None:
        print_out(f"picture written to {picture}")


def _location(file: DataFile) -> str:
    return file.opens if file.tree is None else f"{file.opens}:{file.tree}"


def _advice(files: list[str], branches: tuple[str, ...] | None) -> list[Advice] | None:
    """Return the advice of `branchline advise`. If a sample of the files cannot be read, print the error and return
    None.
    """
    from branchline.lab.advice.advise import advice_of, advise
    from branchline.lab.forecast.subject import subject_of

    if not files:
        return None
    try:
        return advice_of(advise(subject_of(files, branches)))
    except InternalError:
        raise
    except BranchlineError as error:
        print_error(f"branchline: no advice, because a sample cannot be read: {error}")
        return None


def _plain(advice: list[Advice] | None) -> list[object] | None:
    """Return the advice with its answers for JSON."""
    return None if advice is None else [{**to_plain(one), "answer": one.gain.answer} for one in advice]


def _print_known(advice: list[Advice] | None) -> None:
    if advice is not None:
        print_advice(advice)


def locate(
    dataset: Annotated[
        list[str],
        Argument(
            metavar="DATASET...", help="Files, patterns, folders, lists of files or names in Rucio (rucio:SCOPE:NAME)."
        ),
    ],
) -> int:
    """Print a list of the files with all their replicas, as located by XRootD servers (`xrdfs locate`) or by Rucio.

    For files in Rucio, the list also has their checksums and sizes, and the sites of the servers. If files have no
    replicas, their names are printed to standard error, and the exit code is 3.

    For each file on HDFS, the list has the machines that hold most of its blocks, as reported by the NameNode over
    WebHDFS. Dask workers on these machines get the file first.

    Examples:
        Write a list for a train over several sites:
            branchline locate 'root://redirector.example.org//store/data/*.root' > files.json
        List the machines that hold the files of an HDFS folder:
            branchline locate hdfs://namenode.example.org:8020/store/data/ > files.json
        Write down the replicas of a dataset in Rucio:
            branchline locate rucio:cms:/DY/Run3/NANOAODSIM > files.json

    """
    # Imported here since most commands do not contact servers.
    from branchline.reading.datasets.dataset import Dataset
    from branchline.reading.datasets.replicas import located_fileset

    with located_progress_bar():
        files = Dataset.of(dataset)
    print_json(located_fileset(files))
    without_replicas = [one.path for one in files.missing if one.lookup is not None]
    for path in without_replicas:
        print_error(f"branchline: left out, since no replica can be read: {path}")
    return EXIT_INCOMPLETE if without_replicas else EXIT_OK
