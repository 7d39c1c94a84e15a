"""Actions of forms: each is a POST that redirects to the page with the result.

They change wagons, datasets and activations, and trials, measures, accounts, tokens, plans and trains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from branchline.base.limits import MEASURE_HOURS, parse_bytes
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

#: An action: gives the address of the page to show.
Act = Callable[[ControlRoom, Person, "Form"], str]
#: Values of the form field ``trigger``.
SCHEDULE, FULL = "schedule", "full"


class Form:
    """The fields of a form."""

    def __init__(self, data: FormData) -> None:
        self._data = data

    def text(self, name: str) -> str:
        """A field; an empty text if it is not there."""
        value = self._data.get(name, "")
        return value.strip() if isinstance(value, str) else ""

    def whole(self, name: str) -> str:
        """A field as it was typed, with blanks at its ends: a password."""
        value = self._data.get(name, "")
        return value if isinstance(value, str) else ""

    def texts(self, name: str) -> list[str]:
        """All fields of this name."""
        return [one for one in self._data.getlist(name) if isinstance(one, str)]

    def lines(self, name: str) -> list[str]:
        """The lines of a field, without empty ones."""
        return [line.strip() for line in self.text(name).splitlines() if line.strip()]

    def number(self, name: str) -> int:
        """A whole number, 0 if it is not there. Raises HTTPException."""
        text = self.text(name) or "0"
        if not (text.isascii() and text.isdecimal() and len(text) < 18):
            raise HTTPException(400, f"{name} is no number")
        return int(text)

    def names(self) -> list[str]:
        """The names of all fields."""
        return list(dict.fromkeys(self._data.keys()))

    def file(self, name: str) -> tuple[str, bytes]:
        """The name and the content of a file; both empty if there is none."""
        value = self._data.get(name)
        if not isinstance(value, UploadFile) or not value.filename:
            return "", b""
        return value.filename.replace("\\", "/").rpartition("/")[2], value.file.read()


def upload(room: ControlRoom, person: Person, form: Form) -> str:
    """Registers wagons of a file: one if a class is named, else all that it has."""
    path, content = form.file("file")
    place = GitPlace(form.text("repository"), form.text("path"), form.text("ref") or "HEAD")
    if place.repository and (content or form.text("text")):
        raise OptionError("the source is a file, a text, or in git, and not several of these")
    commit = ""
    if place.repository:
        fetched = room.git.fetch(place)
        path, content, commit = place.path, fetched.content, fetched.commit
    if not content and form.text("text"):
        path, content = form.text("path") or "wagons.py", form.text("text").replace("\r\n", "\n").encode()
    if not content:
        raise OptionError("no file was chosen", hint="choose a Python file, paste its text, or name a repository")
    sha256 = room.sources.keep(content, path)
    found = room.sources.classes(sha256, path)
    chosen = [one for one in found if one.name == form.text("class")] if form.text("class") else found
    if not chosen:
        raise OptionError(f"{path} has no wagon {form.text('class')!r:.80}", hint=", ".join(one.name for one in found))
    source = WagonSource(sha256, path, place.repository, commit)
    owner = form.text("owner") or person.name
    addresses = [_register(room, person, owner, one, source, form) for one in chosen]
    room.trials.look()
    return f"/wagons/{addresses[0]}" if len(addresses) == 1 else "/grid"


def _register(room: ControlRoom, person: Person, owner: str, one: WagonClass, source: WagonSource, form: Form) -> str:
    """A new wagon, or the new source of the one that is there by this name."""
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
    """Takes the source of a wagon from git as it is there now."""
    whole = room.registry.wagon(form.text("address"))
    person.check_owns(whole.entry.owner)
    source = whole.entry.source
    if source is None or not source.repository:
        raise OptionError(f"the source of {whole.entry.address} is not from git", hint="upload the new one")
    found = room.git.fetch(GitPlace(source.repository, source.path, form.text("ref") or "HEAD"))
    renewed = replace(source, sha256=room.sources.keep(found.content, source.path), commit=found.commit)
    if renewed != source:
        room.registry.save_wagon(replace(whole.entry, source=renewed), person, form.number("revision"))
        room.trials.look()
    return f"/wagons/{whole.entry.address}"


def save_wagon(room: ControlRoom, person: Person, form: Form) -> str:
    """Changes parameters, group and description of a wagon."""
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
    """Registers a variant of a wagon, without values of its own yet."""
    base = room.registry.wagon(form.text("address"))
    name, owner = form.text("name"), person.name
    room.registry.save_wagon(WagonEntry(owner, name, base.entry.group, variant_of=base.entry.address), person)
    return f"/wagons/{owner}/{name}"


def remove_wagon(room: ControlRoom, person: Person, form: Form) -> str:
    """Removes a wagon."""
    room.registry.remove_wagon(form.text("address"), person)
    return "/grid"


def save_dataset(room: ControlRoom, person: Person, form: Form) -> str:
    """Registers or changes a dataset."""
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
    """``name: first.root second.root``. Raises OptionError."""
    name, colon, files = line.partition(":")
    if not colon or not files.split():
        raise OptionError(f"{line!r:.80} is no merge group", hint="write it as NAME: FILE FILE...")
    return MergeGroup(name.strip(), files.split())


def remove_dataset(room: ControlRoom, person: Person, form: Form) -> str:
    """Removes a dataset."""
    room.registry.remove_dataset(form.text("address"), person)
    return "/grid"


def enable(room: ControlRoom, person: Person, form: Form) -> str:
    """Enables or disables wagons, or all of a group, on a dataset."""
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
    """Enables on a dataset what is enabled on another one."""
    room.registry.copy_activations(form.text("source"), form.text("address"), person)
    room.trials.look()
    return "/grid"


def try_again(room: ControlRoom, person: Person, form: Form) -> str:
    """Tries a wagon on a dataset once more; those of others only who is in their group, or an operator."""
    if not may_try(room, person, form.text("wagon"), form.text("dataset")):
        what = f"{person.name} may not have {form.text('wagon') or 'the train'} on {form.text('dataset')} tried again"
        raise RefusedError(what, hint="ask its owner, somebody of its group, or an operator")
    room.trials.again(form.text("wagon"), form.text("dataset"))
    return "/grid"


def may_try(room: ControlRoom, person: Person, wagon: str, dataset: str) -> bool:
    """Whether somebody may have a wagon tried again, or the train (an empty ``wagon``) of a dataset. Raises
    NoSuchEntryError.
    """
    entry = room.registry.wagon(wagon).entry if wagon else room.registry.dataset(dataset)[0]
    return person.has_part_in(entry.owner, entry.group)


def switch_on_measure(room: ControlRoom, person: Person, form: Form) -> str:
    """Switches a measure on."""
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
    """Undoes a measure."""
    room.measures.undo(form.number("number"), person)
    return f"/measures/{form.number('number')}"


def add_person(room: ControlRoom, person: Person, form: Form) -> str:
    """Makes an account."""
    check_administrator(person)
    room.accounts.add(_account(form), form.whole("password"), person.name)
    return "/people"


def change_person(room: ControlRoom, person: Person, form: Form) -> str:
    """Gives somebody another role or other groups, or disables them; a password, if one is given, is theirs then."""
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
    """Ends one of one's own tokens."""
    room.accounts.revoke_token(person, form.number("number"))
    return "/me"


def save_plan(room: ControlRoom, person: Person, form: Form) -> str:
    """Makes a plan, or changes the one whose revision is given."""
    trigger = form.text("trigger")
    if trigger not in (SCHEDULE, FULL):
        raise OptionError("a plan needs to know when", hint=f"trigger is {SCHEDULE} or {FULL}")
    is_paused = False
    if form.number("revision"):
        is_paused = room.plans.plan(f"{form.text('owner')}/{form.text('name')}").plan.is_paused
    plan = Plan(
        form.text("owner") or person.name,
        form.text("name"),
        form.text("dataset"),
        _schedule(form) if trigger == SCHEDULE else None,
        _fullness(form) if trigger == FULL else None,
        form.text("group"),
        # It is a choice of schedules alone, and stands beside them.
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
    """Pauses a plan, or has it go on."""
    room.plans.pause(form.text("address"), person, is_paused=form.text("to") != "on")
    return f"/plans/{form.text('address')}"


def remove_plan(room: ControlRoom, person: Person, form: Form) -> str:
    """Removes a plan."""
    room.plans.remove(form.text("address"), person)
    return "/plans"


def _schedule(form: Form) -> Schedule:
    return Schedule(form.texts("day"), form.text("at"), form.text("zone") or "UTC")


def _fullness(form: Form) -> Fullness:
    return Fullness(
        form.number("full_wagons"),
        _amount(form, "full_hours") * 3600,
        parse_bytes(form.text("full_memory") or "0"),
        _amount(form, "full_waits"),
    )


def _amount(form: Form, name: str) -> float:
    text = form.text(name) or "0"
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"{name} cannot be {text!r:.40}", hint="write a number, as 1.5") from None


def order_train(room: ControlRoom, person: Person, form: Form) -> str:
    """Orders a train."""
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
    """Per cent as a share."""
    try:
        return float(text or "0") / 100
    except ValueError:
        raise OptionError(f"{text!r:.40} is no number of per cent") from None


def approve_train(room: ControlRoom, person: Person, form: Form) -> str:
    """Has a train begin that waits for an operator."""
    room.trains.approve(form.number("number"), person)
    return f"/trains/{form.number('number')}"


def cancel_train(room: ControlRoom, person: Person, form: Form) -> str:
    """Ends a train."""
    room.trains.cancel(form.number("number"), person)
    return f"/trains/{form.number('number')}"


def run_train_again(room: ControlRoom, person: Person, form: Form) -> str:
    """Runs what is missing."""
    room.trains.again(form.number("number"), person)
    return f"/trains/{form.number('number')}"


def clone_train(room: ControlRoom, person: Person, form: Form) -> str:
    """Runs the same again."""
    return f"/trains/{room.trains.clone(form.number('number'), person)}"
