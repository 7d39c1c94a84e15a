"""Every read of a program accounted for: traces of requests, what they hit in their files, and what is made of that."""

from branchline.tracing.file_map import FileMap, map_file
from branchline.tracing.following import follow
from branchline.tracing.form import Trace, read_trace

__all__ = ["FileMap", "Trace", "follow", "map_file", "read_trace"]
