"""Tables of a run in Markdown: ratios with their spread, and the seconds they are computed from."""

from __future__ import annotations

from string import ascii_lowercase

from benches.arms import BRANCHLINE, GET_ENTRY, LIMIT, PEERS, UPROOT, Arm
from benches.conditions import READING_CLOCK, conditions, settings_lines
from benches.rounds import Case, Sample, Spread, fastest, ratio, seconds_of

MEGA = 1e6
# Goals for reading all branches with equal cores: speedup over peers, and fraction of the limit.
TARGET_OVER_PEERS = {"zlib": 2.5, "LZ4": 2.5, "zstd": 1.7, "LZMA": 1.0}
TARGET_OF_LIMIT = 0.85
TARGET_TWO_CORES = 1.9
# A larger ratio between passes of one reader indicates interference by other programs.
QUIET_SPREAD = 1.25
# The peers that TARGET_OVER_PEERS applies to. For other peers the goal is 1.
TARGET_PEERS = (UPROOT, GET_ENTRY)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table with aligned columns."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells: list[str]) -> str:
        first = cells[0].ljust(widths[0])
        return "| " + " | ".join([first, *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]) + " |"

    rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * (w + 1) + ":" for w in widths[1:])]) + "|"
    return "\n".join([line(head), rule, *(line(row) for row in rows)])


def spread(numbers: Spread, scale: float = 1.0, digits: int = 2, unit: str = "") -> str:
    """Format numbers as `median (lowest-highest)`."""
    low, mid, high = (f"{n * scale:.{digits}f}" for n in (numbers.low, numbers.median, numbers.high))
    return f"{mid}{unit} ({low}-{high})"


def arms_of(arms: list[Arm], family: str, cores: int) -> list[Arm]:
    return [arm for arm in arms if arm.family == family and arm.cores == cores]


def setting_letters(arms: list[Arm]) -> dict[str, str]:
    """Return a letter for each setting of a peer, used in the table of ratios."""
    names = dict.fromkeys(arm.name for family in PEERS for arm in arms if arm.family == family)
    return dict(zip(names, ascii_lowercase, strict=False))


def ratio_table(arms: list[Arm], cases: list[Case], samples: list[Sample]) -> str:
    """Compare Branchline with the best setting of each peer and with the limit, in one row per case and number of
    cores.
    """
    letters, rows = setting_letters(arms), []
    for case in cases:
        for cores in sorted({arm.cores for arm in arms}):
            (ours,) = arms_of(arms, BRANCHLINE, cores)
            took = Spread.of(list(seconds_of(samples, case.name, ours.key).values()))
            row = [case.codec, case.selection, str(cores), spread(took, digits=3)]
            row += [f"{size / MEGA / took.median:.0f}" for size in (case.plain_bytes, case.compressed_bytes)]
            for family in PEERS:
                peer = fastest(samples, case.name, arms_of(arms, family, cores))
                row.append(f"{spread(ratio(samples, case.name, peer.key, ours.key))} {letters[peer.name]}")
            (limit,) = arms_of(arms, LIMIT, cores)
            row.append(spread(ratio(samples, case.name, limit.key, ours.key), scale=100, digits=0))
            row.append(two_core_gain(arms, case, samples) if cores > 1 else "")
            rows.append(row)
    head = ["codec", "read", "cores", "Branchline s", "plain MB/s", "compressed MB/s"]
    head += [f"x {family}" for family in PEERS] + ["% of the limit", "x one core"]
    return table(head, rows)


def two_core_gain(arms: list[Arm], case: Case, samples: list[Sample]) -> str:
    """Return the speedup of two cores over one."""
    (one,), (two,) = arms_of(arms, BRANCHLINE, 1), arms_of(arms, BRANCHLINE, 2)
    return spread(ratio(samples, case.name, one.key, two.key))


def shortfalls(arms: list[Arm], cases: list[Case], samples: list[Sample]) -> list[str]:
    """Describe the goals that the medians miss."""
    missed = []

    def check(case: Case, cores: int, what: str, reached: float, wanted: float) -> None:
        if reached < wanted:
            missed.append(f"{case.name}, {cores} core(s): {what} is {reached:.2f}, goal {wanted:.2f}")

    for case in (c for c in cases if c.branches is None):
        for cores in sorted({arm.cores for arm in arms}):
            (ours,), (limit,) = arms_of(arms, BRANCHLINE, cores), arms_of(arms, LIMIT, cores)
            share = ratio(samples, case.name, limit.key, ours.key).median
            check(case, cores, "fraction of the limit", share, TARGET_OF_LIMIT)
            for family in PEERS:
                peer = fastest(samples, case.name, arms_of(arms, family, cores))
                wanted = TARGET_OVER_PEERS[case.codec] if family in TARGET_PEERS else 1.0
                check(case, cores, f"speed over {family}", ratio(samples, case.name, peer.key, ours.key).median, wanted)
        (one,), (two,) = arms_of(arms, BRANCHLINE, 1), arms_of(arms, BRANCHLINE, 2)
        gain = ratio(samples, case.name, one.key, two.key).median
        check(case, 2, "gain over one core", gain, TARGET_TWO_CORES)
    return missed


def seconds_table(arms: list[Arm], case: Case, samples: list[Sample]) -> str:
    """Return a table of every arm of a case: seconds, throughput, entries and values."""
    rows = []
    for arm in arms:
        mine = [s for s in samples if s.case == case.name and s.arm == arm.key]
        took = Spread.of([s.seconds for s in mine])
        entries, values = ("" if n is None else str(n) for n in (mine[0].entries, mine[0].values))
        row = [arm.key, spread(took, digits=3), f"{case.plain_bytes / MEGA / took.median:.0f}"]
        rows.append([*row, f"{case.compressed_bytes / MEGA / took.median:.0f}", entries, values])
    return table(["reader", "seconds", "plain MB/s", "compressed MB/s", "entries", "values"], rows)


def case_line(case: Case) -> str:
    """Describe the sizes of a case."""
    return (
        f"{len(case.files)} files, {case.baskets} baskets, {case.compressed_bytes / MEGA:.1f} MB compressed, "
        f"{case.plain_bytes / MEGA:.1f} MB uncompressed"
    )


def opening(title: str, repeats: int, clock: str = READING_CLOCK) -> list[str]:
    """Return the title and conditions of a page. `clock` defines the measured time."""
    return [f"# {title}", "", *(f"- {name}: {text}" for name, text in conditions(repeats, clock).items()), ""]


def disturbed(arms: list[Arm], cases: list[Case], samples: list[Sample]) -> list[str]:
    """Return the cases in which passes of one reader differ enough to indicate interference by other programs."""
    lines = []
    for case in cases:
        times = {}
        for arm in arms:
            took = Spread.of(list(seconds_of(samples, case.name, arm.key).values()))
            times[arm.key] = took.high / took.low
        over = [name for name, factor in times.items() if factor > QUIET_SPREAD]
        if over:
            worst = max(over, key=lambda name: times[name])
            lines.append(
                f"{case.name}: {len(over)} of {len(arms)} readers, the most {worst} ({times[worst]:.2f} times)"
            )
    return lines


READING = f"""\
All readers read all values of the same files; a run fails if they count different numbers of entries or values. Each
row is one codec, one selection of branches and one number of cores, to which the whole process is bound. Before each
pass of a cold file, mincore verified that it was not in the page cache; on a virtual machine it may be in the memory of
the host.

- **Branchline s**: seconds of a pass, median (lowest-highest) of the rounds. **plain** and **compressed MB/s** are the
  uncompressed and compressed sizes of the baskets read, divided by that median; MB are 10^6 bytes.
- **x uproot, x GetEntry, x RDataFrame**: seconds of the peer divided by Branchline's; above 1, Branchline is faster.
  The letter is the setting with the lowest median (below). Ratios are computed pair by pair within a round, so that a
  slowdown of the machine affects both sides; median (lowest-highest).
- **% of the limit**: the seconds of decompression alone in per cent of Branchline's.
- **x one core**: speedup over one core.

Differences between readers: Branchline and uproot return every value in an array. ROOT's loops process one entry at a
time in buffers that the next entry overwrites. No reader computes anything with the values. If the slowest pass of a
reader took more than {QUIET_SPREAD} times its fastest, other programs interfered: see "Disturbed"."""


def readers_page(arms: list[Arm], cases: list[Case], samples: list[Sample], repeats: int) -> str:
    """Return the page of the comparison of readers."""
    lines = opening("Branchline, uproot and ROOT on the same files", repeats)
    lines += [READING, "", ratio_table(arms, cases, samples), "", "## Settings of the readers", ""]
    lines += [*settings_lines(setting_letters(arms)), "", "## Missed goals", ""]
    missed = shortfalls(arms, cases, samples)
    lines += [f"- {text}" for text in missed] or ["None."]
    lines += ["", "## Disturbed", ""]
    lines += [f"- {text}" for text in disturbed(arms, cases, samples)] or ["None."]
    for case in cases:
        lines += ["", f"## {case.name}", "", case_line(case), "", seconds_table(arms, case, samples)]
    return "\n".join(lines) + "\n"
