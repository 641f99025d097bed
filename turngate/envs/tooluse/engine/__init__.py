"""Worlds of tools, their states, and the goals that have to hold in them."""
