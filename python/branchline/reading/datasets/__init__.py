"""Datasets: files, trees and entry ranges, in a reproducible order."""
