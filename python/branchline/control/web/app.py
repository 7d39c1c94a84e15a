"""The ASGI application with its routes and error handlers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from branchline.base.limits import REPORTS_AT_ONCE
from branchline.base.plain import finite, to_plain
from branchline.control.room import ControlRoom
from branchline.control.web import actions
from branchline.control.web.actions import Act, Form
from branchline.control.web.error_answers import FAULT_SENTENCE, ErrorResponse, failure_of, failure_with
from branchline.control.web.live import SharedPages, Ticks, events
from branchline.control.web.login import Logins, NewSecrets
from branchline.control.web.pages import findings, jobs, measures, people, places, plans, trains, wagons, watched
from branchline.control.web.pages.jobs import job_report
from branchline.control.web.pages.page import Ask, Make, Page
from branchline.control.web.pages.trains import train_bundle, train_file
from branchline.control.web.pages.wagons import trial_profile
from branchline.control.web.rendering import rendered
from branchline.control.web.routes import monitoring_routes, take_report
from branchline.control.web.security import Guard
from branchline.control.web.server_settings import ServerSettings
from branchline.errors import BranchlineError

if TYPE_CHECKING:
    from branchline.control.web.openid.openid_routes import OpenIdLogins

#: Pages by path. The path with the suffix ``.json`` returns the page's values for scripts.
PAGES: dict[str, Make] = {
    "/jobs": jobs.jobs,
    "/jobs/{job}": jobs.job,
    "/jobs/{job}/files": jobs.job_files,
    "/sites": places.sites,
    "/elements": places.elements,
    "/costs": places.costs,
    "/findings": findings.findings,
    "/grid": wagons.grid,
    "/changes": wagons.changes,
    "/compare": wagons.compare,
    "/moments": wagons.moments,
    "/new-wagon": wagons.new_wagon,
    "/new-dataset": wagons.new_dataset,
    "/wagons/{owner}/{name}": wagons.wagon,
    "/datasets/{owner}/{name}": wagons.dataset,
    "/trials/{number}": wagons.trial,
    "/watched": watched.watched,
    "/measures": measures.measures,
    "/measures/{number}": measures.measure,
    "/trains": trains.trains,
    "/new-train": trains.new_train,
    "/trains/{number}": trains.train,
    "/trains/{number}/compare": trains.compare,
    "/plans": plans.plans,
    "/plans/{owner}/{name}": plans.plan,
    "/new-plan": plans.new_plan,
    "/me": people.me,
    "/people": people.people,
}
#: Paths of pages that are not cached, because they show files of other programs, whose changes are not detected.
DRAWN_ANEW = {"/watched"}
#: Form handlers by path.
ACTIONS: dict[str, Act] = {
    "/do/upload": actions.upload,
    "/do/renew-wagon": actions.renew_wagon,
    "/do/save-wagon": actions.save_wagon,
    "/do/add-variant": actions.add_variant,
    "/do/remove-wagon": actions.remove_wagon,
    "/do/save-dataset": actions.save_dataset,
    "/do/remove-dataset": actions.remove_dataset,
    "/do/enable": actions.enable,
    "/do/copy-activations": actions.copy_activations,
    "/do/try-again": actions.try_again,
    "/do/switch-on-measure": actions.switch_on_measure,
    "/do/undo-measure": actions.undo_measure,
    "/do/order-train": actions.order_train,
    "/do/approve-train": actions.approve_train,
    "/do/cancel-train": actions.cancel_train,
    "/do/run-again": actions.run_train_again,
    "/do/clone-train": actions.clone_train,
    "/do/save-plan": actions.save_plan,
    "/do/pause-plan": actions.pause_plan,
    "/do/remove-plan": actions.remove_plan,
    "/do/add-person": actions.add_person,
    "/do/change-person": actions.change_person,
    "/do/revoke-token": actions.revoke_token,
}
#: Pages in the navigation bar, with their titles.
PLACES = (
    ("/jobs", "Jobs"),
    ("/sites", "Sites x storage"),
    ("/elements", "Storage over time"),
    ("/findings", "Findings"),
    ("/watched", "Watched"),
    ("/measures", "Measures"),
    ("/costs", "Costs"),
    ("/grid", "Wagons and datasets"),
    ("/trains", "Trains"),
    ("/changes", "Changes"),
)
_STATIC = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FORM_FIELDS_MAX = 20_000

Endpoint = Callable[[Request], Awaitable[Response]]


def create_app(room: ControlRoom, settings: ServerSettings, ending: asyncio.Event) -> ASGIApp:
    """Create the application for an open control room. Event streams end when ``ending`` is set."""
    routes = [Route(f"{path}.json", _script_endpoint(make)) for path, make in PAGES.items()]
    routes += [Route(path, _page_endpoint(make)) for path, make in PAGES.items()]
    routes += [Route(path, _action_endpoint(act), methods=["POST"]) for path, act in ACTIONS.items()]
    routes += [Route(f"/static/{name}", partial(_static, name, kind)) for name, kind in _STATIC.items()]
    routes += [
        Route("/", _first_page),
        Route("/events", events),
        Route("/jobs/{job}/report", job_report),
        Route("/trials/{number}/profile", trial_profile),
        Route("/trains/{number}/files/{path:path}", train_file),
        Route("/trains/{number}/bundle.zip", train_bundle),
        Route("/api/v1/reports", take_report, methods=["POST"]),
        *monitoring_routes(),
        *Logins(settings).routes(),
    ]
    openid = _openid_logins(settings)
    routes += openid.routes() if openid is not None else []
    handlers = {HTTPException: _refused, BranchlineError: _explained, Exception: _fault}
    lifespan = partial(_lifespan, openid)
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)  # type: ignore[arg-type]
    app.state.room = room
    app.state.viewers = Counter()
    app.state.ticks = Ticks(room)
    app.state.pages = SharedPages(app.state.ticks)
    app.state.report_turns = asyncio.Semaphore(REPORTS_AT_ONCE)
    app.state.ending = ending
    app.state.is_shared = settings.is_shared
    app.state.secrets = NewSecrets()
    return Guard(app, settings)


def _openid_logins(settings: ServerSettings) -> OpenIdLogins | None:
    """Return the handler of OpenID Connect logins, or None if no provider is configured."""
    if settings.openid is None:
        return None
    # Imported only if needed: few control rooms have a provider, and this import takes a quarter of the startup time.
    from branchline.control.web.openid.openid_routes import OpenIdLogins

    return OpenIdLogins.of(settings, settings.openid)


@asynccontextmanager
async def _lifespan(openid: OpenIdLogins | None, _: Starlette) -> AsyncIterator[None]:
    """Close the connections to the OpenID Connect provider when the server ends."""
    try:
        yield
    finally:
        if openid is not None:
            await openid.provider.close()


def _page_endpoint(make: Make) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if "application/json" in request.headers.get("accept", ""):
            return await _script_endpoint(make)(request)
        if request.url.path in DRAWN_ANEW:
            return HTMLResponse(await run_in_threadpool(_html, make, request))
        shared: SharedPages = request.app.state.pages
        key = (request.url.path, request.url.query, request.state.person)
        return HTMLResponse(await shared.page(key, partial(_html, make, request)))

    return endpoint


def _html(make: Make, request: Request) -> str:
    return _drawn(make(Ask(request)), request)


def _drawn(page: Page, request: Request) -> str:
    path = request.url.path
    query = request.url.query
    twin = f"{path}.json{f'?{query}' if query else ''}"
    return rendered(
        page.template,
        page=page.values,
        title=page.title,
        places=PLACES,
        here=path,
        twin=twin,
        who=request.state.person,
        **page.extra,
    )


def _script_endpoint(make: Make) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(lambda: _json(to_plain(make(Ask(request)).values)))

    return endpoint


def _json(plain: object) -> Response:
    # Browsers reject a response with NaN or infinity, which are not valid JSON.
    try:
        text = json.dumps(plain, allow_nan=False)
    except ValueError:
        text = json.dumps(finite(plain), allow_nan=False)
    return Response(text, media_type="application/json")


def _action_endpoint(act: Act) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        async with request.form(max_files=1, max_fields=_FORM_FIELDS_MAX, max_part_size=2**21) as data:
            form = Form(data)
            where = await run_in_threadpool(act, request.app.state.room, request.state.person, form)
        request.app.state.ticks.renew()
        if "application/json" in request.headers.get("accept", ""):
            return JSONResponse({"page": where})
        return RedirectResponse(where, 303)

    return endpoint


async def _first_page(_: Request) -> Response:
    return RedirectResponse("/jobs", 303)


async def _static(name: str, kind: str, _: Request) -> Response:
    content = files("branchline.control.web").joinpath("static", name).read_bytes()
    return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})


async def _refused(request: Request, error: HTTPException) -> Response:
    return await _failed(request, failure_with(error.status_code, error.detail))


async def _explained(request: Request, error: BranchlineError) -> Response:
    asked = f"{request.method} {request.url.path}"
    return await _failed(request, failure_of(error, asked, request.app.state.room.folder))


async def _fault(request: Request, _: Exception) -> Response:
    # The ASGI server prints the traceback.
    return await _failed(request, failure_with(500, FAULT_SENTENCE))


async def _failed(request: Request, failure: ErrorResponse) -> Response:
    is_known = hasattr(request.state, "person")
    if "text/html" not in request.headers.get("accept", "") or not is_known:
        return failure.plain(request.url.path)
    page = Page("error.html", failure.title, failure.for_people)
    return HTMLResponse(await run_in_threadpool(_drawn, page, request), failure.status, failure.headers)
