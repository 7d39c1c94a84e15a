"""Traces of requests: recorded, compared with the map of their files, summed up, compared and replayed."""

from branchline.tracing.file_map import FileMap, map_file
from branchline.tracing.strace import follow
from branchline.tracing.trace import Trace, read_trace

__all__ = ["FileMap", "Trace", "follow", "map_file", "read_trace"]
