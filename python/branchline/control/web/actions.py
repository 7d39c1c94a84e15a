"""Form handlers. Each handler processes the POST request of a form and returns the path of the page with the result.

The forms change wagons, datasets, activations, trials, measures, accounts, tokens, plans and trains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from branchline.base.limits import MEASURE_HOURS
from branchline.base.quantities import parse_bytes
from branchline.control.accounts import Account
from branchline.control.measures import MeasureOrder
from branchline.control.people import Person
from branchline.control.plans.plan import Fullness, Plan, Schedule
from branchline.control.registry.entries import DatasetEntry, MergeGroup, WagonEntry, WagonSource
from branchline.control.registry.git_sources import GitPlace
from branchline.control.registry.revisions import DATASET, WAGON
from branchline.control.registry.wagon_source import WagonClass
from branchline.control.room import ControlRoom
from branchline.control.room_errors import RefusedError
from branchline.control.trains.train import TrainOrder
from branchline.control.web.pages.people import check_administrator
from branchline.errors import OptionError
from branchline.trains.wagons.parameters import Value

#: Type of a form handler, which returns the path of the page to show.
Act = Callable[[ControlRoom, Person, "Form"], str]
#: Values of the plan form's field ``trigger``, which says when the plan orders trains.
SCHEDULE, FULL = "schedule", "full"


class Form:
    """The fields of a submitted form."""

    def __init__(self, data: FormData) -> None:
        self._data = data

    def text(self, name: str) -> str:
        """Return a field's value without surrounding whitespace; empty if the field is missing."""
        value = self._data.get(name, "")
        return value.strip() if isinstance(value, str) else ""

    def whole(self, name: str) -> str:
        """Return a field's value with surrounding whitespace, such as a password; empty if the field is missing."""
        value = self._data.get(name, "")
        return value if isinstance(value, str) else ""

    def texts(self, name: str) -> list[str]:
        """Return the values of all fields with this name."""
        return [one for one in self._data.getlist(name) if isinstance(one, str)]

    def lines(self, name: str) -> list[str]:
        """Return the non-empty lines of a field's value."""
        return [line.strip() for line in self.text(name).splitlines() if line.strip()]

    def number(self, name: str) -> int:
        """Return a field's value as a non-negative integer; 0 if the field is missing.

        Raises HTTPException for any other value.
        """
        text = self.text(name) or "0"
        if not (text.isascii() and text.isdecimal() and len(text) < 18):
            raise HTTPException(400, f"{name} must be a number, got {text!r:.40}")
        return int(text)

    def names(self) -> list[str]:
        """Return the names of all fields."""
        return list(dict.fromkeys(self._data.keys()))

    def file(self, name: str) -> tuple[str, bytes]:
        """Return the name and content of an uploaded file; both are empty if no file was uploaded."""
        value = self._data.get(name)
        if not isinstance(value, UploadFile) or not value.filename:
            return "", b""
        return value.filename.replace("\\", "/").rpartition("/")[2], value.file.read()


def upload(room: ControlRoom, person: Person, form: Form) -> str:
    """Register the wagons in a file: the class that the form names, or all classes."""
    path, content = form.file("file")
    place = GitPlace(form.text("repository"), form.text("path"), form.text("ref") or "HEAD")
    if place.repository and (content or form.text("text")):
        raise OptionError("several sources were given", hint="give only one of a file, a text and a repository")
    commit = ""
    if place.repository:
        fetched = room.git.fetch(place)
        path, content, commit = place.path, fetched.content, fetched.commit
    if not content and form.text("text"):
        path, content = form.text("path") or "wagons.py", form.text("text").replace("\r\n", "\n").encode()
    if not content:
        raise OptionError("no source was given", hint="choose a Python file, paste its text, or name a repository")
    sha256 = room.sources.keep(content, path)
    found = room.sources.classes(sha256, path)
    chosen = [one for one in found if one.name == form.text("class")] if form.text("class") else found
    if not chosen:
        hint = f"it has {', '.join(one.name for one in found)}"
        raise OptionError(f"{path} has no wagon {form.text('class')!r:.80}", hint=hint)
    source = WagonSource(sha256, path, place.repository, commit)
    owner = form.text("owner") or person.name
    addresses = [_register(room, person, owner, one, source, form) for one in chosen]
    room.trials.look()
    return f"/wagons/{addresses[0]}" if len(addresses) == 1 else "/grid"


def _register(room: ControlRoom, person: Person, owner: str, one: WagonClass, source: WagonSource, form: Form) -> str:
    """Register a new wagon, or update the source of the wagon with the same name. Return the wagon's address."""
    name = form.text("name") or one.name
    known = {entry.address for entry in room.registry.wagons()}
    required = [f"{owner}/{needed}" for needed in one.requires]
    entry = WagonEntry(owner, name, form.text("group"), one.description, source, one.name, {}, required)
    revision = 0
    if entry.address in known:
        before = room.registry.wagon(entry.address)
        kept = {key: value for key, value in before.values.items() if key in {two.name for two in one.parameters}}
        entry = replace(before.entry, source=source, wagon_class=one.name, values=kept, requires=required)
        revision = before.revision
    room.registry.save_wagon(entry, person, revision)
    return entry.address


def renew_wagon(room: ControlRoom, person: Person, form: Form) -> str:
    """Update a wagon's source from git."""
    whole = room.registry.wagon(form.text("address"))
    person.check_owns(whole.entry.owner)
    source = whole.entry.source
    if source is None or not source.repository:
        raise OptionError(f"the source of {whole.entry.address} is not from git", hint="upload the new source")
    found = room.git.fetch(GitPlace(source.repository, source.path, form.text("ref") or "HEAD"))
    renewed = replace(source, sha256=room.sources.keep(found.content, source.path), commit=found.commit)
    if renewed != source:
        room.registry.save_wagon(replace(whole.entry, source=renewed), person, form.number("revision"))
        room.trials.look()
    return f"/wagons/{whole.entry.address}"


def save_wagon(room: ControlRoom, person: Person, form: Form) -> str:
    """Change a wagon's parameters, group and description."""
    whole = room.registry.wagon(form.text("address"))
    values: dict[str, Value] = {}
    for one in whole.wagon_class.parameters:
        text = form.text(f"value.{one.name}")
        if text or (one.kind == "str" and one.default is None):
            value = one.parsed(text)
            if value != one.default or one.name in whole.entry.values:
                values[one.name] = value
    entry = replace(
        whole.entry, group=form.text("group"), description=form.text("description").replace("\r\n", "\n"), values=values
    )
    room.registry.save_wagon(entry, person, form.number("revision"))
    room.trials.look()
    return f"/wagons/{entry.address}"


def add_variant(room: ControlRoom, person: Person, form: Form) -> str:
    """Register a variant of a wagon. The new variant has no parameter values of its own."""
    base = room.registry.wagon(form.text("address"))
    name, owner = form.text("name"), person.name
    room.registry.save_wagon(WagonEntry(owner, name, base.entry.group, variant_of=base.entry.address), person)
    return f"/wagons/{owner}/{name}"


def remove_wagon(room: ControlRoom, person: Person, form: Form) -> str:
    """Remove a wagon."""
    room.registry.remove_wagon(form.text("address"), person)
    return "/grid"


def save_dataset(room: ControlRoom, person: Person, form: Form) -> str:
    """Register or change a dataset."""
    entry = DatasetEntry(
        form.text("owner") or person.name,
        form.text("name"),
        form.text("group"),
        form.text("description").replace("\r\n", "\n"),
        form.lines("files"),
        form.text("tree"),
        form.lines("companions"),
        form.lines("short"),
        form.lines("runs"),
        [_merge_group(line) for line in form.lines("merge_groups")],
    )
    room.registry.save_dataset(entry, person, form.number("revision"))
    room.trials.look()
    return f"/datasets/{entry.address}"


def _merge_group(line: str) -> MergeGroup:
    """Parse a line such as ``name: first.root second.root``. Raises OptionError for an invalid line."""
    name, colon, files = line.partition(":")
    if not colon or not files.split():
        raise OptionError(f"{line!r:.80} is not a merge group", hint="write it as NAME: FILE FILE...")
    return MergeGroup(name.strip(), files.split())


def remove_dataset(room: ControlRoom, person: Person, form: Form) -> str:
    """Remove a dataset."""
    room.registry.remove_dataset(form.text("address"), person)
    return "/grid"


def enable(room: ControlRoom, person: Person, form: Form) -> str:
    """Enable or disable wagons, or all wagons of a group, on a dataset."""
    dataset, is_enabled = form.text("dataset"), form.text("to") != "off"
    if form.text("all_of"):
        room.registry.enable_group(form.text("all_of"), dataset, person, is_enabled=is_enabled)
    else:
        room.registry.enable(form.texts("wagon"), dataset, person, is_enabled=is_enabled)
    room.trials.look()
    if form.text("back") == WAGON:
        return f"/wagons/{quote(form.text('wagon'))}"
    if form.text("back") == DATASET:
        return f"/datasets/{quote(dataset)}"
    return f"/grid?group={quote(form.text('group'), safe='')}" if form.text("group") else "/grid"


def copy_activations(room: ControlRoom, person: Person, form: Form) -> str:
    """Copy the activations of the user's wagons from one dataset to another."""
    room.registry.copy_activations(form.text("source"), form.text("address"), person)
    room.trials.look()
    return "/grid"


def try_again(room: ControlRoom, person: Person, form: Form) -> str:
    """Repeat the trial of a wagon on a dataset. Allowed for the wagon's owner, members of its group, and operators."""
    if not room.trials.may_try(person, form.text("wagon"), form.text("dataset")):
        wagon, dataset = form.text("wagon") or "the train", form.text("dataset")
        what = f"{person.name} may not repeat the trial of {wagon} on {dataset}"
        raise RefusedError(what, hint="ask its owner, a member of its group, or an operator")
    room.trials.again(form.text("wagon"), form.text("dataset"))
    return "/grid"


def switch_on_measure(room: ControlRoom, person: Person, form: Form) -> str:
    """Switch on a measure."""
    order = MeasureOrder(
        form.text("kind"),
        form.text("storage_element"),
        form.text("site"),
        form.text("job"),
        form.number("hours") if form.text("hours") else MEASURE_HOURS,
        form.text("why").replace("\r\n", "\n"),
        form.text("finding"),
    )
    return f"/measures/{room.measures.switch_on(order, person)}"


def undo_measure(room: ControlRoom, person: Person, form: Form) -> str:
    """Undo a measure."""
    room.measures.undo(form.number("number"), person)
    return f"/measures/{form.number('number')}"


def add_person(room: ControlRoom, person: Person, form: Form) -> str:
    """Create an account."""
    check_administrator(person)
    room.accounts.add(_account(form), form.whole("password"), person.name)
    return "/people"


def change_person(room: ControlRoom, person: Person, form: Form) -> str:
    """Change an account's role, groups and Unix user, disable or enable the account, and set a password if given."""
    check_administrator(person)
    account = _account(form)
    if "unix_user" not in form.names():
        account = replace(account, unix_user=room.accounts.account(account.name).unix_user)
    room.accounts.change(account, person.name)
    if form.whole("password"):
        room.accounts.set_password(account.name, form.whole("password"), person.name)
    return "/people"


def _account(form: Form) -> Account:
    groups = tuple(form.text("groups").replace(",", " ").split())
    return Account(
        form.text("name"), form.text("role"), groups, form.text("disabled") == "yes", unix_user=form.text("unix_user")
    )


def revoke_token(room: ControlRoom, person: Person, form: Form) -> str:
    """Revoke one of the user's tokens."""
    room.accounts.revoke_token(person, form.number("number"))
    return "/me"


def save_plan(room: ControlRoom, person: Person, form: Form) -> str:
    """Create a plan, or change an existing plan if the form has its revision."""
    trigger = form.text("trigger")
    if trigger not in (SCHEDULE, FULL):
        raise OptionError(f"unknown trigger {trigger!r:.40} of a plan", hint=f"choose {SCHEDULE} or {FULL}")
    is_paused = False
    if form.number("revision"):
        is_paused = room.plans.plan(f"{form.text('owner')}/{form.text('name')}").plan.is_paused
    schedule: Schedule | None = None
    fullness: Fullness | None = None
    if trigger == SCHEDULE:
        schedule = Schedule(form.texts("day"), form.text("at"), form.text("zone") or "UTC")
    else:
        fullness = Fullness(
            form.number("full_wagons"),
            _amount(form, "full_hours") * 3600,
            parse_bytes(form.text("full_memory") or "0"),
            _amount(form, "full_waits"),
        )
    plan = Plan(
        form.text("owner") or person.name,
        form.text("name"),
        form.text("dataset"),
        schedule,
        fullness,
        form.text("group"),
        # The option runs_again is only valid with a schedule, but the form always contains the option.
        bool(form.text("runs_again")) and trigger == SCHEDULE,
        form.text("place") or "here",
        form.number("workers"),
        _amount(form, "allow_missing") / 100,
        _amount(form, "hours_max") * 3600,
        parse_bytes(form.text("memory_max") or "0"),
        is_paused,
    )
    room.plans.save(plan, person, form.number("revision"))
    return f"/plans/{plan.address}"


def pause_plan(room: ControlRoom, person: Person, form: Form) -> str:
    """Pause or resume a plan."""
    room.plans.pause(form.text("address"), person, is_paused=form.text("to") != "on")
    return f"/plans/{form.text('address')}"


def remove_plan(room: ControlRoom, person: Person, form: Form) -> str:
    """Remove a plan."""
    room.plans.remove(form.text("address"), person)
    return "/plans"


def _amount(form: Form, name: str) -> float:
    text = form.text(name) or "0"
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"{name} cannot be {text!r:.40}", hint="write a number such as 1.5") from None


def order_train(room: ControlRoom, person: Person, form: Form) -> str:
    """Order a train."""
    wanted = TrainOrder(
        form.text("owner") or person.name,
        form.text("name"),
        form.text("dataset"),
        form.texts("wagon"),
        form.text("place") or "here",
        form.number("workers"),
        _share(form.text("allow_missing")),
    )
    return f"/trains/{room.trains.order(wanted, person)}"


def _share(text: str) -> float:
    """Convert a percentage from a form to a fraction."""
    try:
        return float(text or "0") / 100
    except ValueError:
        raise OptionError(f"{text!r:.40} is not a percentage", hint="write a number such as 1.5") from None


def approve_train(room: ControlRoom, person: Person, form: Form) -> str:
    """Approve and start a train that waits for approval."""
    room.trains.approve(form.number("number"), person)
    return f"/trains/{form.number('number')}"


def cancel_train(room: ControlRoom, person: Person, form: Form) -> str:
    """Cancel a train."""
    room.trains.cancel(form.number("number"), person)
    return f"/trains/{form.number('number')}"


def run_train_again(room: ControlRoom, person: Person, form: Form) -> str:
    """Run the missing sub-jobs of a train."""
    room.trains.again(form.number("number"), person)
    return f"/trains/{form.number('number')}"


def clone_train(room: ControlRoom, person: Person, form: Form) -> str:
    """Order the same train again."""
    return f"/trains/{room.trains.clone(form.number('number'), person)}"
