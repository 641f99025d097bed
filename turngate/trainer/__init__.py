"""The trainer: scored groups to one number per turn, to packed tokens, to an update. ``step.py`` is the file to read.

Importing this package loads nothing. Configs are read without torch: ``loss`` imports it when a loss is computed, and
``torch`` holds the learner that runs on it.
"""
