"""Compares an example in Branchline, coffea and RDataFrame: lines of code, run times, and the contents of all bins.

    python examples/compare.py ttbar DATA/samples.toml

Each program runs in a separate process, on one core: once to warm up the caches, and then to measure the time.
"""

import ast
import importlib
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
# Maximum fraction of the entries that may be in different bins.
ELSEWHERE_MAX = 1e-4
NAMES = ("branchline", "coffea", "rdataframe")
FILES = {"branchline": "analysis.py", "coffea": "with_coffea.py", "rdataframe": "with_rdataframe.py"}


def lines_of(path):
    """Return the number of lines of code in a file, without comments, docstrings and blank lines."""
    text = path.read_text(encoding="utf-8")
    documented = ast.Module | ast.FunctionDef | ast.ClassDef
    described = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, documented) and ast.get_docstring(node) is not None
        for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }
    numbered = enumerate(text.splitlines(), start=1)
    return sum(
        1 for number, line in numbered if line.strip() and not line.strip().startswith("#") and number not in described
    )


def outcome(example, name, data):
    """Run an example with a program. Return the bin contents as nested dicts of lists."""
    sys.path.insert(0, str(HERE / example))
    try:
        module = importlib.import_module(FILES[name].removesuffix(".py"))
        return listed(module.run(data))
    finally:
        sys.path.remove(str(HERE / example))


def listed(result):
    if isinstance(result, dict):
        return {name: listed(one) for name, one in result.items()}
    return np.asarray(result.values(flow=True) if hasattr(result, "axes") else result, dtype=float).tolist()


def measured(example, name, data):
    """Run the example twice in a separate process. Return the bin contents, the CPU and wall seconds of the second
    run, and the wall seconds of the whole process.
    """
    begin = time.monotonic()
    words = [sys.executable, __file__, "--one", example, name, str(data)]
    ended = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{name} failed; see its output above")
    found = json.loads(ended.stdout.splitlines()[-1])
    return found["results"], found["cpu"], found["seconds"], time.monotonic() - begin


def of_this_process():
    """Return the CPU seconds (user and system) of all threads of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def equal(first, second):
    """Return whether all bins are equal, except for rounding errors of sums in a different order."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(first[key], second[key]) for key in first)
    return np.shape(first) == np.shape(second) and np.allclose(first, second, rtol=1e-9, atol=1e-9)


def leaves(results):
    """Return the histograms in nested results, sorted by their names."""
    return (
        [one for _, value in sorted(results.items()) for one in leaves(value)]
        if isinstance(results, dict)
        else [results]
    )


def moved(first, second):
    """Return the fraction of the entries that are in different bins. Values near the edge of a bin may move to the
    neighbouring bin, because arrays use single precision.
    """
    one, other = (np.concatenate([np.ravel(leaf) for leaf in leaves(results)]) for results in (first, second))
    return np.sum(abs(one - other)) / 2 / np.sum(one)


def main(example, data, names=NAMES):
    """Print the table. Return whether all results are equal, except for values near the edges of bins."""
    found = {name: measured(example, name, data) for name in names}
    reference = found[names[0]][0]
    print("| program | lines | CPU s | wall s | wall s with start and first run | bins |\n|---|---|---|---|---|---|")
    for name, (results, of_a_core, seconds, whole) in found.items():
        bins = "equal" if equal(reference, results) else f"{moved(reference, results):.1e} moved"
        lines = lines_of(HERE / example / FILES[name])
        print(f"| {name} | {lines} | {of_a_core:.1f} | {seconds:.1f} | {whole:.1f} | {bins} |")
    return all(moved(reference, results) < ELSEWHERE_MAX for results, *_ in found.values())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        outcome(*sys.argv[2:])
        start, before = time.monotonic(), of_this_process()
        results = outcome(*sys.argv[2:])
        used = {"seconds": time.monotonic() - start, "cpu": of_this_process() - before}
        print(json.dumps(used | {"results": results}))
    elif len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    else:
        sys.exit(0 if main(*sys.argv[1:]) else 1)
