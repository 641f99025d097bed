"""The domains that ship, as ``tasks`` of ``turngate/ToolUse-v1``: ``tasks = {type = "retail"}``."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from turngate.envs.tasks import TaskSource
from turngate.envs.tooluse.engine.world import OpenWorld
from turngate.envs.tooluse.generated.domains.domain_world import DomainWorld
from turngate.envs.tooluse.generated.domains.errands import DomainTasks
from turngate.envs.tooluse.generated.domains.users import ScriptedUser, SimulatedUser
from turngate.envs.tooluse.sources import ToolTaskSource
from turngate.envs.word_names import Naming


class DomainSource(ToolTaskSource):
    """Endless tasks of one domain. A subclass sets ``type`` and ``module``, and writes ``open``."""

    max_level: int = Field(3, ge=1, le=3)
    """Hardest tasks: 1 the user says everything at once, 2 some of it, 3 only their wish."""
    user: SimulatedUser = ScriptedUser()
    """The simulated user."""
    module: ClassVar[str]
    """The domain's tools."""

    def world(self) -> DomainWorld:
        """The domain with its user."""
        return DomainWorld(module=self.module, user=self.user)


class Retail(DomainSource):
    """The service desk of a shop: orders are cancelled, sent elsewhere or returned, or it is refused. Splits: train and
    heldout (other customers, streets and goods)."""

    type: Literal["retail"] = "retail"
    module: ClassVar[str] = "turngate.envs.tooluse.generated.domains.retail"

    def open(self, world: OpenWorld | None = None) -> TaskSource:
        from turngate.envs.tooluse.generated.domains.retail_tasks import retail_errand

        return DomainTasks(self.world(), retail_errand, name=self.type, max_level=self.max_level)


class Travel(DomainSource):
    """The desk of an airline: bookings are cancelled, moved to other flights or given bags, or it is refused. Splits:
    train and heldout (other travellers and cities)."""

    type: Literal["travel"] = "travel"
    module: ClassVar[str] = "turngate.envs.tooluse.generated.domains.travel"

    def open(self, world: OpenWorld | None = None) -> TaskSource:
        from turngate.envs.tooluse.generated.domains.travel_tasks import travel_errand

        return DomainTasks(self.world(), travel_errand, name=self.type, max_level=self.max_level)


class HelpDesk(DomainSource):
    """The IT help desk of a company: accounts, groups, programs and laptops. Splits: train and heldout (other
    employees, teams and programs)."""

    type: Literal["helpdesk"] = "helpdesk"
    naming: Naming = "made"
    """made: surnames, teams and programs of one split do not occur in the other, and badges have six digits. words:
    people are called by two of 79 words and badges are numbers from 10 to 39; whole names belong to one split, while
    words, teams and programs are the same in both; a small model copies them more easily."""
    module: ClassVar[str] = "turngate.envs.tooluse.generated.domains.helpdesk"

    def open(self, world: OpenWorld | None = None) -> TaskSource:
        from turngate.envs.tooluse.generated.domains.helpdesk_tasks import helpdesk_errand, worded_errand

        if self.naming == "words":
            return DomainTasks(self.world(), worded_errand, name=f"{self.type}-words", max_level=self.max_level)
        return DomainTasks(self.world(), helpdesk_errand, name=self.type, max_level=self.max_level)
