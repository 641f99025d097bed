"""Trajectories in foreign formats: each module has pure functions between ours and the plain values of a file."""
