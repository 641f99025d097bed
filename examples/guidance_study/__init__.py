"""Help of six kinds in a lock that nobody opens by chance: ``python -m examples.guidance_study``."""
