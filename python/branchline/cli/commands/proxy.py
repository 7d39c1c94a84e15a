"""`branchline proxy`: forward connections to a server over a simulated slow link."""

from __future__ import annotations

import threading
from typing import Annotated

from branchline._core import Proxy
from branchline.base.quantities import counted
from branchline.cli.parameters import Option
from branchline.cli.printing import print_out
from branchline.errors import OptionError, StorageError


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
