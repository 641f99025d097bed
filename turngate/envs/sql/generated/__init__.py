"""Endless questions about made-up databases."""
