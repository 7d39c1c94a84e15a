"""What reading a sample took beyond the model, and what of it another layout would have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from branchline.lab.forecast.laid_file import LaidFile
from branchline.lab.forecast.model import Costs, Work
from branchline.lab.forecast.subject import Subject

#: Seconds, besides those that are counted as opening, decompressing and decoding, that a core usually takes for a chunk
#: (it is handed from thread to thread, and to Python), and for a basket or page (it is looked up, cut out of what was
#: read, and handed on): measured on 1500 files of a chunk each, and on files of 150 000 baskets and pages.
CHUNK_S, BASKET_S = 1e-4, 3.5e-6
#: A machine, as it is and with what else it does, is taken to be so many times slower than usual at most.
SLOWEST = 5.0
#: From this round trip on waiting is no sign of a busy machine.
FAR_S = 1e-3


@dataclass(frozen=True)
class Unexplained:
    """Seconds of reading that the model does not know of: once in each process, for a chunk, of which each file has one
    at least, and for a basket or page.
    """

    once_s: float = 0.0
    chunk_s: float = 0.0
    basket_s: float = 0.0

    def of(self, work: Work) -> float:
        """For all files of some work."""
        return self.once_s + work.scale * (self.chunk_s * chunks_of(work) + self.basket_s * baskets_of(work))


def chunks_of(work: Work) -> int:
    """Chunks of the files that were planned."""
    return sum(one.chunks for one in work.plans)


def baskets_of(work: Work) -> int:
    """Baskets and pages of the files that were planned."""
    return sum(len(branch) for file in work.files for branch in file.extents)


def usual_saving_s(before: Work, after: Work) -> float:
    """The seconds of each worker of a job that fewer baskets save, or more of them take, as usual."""
    fewer = before.scale * baskets_of(before) - after.scale * baskets_of(after)
    return BASKET_S * fewer / max(1, after.workers)


@dataclass(frozen=True)
class _More:
    """Seconds of reading some files beyond the model, with the chunks and baskets in them and the CPU time they took
    in the model.
    """

    seconds: float
    chunks: int
    baskets: int
    cpu_s: float


def unexplained(subject: Subject, model: Callable[[Subject], tuple[Costs, Work]]) -> Unexplained:
    """What the sample of a dataset shows; nothing where not all of it was read. ``model`` has what one costs."""
    rates = subject.rates
    laid = [one for one in subject.laid if one.path in rates.sample_paths]
    if not laid or rates.sample_s <= 0 or len(laid) < len(rates.sample_paths):
        return Unexplained()

    def more(some: Sequence[LaidFile], took_s: float) -> _More:
        own = replace(subject, files=subject.files[: len(some)], laid=tuple(some), threads=1)
        costs, work = model(own)
        return _More(took_s - costs.wall_s, max(1, chunks_of(work)), baskets_of(work), costs.cpu_s)

    all_of_it = more(laid, rates.sample_s - rates.first_s)
    if not rates.alone_s:
        return _by_usual_parts(rates.first_s, all_of_it)
    alone = more([one for one in laid if one.path == rates.sample_paths[0]], rates.alone_s)
    busy = 1.0
    if all(one.is_near for one in laid) and rates.round_trip_s < FAR_S:
        # What other programs make of a millisecond would be multiplied by all files: they are as slow as other work is.
        busy = min(SLOWEST, max(1.0, rates.again_s / max(1e-9, rates.again_cpu_s)))
        cpu_s = busy * (rates.again_cpu_s - rates.alone_cpu_s)
        later_s = max(0.0, cpu_s - (all_of_it.cpu_s - alone.cpu_s))
    else:
        # The quickest of each.
        later_s = max(0.0, more(laid, rates.again_s).seconds - alone.seconds)
    # Of what later files take, their baskets take what they usually do.
    baskets = all_of_it.baskets - alone.baskets
    basket_s = min(busy * BASKET_S, later_s / max(1, baskets))
    chunk_s = (later_s - basket_s * baskets) / max(1, all_of_it.chunks - alone.chunks)
    # What the first file takes alone, all take once: threads are started and ended.
    once_s = max(0.0, all_of_it.seconds - chunk_s * all_of_it.chunks - basket_s * all_of_it.baskets)
    return Unexplained(rates.first_s + once_s, chunk_s, basket_s)


def _by_usual_parts(first_s: float, more: _More) -> Unexplained:
    """Shared out among chunks and baskets as they usually cost; what is much more than that comes once."""
    usual_s = CHUNK_S * more.chunks + BASKET_S * more.baskets
    seconds = max(0.0, more.seconds)
    slower = min(SLOWEST, seconds / usual_s)
    return Unexplained(first_s + seconds - slower * usual_s, slower * CHUNK_S, slower * BASKET_S)
