"""turngate: environments for language-model agents, gated process rewards, and credit for every turn.

The names listed here are the public interface and keep their meaning; everything else may change. Importing this module
registers the built-in environments as data and loads neither torch nor any other optional package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from turngate.envs.base import Outcome, TurnEnv, TurnSpec
from turngate.envs.registry import Registered, make, register, registered
from turngate.envs.tasks import TaskList, TaskSource
from turngate.envs.tool_env import ToolEnv, ToolError
from turngate.errors import (
    AgentFault,
    ConfigError,
    DataError,
    DuplicateName,
    EnvError,
    EpisodeError,
    EstimateRefused,
    MismatchError,
    MissingExtra,
    NotFiniteError,
    OutOfMemory,
    OutOfRoom,
    PartError,
    PolicyError,
    ProcessLost,
    ReplayRefused,
    RunError,
    ShapeError,
    StoreError,
    TaskRefused,
    TurngateError,
    UnknownName,
    UserError,
    VerifierError,
    WriteError,
)
from turngate.tools.tool import Parameter, Tool, tool
from turngate.types import (
    Action,
    Completion,
    Credit,
    Ending,
    Evidence,
    Group,
    Guidance,
    Observation,
    Record,
    RewardEvent,
    Score,
    ScoredGroup,
    Task,
    ToolCall,
    Trajectory,
    Turn,
    TurnTable,
)

if TYPE_CHECKING:
    from turngate.envs.check.check_env import Finding, check_env
    from turngate.rewards import FromEvidence, Gate, Reward, Rubric, cap_process, needs_outcome, requires, veto

__version__ = "0.1.0"

__all__ = [
    "Action",
    "AgentFault",
    "Completion",
    "ConfigError",
    "Credit",
    "DataError",
    "DuplicateName",
    "Ending",
    "EnvError",
    "EpisodeError",
    "EstimateRefused",
    "Evidence",
    "Finding",
    "FromEvidence",
    "Gate",
    "Group",
    "Guidance",
    "MismatchError",
    "MissingExtra",
    "NotFiniteError",
    "Observation",
    "OutOfMemory",
    "OutOfRoom",
    "Outcome",
    "Parameter",
    "PartError",
    "PolicyError",
    "ProcessLost",
    "Record",
    "Registered",
    "ReplayRefused",
    "Reward",
    "RewardEvent",
    "Rubric",
    "RunError",
    "Score",
    "ScoredGroup",
    "ShapeError",
    "StoreError",
    "Task",
    "TaskList",
    "TaskRefused",
    "TaskSource",
    "Tool",
    "ToolCall",
    "ToolEnv",
    "ToolError",
    "Trajectory",
    "Turn",
    "TurnEnv",
    "TurnSpec",
    "TurnTable",
    "TurngateError",
    "UnknownName",
    "UserError",
    "VerifierError",
    "WriteError",
    "cap_process",
    "check_env",
    "make",
    "needs_outcome",
    "register",
    "registered",
    "requires",
    "tool",
    "veto",
]

_LATE = (
    "turngate.rewards",
    "turngate.envs.check.check_env",
)  # a third of the import time, and not every program needs them

if not TYPE_CHECKING:  # or type checkers would believe that every name exists

    def __getattr__(name: str) -> Any:
        """Import what lies in ``_LATE`` when it is first asked for."""
        if name in __all__:
            for module in map(import_module, _LATE):
                if hasattr(module, name):
                    return globals().setdefault(name, getattr(module, name))
        raise AttributeError(f"module 'turngate' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
