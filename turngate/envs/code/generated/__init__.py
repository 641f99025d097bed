"""Endless repair problems: families of short modules, and mutations of real code."""
