"""Emulated hardware and real servers for the studies: disks and RAIDs, shaped links, and storages on them."""
