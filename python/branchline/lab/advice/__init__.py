"""Advice: changes of layout or settings whose gain was forecast or measured."""
