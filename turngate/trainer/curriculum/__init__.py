"""Curricula: which tasks a step plays, by the results of earlier unaided episodes."""
