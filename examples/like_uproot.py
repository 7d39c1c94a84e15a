"""A script written for uproot in which only the import was changed.

python examples/like_uproot.py demo-data/collisions-000.root
"""

import sys

import awkward as ak

import branchline as uproot

path = sys.argv[1]

with uproot.open(path) as file:
    tree = file["events"]
    tree.show()
    print(tree.num_entries, "events with", len(tree.keys()), "branches")
    arrays = tree.arrays(["pt", "charge"], cut="status > 0", aliases={"pt": "hypot(px, py)"}, entry_stop=100)
    print("mean charge of the first 100 events:", ak.mean(ak.sum(arrays.charge, axis=1)))
    print("hardest particle of the first 100 events:", ak.max(arrays.pt), "GeV")
    print("energies as NumPy:", tree["ptHat"].array(library="np")[:3])

total = 0
for step in uproot.iterate([f"{path}:events"], ["e"], step_size="1 MB"):
    total += ak.sum(step.e)
print("all energy:", total, "GeV")
