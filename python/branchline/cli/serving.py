"""`branchline serve`: the control room."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import print_out
from branchline.extras import missing_packages_explained


def serve(
    folder: Annotated[
        Path, Argument(metavar="DIR", help="Directory in which all is kept; it is made if it is not there.")
    ] = Path("control-room"),
    host: Annotated[str, Option("--host", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option("--port", minimum=0, help="Port to listen on; 0: any free one.")] = 8765,
) -> None:
    """Serves the control room: pages of jobs that report, of sites and storage elements, of wagons and datasets.

    It prints an address with a token, which opens the pages in a browser. Jobs report to the address without the token.

    Examples:
        Keep everything in a directory, and listen on any free port:
            branchline serve control-room --port 0

    """
    with missing_packages_explained():
        from branchline.web.serving import Address, serve

    def ready(address: Address) -> None:
        print_out(f"open {address.for_browser}")
        print_out(f"jobs report to {address.for_jobs} with the token in {address.token_file}")

    serve(folder, host=host, port=port, ready=ready)
