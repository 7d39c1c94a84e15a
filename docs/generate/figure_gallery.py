"""python -m docs.generate.figure_gallery: draws guides/figures-*.png, ten figures next to those of mplhep.

The pictures are committed, because mplhep needs SciPy for its intervals, and drawing takes half a minute.
"""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hist
import matplotlib as mpl
import matplotlib.pyplot as plt
import mplhep
import numpy as np
from PIL import Image

import branchline

GUIDES = Path(__file__).resolve().parent.parent / "guides"
#: Width of each picture in pixels: a column of 85 mm on a common screen, enlarged by a half.
WIDTH_PIXELS = 480
EVENTS = 20_000
#: The kind, the cross section in pb, and the parameters of the distributions of each sample.
SAMPLES = {
    "data": ("data", 0.0, 0.0),
    "wjets": ("background", 0.115, 35.0),
    "top": ("background", 0.075, 55.0),
    "zprime": ("signal", 0.009, 90.0),
}
SYSTEMATICS = branchline.Systematics(rates={"lumi": 1.03}, envelopes={"scale": ["mu*"]})
STYLES = {"root": "ROOT", "cms": "CMS", "atlas": "ATLAS", "lhcb": "LHCb2", "alice": "ALICE", "dune": "DUNE"}


class Gallery:
    """The histograms of the figures, with variations of the weight."""

    name = "gallery"
    by_dataset = True

    def process(self, events: Any) -> Any:
        """Return the histograms of each variation."""
        if events.metadata["is_data"]:
            return {"nominal": self.filled(events, np.ones(len(events)))}
        tilt = np.asarray(events.mass) / 400
        weights = {"nominal": 1 + 0 * tilt, "muR_up": 1 + tilt / 3, "muR_down": 1 - tilt / 4}
        weights |= {"muF_up": 1 - tilt / 6, "jesUp": 1.04 + tilt / 10, "jesDown": 0.97 - tilt / 12}
        return {name: self.filled(events, weight) for name, weight in weights.items()}

    def filled(self, events: Any, weight: Any) -> Any:
        """Return the histograms for these weights."""
        new = hist.Hist.new
        mass, pt, n, lepton = (np.asarray(events[name]) for name in ("mass", "pt", "n", "lepton"))
        return {
            "mass": new.Reg(20, 0, 400, label=r"$m_{jj}$ [GeV]").Weight().fill(mass, weight=weight),
            "tail": new.Reg(16, 200, 1000, label=r"$m_{jj}$ [GeV]").Weight().fill(mass, weight=weight),
            "pt": new.Reg(15, 5, 500, transform=hist.axis.transform.log, label="$p_T$ [GeV]")
            .Weight()
            .fill(pt, weight=weight),
            "n": new.Int(0, 8, label="Number of jets").Weight().fill(n, weight=weight),
            "edges": new.Var([0, 20, 40, 80, 160, 400], label="$p_T$ [GeV]").Weight().fill(pt, weight=weight),
            "channel": new.StrCat(["ee", "em", "mm"], label="Channel")
            .Weight()
            .fill(np.array(["ee", "em", "mm"])[lepton], weight=weight),
            "plane": new.Reg(20, 0, 400, label=r"$m_{jj}$ [GeV]")
            .Reg(16, 0, 160, label="$p_T$ [GeV]")
            .Weight()
            .fill(mass, pt, weight=weight),
        }


def columns(count: int, scale: float, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the columns of random events."""
    mass = random.normal(180, 12, count) if scale > 80 else random.gamma(2.5, scale, count)
    return {
        "mass": mass,
        "pt": random.gamma(1.5, scale / 2, count),
        "n": random.poisson(2 + scale / 40, count),
        "lepton": random.choice(3, count, p=[0.3, 0.2, 0.5]),
    }


def results(folder: Path) -> branchline.Results:
    """Return the results of a train over the samples."""
    random = np.random.default_rng(12)
    samples, luminosity_per_fb = {}, 20.0
    for name, (kind, cross_section_pb, scale) in SAMPLES.items():
        if kind == "data":
            parts = [columns(random.poisson(1000 * xs * luminosity_per_fb), s, random) for _, xs, s in SAMPLES.values()]
            found = {key: np.concatenate([one[key] for one in parts[1:]]) for key in parts[1]}
            about: dict[str, object] = {"kind": kind, "luminosity_per_fb": luminosity_per_fb}
        else:
            found = columns(EVENTS, scale, random)
            about = {"kind": kind, "cross_section_pb": cross_section_pb, "label": LABELS[name]}
        with branchline.recreate(folder / f"{name}.root") as file:
            file["Events"] = found
        samples[name] = {"files": [str(folder / f"{name}.root")], "tree": "Events", "sample": about}
    branchline.run(Gallery(), samples, folder / "out", workers=0, pictures="none")
    return branchline.load(folder / "out")


LABELS = {"wjets": "W + jets", "top": r"$t\bar{t}$", "zprime": r"$Z'$ (0.2 TeV)"}
COLOURS = {"wjets": "#3f90da", "top": "#ffa90e", "zprime": "#bd1f01"}
#: For each figure: the histogram, the options of ``branchline.plot``, and the comparison of mplhep.
FIGURES: dict[str, tuple[str, dict[str, Any]]] = {
    "cms": ("mass", {"style": "cms", "label": "Work in progress", "energy": 13.6}),
    "atlas": ("mass", {"style": "atlas", "label": "Internal", "energy": 13.6, "panel": "pull"}),
    "lhcb": ("edges", {"style": "lhcb", "label": "Preliminary", "energy": 13.6, "panel": "difference"}),
    "alice": ("pt", {"style": "alice", "label": "Performance", "energy": 13.6, "log": True}),
    "dune": ("n", {"style": "dune", "label": "Work in progress", "energy": "120 GeV", "panel": "none"}),
    "signal": ("mass", {"style": "cms", "label": "Preliminary", "energy": 13.6, "signal": ["zprime"], "panel": "none"}),
    "empty-bins": ("tail", {"style": "root", "energy": 13.6, "log": True}),
    "categories": ("channel", {"style": "atlas", "label": "Internal", "energy": 13.6}),
    "blinded": ("mass", {"style": "cms", "label": "Private work", "energy": 13.6, "blind": True}),
    "plane": ("plane", {"style": "cms", "label": "Preliminary", "energy": 13.6}),
}
PANELS = {"ratio": "ratio", "pull": "pull", "difference": "difference", "none": None}


def with_mplhep(found: branchline.Results, histogram: str, options: dict[str, Any]) -> Any:
    """Return the figure of mplhep, with its defaults."""
    scaled = found.normalised("gallery")
    by_name = {name: scaled[name]["nominal"][histogram] for name in SAMPLES}
    style, panel = options["style"], PANELS[options.get("panel", "ratio")]
    plt.style.use(getattr(mplhep.style, STYLES[style]))
    lines = options.get("signal", [])
    stacked = [name for name in LABELS if name not in lines]
    if histogram == "plane":
        figure, main = plt.subplots()
        mplhep.hist2dplot(sum(by_name[name] for name in stacked), ax=main)
    elif panel is None or options.get("blind") or histogram == "channel":
        # data_model needs data and a panel, and does not take categories.
        figure, main = plt.subplots()
        named = [by_name[name] for name in stacked], [LABELS[name] for name in stacked]
        colours = [COLOURS[name] for name in stacked]
        mplhep.histplot(named[0], stack=True, histtype="fill", label=named[1], color=colours, ax=main)
        for name in lines:
            mplhep.histplot(by_name[name], label=LABELS[name], color=COLOURS[name], ax=main)
        if not options.get("blind"):
            points: dict[str, Any] = {"histtype": "errorbar", "w2method": "poisson", "color": "black"}
            mplhep.histplot(by_name["data"], label="Data", ax=main, **points)
        main.legend()
    else:
        figure, main, _ = mplhep.comp.data_model(
            by_name["data"],
            stacked_components=[by_name[name] for name in stacked],
            stacked_labels=[LABELS[name] for name in stacked],
            stacked_colors=[COLOURS[name] for name in stacked],
            xlabel=by_name["data"].axes[0].label,
            ylabel="Events",
            comparison=panel,
        )
    if options.get("log"):
        main.set_yscale("log")
    label: Callable[..., object] = mplhep.label.exp_label if style == "root" else getattr(mplhep, style).label
    label(text=options.get("label", ""), data=True, lumi=20, com=options["energy"], ax=main)
    return figure


def picture(figure: Any) -> Image.Image:
    """Return a figure at the width of a column."""
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=2 * WIDTH_PIXELS / figure.get_size_inches()[0], bbox_inches=None)
    found = Image.open(written).convert("RGB")
    height = round(found.height * WIDTH_PIXELS / found.width)
    return found.resize((WIDTH_PIXELS, height), Image.Resampling.LANCZOS)


def main(folder: Path) -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = results(Path(temporary))
        for name, (histogram, options) in FIGURES.items():
            ours = picture(branchline.plot(found, f"gallery/{histogram}", systematics=SYSTEMATICS, **options))
            with mpl.rc_context():
                theirs = picture(with_mplhep(found, histogram, options))
                plt.close("all")
            both = Image.new("RGB", (2 * WIDTH_PIXELS, max(ours.height, theirs.height)), "white")
            both.paste(ours, (0, 0))
            both.paste(theirs, (WIDTH_PIXELS, 0))
            both.quantize(96, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
                folder / f"figures-{name}.png", optimize=True
            )


if __name__ == "__main__":
    main(GUIDES)
