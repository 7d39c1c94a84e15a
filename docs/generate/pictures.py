"""The three lives as pictures: of a read, of a merge, of a train."""

from __future__ import annotations

from pathlib import Path

from docs.generate.drawing import Picture


def write(folder: Path) -> None:
    """Writes life-of-a-read.svg, life-of-a-merge.svg and life-of-a-train.svg."""
    for name, picture in (("read", read()), ("merge", merge()), ("train", train())):
        (folder / f"life-of-a-{name}.svg").write_text(picture.svg(), encoding="utf-8")


def read() -> Picture:
    picture = Picture(900, 470, "The life of a read")
    picture.lane(10, 100, "prefetch threads")
    picture.lane(120, 100, "storage")
    picture.lane(230, 100, "decoder threads")
    picture.lane(340, 120, "your code")
    opened = picture.box(150, 30, 200, 64, "open the next file", "header, keys, streamer", "infos, tree", kind="ours")
    plan = picture.box(400, 30, 200, 64, "plan the next chunk", "entries, baskets, ranges", kind="ours")
    lease = picture.box(650, 30, 200, 64, "lease memory", "of the memory limit", kind="ours")
    joined = picture.box(650, 140, 200, 64, "join near ranges", "one request for many", kind="ours")
    fetch = picture.box(400, 140, 200, 64, "request", "retry, other replica,", "deadline", kind="ours")
    servers = picture.box(150, 140, 200, 64, "disk or server", "local, XRootD, HTTP, S3, ...")
    unpacked = picture.box(150, 250, 200, 64, "decompress", "one basket at a time", kind="ours")
    decode = picture.box(400, 250, 200, 64, "decode", "values into the buffers", "of the columns", kind="ours")
    chunk = picture.box(650, 250, 200, 64, "chunk", "in the order of the dataset", kind="ours")
    arrays = picture.box(650, 370, 200, 64, "awkward arrays", "over the same memory", kind="yours")
    process = picture.box(400, 370, 200, 64, "process(events)", "or a loop of iterate", kind="yours")
    picture.arrow(opened.right, plan.left)
    picture.arrow(plan.right, lease.left)
    picture.arrow(lease.bottom, joined.top)
    picture.arrow(joined.left, fetch.right)
    picture.arrow(fetch.left, servers.right)
    picture.arrow(servers.bottom, unpacked.top)
    picture.arrow(unpacked.right, decode.left)
    picture.arrow(decode.right, chunk.left)
    picture.arrow(chunk.bottom, arrays.top)
    picture.arrow(arrays.left, process.right)
    picture.arrow((500, 434), (500, 448), (875, 448), (875, 62), lease.right, dashed=True)
    picture.label(200, 452, "the chunk's memory is given back")
    return picture


def merge() -> Picture:
    picture = Picture(900, 470, "The life of a merge")
    picture.lane(10, 110, "inputs")
    picture.lane(130, 110, "baskets")
    picture.lane(250, 100, "safe from a kill")
    picture.lane(360, 100, "end")
    opened = picture.box(150, 40, 200, 64, "open inputs ahead", "all but their baskets", kind="ours")
    apart = picture.box(400, 40, 200, 64, "take the tree's record", "apart by its streamer infos", kind="ours")
    same = picture.box(650, 40, 200, 64, "compare", "the same branches as", "the first input?", kind="ours")
    bundle = picture.box(650, 160, 200, 64, "read a bundle", "many baskets, near ranges", "joined", kind="ours")
    moved = picture.box(
        400, 160, 200, 64, "copy the baskets", "or compress again, or move", "entries to new baskets", kind="ours"
    )
    written = picture.box(150, 160, 200, 64, "write in order", "entry, branch or offset", kind="ours")
    synced = picture.box(150, 272, 200, 64, "sync", "every 256 MiB or 10 s", kind="ours")
    journal = picture.box(
        400, 272, 200, 64, "journal", "where each basket is now;", "--resume starts here", kind="ours"
    )
    record = picture.box(
        150, 385, 200, 64, "one tree's record", "entries and basket tables", "of all inputs", kind="ours"
    )
    rest = picture.box(
        400, 385, 200, 64, "the rest", "sums of histograms, keys,", "streamer infos, header", kind="ours"
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


def train() -> Picture:
    picture = Picture(900, 430, "The life of a train")
    dataset = picture.box(30, 165, 130, 80, "dataset", "files, patterns,", "lists, filesets")
    cut = picture.box(200, 165, 130, 80, "sub-jobs", "cut by files, never", "by workers", kind="ours")
    picture.arrow(dataset.right, cut.left)
    total = picture.box(690, 125, 180, 64, "add", "in the order of the dataset", kind="ours")
    after = picture.box(690, 225, 180, 50, "postprocess", kind="yours")
    results = picture.box(
        690,
        315,
        180,
        90,
        "output directory",
        "results.root, pictures,",
        "report.html, job.json,",
        "sensors.parquet",
        kind="ours",
    )
    for number, y in enumerate((20, 155, 290)):
        picture.parts.append(f'<rect class="lane" x="370" y="{y}" width="280" height="115" rx="6"/>')
        picture.label(380, y + 18, f"worker {number + 1}")
        one = picture.box(385, y + 30, 95, 70, "one read", "of all branches", "wanted", kind="ours")
        for row in range(3):
            wagon = picture.box(530, y + 12 + row * 34, 105, 28, f"wagon {'ABC'[row]}", kind="yours")
            picture.arrow(one.right, wagon.left)
        picture.arrow(cut.right, (350, 205), (350, y + 65), one.left)
        picture.arrow((650, y + 57), (668, y + 57), (668, 157), total.left)
    picture.arrow(total.bottom, after.top)
    picture.arrow(after.bottom, results.top)
    return picture
