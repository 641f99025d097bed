"""What a run leaves on disk: its trajectories, and files that are written whole or not at all."""

from turngate.store.files import machine, write_json_atomic, write_text_atomic
from turngate.store.trajectories import Store

__all__ = ["Store", "machine", "write_json_atomic", "write_text_atomic"]
