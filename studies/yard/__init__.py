"""Emulated hardware and real servers for the studies: capped disks, RAIDs of them, shaped links, storages on them."""
