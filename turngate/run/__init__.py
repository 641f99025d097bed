"""A run: from its config to its last evaluation.

``job`` is the whole run; ``staged_job`` joins several, ``side_runs`` makes its baselines and controls, ``resume`` goes
on with one that stopped. ``checks`` refuses a config before any work, ``start`` makes the model that training begins
from, ``assembly`` everything that a training step needs. ``process`` holds its event loop, signals and lock; ``replay``
and ``doctor`` look at a run without training.
"""
