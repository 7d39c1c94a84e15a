"""The objects of a file that are no trees: histograms, graphs, lists, and records of any other class."""

from branchline.objects.making import register_all

register_all()
