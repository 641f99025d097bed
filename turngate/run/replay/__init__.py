"""Recorded episodes carried out again, learned from again, or continued by another policy."""
