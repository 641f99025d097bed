"""Tool use: ``turngate/ToolUse-v1``. A module of tools imports ``State`` and ``policy`` from here."""

from turngate.envs.tooluse.engine.python_world import State, policy

__all__ = ["State", "policy"]
