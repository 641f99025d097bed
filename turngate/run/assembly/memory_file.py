"""The experience memory of a run in its ``memory.json``; the file may come from elsewhere, so it is not trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from turngate.config.run_config import Config
from turngate.errors import ConfigError, DataError, StoreError
from turngate.jsonl import read_json
from turngate.run.assembly.guide_help import EnvironmentHelp
from turngate.run.environments import Environments
from turngate.trainer.guidance.experience import MemoryGuidePart
from turngate.trainer.guidance.experience_memory import MOST_CHARS, MOST_RULES, Memory, Recalled
from turngate.types import JSON, Task

MOST_BYTES = 20 * MOST_RULES * MOST_CHARS
"""Most bytes of the file: JSON may write a character as 12 of them, and each rule has numbers and names beside it."""


def read_memory(path: Path) -> Mapping[str, JSON]:
    """The state of a memory with at least one rule, from a file.

    Raises ConfigError for a file that is damaged, holds more than a memory keeps (see ``Memory.load``), or no rule.
    """
    refused = f"--memory: '{path}' is not the memory.json of a run"
    memory = Memory()
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{refused}: it is no file")
        if path.exists() and (size := path.stat().st_size) > MOST_BYTES:
            raise ConfigError(f"{refused}: it has {size} bytes, and a memory has at most {MOST_BYTES}")
        state = read_json(path)
        memory.load(state if isinstance(state, Mapping) else {})
    except (DataError, StoreError) as error:
        raise ConfigError(f"{refused}: {error}") from error
    except OSError as error:
        raise ConfigError(f"{refused}: it cannot be looked at: {error.strerror}") from error
    if not memory.entries:
        raise ConfigError(f"--memory: '{path}' holds no rule, so it has no effect; leave it out")
    return memory.state()


def recalling(
    config: Config, state: Mapping[str, JSON], environments: Environments, tool_format: str
) -> Callable[[Task], Recalled]:
    """What each task of ``environments`` is shown of a memory, by the settings of its guide if the config has it.

    ``tool_format``: the one in which the policy writes calls.
    """
    part = config.guide if isinstance(config.guide, MemoryGuidePart) else MemoryGuidePart()
    guide = part.open(EnvironmentHelp(environments, tool_format, seed=config.seed))
    guide.load(dict(state))
    return guide.recalled
