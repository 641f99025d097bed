"""The processes of a run: their event loop, signals, children, and the lock of the folder."""
