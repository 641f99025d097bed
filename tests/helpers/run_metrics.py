"""What a machine needed, which two equal runs differ in."""

MEASURED = ("time/", "busy/", "memory/")
"""Sections of metrics that are seconds and bytes."""
