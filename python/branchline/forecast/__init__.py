"""What if: the requests, the bytes and the time of the same work under other conditions, many jobs at once among them,
and advice that follows.
"""
