"""Datasets in the catalogue of a Rucio server, as located by Rucio's own client, which also authenticates the user."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from branchline import _core
from branchline.base.imports import require
from branchline.base.texts import message_of, one_line
from branchline.errors import BranchlineError, DatasetError, StorageError
from branchline.reading.access import Access
from branchline.reading.datasets.catalogue import (
    READABLE_SCHEMES,
    CatalogueFile,
    checked_name,
    checked_url,
    data_files,
)
from branchline.reading.datasets.data_file import CatalogueLookup, DataFile
from branchline.reading.datasets.identity import checked_size, checksum_version
from branchline.reading.locations import RUCIO_PREFIX, without_secrets

#: Number of files whose replicas are requested at once. A slow server takes seconds for them, which is lost with a
#: connection.
FILES_TOGETHER = 500
# Maximum number of files of a dataset; more indicate a mistake.
_FILES_MAX = 1_000_000
#: Number of attempts of a request for replicas, and the pause between two attempts.
TRIES, PAUSE_S = 3, 2.0
# Schemes whose replicas are requested by default.
_DEFAULT_SCHEMES = ("root", "davs", "https")
_CONFIGURE = "configure Rucio's client with RUCIO_HOME or RUCIO_CONFIG; `rucio whoami` tests it"
# Rucio's messages may include a JSON schema of 200 lines.
_MESSAGE_LINES, _MESSAGE_LENGTH_MAX = 2, 300

#: A function that is told how many of all files of a dataset are located: called with both numbers and the name.
OnLocated = Callable[[int, int, str], None]
_on_located: ContextVar[OnLocated | None] = ContextVar("on_located", default=None)


@contextmanager
def reporting_to(on_located: OnLocated | None) -> Iterator[None]:
    """Call ``on_located`` while files are located in Rucio."""
    token = _on_located.set(on_located)
    try:
        yield
    finally:
        _on_located.reset(token)


@dataclass(frozen=True)
class RucioDataset:
    """A name in Rucio, of a container, a dataset or a file, and what restricts the replicas of its files.

    ``rses`` is an RSE expression. Replicas on tape are left out unless ``tape`` is true.
    """

    scope: str
    name: str
    tree: str | None = None
    schemes: tuple[str, ...] = _DEFAULT_SCHEMES
    rses: str = ""
    tape: bool = False

    def __str__(self) -> str:
        return f"{self.scope}:{self.name}"

    @classmethod
    def of(cls, text: object, restrictions: Mapping[str, object] | None = None, source: str = "") -> RucioDataset:
        """Parse ``SCOPE:NAME[:TREE]``, with or without ``rucio:`` before it. ``restrictions`` are the values of
        ``schemes``, ``rses`` and ``tape``. Raises DatasetError.
        """
        where = source or None
        scope, _, rest = text.removeprefix(RUCIO_PREFIX).partition(":") if isinstance(text, str) else ("", "", "")
        name, _, tree = rest.partition(":")
        try:
            checked_name(scope, "the scope")
            checked_name(name, "the name")
        except ValueError as error:
            hint = f"write it as {RUCIO_PREFIX}SCOPE:NAME or {RUCIO_PREFIX}SCOPE:NAME:TREE"
            raise DatasetError(f"{text!r:.200} is not the name of a dataset in Rucio", path=where, hint=hint) from error
        if "*" in name:
            hint = "list the names with `rucio did list`, and give each of them"
            raise DatasetError(f"patterns of names in Rucio are not supported: {text!r:.200}", path=where, hint=hint)
        given = restrictions or {}
        schemes, rses, tape = given.get("schemes", [*_DEFAULT_SCHEMES]), given.get("rses", ""), given.get("tape", False)
        schemes = [schemes] if isinstance(schemes, str) else schemes
        if not isinstance(schemes, list) or not schemes or not all(one in READABLE_SCHEMES for one in schemes):
            hint = f"give a list of {', '.join(READABLE_SCHEMES)}"
            raise DatasetError(f"the schemes of {scope}:{name} are {schemes!r:.200}", path=where, hint=hint)
        if not isinstance(rses, str):
            hint = 'give an RSE expression such as "country=DE" or "DESY-HH_DATADISK|CERN-PROD_DATADISK"'
            raise DatasetError(f"the rses of {scope}:{name} are {rses!r:.200}", path=where, hint=hint)
        if not isinstance(tape, bool):
            raise DatasetError(f"tape of {scope}:{name} is {tape!r:.200}, not true or false", path=where)
        return cls(scope, name, tree or None, tuple(map(str, schemes)), rses, tape)


def locate_in_rucio(dataset: RucioDataset, template: DataFile, access: Access | None = None) -> list[DataFile]:
    """Return the files of a dataset in Rucio, sorted by name, with replicas in the order of Rucio's client.

    The dataset's name is the default for ``template.dataset``. Files without replicas are absent. Raises DatasetError
    for an unknown name or RSE expression, StorageError if the server fails or sends an invalid response, and
    MissingPackageError if the client is not installed.
    """
    catalogue = _Catalogue(dataset, access)
    found = catalogue.files()
    lookup = CatalogueLookup(f"{RUCIO_PREFIX}{dataset}", catalogue.server, schemes=dataset.schemes, rses=dataset.rses)
    rses = {rse for one in found for rse in one.rse_by_url.values()}
    template = template.changed(tree=dataset.tree or template.tree, dataset=template.dataset or str(dataset))
    return data_files(found, lookup, template, catalogue.sites_of(rses))


class _Client(Protocol):
    """The methods of ``rucio.client.client.Client`` that are used."""

    def get_did(self, scope: str, name: str) -> object: ...
    def list_files(self, scope: str, name: str) -> Iterable[object]: ...
    def list_replicas(
        self,
        dids: Sequence[Mapping[str, str]],
        *,
        schemes: Sequence[str],
        rse_expression: str | None,
        ignore_availability: bool,
        resolve_archives: bool,
    ) -> Iterable[object]: ...
    def list_rse_attributes(self, rse: str) -> object: ...


class _Catalogue:
    """The files of one dataset, as the server lists them."""

    def __init__(self, dataset: RucioDataset, access: Access | None) -> None:
        self._dataset = dataset
        require("rucio")
        self.server = ""
        with self._errors_explained():
            from rucio.common.config import config_get

            self.server = without_secrets(str(config_get("client", "rucio_host", raise_exception=False, default="")))
            self._client = _client(_core.listing_wait_s(self.server or "http://", access, False))

    def files(self) -> list[CatalogueFile]:
        """Return all files with their replicas. Raises DatasetError and StorageError."""
        scope, name = self._dataset.scope, self._dataset.name
        listed: dict[tuple[str, str], CatalogueFile] = {}
        with self._errors_explained():
            # The list of an unknown dataset is empty, without an error.
            self._client.get_did(scope, name)
            for number, one in enumerate(self._client.list_files(scope, name)):
                if number == _FILES_MAX:
                    raise ValueError(f"{self._dataset} has more than {_FILES_MAX} files")
                key, file = self._file(one)
                listed[key] = file
        if not listed:
            raise DatasetError(f"the dataset {self._dataset} in Rucio contains no files")
        keys = list(listed)
        for start in range(0, len(keys), FILES_TOGETHER):
            # Files that the server leaves out have no replicas.
            listed |= self._with_replicas(keys[start : start + FILES_TOGETHER], start, len(keys))
        return list(listed.values())

    def _with_replicas(
        self, keys: Sequence[tuple[str, str]], done: int, total: int
    ) -> dict[tuple[str, str], CatalogueFile]:
        """Return these files with their replicas, after several attempts if the connection is lost."""
        from requests.exceptions import Timeout

        for tries_left in reversed(range(TRIES)):
            try:
                with self._errors_explained():
                    return dict(self._replicas(keys, done, total))
            except StorageError as error:
                if not error.retry or not tries_left or isinstance(error.__cause__, Timeout):
                    error.what += f", after {done} of {total} files of {self._dataset}"
                    raise
                time.sleep(PAUSE_S)
        raise AssertionError

    def _replicas(
        self, keys: Sequence[tuple[str, str]], done: int, total: int
    ) -> Iterator[tuple[tuple[str, str], CatalogueFile]]:
        on_located = _on_located.get()
        dids = [{"scope": scope, "name": name} for scope, name in keys]
        asked = set(keys)
        # RSEs that are not available for reading are left out, and files inside of archives.
        found = self._client.list_replicas(
            dids,
            schemes=[*self._dataset.schemes],
            rse_expression=self._dataset.rses or None,
            ignore_availability=False,
            resolve_archives=False,
        )
        for number, one in enumerate(found, start=1):
            key, file = self._file(one)
            if key not in asked:
                raise ValueError(f"{file.name} was not requested, or is listed twice")
            asked.remove(key)
            yield key, file
            if on_located is not None:
                on_located(done + number, total, str(self._dataset))

    def _file(self, given: object) -> tuple[tuple[str, str], CatalogueFile]:
        """Return a file from the server's response. Raises ValueError."""
        record = _mapping(given)
        scope = checked_name(record.get("scope"), "the scope of a file")
        name = checked_name(record.get("name"), "the name of a file")
        rse_by_url: dict[str, str] = {}
        on_tape: set[str] = set()
        for text, about in _mapping(record.get("pfns") or {}).items():
            replica = _mapping(about)
            rse = checked_name(replica.get("rse"), f"the RSE of {scope}:{name}")
            url = checked_url(text, self._dataset.schemes)
            if replica.get("type") == "TAPE" and not self._dataset.tape:
                on_tape.add(rse)
            elif url is not None:
                rse_by_url[url] = rse
        kind = next((one for one in ("adler32", "md5") if record.get(one)), None)
        return (scope, name), CatalogueFile(
            name=f"{RUCIO_PREFIX}{scope}:{name}",
            size_bytes=checked_size(record.get("bytes")),
            version=checksum_version(f"{kind}:{record[kind]}") if kind else "",
            rse_by_url=rse_by_url,
            tape_replicas=len(on_tape),
        )

    def sites_of(self, rses: Iterable[str]) -> dict[str, str]:
        """Return the sites of RSEs, which is their attribute ``site``. RSEs without one are left out."""
        sites: dict[str, str] = {}
        for rse in sorted(rses):
            try:
                with self._errors_explained():
                    site = _mapping(self._client.list_rse_attributes(rse)).get("site")
                    if site:
                        sites[rse] = checked_name(site, f"the site of {rse}")
            except StorageError as error:
                # Users may lack the permission to see attributes.
                if error.retry:
                    raise
        return sites

    @property
    def _named(self) -> str:
        return f"the Rucio server {self.server}".strip()

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        """Convert the errors of Rucio's client, and ValueError for an invalid response."""
        from requests.exceptions import RequestException, SSLError
        from rucio.common import exception

        try:
            yield
        except BranchlineError:
            raise
        except exception.DataIdentifierNotFound as error:
            hint = f"`rucio did list {self._dataset.scope}:*` lists the names of a scope"
            raise DatasetError(f"the dataset {self._dataset} is not in Rucio", hint=hint) from error
        except exception.InvalidRSEExpression as error:
            what = f"the rses of {self._dataset} are {self._dataset.rses!r:.200}: {_shown(error)}"
            raise DatasetError(what, hint="correct the RSE expression") from error
        except (exception.ServerConnectionException, RequestException) as error:
            is_temporary = not isinstance(error, SSLError)
            raise StorageError(f"{self._named} cannot be reached: {_shown(error)}", retry=is_temporary) from error
        except (
            exception.CannotAuthenticate,
            exception.ClientProtocolNotFound,
            exception.ClientProtocolNotSupported,
            exception.ConfigLoadingError,
            exception.ConfigNotFound,
            exception.MissingClientParameter,
            exception.NoAuthInformation,
        ) as error:
            raise StorageError(f"{self._named} cannot be used: {_shown(error)}", hint=_CONFIGURE) from error
        except exception.RucioException as error:
            raise StorageError(f"{self._named} refused a request: {_shown(error)}") from error
        except (ValueError, TypeError, LookupError, StopIteration, AttributeError) as error:
            raise StorageError(f"{self._named} sent an invalid response: {_shown(error)}") from error


def _client(timeout_s: float) -> _Client:
    from rucio.client.client import Client

    # Without a handler of its own, the client prints each retry.
    logger = logging.getLogger(f"{__name__}.client")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    program = sys.argv[0]
    try:
        client: _Client = Client(timeout=timeout_s, logger=logger)
        return client
    finally:
        # The client shortens the name of the program.
        sys.argv[0] = program


def _mapping(given: object) -> Mapping[str, object]:
    if not isinstance(given, Mapping):
        raise ValueError(f"{given!r:.80} is not an object")
    return given


def _shown(error: BaseException) -> str:
    """Return the first lines of an error's message."""
    return one_line(" ".join(message_of(error).splitlines()[:_MESSAGE_LINES]), _MESSAGE_LENGTH_MAX)
