"""What recorded episodes of mixed quality teach, beside playing: ``python -m examples.offline_study``."""
