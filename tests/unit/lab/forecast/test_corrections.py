"""What is proposed about a storage, a way or a job: its kind, whom it is for, and its gain."""

from __future__ import annotations

import pytest

from branchline.records.diagnosis.remedies import (
    ACTIONS,
    AVOID_ELEMENT,
    SEND_AGAIN,
    STAGE_ELEMENT,
    Correction,
    Estimate,
    avoid_failing,
    avoid_slow,
    send_again,
    stage_from_afar,
    stage_remote,
)

LOST = Estimate(7200.0, 3600.0, 10800.0, 0.9)


@pytest.mark.parametrize(
    ("found", "kind", "site", "gain"),
    [
        (stage_from_afar("GSI", "se", LOST), STAGE_ELEMENT, "GSI", "if the same files were read at the speed of other"),
        (stage_remote("GSI", "se", LOST), STAGE_ELEMENT, "GSI", "if these files were local, minus the time to copy"),
        (avoid_slow("se", LOST), AVOID_ELEMENT, "", "where its files have replicas elsewhere"),
        (avoid_slow("se", LOST, "GSI"), AVOID_ELEMENT, "GSI", "at GSI, where the files have replicas elsewhere"),
    ],
)
def test_what_is_lost_is_what_a_correction_gains_at_most(found: Correction, kind: str, site: str, gain: str) -> None:
    assert (found.kind, found.site, found.storage_element, found.job) == (kind, site, "se", "")
    assert found.gain.startswith("up to 2 h of workers")
    assert gain in found.gain
    assert found.gain_s == Estimate(7200.0, 3600.0, 10800.0, 0.9)


def test_what_fails_is_corrected_without_seconds() -> None:
    failing, missing = avoid_failing("se"), send_again("a" * 32, 3)
    assert (failing.kind, failing.storage_element, failing.gain_s) == (AVOID_ELEMENT, "se", Estimate())
    assert (missing.kind, missing.job, missing.gain) == (SEND_AGAIN, "a" * 32, "the results of 3 sub-jobs")
    assert {failing.kind, missing.kind} < set(ACTIONS)
