"""Endless tasks of tool use."""
