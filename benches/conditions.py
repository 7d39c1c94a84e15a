"""What the numbers of a page hold for: the machine, the versions, and the settings of each reader."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
import tomllib
from pathlib import Path

from benches.data import CODECS
from benches.worker import REPOSITORY

GIGA = 1e9
PACKAGES = ("branchline", "uproot", "awkward", "numpy", "cramjam")
# Branchline's codecs, and how Cargo.lock calls the libraries that they come from.
CODEC_CRATES = {"zlib": "libdeflate-sys", "zstd": "zstd-sys", "LZ4": "lz4-sys", "LZMA": "liblzma-sys"}

# What a pass of each reader does, by the name of its arm: enough to repeat it without reading the code.
SETTINGS = {
    "Branchline": "`branchline.iterate(files, branches, step_size='100 MB', workers=cores)`, awkward arrays",
    "limit: decompression alone": "the same baskets through Branchline's codecs on as many threads as cores; nothing "
    "is decoded or kept. What no reader with these codecs can be faster than",
    "uproot, library ak": "`uproot.iterate(files, branches, step_size='100 MB', library='ak', handler=MemmapSource)`",
    "uproot, library np": "the same with `library='np'`",
    "uproot, library ak, executors": "the first with as many threads as cores to decompress and to interpret",
    "uproot, library np, executors": "the same with `library='np'`",
    "uproot, library np, processes": "`library='np'`, the files split between as many processes as cores, which are "
    "started before the clock; the arrays stay in them",
    "GetEntry, TTreeCache": "C++ compiled with optimisation (`.L loops.C+O`): the branches' status and addresses are "
    "set, `tree->GetEntry(i)` for every entry with ROOT's own TTreeCache; values are overwritten by the next entry's",
    "GetEntry, no TTreeCache": "the same with `tree->SetCacheSize(0)`",
    "GetEntry, threads over files": "the first in as many threads as cores, which take file after file",
    "GetEntry, implicit threads": "the first after `ROOT::EnableImplicitMT(cores)`",
    "RDataFrame": "C++ compiled like the loops, nothing jitted: one `ForeachSlot` that looks at the size of every "
    "column of every entry",
    "RDataFrame, implicit threads": "the same after `ROOT::EnableImplicitMT(cores)`",
}

#: What the clock of a pass measures, unless a page says otherwise.
READING_CLOCK = (
    "wall time of opening the files and reading them to the last array, in a process that is bound to its cores and "
    "has imported, compiled and started everything before"
)


def commit() -> str:
    """The commit of the sources that are measured, and whether they were changed since."""
    try:
        ran = subprocess.run(
            ["git", "describe", "--always", "--dirty= with changes"],
            cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown: the sources are in no git repository"
    return ran.stdout.strip()


def system_name() -> str:
    """The kernel and the C library, without what a distribution or a farm adds to the kernel's version."""
    release = re.match(r"[0-9.]*[0-9]", platform.release())
    return f"{platform.system()} {release.group() if release else platform.release()}, {' '.join(platform.libc_ver())}"


def cpu_name() -> str:
    """The processor's own name for itself."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def root_version() -> str:
    """The version of ROOT, out of its own header, so that ROOT stays out of this process."""
    found = importlib.util.find_spec("ROOT")
    for folder in (found.submodule_search_locations if found else None) or []:
        header = Path(folder) / "include" / "ROOT" / "RVersion.hxx"
        if header.exists():
            numbers = re.findall(r"#define ROOT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header.read_text())
            return ".".join(numbers)
    return "unknown"


def codec_versions() -> str:
    """The libraries that Branchline and the limit decompress with."""
    locked = tomllib.loads((REPOSITORY / "Cargo.lock").read_text())["package"]
    versions = {one["name"]: one["version"] for one in locked}
    return ", ".join(f"{codec} {crate} {versions.get(crate, '?')}" for codec, crate in CODEC_CRATES.items())


def conditions(repeats: int, clock: str = READING_CLOCK) -> dict[str, str]:
    """What the numbers hold for."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    root = f"ROOT {root_version()} (PyPI's root {importlib.metadata.version('root')})"
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "commit": commit(),
        "processor": f"{cpu_name()}, {os.cpu_count()} cores, {memory_bytes / GIGA:.1f} GB of memory",
        "system": system_name(),
        "load": f"{os.getloadavg()[0]:.1f} on average over the last minute of the rounds, of which the readers make "
        "at most 2; more than that is other programs",
        "versions": ", ".join([*versions, root, f"Python {platform.python_version()}"]),
        "Branchline's codecs": codec_versions(),
        "files": "written by ROOT in its default layout, compression settings "
        + ", ".join(f"{setting} ({codec})" for codec, setting in CODECS.items())
        + "; local, all of them in the page cache, but for those that are called cold",
        "clock": clock,
        "rounds": f"{repeats} after one to warm up; in each round every reader has one pass, and every round begins "
        "with another reader",
    }


def machine_lines(repeats: int) -> list[str]:
    """The machine, the versions and what else runs, as a list."""
    found = conditions(repeats)
    return [
        *(f"- {name}: {found[name]}" for name in ("date", "commit", "processor", "system", "versions")),
        f"- load: {os.getloadavg()[0]:.1f} on average over the last minute",
    ]


def settings_lines(letters: dict[str, str]) -> list[str]:
    """What each reader does, as a list, with the letter by which the table names it."""
    return [f"- {f'{letters[name]}: ' if name in letters else ''}**{name}**: {does}" for name, does in SETTINGS.items()]
