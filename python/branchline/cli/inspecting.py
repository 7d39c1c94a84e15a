"""`branchline inspect`: how a file or a dataset lies on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from branchline.cli.failure import tell, told
from branchline.cli.options import Argument, Option
from branchline.cli.reading_options import TRACE, traced
from branchline.errors import OptionError
from branchline.limits import DISK_PAGE_BYTES
from branchline.train.exit_codes import EXIT_INCOMPLETE


def inspect(
    location: Annotated[
        list[str], Argument(metavar="FILE[:TREE]...", help="A file with the name of a tree, or a dataset.")
    ],
    branches: Annotated[
        str | None,
        Option("--branches", help="Of the physical layout, only these branches: names or patterns, with commas."),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print everything as JSON.")] = False,
    picture: Annotated[
        Path | None, Option("--picture", help="Draw offset against entry to this file, .svg or .png.")
    ] = None,
    page_bytes: Annotated[int, Option("--page-size", min=512, help="Bytes of a page of the disk.")] = DISK_PAGE_BYTES,
    trace_to: TRACE = None,
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Shows how a tree lies in its file, or how the files of a dataset differ, and what to do about it."""
    with traced(trace_to):
        _look(location, branches, as_json=as_json, picture=picture, page_bytes=page_bytes, debug=debug)


def _look(
    location: list[str], branches: str | None, *, as_json: bool, picture: Path | None, page_bytes: int, debug: bool
) -> None:
    # Only who looks waits for all that it takes to be imported.
    from branchline.cli.layout_tables import print_dataset, print_file
    from branchline.cli.terminal import output
    from branchline.dataset import Dataset
    from branchline.layout import inspect_dataset, inspect_file
    from branchline.layout.advice import advice

    with told(debug=debug):
        files = tuple(Dataset.of(location))
        if len(files) > 1:
            if branches or picture:
                raise OptionError("--branches and --picture are for one file")
            dataset = inspect_dataset(files)
            print_dataset(dataset, as_json=as_json)
            if dataset.bad:
                raise SystemExit(EXIT_INCOMPLETE if dataset.files else 1)
            return
        [one] = files
        layout = inspect_file(
            one.opens if one.tree is None else f"{one.opens}:{one.tree}",
            branches.split(",") if branches else None,
            page_bytes=page_bytes,
        )
        if picture is not None:
            from branchline.layout.drawing import draw

            draw(layout, picture)
        if as_json:
            tell(json.dumps({**layout.as_json(), "advice": advice(layout)}, indent=1))
            return
        print_file(layout, output())
        if picture is not None:
            tell(f"look at {picture}")
