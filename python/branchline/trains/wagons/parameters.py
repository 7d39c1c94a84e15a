"""Parameters of wagons: their types, and values from texts of forms and from JSON, checked."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from branchline.base.limits import PARAMETER_LENGTH_MAX
from branchline.errors import OptionError

#: What a parameter may be: also a value of JSON, and an argument of a class in Python.
Value = bool | int | float | str | list[bool] | list[int] | list[float] | list[str]
#: The types by their names in Python. A list is of one of the others.
SIMPLE_KINDS: dict[str, type[bool | int | float | str]] = {"bool": bool, "int": int, "float": float, "str": str}
KINDS = (*SIMPLE_KINDS, *(f"list[{kind}]" for kind in SIMPLE_KINDS))
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a wagon: an argument of its class. ``kind`` is one of KINDS; without a ``default`` (None) it must
    be given.
    """

    name: str
    kind: str
    default: Value | None = None

    def checked(self, value: object) -> Value:
        """The value if it is of this type; a whole number is a float, too. Raises OptionError."""
        if self.kind.startswith("list["):
            if not isinstance(value, list):
                raise self._wrong(value)
            inner = self.kind.removeprefix("list[").removesuffix("]")
            values = [Parameter(self.name, inner).checked(one) for one in value]
            if len(json.dumps(values)) > PARAMETER_LENGTH_MAX:
                raise OptionError(f"the list {self.name} is longer than {PARAMETER_LENGTH_MAX} characters")
            return values  # type: ignore[return-value]
        wanted = SIMPLE_KINDS[self.kind]
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        # A bool is an int in Python, and a mistake here.
        if not isinstance(value, wanted) or (wanted is not bool and isinstance(value, bool)):
            raise self._wrong(value)
        if isinstance(value, float) and not math.isfinite(value):
            raise self._wrong(value)
        if isinstance(value, str) and len(value) > PARAMETER_LENGTH_MAX:
            raise OptionError(f"{self.name} is longer than {PARAMETER_LENGTH_MAX} characters")
        return value

    def parsed(self, text: str) -> Value:
        """The value in the text of a form or a command line; a list has commas between its values, or is JSON.

        Raises OptionError.
        """
        text = text.strip()
        if self.kind.startswith("list["):
            return self.checked(self._listed(text))
        if self.kind == "str":
            return self.checked(text)
        if self.kind == "bool":
            if text.lower() not in (*_TRUE, *_FALSE):
                raise self._wrong(text)
            return text.lower() in _TRUE
        try:
            return self.checked(int(text) if self.kind == "int" else float(text))
        except (ValueError, OverflowError):
            raise self._wrong(text) from None

    def text(self, value: Value) -> str:
        """The value as ``parsed`` takes it."""
        if isinstance(value, bool):
            return "true" if value else "false"
        return json.dumps(value) if isinstance(value, list) else str(value)

    def _listed(self, text: str) -> list[object]:
        if text.startswith("["):
            try:
                listed: object = json.loads(text)
            except (ValueError, RecursionError):
                raise self._wrong(text) from None
            if not isinstance(listed, list):
                raise self._wrong(text)
            return listed
        inner = Parameter(self.name, self.kind.removeprefix("list[").removesuffix("]"))
        return [inner.parsed(one) for one in text.split(",")] if text else []

    def _wrong(self, value: object) -> OptionError:
        return OptionError(f"{self.name} cannot be {value!r:.80}", hint=f"it is of type {self.kind}")
