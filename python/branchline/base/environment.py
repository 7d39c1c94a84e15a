"""All environment variables of Branchline. The settings reference is generated from this module. The names of the
variables that the engine reads are also defined in ``crates/trace/src/environment.rs``.
"""

from __future__ import annotations

from typing import NamedTuple

STORAGE_TIMEOUT = "BRANCHLINE_STORAGE_TIMEOUT"
STORAGE_WAIT = "BRANCHLINE_STORAGE_WAIT"
STORAGE_TRIES = "BRANCHLINE_STORAGE_TRIES"
STORAGE_PAUSE = "BRANCHLINE_STORAGE_PAUSE"
SENSORS = "BRANCHLINE_SENSORS"
TRACE = "BRANCHLINE_TRACE"
DECODER_STUCK = "BRANCHLINE_DECODER_STUCK"
SITE_CONFIG = "BRANCHLINE_SITE_CONFIG"
SITE = "BRANCHLINE_SITE"
REPORT_TO = "BRANCHLINE_REPORT_TO"
REPORT_TOKEN = "BRANCHLINE_REPORT_TOKEN"  # noqa: S105 - the name of a variable
REPORT_TOKEN_FILE = "BRANCHLINE_REPORT_TOKEN_FILE"  # noqa: S105 - the name of a variable
MEASURES = "BRANCHLINE_MEASURES"
TRUSTED_USERS = "BRANCHLINE_TRUSTED_USERS"
TRIAL = "BRANCHLINE_TRIAL"


class EnvironmentVariable(NamedTuple):
    """An environment variable: its name, what it sets (Markdown for a page of ``docs/reference``), and its default."""

    name: str
    meaning: str
    default: str


VARIABLES = (
    EnvironmentVariable(
        STORAGE_TIMEOUT, "seconds without a response after which a request fails; `--timeout` has precedence", "60"
    ),
    EnvironmentVariable(
        STORAGE_WAIT, "maximum wait in seconds that a server may request; `--server-wait` has precedence", "600"
    ),
    EnvironmentVariable(
        STORAGE_TRIES, "number of attempts if a request fails with a transient error; `--tries` has precedence", "4"
    ),
    EnvironmentVariable(
        STORAGE_PAUSE,
        "seconds before the first retry; the pause doubles with each retry; `--retry-pause` has precedence",
        "0.3",
    ),
    EnvironmentVariable(SENSORS, "`off` stops the clocks in the engine, to measure their overhead", "on"),
    EnvironmentVariable(
        TRACE,
        "the folder to which a process writes a trace of its requests; `--trace` sets it for workers",
        "none",
    ),
    EnvironmentVariable(
        SITE_CONFIG,
        "the [site configuration](../guides/site-admin.md#configure-batch-jobs)",
        "`~/.config/branchline/site.toml`",
    ),
    EnvironmentVariable(
        SITE,
        "the site of workers in this environment; see [sites](../guides/site-admin.md#name-the-sites)",
        "the pilot's site, the site in the site configuration, or the domain",
    ),
    EnvironmentVariable(
        REPORT_TO, "URL of the [control room](#reports-to-a-control-room) to which jobs report", "none"
    ),
    EnvironmentVariable(REPORT_TOKEN, "the token for the control room", "none"),
    EnvironmentVariable(REPORT_TOKEN_FILE, f"a file with that token, if `{REPORT_TOKEN}` is not set", "none"),
    EnvironmentVariable(
        MEASURES,
        "`refuse`: jobs ignore the [measures](../guides/control-room.md#measures) of the control room to which they "
        "report",
        "`obey`",
    ),
    EnvironmentVariable(
        DECODER_STUCK, "seconds after which a decoder that does not return is reported as a StuckError", "600"
    ),
    EnvironmentVariable(
        TRUSTED_USERS,
        "comma-separated names or IDs of other [trusted users](../guides/site-admin.md#configure-batch-jobs), whose "
        "files are loaded; `--trust-user` adds to them",
        "none",
    ),
    EnvironmentVariable(TRIAL, "set by a control room to identify the processes of a trial when it ends", "none"),
)
