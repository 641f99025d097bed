"""Trajectories on disk (``Store``), and files that are written completely or not at all."""

from turngate.store.files import machine, write_json_atomic, write_text_atomic
from turngate.store.trajectories import Store

__all__ = ["Store", "machine", "write_json_atomic", "write_text_atomic"]
