"""`branchline proxy`: a slow and unreliable link to a server, for any client."""

from __future__ import annotations

import threading
from typing import Annotated

from branchline._core import Proxy
from branchline.cli.failure import tell, told
from branchline.cli.options import Option
from branchline.errors import OptionError, StorageError


def proxy(
    to: Annotated[str, Option("--to", metavar="HOST:PORT", help="The server behind the link.")],
    listen: Annotated[
        str, Option("--listen", metavar="HOST:PORT", help="Where clients connect; port 0 is a free one.")
    ] = "127.0.0.1:0",
    latency: Annotated[str | None, Option("--latency", help='Round trip, as "63ms".')] = None,
    jitter: Annotated[str | None, Option("--jitter", help="Up to so much more for each request.")] = None,
    bandwidth: Annotated[
        str | None, Option("--bandwidth", help='Of all connections together, each way: "7.4MB/s", "1Gb/s".')
    ] = None,
    requests: Annotated[str | None, Option("--requests", help='Requests that are taken: "100/s".')] = None,
    seed: Annotated[int, Option("--seed", min=0, help="What is drawn depends on it.")] = 0,
    fault: Annotated[
        str | None,
        Option("--fault", help='What goes wrong: "stall,every=50,seed=4"; stall, hang, reset, short, wrong.'),
    ] = None,
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Hands connections on to a server over a link that is as slow as you say, until Ctrl-C.

    What the kernel does not do on loopback is not done here either: no packet is lost and no connection starts slowly.
    A server that redirects its clients, as XRootD's do, sends them past the proxy.
    """
    parts = {"latency": latency, "jitter": jitter, "bandwidth": bandwidth, "requests": requests, "seed": seed}
    throttle = ",".join(f"{name}={value}" for name, value in parts.items() if value is not None)
    with told(debug=debug):
        running = _start(listen, to, throttle, fault)
        tell(f"{running.address} -> {to} ({throttle}{f'; {fault}' if fault else ''})")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass
        finally:
            counts = running.counts()
            running.close()
        tell(
            f"{counts['connections']} connections, {counts['to_server_bytes']} bytes to the server, "
            f"{counts['to_client_bytes']} bytes from it, {counts['faults']} faults"
        )


def _start(listen: str, to: str, throttle: str, fault: str | None) -> Proxy:
    try:
        return Proxy(listen, to, throttle, fault)
    except ValueError as error:
        raise OptionError(str(error)) from None
    except OSError as error:
        raise StorageError(f"no proxy from {listen} to {to}: {error}") from None
