"""Help of five kinds in a lock that nobody opens by chance: ``python -m examples.guidance_study``."""
