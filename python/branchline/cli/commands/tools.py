"""`branchline demo-data`, `proxy` and `version`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline._core import Proxy, __version__
from branchline.base.codecs import CodecName
from branchline.base.quantities import count, counted, size
from branchline.base.whole_files import failed_writing
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log_stopping, print_out
from branchline.cli.progress_bar import progress_bar
from branchline.errors import OptionError, StorageError

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


def proxy(
    to: Annotated[str, Option("--to", metavar="HOST:PORT", help="The server at the other end of the link.")],
    listen: Annotated[
        str, Option("--listen", metavar="HOST:PORT", help="Address for clients; port 0 for any free port.")
    ] = "127.0.0.1:0",
    latency: Annotated[str | None, Option("--latency", metavar="TIME", help='Round trip: "63ms".')] = None,
    jitter: Annotated[
        str | None, Option("--jitter", metavar="TIME", help="Maximum random delay added to each request.")
    ] = None,
    bandwidth: Annotated[
        str | None,
        Option(
            "--bandwidth", metavar="RATE", help='Bandwidth of all connections, in each direction: "7.4MB/s", "1Gb/s".'
        ),
    ] = None,
    requests: Annotated[
        str | None, Option("--requests", metavar="RATE", help='Rate of requests that the server accepts: "100/s".')
    ] = None,
    seed: Annotated[int, Option("--seed", minimum=0, help="Seed of the random delays and faults.")] = 0,
    fault: Annotated[
        str | None,
        Option("--fault", metavar="SPEC", help='Faults: "stall,every=50,seed=4"; stall, hang, reset, short, wrong.'),
    ] = None,
) -> None:
    """Forward connections to a server over a simulated slow link, until Ctrl-C.

    Packet loss and TCP slow start are not simulated. Clients bypass the proxy if the server redirects them, as XRootD
    servers do.

    Examples:
        Read from a server as if it were across an ocean:
            branchline proxy --to localhost:1094 --latency 120ms --bandwidth 20MB/s

    """
    parts = {"latency": latency, "jitter": jitter, "bandwidth": bandwidth, "requests": requests, "seed": seed}
    throttle = ",".join(f"{name}={value}" for name, value in parts.items() if value is not None)
    running = _start(listen, to, throttle, fault)
    print_out(f"{running.address} -> {to} ({throttle}{f'; {fault}' if fault else ''})")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        pass
    finally:
        counts = running.counts()
        running.close()
    print_out(
        f"{counted(counts.connections, 'connection')}, {counts.to_server_bytes} bytes to the server, "
        f"{counts.to_client_bytes} bytes from it, {counted(counts.faults, 'fault')}"
    )


def _start(listen: str, to: str, throttle: str, fault: str | None) -> Proxy:
    try:
        return Proxy(listen, to, throttle, fault)
    except ValueError as error:
        raise OptionError(str(error)) from None
    except OSError as error:
        hint = "write addresses as HOST:PORT, with an unused port"
        raise StorageError(f"cannot start a proxy from {listen} to {to}: {error}", hint=hint) from None


def version() -> None:
    """Print the version."""
    print_out(__version__)
