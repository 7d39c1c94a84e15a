"""Tasks over the events of `studies.making`: each reads the branches that it is given, and computes for a while."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np

from studies.making.forms import ESD, NOT_FOR_THE_TRAIN, ObjectForm


def branches_of(forms: tuple[ObjectForm, ...], without: tuple[str, ...] = ()) -> list[str]:
    """The names of all members of these branches, as Branchline writes them."""
    names = []
    for form in forms:
        if form.branch in without:
            continue
        for members in form.members:
            length = f"[{members.length}]" if members.length else ""
            names += [f"{form.branch}/{form.branch.rstrip('.')}.{name}{length}" for name in members.names]
    return names


ALL, FOR_THE_TRAIN = branches_of(ESD), branches_of(ESD, NOT_FOR_THE_TRAIN)
TRACKS = [name for name in ALL if name.startswith("Tracks/")]


class Task:
    """Adds up a spectrum of the tracks, and computes ``turns`` sums over them, as a task that fits or combines does.

    With ``truth`` it reads the generated particles of each event, too.
    """

    def __init__(self, name: str, branches: list[str], turns: int, truth: bool = False) -> None:
        self.name, self.branches, self._turns, self._truth = name, branches, turns, truth

    def process(self, events: Any) -> dict[str, Any]:
        momenta = events["Tracks/Tracks.fP[5]"]
        values = np.asarray(ak.flatten(momenta, axis=None), dtype="f8")
        total = 0.0
        for turn in range(self._turns):
            total += float(np.sum(np.sqrt(np.abs(np.sin(values + turn)))))
        if self._truth:
            particles = events.companion["Kinematics"]["Particles/Particles.fMomentum0"]
            references = events.companion["TrackRefs"]["TrackReferences/TrackReferences.fPoint0"]
            total += float(ak.sum(particles) + ak.sum(references))
        counts, _ = np.histogram(values, 100, (-4.0, 4.0))
        return {"events": len(events), "spectrum": counts, "sum": total}
