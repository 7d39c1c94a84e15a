"""The conditions of a measurement: the machine, the versions, and the settings of each reader."""

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
# Branchline's codecs, and the crates that implement them.
CODEC_CRATES = {"zlib": "libdeflate-sys", "zstd": "zstd-sys", "LZ4": "lz4-sys", "LZMA": "liblzma-sys"}

# A description of each arm's pass, detailed enough to reproduce it.
SETTINGS = {
    "Branchline": "`branchline.iterate(files, branches, step_size='100 MB', workers=cores)`, awkward arrays",
    "limit: decompression alone": "the same baskets through Branchline's codecs on as many threads as cores; nothing "
    "is decoded or kept. No reader with these codecs can be faster",
    "uproot, library ak": "`uproot.iterate(files, branches, step_size='100 MB', library='ak', handler=MemmapSource)`",
    "uproot, library np": "the same with `library='np'`",
    "uproot, library ak, executors": "as `uproot, library ak`, with as many threads as cores to decompress and to "
    "interpret",
    "uproot, library np, executors": "the same with `library='np'`",
    "uproot, library np, processes": "`library='np'`, the files divided among as many processes as cores, which are "
    "started in advance and keep the arrays",
    "GetEntry, TTreeCache": "C++ compiled with optimisation (`.L loops.C+O`): sets the branches' status and addresses, "
    "then calls `tree->GetEntry(i)` for every entry with ROOT's TTreeCache; each entry overwrites the previous one",
    "GetEntry, no TTreeCache": "the same with `tree->SetCacheSize(0)`",
    "GetEntry, threads over files": "as `GetEntry, TTreeCache`, with as many threads as cores, one file at a time each",
    "GetEntry, implicit threads": "as `GetEntry, TTreeCache`, after `ROOT::EnableImplicitMT(cores)`",
    "RDataFrame": "C++ compiled like the loops, nothing jitted: one `ForeachSlot` that accesses every column of "
    "every entry",
    "RDataFrame, implicit threads": "the same after `ROOT::EnableImplicitMT(cores)`",
}

#: Definition of the measured time, unless a page states another one.
READING_CLOCK = (
    "wall time of opening the files and reading all arrays, in a process that is bound to its cores; imports, "
    "compilation and startup happen before"
)


def commit() -> str:
    """Return the commit of the measured sources, with a note if they contain changes."""
    try:
        ran = subprocess.run(
            ["git", "describe", "--always", "--dirty= with changes"],
            cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown: the sources are not in a git repository"
    return ran.stdout.strip()


def system_name() -> str:
    """Return the kernel version, without the suffix of the distribution, and the C library."""
    release = re.match(r"[0-9.]*[0-9]", platform.release())
    return f"{platform.system()} {release.group() if release else platform.release()}, {' '.join(platform.libc_ver())}"


def cpu_name() -> str:
    """Return the name of the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def root_version() -> str:
    """Return ROOT's version from its header, without loading ROOT into this process."""
    found = importlib.util.find_spec("ROOT")
    for folder in (found.submodule_search_locations if found else None) or []:
        header = Path(folder) / "include" / "ROOT" / "RVersion.hxx"
        if header.exists():
            numbers = re.findall(r"#define ROOT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header.read_text())
            return ".".join(numbers)
    return "unknown"


def codec_versions() -> str:
    """Return the versions of Branchline's decompression libraries."""
    locked = tomllib.loads((REPOSITORY / "Cargo.lock").read_text())["package"]
    versions = {one["name"]: one["version"] for one in locked}
    return ", ".join(f"{codec} {crate} {versions.get(crate, '?')}" for codec, crate in CODEC_CRATES.items())


def conditions(repeats: int, clock: str = READING_CLOCK) -> dict[str, str]:
    """Return the conditions of a measurement by name."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    root = f"ROOT {root_version()} (PyPI's root {importlib.metadata.version('root')})"
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "commit": commit(),
        "processor": f"{cpu_name()}, {os.cpu_count()} cores, {memory_bytes / GIGA:.1f} GB of memory",
        "system": system_name(),
        "load": f"{os.getloadavg()[0]:.1f} on average over the last minute of the rounds; the readers cause at most "
        "2, other programs the rest",
        "versions": ", ".join([*versions, root, f"Python {platform.python_version()}"]),
        "Branchline's codecs": codec_versions(),
        "files": "written by ROOT in its default layout, compression settings "
        + ", ".join(f"{setting} ({codec})" for codec, setting in CODECS.items())
        + "; local, in the page cache unless labelled cold",
        "clock": clock,
        "rounds": f"{repeats}, after one to warm up; every reader makes one pass per round, in rotating order",
    }


def machine_lines(repeats: int) -> list[str]:
    """Return a list of the machine, the versions and the load."""
    found = conditions(repeats)
    return [
        *(f"- {name}: {found[name]}" for name in ("date", "commit", "processor", "system", "versions")),
        f"- load: {os.getloadavg()[0]:.1f} on average over the last minute",
    ]


def settings_lines(letters: dict[str, str]) -> list[str]:
    """Return a list of the readers and their settings, with the letters used in the table."""
    return [f"- {f'{letters[name]}: ' if name in letters else ''}**{name}**: {does}" for name, does in SETTINGS.items()]
