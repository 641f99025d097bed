"""Policies. ``base`` is the interface; ``local`` needs torch and transformers, the others nothing."""
