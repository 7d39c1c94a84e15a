"""Datasets: files, trees and entry ranges, in an order that does not depend on the machine."""
