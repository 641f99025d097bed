"""Gated against directly accumulated rewards in code repair: ``python -m examples.code_repair``."""
