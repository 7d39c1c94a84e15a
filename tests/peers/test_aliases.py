"""Aliases of files have the values that TTree::Draw gives, or are refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from tests.sampled import long_but

import branchline

pytestmark = pytest.mark.peer

ENTRIES = 12
NUMBERS = [-800, -2.5, -1.5, -1, -0.5, 0, 0.3, 0.5, 1, 1.5, 2.5, 800]
TYPES = {"e": "i4", "x": "f8", "u": "u1", "h": "u2", "s": "i1", "f": "f4", "q": "i8", "b": "?"}
CODES = {"i4": "I", "f8": "D", "u1": "b", "u2": "s", "i1": "B", "f4": "F", "i8": "L", "?": "O"}
FORMULAS = """
    !e>1; !x+1; !e^2; !!e; 2^3^2; 2**3**2; x^2; e^-1; -2^2; -x^2; e*-x^2; (e>0)+(x>0); (e>0)*5; (x>0)/2; b+b; !b
    e&2==2; e&1+1; e&1; e|4; 3&1|4; 1|2&3; 4|3&1; e%3; x%2; -e%2; 5%3*2; 5*3%4; 2*5%3; 8%3/2; e+7%4; 7-5%3; q%7; q&7
    u-100; u*u; -u; h*h; -h; s*s; e/2; 7/2; e/0; x/e; 0/x; 2--1; e==-1; e&&x; b||e&&0; x>0&&e>0||b; e!=1; 0x10; 1e+3+1
    pi; 2*pi*x; TMath::Pi(); TMath::TwoPi()/2; TMath::DegToRad(); min(e,x); max(u,100); TMath::Max(e,x); q+1; q*q
    f*10; f==0.1; f>0.3; (u>>1)&1; (1<<3)|1; 1.e3; .5; v*2; v+e; v>2; v[]*2; m[1]; m[1]*2; m[0]+v*0; v*v; e?1:2
    sqrt(x); log(x); log10(x); exp(x); acos(x); asin(x); atanh(x); acosh(x); round(x); int(x); sign(x); sq(x); abs(e)
    TMath::Sqrt(x); TMath::Log(x); TMath::Abs(e); TMath::Nint(x); TMath::Power(x,2); TMath::ATan2(x,e); fmod(x,2)
    rint(x); floor(x); ceil(x); trunc(x); hypot(x,e); pow(x,2); cbrt(x); TMath::ACos(x); TMath::Exp(x); u<<2; x
"""
SIGNS = ["+", "-", "*", "/", "%", "&", "|", "&&", "||", "<", ">", "==", "!=", "^", "<="]
REFUSED = {
    "e?1:2": r"\?:",
    "Sum$(v)": r"Sum\$",
    "Entry$": r"Entry\$",
    "@v.size()": "@v.size",
    "~e": "~",
    "1<2==1": "'<' next to '=='|'==' next to '<'",
    "3>2>1": "'>' next to '>'",
    "1<<2+1": "'<<' next to '\\+'|'\\+' next to '<<'",
    "v[n-1]": "computed",
    "min(x)": "min with 1 arguments",
    "TMath::Gaus(x)": "TMath::Gaus",
    "e=1": "'='",
    "--x": "'--'",
    "!-x": "'-'",
    "x^-1^2": "another",
    "x y": "'y'",
    "x+": "its end",
    "(x": "its end",
}


def write(root: Any, path: Path, aliases: dict[str, str]) -> None:
    file = root.TFile.Open(str(path), "RECREATE")
    tree = root.TTree("t", "t")
    held = {name: np.zeros(1, kind) for name, kind in TYPES.items()}
    lists = {"n": np.zeros(1, "i4"), "v": np.zeros(3, "f4"), "m": np.zeros(2, "f4")}
    for name, place in held.items():
        tree.Branch(name, place, f"{name}/{CODES[TYPES[name]]}")
    for name, leaves in {"n": "n/I", "v": "v[n]/F", "m": "m[2]/F"}.items():
        tree.Branch(name, lists[name], leaves)
    for entry, number in enumerate(NUMBERS):
        small = {"e": entry - 4, "x": number, "u": 23 * entry, "h": 5000 * entry, "s": 20 * entry - 120}
        for name, value in {**small, "f": 0.1 * entry, "q": 2**60 + entry, "b": entry % 2}.items():
            held[name][0] = value
        lists["n"][0] = entry % 3
        lists["v"][:], lists["m"][:] = np.arange(3) + entry, np.arange(2) - entry
        tree.Fill()
    for name, formula in aliases.items():
        tree.SetAlias(name, formula)
    tree.ResetBranchAddresses()
    tree.Write()
    file.Close()


def by_draw(tree: Any, formula: str) -> Any:
    count = tree.Draw(formula, "", "goff")
    return np.array([tree.GetV1()[place] for place in range(max(count, 0))])


def differences(root: Any, path: Path, formulas: list[str]) -> tuple[list[str], int]:
    """Return the formulas with other values than in ROOT, and the number of refused formulas."""
    aliases = {f"alias{number}": formula for number, formula in enumerate(formulas)}
    write(root, path, aliases)
    file = root.TFile.Open(str(path))
    by_root, tree = file.Get("t"), branchline.open(path)["t"]
    found, refused = [], 0
    for name, formula in aliases.items():
        try:
            got = tree.arrays(name)[name]
        except branchline.ExpressionError:
            refused += 1
            continue
        values = np.asarray(ak.flatten(got, axis=None)).astype("f8")
        wanted = by_draw(by_root, name)
        if not len(wanted):  # ROOT accepts some formulas, but not as aliases
            wanted = by_draw(by_root, formula)
        if len(values) != len(wanted) or not np.allclose(values, wanted, rtol=1e-12, atol=0, equal_nan=True):
            found.append(f"{formula}: {values.tolist()}, ROOT {wanted.tolist()}")
    file.Close()
    return found, refused


def test_an_alias_has_the_values_of_root(root: Any, tmp_path: Path) -> None:
    formulas = [text.strip() for text in FORMULAS.replace("\n", ";").split(";") if text.strip()]
    formulas = [text for text in formulas if text not in REFUSED]
    found, refused = differences(root, tmp_path / "aliases.root", formulas)
    assert not found, "\n".join(found)
    assert refused == 0


def random_formula(rng: Any, depth: int) -> str:
    """Return a random formula with parentheses around fewer than half of its terms."""
    if depth == 0:
        return str(rng.choice(["e", "x", "u", "f", "b", "2", "3", "0.5", "7"]))
    sign = str(rng.choice(SIGNS))
    left, right = random_formula(rng, depth - 1), random_formula(rng, int(rng.integers(0, depth)))
    if sign == "^":
        right = str(rng.choice(["2", "3", "-1"]))
    if sign == "%":
        return f"({left}%{rng.choice(['3', '7'])})"  # ROOT crashes on a remainder by 0
    text = f"{left}{sign}{right}"
    if rng.random() < 0.2 and text[0] not in "-!":
        text = f"{rng.choice(['-', '!'])}{text}"
    return f"({text})" if rng.random() < 0.4 else text


@pytest.mark.parametrize("count", long_but([60, 300], [60]))
def test_random_aliases_have_the_values_of_root(root: Any, tmp_path: Path, count: int) -> None:
    seed = 21
    rng = np.random.default_rng(seed)
    formulas = [random_formula(rng, int(rng.integers(1, 4))) for _ in range(count)]
    found, refused = differences(root, tmp_path / "random.root", formulas)
    assert not found, f"seed {seed}:\n" + "\n".join(found)
    assert refused < count / 2


@pytest.mark.parametrize("formula", REFUSED)
def test_what_is_not_translated_is_named(root: Any, tmp_path: Path, formula: str) -> None:
    write(root, tmp_path / "refused.root", {"alias": formula})
    tree = branchline.open(tmp_path / "refused.root")["t"]
    with pytest.raises(branchline.ExpressionError, match=REFUSED[formula]) as caught:
        tree.arrays("alias")
    assert formula in str(caught.value)
