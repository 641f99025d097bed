"""Policies. ``base`` is the seam; ``local`` needs torch and transformers, the others nothing."""
