"""Endless questions about made-up documents, rows of databases and Python's documentation."""
