"""Ways to write a module of helpers, and to import it. In each, ``shifted`` depends only on the value ``{shift}``, and
``moved`` only on ``{offset}``.
"""

from __future__ import annotations

#: The import of a file, the import inside a method, and the expressions for the two functions.
IMPORTS = [
    ("from helper import moved, shifted", "pass", "shifted", "moved"),
    ("from helper import moved as up, shifted as down", "pass", "down", "up"),
    ("from helper import *", "pass", "shifted", "moved"),
    ("import helper", "pass", "helper.shifted", "helper.moved"),
    ("import helper as tools", "pass", "getattr(tools, 'shift' + 'ed')", "tools.moved"),
    ("", "import helper", "helper.shifted", "helper.moved"),
    ("", "from helper import moved, shifted", "shifted", "moved"),
]

FUNCTIONS = """
def shifted(x):
    return x + {shift}

def moved(x):
    return x + {offset}
"""
CONSTANTS = """
A = {shift}
B = {offset}

def shifted(x):
    return x + A

def moved(x):
    return x + B
"""
DEFAULTS_AND_ATTRIBUTES = """
def a():
    return {shift}

def shifted(x, by=a()):
    return x + by

class B:
    by = {offset}

def moved(x):
    return x + B.by
"""
LAMBDAS = """
shifted = lambda x: x + {shift}
FUNCTIONS = {{"moved": lambda x: x + {offset}}}

def moved(x):
    return FUNCTIONS["moved"](x)
"""
CALLS_ON_IMPORT = """
VALUES = {{}}

def put(name, value):
    VALUES[name] = value

put("a", {shift})
B = put("b", {offset})

def shifted(x):
    return x + VALUES["a"]

def moved(x):
    return x + VALUES["b"]
"""
COMPUTED_NAMES = """
import sys

def a(x):
    return x + {shift}

def shifted(x):
    return getattr(sys.modules[__name__], "a")(x)

if True:
    def moved(x):
        return x + {offset}
"""
FUNCTOOLS = """
import functools
import operator

@functools.lru_cache
def a():
    return {shift}

def shifted(x):
    return x + a()

moved = functools.partial(operator.add, {offset})
"""
DECORATORS_AND_OBJECTS = """
def doubled(f):
    return lambda x: (f(x) + f(x)) // 2

@doubled
def b(x):
    return x + {offset}

class A:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x + self.by

shifted = A({shift})

def moved(x):
    return b(x)
"""
CHANGED_LATER = """
LATER = 0

def shifted(x):
    return x

def moved(x):
    return x + LATER

def change(by):
    global LATER, shifted
    LATER = by
    before = shifted
    def shifted(x):
        return before(x) + {shift}

change({offset})
"""
FORMS = [FUNCTIONS, CONSTANTS, DEFAULTS_AND_ATTRIBUTES, LAMBDAS, CALLS_ON_IMPORT, COMPUTED_NAMES, FUNCTOOLS]
FORMS += [DECORATORS_AND_OBJECTS, CHANGED_LATER]
