"""Jobs: a callable, sub-jobs for it to work on, and the places where that can happen.

Nothing in here knows what a train is.
"""
