"""Trajectories in the formats of others: each module has pure functions between ours and the plain values of a file."""
