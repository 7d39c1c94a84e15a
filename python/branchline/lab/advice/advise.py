"""Advice on a job or a dataset: the changes that save most time, and writing the files that a piece of advice asks for.

The gain of a change is measured on a sample of the files, forecast by the model, or taken from the record of the job.
Nothing is advised where nothing is to be gained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from branchline.base.quantities import percent
from branchline.errors import OptionError
from branchline.lab.advice.changes import (
    ACCESS,
    CLUSTERED,
    CONVERTED,
    OTHER,
    RECOMPRESSED,
    AdvisedChange,
    write_changed,
)
from branchline.lab.advice.layout_advice import DECOMPRESS_S
from branchline.lab.advice.proposals import Proposal, columns_of_ntuple, is_far, proposals
from branchline.lab.advice.sample_trial import SAMPLE_BYTES, TriedChange, try_change
from branchline.lab.forecast.conditions import Conditions
from branchline.lab.forecast.forecasting import WhatIf, what_if
from branchline.lab.forecast.rates import OtherCodec, try_clusters, try_codec
from branchline.lab.forecast.subject import Subject
from branchline.reading.datasets.data_file import DataFile
from branchline.records.diagnosis.advice import RECORD_ERROR, Advice, Gain, best, gain_between
from branchline.records.diagnosis.figures import phase_s
from branchline.records.diagnosis.job_advice import advise_job
from branchline.records.sensors.record import JobRecord

#: Relative error of a time measured on a sample, for a change by a factor of e; and the least relative difference
#: between two readings of the same files.
TRIED_ERROR, TRIED_NOISE = 0.1, 0.03
#: Another access mode is tried on remote files, too, if the model forecasts less than this time for this many bytes.
TRIED_BYTES, TRIED_FAR_S = SAMPLE_BYTES, 15.0
#: Phases of a job that belong to reading.
READING_PHASES = ("plan", "wait", "decompress", "decode")
#: Kinds of advice for which the files are better evidence than the record of a job.
_FROM_FILES = {"access", "merge", "layout", "codec", "format", "workers"}
#: Kinds of advice that name a flaw of the files.
_FLAWS_OF_FILES = ("merge", "layout", "codec", "format", "slim")
#: Files that grow by more than this fraction: the advice names it as a cost.
GROWS = 0.02


@dataclass(frozen=True)
class Advised:
    """A piece of advice, with the change that follows it, and the forecast of the model where it was asked."""

    advice: Advice
    change: AdvisedChange
    forecast: WhatIf | None = None


def advise(subject: Subject) -> list[Advised]:
    """At most five pieces of advice, the largest gain first. An idea whose gain is below 3 %, or whose interval reaches
    0, is none. What is near is tried on a sample of the files; what is far away is left to the model.
    """
    found = [one for proposal in proposals(subject) if (one := _judged(subject, proposal))]
    if not any(one.advice.id.startswith(_FLAWS_OF_FILES) for one in found):
        # Whatever is wrong with files is to be mended first: a new format would hide it.
        found += [one for proposal in columns_of_ntuple(subject) if (one := _judged(subject, proposal))]
    planned = {one.advice.id.partition("-")[0] for one in found}
    if subject.job is not None:
        # What the files do not show: workers, wagons, results, places.
        record = [one for one in advise_job(subject.job) if one.id.partition("-")[0] not in planned | _FROM_FILES]
        found += [Advised(one, AdvisedChange(OTHER, option=one.change)) for one in record]
    by_advice = {id(one.advice): one for one in found}
    return [by_advice[id(one)] for one in best(one.advice for one in found)]


def advise_without_files(job: JobRecord) -> list[Advised]:
    """Advice for a job whose files cannot be read any more: what its record says. Nothing is tried or planned."""
    return [Advised(one, AdvisedChange(OTHER, option=one.change)) for one in advise_job(job)]


def advice_of(found: Sequence[Advised]) -> list[Advice]:
    """The advice alone, for reports."""
    return [one.advice for one in found]


def do(advised: Advised, files: Sequence[DataFile], folder: Path) -> tuple[DataFile, ...]:
    """Writes the files that a piece of advice asks for into a folder, and verifies them; the old ones stay.

    Raises OptionError for advice that is an option and no file, or for files of one name; BadFileError if what was
    written is not the same; and what writing raises.
    """
    return write_changed(advised.change, files, folder, is_verified=True)


def _judged(subject: Subject, proposal: Proposal) -> Advised | None:
    """The advice with its gain; None where it can be neither tried nor forecast."""
    if proposal.then_s is not None and subject.job is not None:
        now_s = subject.job.wall_s
        return Advised(_advice(proposal, gain_between(now_s, proposal.then_s, RECORD_ERROR), now_s), proposal.change)
    if proposal.change.kind != OTHER and _can_be_tried(subject, proposal.change):
        trial = try_change(subject, proposal.change)
        return _tried(subject, proposal, trial) if trial else None
    try:
        forecast = _forecast(subject, proposal.change)
    except OptionError:
        return None
    if forecast is None:
        return None
    gain = Gain(forecast.gain.value, forecast.gain.low, forecast.gain.high)
    return Advised(_advice(proposal, gain, forecast.now.wall_s.value), proposal.change, forecast)


def _can_be_tried(subject: Subject, change: AdvisedChange) -> bool:
    """What is near is tried; of what is far away only another way of reading, and only where a sample takes not long:
    new files would not be far.
    """
    if not is_far(subject):
        return True
    if change.kind != ACCESS:
        return False
    part = min(1.0, TRIED_BYTES / max(1, sum(one.size_bytes for one in subject.laid))) / subject.scale
    return what_if(subject, Conditions()).now.wall_s.value * part < TRIED_FAR_S


def _tried(subject: Subject, proposal: Proposal, trial: TriedChange) -> Advised:
    job = subject.job
    if job is None:
        # A try reads again and again, and a program reads once: the first time takes longer, whatever is changed.
        first_s = subject.rates.first_s
        own_s = min(first_s, trial.before_s, trial.after_s) if trial.is_apart else 0.0
        now_s, then_s = ((each - own_s) / max(1e-9, trial.part) + first_s for each in (trial.before_s, trial.after_s))
    else:
        now_s = job.wall_s
        reading_s = min(now_s, sum(phase_s(job, name) for name in READING_PHASES))
        then_s = now_s - reading_s * (1 - trial.factor)
    gain = gain_between(now_s, then_s, TRIED_ERROR, max(TRIED_NOISE, trial.noise))
    if proposal.change.kind == CONVERTED and trial.growth > GROWS:
        proposal = replace(proposal, cost=f"{proposal.cost}; files get {percent(trial.growth, 1.0)} larger")
    return Advised(_advice(proposal, gain, now_s), proposal.change)


def _forecast(subject: Subject, change: AdvisedChange) -> WhatIf | None:
    """What the model says of a change; None where it does not know it."""
    if change.kind == ACCESS and change.access is not None:
        other = replace(subject, access=change.access)
        return _between(subject, other)
    if change.kind == RECOMPRESSED:
        other_codec = try_codec(change.codec, subject.files, subject.laid, subject.branches)
        return what_if(subject, change.conditions, _against_none(subject, other_codec))
    if change.kind == CLUSTERED and change.cluster_bytes:
        try:
            clusters = try_clusters(change.cluster_bytes, subject.files, subject.laid, subject.branches)
            tried = _against_none(subject, clusters)
        except OptionError:
            # Too large to be written for a try: bytes and rates are taken to stay.
            tried = None
        return what_if(subject, change.conditions, tried)
    return None if change.conditions == Conditions() else what_if(subject, change.conditions)


def _against_none(subject: Subject, other: OtherCodec) -> OtherCodec:
    """What is not compressed, as tiny pages may be, takes next to no time, and a ratio to that says nothing."""
    own = max(subject.rates.decompress_s_per_byte.values(), default=0.0)
    if subject.laid[0].codec not in ("", "none") or own <= 0:
        return other
    return replace(other, decompress_factor=DECOMPRESS_S.get(other.codec, DECOMPRESS_S["zstd"]) / own)


def _between(subject: Subject, other: Subject) -> WhatIf:
    """The forecast for another way of reading, with settings that conditions have no words for."""
    now, then = (what_if(replace(one, job=None), Conditions()) for one in (subject, other))
    job = subject.job
    now_s = job.wall_s if job else now.now.wall_s.value
    fixed_s = subject.fixed_s
    factor = (then.now.wall_s.value - fixed_s) / max(1e-9, now.now.wall_s.value - fixed_s)
    asked = what_if(subject, Conditions(mode=other.access.mode))
    gain = gain_between(now_s, fixed_s + (now_s - fixed_s) * factor, TRIED_ERROR)
    return replace(asked, then=then.now, gain=replace(asked.gain, value=gain.value, low=gain.low, high=gain.high))


def _advice(proposal: Proposal, gain: Gain, now_s: float) -> Advice:
    return Advice(proposal.id, proposal.what, proposal.words, gain, proposal.cost, proposal.whom, now_s)
