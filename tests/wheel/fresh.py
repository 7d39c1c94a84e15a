"""A fresh environment of Python with a wheel in it, in which no compiler is found. Uses the standard library only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


class FreshEnvironment:
    """An environment made by ``python -m venv``, whose programs find nothing but each other."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        subprocess.run([python, "-m", "venv", str(folder)], check=True)

    @property
    def bin(self) -> Path:
        """Where its programs are."""
        return self.folder / "bin"

    @property
    def variables(self) -> dict[str, str]:
        """The variables of a process in it: settings of pip and of the network stay, the path to compilers goes."""
        dropped = ("PYTHONPATH", "PYTHONHOME", "CC", "CXX", "CARGO_HOME", "RUSTUP_HOME", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if name not in dropped}
        return kept | {"PATH": str(self.bin), "MPLBACKEND": "agg"}

    def install(self, *requirements: str) -> None:
        """Installs ready-made packages. Raises CalledProcessError where one would have to be compiled."""
        self.run("python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *requirements)

    def run(self, program: str, *arguments: str, cwd: Path | None = None) -> str:
        """What a program of it prints. Raises CalledProcessError."""
        command = [str(self.bin / program), *arguments]
        done = subprocess.run(
            command, cwd=cwd or self.folder, env=self.variables, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout

    def packages(self) -> set[str]:
        """The names of what is installed, Python's own tools apart."""
        lines = self.run("python", "-m", "pip", "list", "--format", "freeze").splitlines()
        return {line.partition("==")[0].lower() for line in lines} - {"pip", "setuptools", "wheel"}
