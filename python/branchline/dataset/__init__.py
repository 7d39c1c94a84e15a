"""Datasets: which files, trees and entries a train runs over, in an order that never depends on the machine."""
