"""BFCL's multi-turn tasks, as ``tasks`` of ``turngate/ToolUse-v1``: ``tasks = {type = "bfcl"}``."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from turngate.envs.tasks import TaskList, TaskSource
from turngate.envs.tooluse.engine.world import OpenWorld
from turngate.envs.tooluse.loaders.bfcl.desk import BfclServices
from turngate.envs.tooluse.sources import ToolTaskSource

Category = Literal["base", "miss_func", "miss_param", "long_context"]


class Bfcl(ToolTaskSource):
    """The multi-turn tasks of the Berkeley Function Calling Leaderboard, 200 in each category. They are in the wheel
    ``bfcl-eval``: pip install --no-deps bfcl-eval. Splits: train and heldout."""

    type: Literal["bfcl"] = "bfcl"
    categories: tuple[Category, ...] = Field(("base", "miss_func", "miss_param", "long_context"), min_length=1)
    """miss_func: a function is missing at first; miss_param: the user forgets a value at first; long_context: results
    are long."""
    held_out: int = Field(5, ge=0)
    """Every n-th task goes to heldout, together with its variants in the other categories (5: 20 %); 0 = none."""
    folder: Path | None = None
    """The folder ``bfcl_eval`` of an unpacked wheel or a checkout; left out: the installed wheel."""
    max_turns: ClassVar[int] = 168
    """Eight turns of a user, the most that there are, of twenty and one turns of the agent."""

    def world(self) -> BfclServices:
        """The services."""
        return BfclServices(folder=self.folder_of("folder") if self.folder else None)

    def open(self, world: OpenWorld | None = None) -> TaskSource:
        from turngate.envs.tooluse.loaders.bfcl.bfcl_rows import read_tasks
        from turngate.envs.tooluse.loaders.bfcl.wheel import package_folder

        services = self.world()
        table = services.model_dump(mode="json")
        chosen = dict.fromkeys(self.categories)
        found = read_tasks(package_folder(services.folder), tuple(chosen), held_out=self.held_out, world=table)
        return TaskList(found)
