"""The environment with the rewards of its turns accumulated directly, for comparison."""

from __future__ import annotations

from dataclasses import replace

from turngate.envs.code.env import CodeRepairEnv
from turngate.envs.code.rubric import DIRECT_RUBRIC
from turngate.envs.registry import register

DIRECT = "examples/CodeRepairDirect-v1"


class DirectEnv(CodeRepairEnv):
    """Same tasks, tools and facts; every reward counts, whatever the outcome."""

    turn_spec = replace(CodeRepairEnv.turn_spec, rubric=DIRECT_RUBRIC)


register(DIRECT, "examples.code_repair.env:DirectEnv", description="CodeRepair-v1 with directly accumulated rewards.")
