"""Parameters of wagons: their types, and validation of values from forms, command lines and JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from branchline.base.limits import PARAMETER_LENGTH_MAX
from branchline.errors import OptionError

#: The type of a parameter's value. Every value can be represented in JSON.
Value = bool | int | float | str | list[bool] | list[int] | list[float] | list[str]
#: Types of single parameter values by name. The elements of a list also have one of these types.
SIMPLE_KINDS: dict[str, type[bool | int | float | str]] = {"bool": bool, "int": int, "float": float, "str": str}
KINDS = (*SIMPLE_KINDS, *(f"list[{kind}]" for kind in SIMPLE_KINDS))
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")


@dataclass(frozen=True)
class WagonParameter:
    """A parameter of a wagon, such as an argument of its class. ``kind`` is the name of the parameter's type, one of
    KINDS. If ``default`` is None, the parameter is required.
    """

    name: str
    kind: str
    default: Value | None = None

    def checked(self, value: object) -> Value:
        """Return the value if it has the right type; for a float, an int is converted. Raises OptionError."""
        if self.kind.startswith("list["):
            if not isinstance(value, list):
                raise self._wrong(value)
            inner = self.kind.removeprefix("list[").removesuffix("]")
            values = [WagonParameter(self.name, inner).checked(one) for one in value]
            if len(json.dumps(values)) > PARAMETER_LENGTH_MAX:
                raise OptionError(f"the list {self.name} is longer than {PARAMETER_LENGTH_MAX} characters")
            return values  # type: ignore[return-value]
        wanted = SIMPLE_KINDS[self.kind]
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        # Reject a bool for an int parameter, although a bool is an int in Python: it is most likely a mistake.
        if not isinstance(value, wanted) or (wanted is not bool and isinstance(value, bool)):
            raise self._wrong(value)
        if isinstance(value, float) and not math.isfinite(value):
            raise self._wrong(value)
        if isinstance(value, str) and len(value) > PARAMETER_LENGTH_MAX:
            raise OptionError(f"{self.name} is longer than {PARAMETER_LENGTH_MAX} characters")
        return value

    def parsed(self, text: str) -> Value:
        """Parse a value from a form or a command line. A list is written as JSON, or as values separated by commas.

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
        """Return a text that ``parsed`` converts back to this value."""
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
        inner = WagonParameter(self.name, self.kind.removeprefix("list[").removesuffix("]"))
        return [inner.parsed(one) for one in text.split(",")] if text else []

    def _wrong(self, value: object) -> OptionError:
        return OptionError(f"{self.name} cannot be {value!r:.80}", hint=f"use a value of type {self.kind}")
