"""`branchline serve`: run a control room."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from branchline.base.imports import missing_packages_explained
from branchline.base.limits import HISTORY_DAYS, JOBS_DAYS
from branchline.base.quantities import parse_bytes
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import print_out
from branchline.control.sandbox.sandbox import SANDBOX_HOURS, SANDBOX_MEMORY, SANDBOX_SPACE, SANDBOX_TASKS, TrainLimits
from branchline.errors import OptionError

if TYPE_CHECKING:
    from branchline.control.sandbox.owner_call import SubmitAs
    from branchline.control.web.server import Address

SHARING = "Shared access"
TRAINS = "Trains of other users"


class ServerAccess(NamedTuple):
    """Options for how users reach the control room, and which features they may use."""

    shared: Annotated[
        bool, Option("--shared", help="Serve all users with an account (see people add).", group=SHARING)
    ] = False
    certificate: Annotated[
        Path | None, Option("--certificate", metavar="FILE", help="Certificate for HTTPS (PEM).", group=SHARING)
    ] = None
    key: Annotated[
        Path | None, Option("--key", metavar="FILE", help="Private key of the certificate (PEM).", group=SHARING)
    ] = None
    behind_proxy: Annotated[
        str,
        Option(
            "--behind-proxy",
            metavar="URL",
            help="URL of a reverse proxy on this machine that terminates HTTPS.",
            group=SHARING,
        ),
    ] = ""
    data: Annotated[
        list[Path] | None,
        Option(
            "--data", metavar="FOLDER", help="Allow trials of wagons on files in it; may be repeated.", group=SHARING
        ),
    ] = None
    git: Annotated[
        list[str] | None,
        Option(
            "--git",
            metavar="HOST",
            help="Allow wagons from git repositories on this host; may be repeated.",
            group=SHARING,
        ),
    ] = None
    openid: Annotated[
        Path | None,
        Option(
            "--openid", metavar="FILE", help="Allow logins through an OpenID Connect provider (TOML).", group=SHARING
        ),
    ] = None


class OthersTrains(NamedTuple):
    """Options for resource limits of other users' trains, and for submitting their trains to batch systems."""

    train_memory: Annotated[
        str,
        Option(
            "--train-memory",
            metavar="SIZE",
            help="Memory limit of all processes of a train on this machine.",
            group=TRAINS,
        ),
    ] = SANDBOX_MEMORY
    train_tasks: Annotated[
        int, Option("--train-tasks", metavar="N", minimum=1, help="Processes and threads of a train.", group=TRAINS)
    ] = SANDBOX_TASKS
    train_hours: Annotated[
        float, Option("--train-hours", metavar="HOURS", help="Time limit of a train.", group=TRAINS)
    ] = SANDBOX_HOURS
    train_space: Annotated[
        str, Option("--train-space", metavar="SIZE", help="Limit of the data that a train writes.", group=TRAINS)
    ] = SANDBOX_SPACE
    submit_as: Annotated[
        str,
        Option(
            "--submit-as",
            metavar="COMMAND",
            help="Command prefix for batch systems, to run as the owner's Unix user, such as 'sudo -n -u {user} --'.",
            group=TRAINS,
        ),
    ] = ""
    submit_in: Annotated[
        str,
        Option(
            "--submit-in",
            metavar="FOLDER",
            help="Folder for trains of --submit-as, such as '/scratch/{user}'.",
            group=TRAINS,
        ),
    ] = ""

    def limits(self) -> TrainLimits:
        """Return the resource limits from the options. Raises OptionError."""
        return TrainLimits(
            parse_bytes(self.train_memory), self.train_tasks, self.train_hours, parse_bytes(self.train_space)
        )

    def owners(self) -> SubmitAs | None:
        """Return how to submit trains as their owners' Unix users; None without --submit-as. Raises OptionError."""
        from branchline.control.sandbox.owner_call import SubmitAs

        if self.submit_in and not self.submit_as:
            raise OptionError("--submit-in needs --submit-as", hint="add --submit-as")
        return SubmitAs.of(self.submit_as, self.submit_in) if self.submit_as else None


def serve(
    others: ServerAccess,
    trains: OthersTrains,
    folder: Annotated[
        Path, Argument(metavar="DIR", help="Directory for all data; it is created if it does not exist.")
    ] = Path("control-room"),
    host: Annotated[str, Option("--host", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option("--port", minimum=0, help="Port to listen on; 0 for any free one.")] = 8765,
    keep_files: Annotated[
        int, Option("--keep-files", metavar="DAYS", minimum=1, help="Days for which data about files is kept.")
    ] = HISTORY_DAYS,
    keep_jobs: Annotated[
        int,
        Option(
            "--keep-jobs",
            metavar="DAYS",
            minimum=1,
            help="Days for which jobs are kept; their totals are kept forever.",
        ),
    ] = JOBS_DAYS,
    caches: Annotated[
        str,
        Option(
            "--caches",
            metavar="HOST:PORT",
            help="UDP address for the monitoring streams of the caches in site.toml.",
        ),
    ] = "",
) -> None:
    """Serve a control room: pages about reporting jobs, sites and storage elements, wagons and datasets.

    Without --shared, it prints an address with a token, which opens the pages in a browser. Jobs report to the address
    without the token. With --shared, users log in and have their own tokens.

    Examples:
        Keep all data in a directory, and listen on any free port:
            branchline serve control-room --port 0
        Serve a group, behind a web server on the same machine:
            branchline serve /srv/control-room --shared --behind-proxy https://control.example.org

    """
    with missing_packages_explained():
        from branchline.control.upkeep import Retention
        from branchline.control.web.openid_settings import load_openid
        from branchline.control.web.server import Sharing, serve

    if not others.shared and (others != ServerAccess() or trains != OthersTrains()):
        what = (
            "the options of certificates, proxies, data, train limits and users, git and OpenID Connect need --shared"
        )
        raise OptionError(what, hint="add --shared")
    sharing = Sharing(
        others.certificate,
        others.key,
        others.behind_proxy,
        tuple(others.data or ()),
        None if others.openid is None else load_openid(others.openid),
        tuple(others.git or ()),
        trains.limits(),
        trains.owners(),
    )
    retention = Retention(files_days=keep_files, jobs_days=keep_jobs)
    serve(
        folder,
        host=host,
        port=port,
        ready=_say,
        sharing=sharing if others.shared else None,
        retention=retention,
        caches=caches,
    )


def _say(address: Address) -> None:
    """Print the server's address once the server is listening."""
    print_out(f"open {address.for_browser}")
    token = "a token of their owner" if address.token_file is None else f"the token in {address.token_file}"
    print_out(f"jobs report to {address.for_jobs} with {token}")
    for one in address.remarks:
        print_out(one)
