"""Databases as an agent uses them: copies, limits, queries and their results."""
