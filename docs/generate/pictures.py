"""Draws the path of a merge. `traced_paths.py` draws the paths of a read and of a train."""

from __future__ import annotations

from pathlib import Path

from docs.generate.drawing import Picture


def write(folder: Path) -> None:
    """Write life-of-a-merge.svg."""
    (folder / "life-of-a-merge.svg").write_text(merge().svg(), encoding="utf-8")


def merge() -> Picture:
    picture = Picture(900, 470, "The path of a merge")
    picture.lane(10, 110, "inputs")
    picture.lane(130, 110, "baskets")
    picture.lane(250, 100, "checkpoints")
    picture.lane(360, 100, "end")
    opened = picture.box(150, 40, 200, 64, "open inputs ahead", "everything but baskets", kind="ours")
    apart = picture.box(400, 40, 200, 64, "parse the tree's record", "with its streamer infos", kind="ours")
    same = picture.box(650, 40, 200, 64, "compare", "the same branches as", "the first input?", kind="ours")
    bundle = picture.box(650, 160, 200, 64, "read a bundle", "many baskets, nearby", "ranges coalesced", kind="ours")
    moved = picture.box(
        400, 160, 200, 64, "copy the baskets", "or recompress, or move", "entries to new baskets", kind="ours"
    )
    written = picture.box(150, 160, 200, 64, "write in order", "entry, branch or offset", kind="ours")
    synced = picture.box(150, 272, 200, 64, "sync", "every 256 MiB or 10 s", kind="ours")
    journal = picture.box(
        400, 272, 200, 64, "write the journal", "positions of baskets;", "--resume starts here", kind="ours"
    )
    record = picture.box(
        150, 385, 200, 64, "write the tree's record", "entries and basket tables", "of all inputs", kind="ours"
    )
    rest = picture.box(
        400, 385, 200, 64, "write the rest", "sums of histograms, keys,", "streamer infos, header", kind="ours"
    )
    named = picture.box(650, 385, 200, 64, "rename", "from the temporary name", "to the final one", kind="ours")
    picture.arrow(opened.right, apart.left)
    picture.arrow(apart.right, same.left)
    picture.arrow(same.bottom, bundle.top)
    picture.arrow(bundle.left, moved.right)
    picture.arrow(moved.left, written.right)
    picture.arrow(written.bottom, synced.top)
    picture.arrow(synced.right, journal.left)
    picture.arrow(synced.bottom, record.top)
    picture.arrow(record.right, rest.left)
    picture.arrow(rest.right, named.left)
    return picture
