"""What a machine needed, which two equal runs differ in."""

MEASURED = ("time/", "memory/")
"""Sections of metrics that are seconds and bytes."""
