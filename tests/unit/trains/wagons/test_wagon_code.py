"""A change to a module of helpers changes only the keys of the wagons that use what was changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WAGONS = """
import sys

import effects
import helpers
import patches
import tools.base
from helpers import by_name as renamed, doubled
from stars import *
from tools import more

class Attribute:
    def process(self, events):
        return helpers.by_attribute(events)

class Name:
    def process(self, events):
        return renamed(events)

class Local:
    def process(self, events):
        import helpers as h
        return h.by_attribute(h.WIDTH)

class Nested:
    def process(self, events):
        return helpers.nested(events)

class Submodule:
    def process(self, events):
        return tools.base.scale(events) + more.shift(events)

class Dynamic:
    def process(self, events):
        return getattr(helpers, "by_" + "getattr")(events)

class Loaded:
    def process(self, events):
        return vars(sys.modules["helpers"])["by_getattr"](events)

class Child(helpers.Cut):
    pass

class Holder:
    def __init__(self):
        self.cut = helpers.by_name

    def process(self, events):
        return self.cut(events)

class Table:
    def process(self, events):
        return helpers.FUNCTIONS["one"](events)

class Decorated:
    def process(self, events):
        return doubled(events)

class Body:
    from helpers import in_body

    def process(self, events):
        return self.in_body()

class Package:
    def process(self, events):
        return getattr(tools, "ba" + "se").scale(events)

class Alone:
    def process(self, events):
        return events

wagons = [Attribute(), Name(), Local(), Nested(), Submodule(), Dynamic(), Loaded(), Child(), Holder(), Table()]
wagons += [Decorated(), Body(), Package(), Alone()]
"""
HELPERS = """
import functools

from tools.base import scale as scaled

LIMIT = 5
OTHER = 6
WIDTH = 7

def by_attribute(x):
    return x > LIMIT

def by_name(x):
    return x > OTHER

def by_getattr(x):
    return x > 8

def nested(x):
    return scaled(x) + inner(x)

def inner(x):
    return x + 9

def unused(x):
    return x + 10

class Cut:
    limit = 11

    def process(self, events):
        return by_name(events) > self.limit

def one(x):
    return x + 12

FUNCTIONS = {"one": one}

def twice(function):
    @functools.wraps(function)
    def called(x):
        return 2 * function(x)
    return called

@functools.lru_cache
def doubled(x):
    return x + 13

def in_body(self):
    return 14
"""
EFFECTS = """
STARTED = []

short = lambda x: x + 14

def replaced(x):
    return x + 15

def start(number):
    STARTED.append(number)

def configured(number):
    start(number)
    return number

start(16)
NUMBER = configured(17)

class Base:
    pass

class Found(Base):
    value = 22
"""
FILES = {
    "wagons.py": WAGONS,
    "helpers.py": HELPERS,
    "effects.py": EFFECTS,
    "patches.py": "import effects\n\ndef other(x):\n    return x + 18\n\neffects.replaced = other\n",
    "stars.py": "def starred(x):\n    return x + 23\n",
    "tools/__init__.py": "from . import more\n",
    "tools/base.py": "FACTOR = 19\n\ndef scale(x):\n    return x * FACTOR\n\ndef idle(x):\n    return x\n",
    "tools/more.py": "def shift(x):\n    return x + 20\n\ndef push(x):\n    return x + 21\n",
}
DRIVER = """
import json, os, sys
from branchline.trains.reuse.result_keys import WagonKeys
from branchline.trains.wagons.wagons import load_wagons
for folder in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        sys.path.insert(0, folder)
        wagons, _ = load_wagons("wagons.py")
        keys = WagonKeys(wagons)
        found = {one.name: [keys[one.name].key, keys[one.name].unknown, dict(keys[one.name].parts)] for one in wagons}
        with open("keys.json", "w") as file:
            json.dump(found, file)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
ALL = {"Attribute", "Name", "Local", "Nested", "Submodule", "Dynamic", "Loaded", "Child", "Holder", "Table"}
ALL |= {"Decorated", "Body", "Package", "Alone"}
#: Wagons that may use any name of the helpers.
WHOLE = {"Dynamic", "Loaded"}
#: What is changed, and the wagons whose keys must change.
EDITS: dict[str, tuple[str, str, str, set[str]]] = {
    "a function by attribute": ("helpers.py", "x > LIMIT", "x >= LIMIT", {"Attribute", "Local"}),
    "a constant of a function": ("helpers.py", "LIMIT = 5", "LIMIT = 50", {"Attribute", "Local"}),
    "a constant in a local import": ("helpers.py", "WIDTH = 7", "WIDTH = 70", {"Local"}),
    "a function by another name": ("helpers.py", "x > OTHER", "x >= OTHER", {"Name", "Child", "Holder"}),
    "a function by a computed name": ("helpers.py", "x > 8", "x > 80", set()),
    "a function of a function": ("helpers.py", "x + 9", "x + 90", {"Nested"}),
    "a function that nobody uses": ("helpers.py", "x + 10", "x + 100", set()),
    "a new function": ("helpers.py", "LIMIT = 5", "LIMIT = 5\n\ndef new(x):\n    return x\n", set()),
    "a base class": ("helpers.py", "limit = 11", "limit = 110", {"Child"}),
    "a function in a dict": ("helpers.py", "x + 12", "x + 120", {"Table"}),
    "a cached function": ("helpers.py", "x + 13", "x + 130", {"Decorated"}),
    "a function in a class": ("helpers.py", "return 14", "return 140", {"Body"}),
    "a lambda beside effects": ("effects.py", "x + 14", "x + 140", ALL),
    "a function that was replaced": ("effects.py", "x + 15", "x + 150", ALL),
    "the replacement": ("patches.py", "x + 18", "x + 180", ALL),
    "a call on import": ("effects.py", "start(16)", "start(160)", ALL),
    "a function called on import": ("effects.py", "STARTED.append(number)", "STARTED.insert(0, number)", ALL),
    "an assigned call on import": ("effects.py", "configured(17)", "configured(170)", ALL),
    "a class that its base may find": ("effects.py", "value = 22", "value = 220", ALL),
    "a module with import *": ("stars.py", "x + 23", "x + 230", ALL),
    "a submodule by a computed name": ("tools/base.py", "return x\n", "return x + 1\n", {"Package"}),
    "a submodule": ("tools/more.py", "x + 20", "x + 200", {"Submodule"}),
    "a submodule that nobody uses": ("tools/more.py", "x + 21", "x + 210", set()),
}  # fmt: skip
#: Wagons that use modules as a whole.
WHOLE_OF = {"helpers.py": WHOLE, "tools/more.py": {*WHOLE, "Package"}, "tools/base.py": WHOLE}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, tuple[str | None, str, dict[str, str]]]]:
    top = tmp_path_factory.mktemp("edited")
    for what, (name, old, new, _) in {"nothing": ("helpers.py", "LIMIT", "LIMIT", set()), **EDITS}.items():
        for file, content in FILES.items():
            path = top / what / file
            path.parent.mkdir(parents=True, exist_ok=True)
            assert file != name or old in content
            path.write_text(content.replace(old, new, 1) if file == name else content)
    folders = [top / one for one in ("nothing", *EDITS)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", DRIVER, *map(str, folders)], check=True, env=environment)
    return {one.name: json.loads((one / "keys.json").read_text()) for one in folders}


def test_all_wagons_have_keys(keys: dict[str, dict[str, tuple[str | None, str, dict[str, str]]]]) -> None:
    assert {name: unknown for name, (_, unknown, _) in keys["nothing"].items()} == dict.fromkeys(ALL, "")


@pytest.mark.parametrize("what", EDITS)
def test_only_users_of_a_changed_name_have_another_key(
    what: str, keys: dict[str, dict[str, tuple[str | None, str, dict[str, str]]]]
) -> None:
    name, _, _, expected = EDITS[what]
    changed = {one for one in ALL if keys[what][one][0] != keys["nothing"][one][0]}
    assert changed == expected | WHOLE_OF.get(name, set())


def test_the_parts_of_a_key_name_the_change(
    keys: dict[str, dict[str, tuple[str | None, str, dict[str, str]]]],
) -> None:
    def parts_changed(what: str, wagon: str) -> set[str]:
        before, now = keys["nothing"][wagon][2], keys[what][wagon][2]
        return {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}

    assert parts_changed("a function by attribute", "Attribute") == {"helpers.by_attribute"}
    assert "the statements of effects" in parts_changed("a call on import", "Alone")
    limit = {"helpers.LIMIT", "the value of helpers.LIMIT"}
    assert parts_changed("a constant of a function", "Attribute") == limit


def test_a_name_that_a_module_creates_when_it_runs_uses_the_whole_module(tmp_path: Path) -> None:
    helpers = "def __getattr__(name):\n    return lambda x: LIMIT\n\nLIMIT = {}\n"
    for number, limit in enumerate("112"):
        (tmp_path / f"{number}").mkdir()
        wagon = "import helpers\nclass One:\n    def process(self, events):\n        return helpers.cut(events)\n"
        (tmp_path / f"{number}" / "wagons.py").write_text(wagon)
        (tmp_path / f"{number}" / "helpers.py").write_text(helpers.format(limit))
    folders = [str(tmp_path / f"{number}") for number in range(3)]
    subprocess.run([sys.executable, "-c", DRIVER, *folders], check=True)
    first, same, other = (json.loads((Path(one) / "keys.json").read_text())["One"][0] for one in folders)
    assert first == same != other


PROCESS = "class One:\n    def process(self, events):\n        return {}\n"
#: Files, and a change to one of them, that changes what the wagon returns.
DEPENDS: dict[str, tuple[dict[str, str], str, str, str]] = {
    "a submodule of a package by another name": (
        {
            "wagons.py": "import tools.base\n\nt = tools\n\n" + PROCESS.format("t.base.cut(events)"),
            "tools/__init__.py": "",
            "tools/base.py": "def cut(x):\n    return x + 1\n",
        },
        "tools/base.py", "x + 1", "x + 2",
    ),
    "a package that the wagon holds": (
        {
            "wagons.py": "import tools.base\n\nclass One:\n    def __init__(self):\n        self.tools = tools\n\n"
            "    def process(self, events):\n        return self.tools.base.cut(events)\n",
            "tools/__init__.py": "",
            "tools/base.py": "def cut(x):\n    return x + 1\n",
        },
        "tools/base.py", "x + 1", "x + 2",
    ),
    "a namespace package by a computed name": (
        {
            "wagons.py": "import tools.base\n\n" + PROCESS.format("getattr(tools, 'base').cut(events)"),
            "tools/base.py": "def cut(x):\n    return x + 1\n",
        },
        "tools/base.py", "x + 1", "x + 2",
    ),
    "a class that only its base finds": (
        {
            "wagons.py": "import base, plugins\n\n" + PROCESS.format("base.every(events)"),
            "base.py": "class Base:\n    pass\n\n"
            "def every(x):\n    return [c().cut(x) for c in Base.__subclasses__()]\n",
            "plugins.py": "from base import Base\n\nclass A(Base):\n    def cut(self, x):\n        return x + 1\n",
        },
        "plugins.py", "x + 1", "x + 2",
    ),
    "a class that registers its subclasses": (
        {
            "wagons.py": "import base, plugins\n\n" + PROCESS.format("base.ALL[0]().cut(events)"),
            "base.py": "ALL = []\n\nclass Base:\n    def __init_subclass__(cls):\n        ALL.append(cls)\n",
            "plugins.py": "from base import Base\n\nclass A(Base):\n    def cut(self, x):\n        return x + 1\n",
        },
        "plugins.py", "x + 1", "x + 2",
    ),
    "a module that a function imports as a global": (
        {
            "wagons.py": "import helpers\n\n" + PROCESS.format("helpers.cut(events)"),
            "helpers.py": "def load():\n    global tools\n    import tools\n\n"
            "load()\n\ndef cut(x):\n    return tools.scale(x)\n",
            "tools.py": "def scale(x):\n    return x + 1\n",
        },
        "tools.py", "x + 1", "x + 2",
    ),
    "a name in an expression as text": (
        {
            "wagons.py": "import helpers\n\n" + PROCESS.format("helpers.cut(events)"),
            "helpers.py": "import numexpr\n\nK = 1\n\ndef cut(pt):\n    return numexpr.evaluate('pt > K')\n",
            "numexpr.py": "def evaluate(text):\n    return text\n",
        },
        "helpers.py", "K = 1", "K = 2",
    ),
    "a function of the same file by a computed name": (
        {
            "wagons.py": "import sys\n\ndef cut_a(x):\n    return x + 1\n\n"
            + PROCESS.format("getattr(sys.modules[__name__], 'cut_' + 'a')(events)"),
        },
        "wagons.py", "x + 1", "x + 2",
    ),
    "one of two files of the same name": (
        {
            "wagons.py": "import muon, ele\n\n" + PROCESS.format("muon.SF + ele.SF"),
            **{
                f"{name}/__init__.py": "import json\nfrom pathlib import Path\n\n"
                "SF = json.loads((Path(__file__).parent / 'sf.json').read_text())\n"
                for name in ("muon", "ele")
            },
            "muon/sf.json": "1",
            "ele/sf.json": "1",
        },
        "ele/sf.json", "1", "2",
    ),
    "a function that a decorator registers": (
        {
            "wagons.py": "import helpers\n\n" + PROCESS.format("helpers.REGISTRY['a'](events)"),
            "helpers.py": "REGISTRY = {}\n\ndef register(f):\n    REGISTRY['a'] = f\n    return f\n\n"
            "@register\ndef a(x):\n    return x + 1\n",
        },
        "helpers.py", "x + 1", "x + 2",
    ),
}  # fmt: skip


def keys_of(folders: list[Path], **variables: str) -> list[str | None]:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    subprocess.run([sys.executable, "-c", DRIVER, *map(str, folders)], check=True, env=environment)
    return [json.loads((one / "keys.json").read_text())["One"][0] for one in folders]


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


@pytest.mark.parametrize("what", DEPENDS)
def test_no_key_survives_a_change_of_what_it_depends_on(what: str, tmp_path: Path) -> None:
    files, name, old, new = DEPENDS[what]
    before, after = keys_of(
        [
            written(tmp_path / "before", files),
            written(tmp_path / "after", {**files, name: files[name].replace(old, new, 1)}),
        ]
    )
    assert before is None or before != after


#: Wagons whose code depends on the environment variable S.
FROM_ENVIRONMENT = {
    "a lambda that reads": {
        "wagons.py": "import helpers\n\n" + PROCESS.format("helpers.cut(events)"),
        "helpers.py": "import os\n\ncut = lambda x: x * float(os.environ['S'])\n",
    },
    "one of two lambdas": {
        "wagons.py": "import helpers\n\n" + PROCESS.format("helpers.cut(events)"),
        "helpers.py": "import os\n\ncut = (lambda x: x) if os.environ['S'] == '1' else (lambda x: 2 * x)\n",
    },
    "one of two modules": {
        "wagons.py": "import os\n\nif os.environ['S'] == '1':\n    import fast as m\nelse:\n    import slow as m\n\n"
        + PROCESS.format("m.cut(events)"),
        "fast.py": "def cut(x):\n    return x\n",
        "slow.py": "def cut(x):\n    return 2 * x\n",
    },
}  # fmt: skip


@pytest.mark.parametrize("what", FROM_ENVIRONMENT)
def test_no_key_survives_a_change_of_the_environment(what: str, tmp_path: Path) -> None:
    folder = written(tmp_path, FROM_ENVIRONMENT[what])
    [one], [two] = (keys_of([folder], S=value) for value in "12")
    assert one is None or one != two


def test_a_script_that_computes_names_counts_as_a_whole(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom branchline.trains.reuse.result_keys import WagonKeys\n"
        "from branchline.trains.wagons.wagons import wagons_of\n\ndef cut_a(x):\n    return x + NUMBER\n\n"
        + PROCESS.format("getattr(sys.modules[__name__], 'cut_' + 'a')(events)")
        + "\nif __name__ == '__main__':\n    print(WagonKeys(wagons_of([One()])[0])['One'].key)\n"
    )
    found = []
    for number in "12":
        (tmp_path / "script.py").write_text(script.replace("NUMBER", number))
        ended = subprocess.run([sys.executable, tmp_path / "script.py"], check=True, capture_output=True, text=True)
        found.append(ended.stdout)
    assert found[0] != found[1]


LOADED = {
    "a function": "def cut(x):\n    return x + 1\n",
    "a cached function": "import functools\n\n@functools.lru_cache\ndef cut(x):\n    return x + 1\n",
    "a property": "class Cut:\n    @property\n    def one(self):\n        return 1\n\n"
    "def cut(x):\n    return Cut().one\n",
    "a static method": "class Cut:\n    @staticmethod\n    def one():\n        return 1\n\n"
    "def cut(x):\n    return Cut.one()\n",
}


@pytest.mark.parametrize("what", LOADED)
def test_a_function_that_was_loaded_before_its_file_changed_has_no_key(what: str, tmp_path: Path) -> None:
    files = {"wagons.py": "import helpers\n\n" + PROCESS.format("helpers.cut(events)"), "helpers.py": LOADED[what]}
    folder = written(tmp_path, files)
    change = "p = __import__('pathlib').Path('helpers.py'); p.write_text(p.read_text().replace('1', '2')); "
    script = DRIVER.replace("keys = ", f"{change}keys = ")
    subprocess.run([sys.executable, "-c", script, str(folder)], check=True)
    key, unknown, _ = json.loads((folder / "keys.json").read_text())["One"]
    assert key is None
    assert "has changed since" in unknown


def test_code_that_is_nested_too_deeply_has_no_key(tmp_path: Path) -> None:
    chain = "".join(f"def f{number}(x):\n    return f{number + 1}(x)\n\n" for number in range(900))
    files = {
        "wagons.py": "import helpers\n\n" + PROCESS.format("helpers.f0(events)"),
        "helpers.py": f"{chain}def f900(x):\n    return x\n",
    }
    keys_of([written(tmp_path, files)])
    _, unknown, _ = json.loads((tmp_path / "keys.json").read_text())["One"]
    assert unknown == "its functions or values are nested too deeply"
