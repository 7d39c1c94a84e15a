"""`branchline serve`: the control room."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from branchline.base.imports import missing_packages_explained
from branchline.base.limits import HISTORY_DAYS, JOBS_DAYS, parse_bytes
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import print_out
from branchline.control.sandbox.sandbox import SANDBOX_HOURS, SANDBOX_MEMORY, SANDBOX_SPACE, SANDBOX_TASKS, TrainLimits
from branchline.errors import OptionError

if TYPE_CHECKING:
    from branchline.control.sandbox.owner_call import SubmitAs
    from branchline.control.web.server import Address

SHARING = "For others, too"
TRAINS = "Trains of others"


class Others(NamedTuple):
    """How others reach the control room, and what they may use."""

    shared: Annotated[
        bool, Option("--shared", help="Serve all who have an account (see people add).", group=SHARING)
    ] = False
    certificate: Annotated[
        Path | None, Option("--certificate", metavar="FILE", help="Certificate for https, as PEM.", group=SHARING)
    ] = None
    key: Annotated[
        Path | None, Option("--key", metavar="FILE", help="Key of the certificate, as PEM.", group=SHARING)
    ] = None
    behind_proxy: Annotated[
        str, Option("--behind-proxy", metavar="URL", help="Address of a proxy here that does https.", group=SHARING)
    ] = ""
    data: Annotated[
        list[Path] | None,
        Option("--data", metavar="FOLDER", help="Wagons are tried on files below it; may be repeated.", group=SHARING),
    ] = None
    git: Annotated[
        list[str] | None,
        Option("--git", metavar="HOST", help="Wagons may come from git there; may be repeated.", group=SHARING),
    ] = None
    openid: Annotated[
        Path | None,
        Option(
            "--openid", metavar="FILE", help="Let in whom a provider of OpenID Connect knows (TOML).", group=SHARING
        ),
    ] = None


class OthersTrains(NamedTuple):
    """What trains of others may take here, and how they go elsewhere."""

    train_memory: Annotated[
        str, Option("--train-memory", metavar="SIZE", help="Memory of all processes of a train here.", group=TRAINS)
    ] = SANDBOX_MEMORY
    train_tasks: Annotated[
        int, Option("--train-tasks", metavar="N", minimum=1, help="Its processes and threads.", group=TRAINS)
    ] = SANDBOX_TASKS
    train_hours: Annotated[float, Option("--train-hours", metavar="HOURS", help="Its time.", group=TRAINS)] = (
        SANDBOX_HOURS
    )
    train_space: Annotated[str, Option("--train-space", metavar="SIZE", help="What it may write.", group=TRAINS)] = (
        SANDBOX_SPACE
    )
    submit_as: Annotated[
        str,
        Option(
            "--submit-as",
            metavar="COMMAND",
            help="How to become the Unix user of an owner, as 'sudo -n -u {user} --', for batch systems.",
            group=TRAINS,
        ),
    ] = ""
    submit_in: Annotated[
        str,
        Option("--submit-in", metavar="FOLDER", help="Folder for their trains, as '/scratch/{user}'.", group=TRAINS),
    ] = ""

    def limits(self) -> TrainLimits:
        """Those that are given, and the usual ones. Raises OptionError."""
        return TrainLimits(
            parse_bytes(self.train_memory), self.train_tasks, self.train_hours, parse_bytes(self.train_space)
        )

    def owners(self) -> SubmitAs | None:
        """How to become the users of owners. Raises OptionError."""
        from branchline.control.sandbox.owner_call import SubmitAs

        if self.submit_in and not self.submit_as:
            raise OptionError("--submit-in is where trains of --submit-as are", hint="add --submit-as")
        return SubmitAs.of(self.submit_as, self.submit_in) if self.submit_as else None


def serve(
    others: Others,
    trains: OthersTrains,
    folder: Annotated[
        Path, Argument(metavar="DIR", help="Directory in which all is kept; it is made if it is not there.")
    ] = Path("control-room"),
    host: Annotated[str, Option("--host", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option("--port", minimum=0, help="Port to listen on; 0: any free one.")] = 8765,
    keep_files: Annotated[
        int, Option("--keep-files", metavar="DAYS", minimum=1, help="Days for which rows of files are kept.")
    ] = HISTORY_DAYS,
    keep_jobs: Annotated[
        int, Option("--keep-jobs", metavar="DAYS", minimum=1, help="Days for which jobs are kept; their sums stay.")
    ] = JOBS_DAYS,
) -> None:
    """Serves a control room: pages of jobs that report, of sites and storage elements, of wagons and datasets.

    Alone, it prints an address with a token, which opens the pages in a browser. Jobs report to the address without the
    token. With --shared people log in, and have tokens of their own.

    Examples:
        Keep everything in a directory, and listen on any free port:
            branchline serve control-room --port 0
        Serve a group, behind a web server on the same machine:
            branchline serve /srv/control-room --shared --behind-proxy https://control.example.org

    """
    with missing_packages_explained():
        from branchline.control.upkeep import Retention
        from branchline.control.web.openid_settings import load_openid
        from branchline.control.web.server import Sharing, serve

    if not others.shared and (others != Others() or trains != OthersTrains()):
        what = "certificates, proxies, data, limits and users of trains, hosts of git and OpenID Connect are for others"
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
    )


def _say(address: Address) -> None:
    """Says where the server is, once it listens."""
    print_out(f"open {address.for_browser}")
    token = "a token of its owner" if address.token_file is None else f"the token in {address.token_file}"
    print_out(f"jobs report to {address.for_jobs} with {token}")
    for one in address.remarks:
        print_out(one)
