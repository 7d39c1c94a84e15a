"""Advice on a job or a dataset: propose the changes that save the most time, and write the files of a proposed change.

The gain of a change is measured on a sample of the files, forecast by the model, or taken from the job's record. The
answer for each change is a gain, no gain, or unclear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from branchline.base.codecs import codec_named
from branchline.base.quantities import percent
from branchline.errors import OptionError
from branchline.lab.advice.changes import (
    ACCESS,
    CLUSTERED,
    CONVERTED,
    FLATTENED,
    OTHER,
    RECOMPRESSED,
    AdvisedChange,
    write_changed,
)
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

#: Relative error of a time that was measured on a sample, for a change by a factor of e; and the minimum relative
#: difference between two reads of the same files.
TRIED_ERROR, TRIED_NOISE = 0.1, 0.03
#: For remote files, another access mode is tried only if reading this many bytes is forecast to take less than this
#: time.
TRIED_BYTES, TRIED_FAR_S = SAMPLE_BYTES, 15.0
#: Names of the phases of a job that belong to reading.
READING_PHASES = ("plan", "wait", "decompress", "decode")
#: Kinds of advice for which the files are better evidence than the job's record.
_FROM_FILES = {"access", "merge", "layout", "codec", "format", "workers"}
#: Prefixes of the IDs of advice that reports a flaw of the files.
_FLAWS_OF_FILES = ("merge", "layout", "codec", "format", "slim")
#: If a change makes files grow by more than this fraction, the advice mentions the growth as a cost.
GROWS = 0.02


@dataclass(frozen=True)
class Advised:
    """A piece of advice, the change that implements the advice, and the model's forecast, or None."""

    advice: Advice
    change: AdvisedChange
    forecast: WhatIf | None = None


def advise(subject: Subject) -> list[Advised]:
    """Return at most five pieces of advice with a gain, largest gain first, followed by all changes without a gain or
    with an unclear answer.

    For nearby files, changes are tried on a sample; for remote files, their gain is forecast by the model. Raises
    OptionError if the subject is cold and the sample cannot be written beside the files.
    """
    found = [one for proposal in proposals(subject) if (one := _judged(subject, proposal))]
    if not any(one.advice.id.startswith(_FLAWS_OF_FILES) for one in gains_of(found)):
        # Converting the files would hide other flaws, so it is only proposed for files without flaws.
        found += [one for proposal in columns_of_ntuple(subject) if (one := _judged(subject, proposal))]
    planned = {one.advice.id.partition("-")[0] for one in found}
    if subject.job is not None:
        # Advice that does not depend on the files: on workers, wagons, results and sites.
        record = [one for one in advise_job(subject.job) if one.id.partition("-")[0] not in planned | _FROM_FILES]
        found += [Advised(one, AdvisedChange(OTHER, option=one.change)) for one in record]
    by_advice = {id(one.advice): one for one in found}
    chosen = [by_advice[id(one)] for one in best(one.advice for one in found)]
    return chosen + [one for one in found if one.advice.gain.answer != "gain"]


def advise_without_files(job: JobRecord) -> list[Advised]:
    """Return the advice that a job's record alone supports. No files are read, tried or planned."""
    return [Advised(one, AdvisedChange(OTHER, option=one.change)) for one in advise_job(job)]


def advice_of(found: Sequence[Advised]) -> list[Advice]:
    """Return only the advice, without changes and forecasts, for reports."""
    return [one.advice for one in found]


def gains_of(found: Sequence[Advised]) -> list[Advised]:
    """Return the advice with a gain."""
    return [one for one in found if one.advice.gain.answer == "gain"]


def do(advised: Advised, files: Sequence[DataFile], folder: Path) -> tuple[DataFile, ...]:
    """Write the files that the advice asks for into a folder and verify them. The original files are kept.

    Raises OptionError for advice that changes no files and for files of the same name, BadFileError if the written
    files differ from the original ones, and the errors of writing.
    """
    return write_changed(advised.change, files, folder, is_verified=True)


def _judged(subject: Subject, proposal: Proposal) -> Advised | None:
    """Return the advice for a proposal with its gain; None if the change can be neither tried nor forecast."""
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
    """Return whether a change can be tried on a sample.

    For remote files, this is only true for another access mode, and only if reading the sample takes little time: a
    change that writes files would write them locally, not to the remote storage.
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
        # A trial reads several times, but a program reads once: add the extra time of the first read to both times.
        first_s = subject.rates.first_s
        own_s = min(first_s, trial.before_s, trial.after_s) if trial.is_apart else 0.0
        now_s, then_s = ((each - own_s) / max(1e-9, trial.part) + first_s for each in (trial.before_s, trial.after_s))
    else:
        now_s = job.wall_s
        reading_s = min(now_s, sum(phase_s(job, name) for name in READING_PHASES))
        then_s = now_s - reading_s * (1 - trial.factor)
    gain = gain_between(now_s, then_s, TRIED_ERROR, max(TRIED_NOISE, trial.noise))
    if proposal.change.kind in (CONVERTED, FLATTENED) and trial.growth > GROWS:
        proposal = replace(proposal, cost=f"{proposal.cost}; files get {percent(trial.growth, 1.0)} larger")
    return Advised(_advice(proposal, gain, now_s), proposal.change)


def _forecast(subject: Subject, change: AdvisedChange) -> WhatIf | None:
    """Return the model's forecast for a change; None if the model does not cover this change."""
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
            # The files are too large to be rewritten for a trial: assume that sizes and rates do not change.
            tried = None
        return what_if(subject, change.conditions, tried)
    return None if change.conditions == Conditions() else what_if(subject, change.conditions)


def _against_none(subject: Subject, other: OtherCodec) -> OtherCodec:
    """Correct the ratio of decompression times for uncompressed files, for which the measured ratio is meaningless."""
    own = max(subject.rates.decompress_s_per_byte.values(), default=0.0)
    if subject.laid[0].codec not in ("", "none") or own <= 0:
        return other
    return replace(other, decompress_factor=codec_named(other.codec).decompress_s_per_byte / own)


def _between(subject: Subject, other: Subject) -> WhatIf:
    """Return the forecast for another way of reading that `Conditions` cannot express."""
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
