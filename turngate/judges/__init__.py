"""Judges: models that are asked about episodes.

* ``texts``: what they are asked, how a reply is read, and what evidence it gives; nothing there calls a model;
* ``asking``: how they are called, within time limits and with checks on the judge;
* ``examiners``: the stage between play and score, which asks them about the episodes of a run.
"""
