"""Tool use: ``turngate/ToolUse-v1``. What a module of tools imports: ``State`` and ``policy``."""

from turngate.envs.tooluse.engine.python_world import State, policy

__all__ = ["State", "policy"]
