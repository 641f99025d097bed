"""The trainer: scored groups to one number per turn, to packed tokens, to an update. ``step.py`` is the file to read.

Importing this package loads nothing; torch stays with ``loss`` and ``learner``.
"""
