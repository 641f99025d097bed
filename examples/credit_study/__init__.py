"""Trajectory-level against turn-level credit on three environments: ``python -m examples.credit_study``."""
