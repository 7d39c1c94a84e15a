"""Objects that are not trees: histograms, graphs, lists, and records of any other class."""

from branchline.reading.objects.classes import register_all

register_all()
