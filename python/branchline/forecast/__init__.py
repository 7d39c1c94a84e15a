"""What if: the requests, the bytes and the time of the same work under other conditions, and advice that follows."""
