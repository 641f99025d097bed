"""Train a tiny model to serve a help desk, and to search documents: ``python -m examples.learning_study``."""
