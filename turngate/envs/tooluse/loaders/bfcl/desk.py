"""BFCL's services with the user of a task, as a world of tools."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from turngate.envs.tooluse.engine.world import CallReply, OpenWorld, ToolWorld, UserSays
from turngate.envs.tooluse.facts import OF_USER_TURNS
from turngate.envs.tooluse.loaders.bfcl.episode import MOST_STEPS, BfclEpisode, Scenario
from turngate.envs.tooluse.loaders.bfcl.functions import tool_of_doc
from turngate.envs.tooluse.loaders.bfcl.services import Services
from turngate.envs.tooluse.loaders.bfcl.wheel import NAMES, docs, package_folder, service_class
from turngate.errors import ConfigError
from turngate.tools.read import usages
from turngate.tools.tool import Tool
from turngate.types import JSON, ToolCall


class BfclServices(ToolWorld):
    """The simulated services of BFCL: files, a calculator, messages, posts, tickets, stocks, travel and a car."""

    type: Literal["bfcl_services"] = "bfcl_services"
    folder: Path | None = None
    """The folder ``bfcl_eval`` of an unpacked wheel or a checkout; left out: the installed wheel."""

    def open(self) -> OpenWorld:
        return BfclDesk(package_folder(self.folder))


@cache
def service_tools(package: Path, service: str) -> tuple[Tool, ...]:
    """The functions of a service."""
    return tuple(tool_of_doc(doc) for doc in docs(package, service))


@cache
def _offered(package: Path, services: tuple[str, ...], later: frozenset[str]) -> tuple[Tool, ...]:
    return tuple(tool for name in services for tool in service_tools(package, name) if tool.name not in later)


class BfclDesk:
    """The services, with a user who speaks turn by turn. See ``OpenWorld`` and ``LeadsTurns``.

    The state that a task begins with holds its ``Scenario``, as "scenario".
    """

    fork: Literal["exact", "none"] = "exact"
    knows_state = False  # the checks are BFCL's own
    evidence: Mapping[str, str] = OF_USER_TURNS

    def __init__(self, package: Path) -> None:
        self._package = package
        self._classes = {name: service_class(package, name) for name in NAMES}
        self.every = tuple(tool for name in NAMES for tool in service_tools(package, name))
        self.tools: tuple[Tool, ...] = self.every
        self._episode: BfclEpisode | None = None

    def start(self, initial: Mapping[str, object] | None) -> None:
        """See ``OpenWorld.start``. Raises ConfigError for a state that is none of BFCL's."""
        scenario = _scenario(initial)
        classes = {name: self._classes[name] for name in scenario.services}
        made = [Services(classes, scenario.config, long_context=scenario.long_context) for _ in range(2)]
        self._episode = BfclEpisode(turns=scenario.turns, mine=made[0], gold=made[1])
        self._episode.begin()
        later = frozenset(name for turn in scenario.turns for name in turn.offers)
        self.tools = _offered(self._package, scenario.services, later)

    def call(self, tool: Tool, arguments: Mapping[str, object], call: ToolCall) -> CallReply:
        """See ``OpenWorld.call``. Numbers are passed as the agent wrote them: the services tell 5 and 5.0 apart."""
        written = call.arguments
        given = {name: written[name] if written[name] == value else value for name, value in arguments.items()}
        episode = self._present()
        text, ok, wrote = episode.call(ToolCall(name=tool.name, arguments=given))
        return CallReply(text=text, ok=ok, wrote=wrote, facts={"distance": episode.distance()})

    def end_turn(self) -> UserSays:
        episode = self._present()
        verdict = episode.end_turn()
        facts: dict[str, JSON] = {
            "turn_held": verdict.holds,
            "turn_state": verdict.state,
            "turn_results": verdict.results,
            "turn_called": verdict.called,
        }
        facts |= {"turn_served": verdict.holds} if verdict.asked else {"called_in_vain": verdict.called}
        if episode.over:
            return UserSays(text="The user has nothing more to ask.", over=True, facts=facts)
        turn = episode.turns[episode.now]
        new = [tool for tool in self.every if tool.name in turn.offers]
        self.tools = (*self.tools, *new) if new else self.tools
        told = [f"new {usages(new)}", *(tool.description for tool in new)] if new else []
        return UserSays(text="\n".join([*told, turn.says]), facts=facts)

    def may_go_on(self) -> bool:
        episode = self._present()
        episode.steps += 1
        return episode.steps <= MOST_STEPS

    def key(self) -> str:
        return self._present().key()

    def measured(self) -> Mapping[str, JSON]:
        episode = self._present()
        held = [verdict.holds for verdict in episode.verdicts]
        return {"solved": episode.solved, "turns_held": sum(held) / len(episode.turns)}

    def lines(self, initial: Mapping[str, object]) -> Sequence[Sequence[ToolCall]]:
        return [turn.gold for turn in _scenario(initial).turns]

    def state(self) -> JSON:
        """None: see ``key``."""
        return None

    def save(self) -> object:
        return copy.deepcopy(self._episode), self.tools

    def load(self, saved: object) -> None:
        assert isinstance(saved, tuple)
        self._episode, self.tools = copy.deepcopy(saved[0]), saved[1]

    def close(self) -> None:
        """Nothing to free."""

    def _present(self) -> BfclEpisode:
        assert self._episode is not None
        return self._episode


def _scenario(initial: Mapping[str, object] | None) -> Scenario:
    found = (initial or {}).get("scenario")
    if not isinstance(found, Scenario):
        raise ConfigError('the services of BFCL are played with its own tasks; write tasks = {type = "bfcl"}')
    return found
