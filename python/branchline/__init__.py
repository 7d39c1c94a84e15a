"""Reads ROOT files of collision events once, for every analysis step, and says where the time went."""
