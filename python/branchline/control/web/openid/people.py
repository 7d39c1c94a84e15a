"""Who somebody is here, by what the provider says of them."""

from __future__ import annotations

import re

from branchline.base.limits import GROUPS_OF_PERSON_MAX
from branchline.control.accounts.outside import Outsider
from branchline.control.registry.entries import checked_name
from branchline.control.web.openid.errors import RejectedError
from branchline.control.web.openid.tokens import Claims, groups_at, subject_of
from branchline.control.web.openid_settings import OpenIdSettings
from branchline.errors import OptionError


def outsider(claims: Claims, settings: OpenIdSettings) -> Outsider:
    """A person with the role and the groups that follow from the provider's. Raises RejectedError without a role."""
    theirs = groups_at(claims, settings.groups_claim) or frozenset()
    name = name_from(claims.get(settings.name_claim), claims.get("email"))
    role = settings.role_of(theirs)
    if role is None:
        what = f"you are known to {settings.shown_name} as {name}, and in no group that may use this control room"
        raise RejectedError(what, hint="ask its administrator")
    return Outsider(settings.issuer, subject_of(claims), name, role, _ours(theirs, settings))


def name_from(*claimed: object) -> str:
    """A name as accounts have it: of ``lise.meitner@example.org`` it is ``lise_meitner``."""
    for one in claimed:
        if isinstance(one, str) and (kept := re.sub(r"[^A-Za-z0-9_-]+", "_", one.partition("@")[0][:200]).strip("_")):
            return (kept if kept[0].isalpha() else f"u{kept}")[:60]
    return "somebody"


def _ours(theirs: frozenset[str], settings: OpenIdSettings) -> tuple[str, ...]:
    if settings.groups:
        found = [ours for ours, theirs_of in settings.groups.items() if theirs & set(theirs_of)]
    else:
        found = [name for one in theirs if (name := _as_name(one)) is not None]
    return tuple(sorted(set(found))[:GROUPS_OF_PERSON_MAX])


def _as_name(group: str) -> str | None:
    """A group of the provider as one of ours; Keycloak writes ``/alice``. None for a text that is no name."""
    try:
        return checked_name("the name of a group", group.removeprefix("/"))
    except OptionError:
        return None
