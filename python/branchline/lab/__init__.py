"""The lab: what is faster, by how much, and how sure that is."""
