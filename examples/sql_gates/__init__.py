"""A process reward for look-ups, summed and gated, on SQL tasks: ``python -m examples.sql_gates``."""
