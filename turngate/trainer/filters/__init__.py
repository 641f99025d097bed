"""Filters: which trajectories reach credit."""
