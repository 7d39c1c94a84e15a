"""The record of a sample: what the dataset's list says of it, and its sum of weights in the files that were read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class SampleRecord:
    """A sample. ``sum_of_weights`` is that of the files that were read, in proportion where a part of a file was; None
    for data, and if it is not known, for the reason in ``note``. ``factor`` is what raw results are multiplied with to
    be those of ``luminosity_per_fb`` (None if it is not known): 1000 * cross section in pb * luminosity in 1/fb *
    ``scale`` / sum of weights.
    """

    name: str = ""
    kind: str = "background"
    label: str = ""
    group: str = ""
    files: int = 0
    events: int = 0
    cross_section_pb: float | None = None
    luminosity_per_fb: float | None = None
    scale: float = 1.0
    sum_of_weights: float | None = None
    sum_of_weights_from: str = "events"
    factor: float | None = None
    note: str = ""

    @property
    def is_data(self) -> bool:
        """Whether it was measured."""
        return self.kind == "data"
