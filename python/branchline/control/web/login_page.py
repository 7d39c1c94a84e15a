"""The page of the login, and where it leads."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from starlette.responses import HTMLResponse

from branchline.control.web.rendering import rendered
from branchline.control.web.security import LOGIN_PATH, OPENID_PATH
from branchline.control.web.server_settings import ServerSettings


def login_page(settings: ServerSettings, wanted: str = "/", trouble: str = "", status: int = 200) -> HTMLResponse:
    """The page, with what went wrong at the last try; ``wanted`` is where people wanted to go."""
    path = own_path(wanted)
    openid = settings.openid
    provider = None if openid is None else openid.shown_name
    address = f"{OPENID_PATH}?{urlencode({'next': path})}"
    return HTMLResponse(
        rendered("login.html", wanted=path, trouble=trouble, provider=provider, address=address), status
    )


def own_path(wanted: str) -> str:
    """A path of this server; the first page for anything that leads elsewhere."""
    is_own = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return quote(wanted, safe="/?=&%:.,-_~+@!$'()*;") if is_own and not wanted.startswith(LOGIN_PATH) else "/"
