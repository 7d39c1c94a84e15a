"""Systematic uncertainties: how the variations of results are combined, in plots, tables and fits alike."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from branchline.base.whole_files import read_plain
from branchline.errors import DatasetError, MissingFileError, OptionError
from branchline.records.sensors.record_parts import SampleRecord
from branchline.trains.results.stacks import SampleHistogram
from branchline.trains.wagons.variation_names import side_of, sides

#: Things between which an uncertainty may be uncorrelated.
SCOPES = ("sample", "era", "channel")
# Maximum size of a file of systematics: larger files are not such a list.
_FILE_BYTES_MAX = 2**20
_RATE_HINT = 'write 1.025 for 2.5 %, [0.9, 1.2] for down and up, or {"ttbar" = 1.06} for some samples'

#: A relative uncertainty: the factors for the lower and the upper side.
Factors = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Systematics:
    """How variations become uncertainties in plots, tables, workspaces and datacards. Declare it once for all of these.

    Without an entry here, variations with the same name except for the side (``jes_up`` and ``jes_down``, ``jesUp`` and
    ``jesDown``, ``jes__1up`` and ``jes__1down``) are one uncertainty, which is correlated between all samples.

    - ``rates``: uncertainties of the normalisation, such as ``{"lumi": 1.014}`` for all simulated samples, or
      ``{"xsec": {"ttbar": [0.94, 1.05]}}`` for the lower and upper side of some samples. Patterns such as ``wjets_*``
      may name samples.
    - ``free``: normalisations without a constraint, such as ``{"ttbar_norm": ["ttbar"]}``.
    - ``envelopes``: variations, given as patterns, whose largest shifts in each bin are one uncertainty, such as
      ``{"scale": ["muR*", "muF*"]}``.
    - ``quadratures``: variations whose shifts are added in quadrature to one uncertainty, such as
      ``{"pdf": ["pdf_*"]}`` for eigenvectors.
    - ``uncorrelated``: between what an uncertainty is uncorrelated: ``sample``, ``era`` (of the list of datasets) or
      ``channel``, such as ``{"jes": ["era"]}``. Patterns may name uncertainties.

    Raises OptionError for invalid values.

        systematics = branchline.Systematics(
            rates={"lumi": 1.014, "xsec": {"ttbar": [0.94, 1.05]}},
            envelopes={"scale": ["muR*", "muF*"]},
            uncorrelated={"jes": ["era"]},
        )
    """

    rates: Mapping[str, object] = field(default_factory=dict)
    free: Mapping[str, Sequence[str]] = field(default_factory=dict)
    envelopes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    quadratures: Mapping[str, Sequence[str]] = field(default_factory=dict)
    uncorrelated: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not isinstance(value, Mapping) or not all(isinstance(name, str) and name for name in value):
                raise OptionError(f"{one.name} of the systematics is {value!r:.80}", hint="give a dict of names")
        for name, rate in self.rates.items():
            for factors in rate.values() if isinstance(rate, Mapping) else [rate]:
                _factors(name, factors)
        for what in ("free", "envelopes", "quadratures", "uncorrelated"):
            lists = {name: _patterns(what, name, value) for name, value in getattr(self, what).items()}
            object.__setattr__(self, what, lists)
        for name, scopes in self.uncorrelated.items():
            unknown = [one for one in scopes if one not in SCOPES]
            if unknown:
                what = f"uncertainty {name!r} cannot be uncorrelated between {unknown[0]!r}"
                raise OptionError(what, hint=f"choose from {', '.join(SCOPES)}")
        names = [*self.rates, *self.free, *self.envelopes, *self.quadratures]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise OptionError(f"two systematic uncertainties are called {twice!r}", hint="rename one of them")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Systematics:
        """Read systematics from a TOML file with the tables ``rates``, ``free``, ``envelopes``, ``quadratures`` and
        ``uncorrelated``. Raises MissingFileError and OptionError.
        """
        try:
            given = tomllib.loads(read_plain(Path(path), _FILE_BYTES_MAX).decode())
        except FileNotFoundError:
            raise MissingFileError("there is no such file", path=str(path)) from None
        except (OSError, ValueError) as error:
            what = f"the systematics cannot be read: {error}"
            raise OptionError(what, path=str(path), hint="give a TOML file") from None
        unknown = sorted(given.keys() - {one.name for one in fields(cls)})
        if unknown:
            hint = f"choose from {', '.join(one.name for one in fields(cls))}"
            raise OptionError(f"unknown table {unknown[0]!r:.80}", path=str(path), hint=hint)
        return cls(**given)

    def uncertainties(self, variations: Sequence[str], samples: Sequence[SampleRecord]) -> list[Uncertainty]:
        """Return the uncertainties of simulated samples with these variations, without free normalisations."""
        combined = [
            (name, kind, tuple(one for one in variations if _matches(one, patterns)))
            for kind, declared in (("envelope", self.envelopes), ("quadrature", self.quadratures))
            for name, patterns in declared.items()
        ]
        used = {member for _, _, members in combined for member in members}
        others = [one for one in variations if one not in used]
        of_sides = [(side_of(pair[0], others)[0], "sides", pair) for pair in sides(others)]
        found = [
            Uncertainty(name, kind, members, scopes=self._scopes(name))
            for name, kind, members in [*of_sides, *combined]
            if members
        ]
        for name, rate in self.rates.items():
            rates = {one.name: _rate_of(name, rate, one.name) for one in samples if not one.is_data}
            factors = {sample: one for sample, one in rates.items() if one is not None}
            if factors:
                found.append(Uncertainty(name, "rate", (), factors, scopes=self._scopes(name)))
        return found

    def free_of(self, sample: str) -> list[str]:
        """Return the names of the free normalisations of a sample."""
        return [name for name, patterns in self.free.items() if _matches(sample, patterns)]

    def check(self, variations: Collection[str], samples: Iterable[SampleRecord], path: str) -> None:
        """Raise DatasetError for a pattern or a name that matches nothing, since it is probably misspelled."""
        simulated = [one for one in samples if not one.is_data]
        names = [one.name for one in simulated]
        of_samples = {name: list(rate) for name, rate in self.rates.items() if isinstance(rate, Mapping)}
        known = [one.name for one in self.uncertainties(list(variations), simulated)]
        for what, declared, there in (
            ("sample", {**of_samples, **self.free}, names),
            ("variation", {**self.envelopes, **self.quadratures}, list(variations)),
            ("uncertainty", {name: [name] for name in self.uncorrelated}, known),
        ):
            for name, patterns in declared.items():
                for pattern in patterns:
                    if not any(fnmatchcase(one, pattern) for one in there):
                        message = f"{pattern!r} of the systematic uncertainty {name!r} matches no {what}"
                        hint = f"choose from {', '.join(there)}" if there else f"the results have no {what}"
                        raise DatasetError(message, path=path, hint=hint)
        eras = [name for name, scopes in self.uncorrelated.items() if "era" in scopes]
        without = [one.name for one in simulated if not one.era]
        if eras and without:
            message = f"{eras[0]!r} is uncorrelated between eras, but sample {without[0]!r} has no era"
            raise DatasetError(message, path=path, hint="add era to the sample in the list of datasets")

    def _scopes(self, name: str) -> tuple[str, ...]:
        declared = [scopes for pattern, scopes in self.uncorrelated.items() if fnmatchcase(name, pattern)]
        return tuple(scope for scope in SCOPES if any(scope in one for one in declared))


@dataclass(frozen=True)
class Uncertainty:
    """A source of uncertainty: its variations and how they are combined, or its factors by sample.

    ``kind`` is ``sides``, ``envelope``, ``quadrature`` or ``rate``.
    """

    name: str
    kind: str
    members: tuple[str, ...]
    factors: Mapping[str, Factors] = field(default_factory=dict)
    scopes: tuple[str, ...] = ()

    def parameter(self, sample: SampleRecord, channel: str) -> str:
        """Return the name of the parameter for a sample in a channel: samples with the same name are correlated."""
        values = {"sample": sample.name, "era": sample.era, "channel": channel}
        return "_".join([self.name, *(values[scope] for scope in self.scopes)])

    def correlated(self, samples: Sequence[SampleHistogram]) -> list[list[SampleHistogram]]:
        """Return the samples of a histogram in groups that share a parameter."""
        groups: dict[str, list[SampleHistogram]] = {}
        for one in samples:
            groups.setdefault(self.parameter(one.sample, ""), []).append(one)
        return list(groups.values())

    def shifts(self, samples: Sequence[SampleHistogram]) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the shifts of the sum of correlated samples for the upper and the lower side; None without an effect.

        If one side is missing, the other one is mirrored.
        """
        if self.kind == "rate":
            affected = [(one.nominal.values, self.factors[one.sample.name]) for one in samples if self._has(one)]
            if not affected:
                return None
            up = sum((values * (high - 1) for values, (_, high) in affected), np.zeros(1))
            return up, sum((values * (low - 1) for values, (low, _) in affected), np.zeros(1))
        by_name = {name: _shift(samples, name) for name in self.members}
        found = {name: one for name, one in by_name.items() if one is not None}
        if not found:
            return None
        if self.kind == "sides":
            by_side = {side_of(name, self.members)[1] or "up": one for name, one in found.items()}
            up = by_side["up"] if "up" in by_side else -by_side["down"]
            return up, by_side["down"] if "down" in by_side else -by_side["up"]
        if self.kind == "envelope":
            stacked = np.stack(list(found.values()))
            return np.maximum(stacked.max(axis=0), 0), np.minimum(stacked.min(axis=0), 0)
        above, below = np.zeros(()), np.zeros(())
        for pair in sides(list(found)):
            # A single variation, such as a symmetric eigenvector, has the same shift on both sides.
            both = [found[name] for name in pair] if len(pair) > 1 else [found[pair[0]], -found[pair[0]]]
            above = above + np.maximum(np.max(both, axis=0), 0) ** 2
            below = below + np.minimum(np.min(both, axis=0), 0) ** 2
        return np.sqrt(above), -np.sqrt(below)

    def _has(self, one: SampleHistogram) -> bool:
        return one.sample.name in self.factors


def band(samples: Sequence[SampleHistogram], uncertainties: Sequence[Uncertainty]) -> tuple[np.ndarray, np.ndarray]:
    """Return the size of the uncertainty band below and above the sum of the samples.

    The band adds in quadrature the statistical uncertainty of the simulation and, for each uncertainty and each group
    of correlated samples, the larger shift in the direction of the band.
    """
    above = sum((one.nominal.variances for one in samples), np.zeros(1))
    below = above.copy()
    for uncertainty in uncertainties:
        for group in uncertainty.correlated(samples):
            shifts = uncertainty.shifts(group)
            if shifts is not None:
                above = above + np.maximum(np.maximum(*shifts), 0) ** 2
                below = below + np.minimum(np.minimum(*shifts), 0) ** 2
    return np.sqrt(below), np.sqrt(above)


def _shift(samples: Sequence[SampleHistogram], variation: str) -> np.ndarray | None:
    varied = [one for one in samples if variation in one.by_variation]
    if not varied:
        return None
    shifts = [one.by_variation[variation].values - one.nominal.values for one in varied]
    return np.asarray(np.sum(shifts, axis=0))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _patterns(what: str, name: str, value: object) -> tuple[str, ...]:
    found = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence) else ()
    if not found or not all(isinstance(one, str) for one in found):
        raise OptionError(f"{what} of {name!r} is {value!r:.80}", hint=f'write {what} = {{"{name}" = ["..."]}}')
    return tuple(str(one) for one in found)


def _factors(name: str, value: object) -> Factors:
    """Return the factors of the lower and the upper side. A single factor f means 1/f and f, as for a log-normal."""
    pair = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    is_number = [isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one) for one in pair]
    if not all(is_number) or len(pair) not in (1, 2) or any(one <= 0 for one in pair):
        raise OptionError(f"the rate uncertainty {name!r} is {value!r:.80}, not positive factors", hint=_RATE_HINT)
    return (1 / float(pair[0]), float(pair[0])) if len(pair) == 1 else (float(pair[0]), float(pair[1]))


def _rate_of(name: str, rate: object, sample: str) -> Factors | None:
    if not isinstance(rate, Mapping):
        return _factors(name, rate)
    found = [one for pattern, one in rate.items() if fnmatchcase(sample, str(pattern))]
    return _factors(name, found[-1]) if found else None
