"""Writing: files that a program fills, and files made from other files by merging, skimming or converting.

`branchline.recreate` is in `recreate/`, `branchline.merge` in `merging/`. Start with `recreate/writable_file.py`.
"""
