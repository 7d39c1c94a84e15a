"""The option that names users whose files are loaded though loading them runs code."""

from __future__ import annotations

from typing import Annotated

from branchline.cli.parameters import Option

TrustUser = Annotated[
    list[str] | None,
    Option(
        "--trust-user",
        metavar="USER",
        help="Also load files of this user, which runs code from them: for service accounts and batch slots; may be "
        "repeated.",
    ),
]
