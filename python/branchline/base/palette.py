"""The colours of plots, reports and pages."""

from __future__ import annotations

BLUE, RED, YELLOW, PURPLE, GREY = "#3f90da", "#bd1f01", "#ffa90e", "#832db6", "#94a4a2"
BROWN, ORANGE, KHAKI, CYAN, ASH = "#a96b59", "#e76300", "#b9ac70", "#92dadd", "#717581"
NAVY, WARNING = "#1b3a5c", "#a01f18"

#: Colours that colour-blind people can distinguish (M. Petroff, arXiv:2107.02270), darkest first.
COLOURS = (BLUE, RED, YELLOW, PURPLE, GREY, BROWN, ORANGE, CYAN, ASH)
#: Colours of branches. Grey is left out, since branches are drawn next to grey elements.
BRANCHES = tuple(one for one in COLOURS if one != GREY)
#: Colours of stacked backgrounds and of the signals drawn over them.
STACKED = (BLUE, YELLOW, GREY, PURPLE, BROWN, ORANGE, KHAKI, CYAN, ASH)
SIGNALS = (RED, NAVY, PURPLE)
#: Colours of unselected elements, and of elements without a colour of their own.
UNSELECTED, OTHERS = "#eceef0", "#c8ccd0"
#: Colours of the activities of a traced program.
DOING = {"reading": BLUE, "wait": ORANGE, "decompress": PURPLE, "decode": "#2fb5c4", "wagon": GREY, "open": BROWN}
#: Colours of the phases of a job.
PHASES = {
    "start": "#8d99a6",
    "plan": "#8fb3d1",
    "warmup": "#a9b7c4",
    "wait": "#4f7cac",
    "decompress": "#d9822b",
    "decode": "#eab54d",
    "wagons": "#4a9273",
    "merge": "#7d6b9e",
    "write": "#b3a3cc",
    "idle": "#dfe3e7",
    "lost": "#b5523b",
    "other": "#c9b8b0",
}
#: Colours of consecutive merge stages.
STAGES = (PHASES["wait"], "#7a9cc6", "#2f5d8a")
