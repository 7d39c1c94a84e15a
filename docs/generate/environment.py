"""Generates the table of environment variables for the settings page."""

from __future__ import annotations

from docs.generate.tables import code, table

from branchline.base.environment import VARIABLES


def page() -> str:
    return table(["variable", "meaning", "default"], [[code(one.name), one.meaning, one.default] for one in VARIABLES])
