"""Data for the studies: files like ALICE's ESDs, events like Pythia's, and merges of them."""
