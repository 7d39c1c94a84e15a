"""`branchline locate`: the replicas of a dataset's files as XRootD's servers know them, and machines as HDFS does."""

from __future__ import annotations

from typing import Annotated

from branchline.cli.parameters import Argument
from branchline.cli.printing import print_json


def locate(
    dataset: Annotated[list[str], Argument(metavar="DATASET...", help="Files, patterns, folders or lists of files.")],
) -> None:
    """Prints a list of the files with all their replicas, as XRootD's servers locate them (`xrdfs locate`).

    Files of HDFS get the machines that hold most of their blocks, as the NameNode tells them by WebHDFS. Workers of
    Dask on these machines get such files first.

    Examples:
        Write a list for a train over several sites:
            branchline locate 'root://redirector.example.org//store/data/*.root' > files.json
        Write down which machines hold the files of a folder of HDFS:
            branchline locate hdfs://namenode.example.org:8020/store/data/ > files.json

    """
    # Imported here since most commands need no servers.
    from branchline.reading.datasets.dataset import Dataset
    from branchline.reading.datasets.replicas import located_fileset

    print_json(located_fileset(Dataset.of(dataset)))
