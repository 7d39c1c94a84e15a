"""What differs between two texts, shown line by line."""

from __future__ import annotations

import random

from branchline.control.registry.revisions import line_difference


def test_a_line_that_differs_is_found_in_a_long_text() -> None:
    before = "\n".join(map(str, range(50_000)))
    found = line_difference("code", before, before.replace("\n2500\n", "\nx\n"))
    assert found is not None
    assert [one for one in found.lines if one[0] in "+-"] == ["--- before", "+++ after", "-2500", "+x"]
    assert found.lines[2] == "@@ -2498,7 +2498,7 @@"


def test_texts_without_anything_in_common_are_not_compared_line_by_line() -> None:
    """Looking for what stayed would take minutes."""
    drawn = random.Random(1)
    before, after = ("\n".join(str(drawn.randrange(150)) for _ in range(10_000)) for _ in range(2))
    found = line_difference("code", before, after)
    assert found is not None
    assert found.lines == ["... 10000 and 10000 lines; too many differ to show them"]
