"""``TurnEnv``: a gymnasium environment whose steps are an agent's turns.

A subclass sets ``turn_spec`` and writes ``start``, ``act``, ``verify`` and, if it holds resources, ``close``. This
class does the rest: it parses actions, notes on each piece of evidence which turn it is about, counts turns, runs the
verifier exactly once, scores the episode with the rubric, and turns every failure into a typed error.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import gymnasium
import numpy as np

from turngate.envs import output_checks as handed
from turngate.envs.leak import secrets_of
from turngate.envs.output_checks import TooLong, Unfit
from turngate.envs.spaces import Texts
from turngate.envs.tasks import SupportsClose, TasksLike, TaskSource, TaskSourcePart, first_split, open_source, part_of
from turngate.errors import AgentFault, ConfigError, EnvError, EpisodeError, VerifierError
from turngate.foreign import described, is_own
from turngate.tools.read import parse, tool_format_of
from turngate.tools.tool import Tool
from turngate.types import ANSWER, FAULT, Action, Ending, Evidence, Info, Observation, Record, Score, Task, storable

ANSWER_CHARS = 20_000
"""Most characters of an answer that are recorded; a longer answer is cut, and a mark says so."""
OBSERVATION_CHARS = 100_000
"""Most characters of an observation, unless ``TurnSpec`` says another number; a longer text is cut, with a mark."""
FAULT_CHARS = 2_000
"""Most characters of an AgentFault's message that are recorded."""
CONVERSIONS = 20
"""How many different conversions are noted (see ``TurnEnv.conversions``)."""


class SupportsScoring(Protocol):
    """The part of a rubric that an environment uses (see ``turngate.rewards.Rubric``)."""

    def score(self, record: Record) -> Score:
        """Score a finished episode."""
        ...

    def certain(self, record: Record) -> float:
        """The part of an unfinished episode's reward that no later turn can take back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSpec:
    """What an environment declares about itself."""

    rubric: SupportsScoring
    """How its episodes are scored, unless a run names another rubric."""
    max_turns: int
    """Most turns of an episode; then it is cut off and verified as it stands."""
    tools: tuple[Tool, ...] = ()
    """What the agent can call. A ``ToolEnv`` fills them in."""
    tasks: TasksLike = None
    """Where its tasks come from unless others of the same kind are named: a source, a part that opens one, or a
    function that makes tasks. The function's keyword-only arguments are settings of a config's ``env.tasks``."""
    deadline_s: float = 30.0
    """Longest time of one step, in seconds. A pool gives up on a call that takes longer than twice this and 5 s."""
    observation_chars: int = OBSERVATION_CHARS
    """Most characters of an observation; a longer text is cut, and a mark says so."""
    any_thread: bool = False
    """Whether any thread may call its methods, one call at a time, and most of them return within a millisecond. Then a
    pool serves many of its environments on few threads, which is several times as fast; else each has its own."""
    fork: Literal["exact", "replay", "none"] = "none"
    """How a state can be copied: "exact" through ``save`` and ``load``, "replay" by playing the same actions again."""
    side_effects: Literal["none", "local", "external"] = "none"
    """What actions can change outside of the environment: nothing, this machine, or other machines."""
    extra: str = ""
    """The optional dependencies that it needs, as in ``pip install "turngate[EXTRA]"``; empty if none."""
    has_oracle: bool = False
    """Whether ``TurnEnv.oracle`` gives actions that solve each task; ``check_env`` then plays them."""
    hint_levels: int = 0
    """Most levels of help that ``TurnEnv.hint`` has for a task; 0 = it has none."""
    evidence: Mapping[str, str] | None = None
    """All evidence that it ever records, name → meaning in words, also facts that are recorded only now and then. A
    rubric that reads anything else is refused before the first step. None: not declared; then a run that records
    nothing for a component of its rubric stops after the first step. A ``ToolEnv`` adds the facts that it records
    itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of an action. ``done``: the episode is over, because the agent or the task ended it.

    Evidence that names no turn is about the turn of this action; evidence about an earlier turn names that turn.

    ``information``: the agent wrote information for itself instead of an action; it stands in for an observation. It
    stays in the context as the agent wrote it; no call in it counts, and its tokens are not trained. ``learned``:
    whether the tokens of an action are trained.
    """

    observation: Observation
    evidence: tuple[Evidence, ...] = ()
    done: bool = False
    information: bool = False
    learned: bool = True


@dataclass(slots=True)
class _Episode:
    """What has happened since ``reset``."""

    task: Task
    state_key: str
    evidence: list[Evidence] = field(default_factory=list)
    said: str | None = None
    n_turns: int = 0
    paid: float = 0.0
    ending: Ending | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A running episode at one moment (see ``TurnEnv.snapshot``)."""

    episode: _Episode
    random: Mapping[str, object]  # as numpy describes its generators
    world: object
    tool_format: str = ""


class TurnEnv(gymnasium.Env[Observation, Action | str]):
    """Base class of all environments. ``step`` takes an ``Action`` or plain text, which the tools' parser reads. A turn
    that reached its token limit comes as an ``Action`` that is ``cut_off``.

    ``tasks``: a task source, or the part that opens one (as a table with its ``type``, or by its name alone); None
    takes that of ``turn_spec``. ``split``: the split that ``reset`` picks tasks from; None takes the source's first.
    Raises ConfigError for tasks that cannot be opened, are empty or of another kind than the environment plays,
    UnknownName for an unknown split.
    """

    turn_spec: TurnSpec
    """What it declares about itself: an attribute of the class, or of an instance whose settings bring its tools."""
    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 (declared so by gymnasium)

    def __init__(self, *, tasks: TasksLike = None, split: str | None = None, max_turns: int | None = None) -> None:
        self.max_turns = self.turn_spec.max_turns if max_turns is None else max_turns
        if not isinstance(self.max_turns, int) or self.max_turns < 1:
            raise ConfigError(f"max_turns is {self.max_turns!r:.60}; it must be a whole number, at least 1")
        source = part_of(tasks, self.turn_spec.tasks, type(self).__name__)
        self._opened: TaskSource | None = None
        if isinstance(source, TaskSourcePart):
            source = self._opened = open_source(source, self.open_tasks)
        self.tasks: TaskSource = source
        self.split = first_split(self.tasks, split)
        self.observation_space = Texts(Observation, [Observation(text="")])
        self.action_space = Texts(Action, [tool.usage for tool in self.turn_spec.tools] or [""])
        self.render_mode = None
        self._episode: _Episode | None = None
        self.tool_format = ""
        self._conversions: dict[str, None] = {}

    # --- what a subclass writes ---------------------------------------------------------------------------------------

    @abstractmethod
    def start(self, task: Task, rng: np.random.Generator) -> Observation:
        """Prepare everything that ``task`` needs and return the first observation. ``rng``: the only randomness to
        use."""

    @abstractmethod
    def act(self, action: Action) -> Outcome:
        """Carry out one action. A bad action gives an observation that says so; an exception means that something
        broke. An action that is ``cut_off`` is never carried out: its ``parse_error`` is for the agent.

        Raise AgentFault where the action broke the environment: the episode then ends as a failure, and ``verify`` is
        not called. Any other exception is the environment's own fault, and makes the episode unusable.
        """

    @abstractmethod
    def verify(self) -> Iterable[Evidence]:
        """Measure the outcome. Called once, after the last turn, also where the episode was cut short.

        Raise AgentFault where the agent left a state that cannot be measured: the episode is then a failure. Any other
        exception means that the verifier broke, and makes the episode unusable.
        """

    def answer(self) -> str | None:
        """The agent's answer as text, for judges to read and votes to count. Called once, at the end.

        By default it is the text of the last action, unless that was cut off; None means that there is no answer. It
        never contains private parts of the task, unless the agent wrote them itself.
        """
        return None if self._episode is None else self._episode.said

    def oracle(self, task: Task) -> Sequence[str]:
        """Actions that solve ``task``, if ``turn_spec.has_oracle``."""
        raise EnvError(f"{type(self).__name__} has no oracle")

    def solutions(self, task: Task) -> Sequence[Sequence[str]]:
        """Lists of actions, each of which solves ``task``; by default that of the oracle, where there is one."""
        return (self.oracle(task),) if self.turn_spec.has_oracle else ()

    def hint(self, task: Task, level: int) -> str | None:
        """Help for ``task``: level 1 says least, each further one more, and none holds the answer (see ``secrets``).

        None where there is no such level. By default the texts of ``Task.hints``. The same task and level always give
        the same text.
        """
        return task.hints[level - 1] if 1 <= level <= len(task.hints) else None

    def secrets(self, task: Task) -> Sequence[str]:
        """Texts that give ``task`` away; training refuses a hint that holds one. By default see ``leak.secrets_of``."""
        return secrets_of(task.private, self.solutions(task), self.turn_spec.tools)

    def outside(self, task: Task) -> str:
        """The outside source that decides what ``task`` shows, such as a model that plays its user; "" where there is
        none, so that equal actions lead to equal results. Such episodes cannot be replayed."""
        if self.turn_spec.side_effects == "external":
            return 'other machines (its side_effects are "external")'
        return ""

    def save(self) -> object:
        """The present state of the environment, as ``load`` takes it. Only for environments whose ``fork`` is
        "exact"."""
        raise EnvError(f"{type(self).__name__} cannot be forked exactly; its fork is '{self.turn_spec.fork}'")

    def load(self, saved: object) -> None:
        """Return to a saved state, which may come from another environment with the same settings."""
        raise EnvError(f"{type(self).__name__} cannot be forked exactly; its fork is '{self.turn_spec.fork}'")

    def open_tasks(self, part: TaskSourcePart) -> TaskSource:
        """Open the task source of ``part``. Override it where opening needs something from the environment."""
        return part.open()

    # --- gymnasium's interface ----------------------------------------------------------------------------------------

    def reset(  # type: ignore[override]  # gymnasium says dict[str, Any] where we say what is in it
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[Observation, Info]:
        """Begin an episode. ``options={"task": Task or id}`` picks the task; without it the seed does.

        ``options={"tool_format": NAME}`` names the tool format in which the agent was told to write tool calls, by a
        chat template that lists the tools. Without it calls in any known tool format are read.
        """
        super().reset(seed=seed)
        chosen = dict(options or {})
        self.tool_format = self._agreed(chosen.pop("tool_format", ""))
        task = self._pick(chosen)
        self._episode = None
        try:
            seen = self.start(task, self.np_random)
            observation = self._seen(seen)
        except AgentFault as fault:  # no agent has acted yet
            raise EnvError(f"{type(self).__name__} could not start task '{task.id}': {fault}") from fault
        except EpisodeError:
            raise
        except Unfit as problem:
            raise EnvError(f"{type(self).__name__} could not start task '{task.id}': {problem}") from None
        except BaseException as error:
            if not is_own(error):
                raise
            raise EnvError(f"{type(self).__name__} could not start task '{task.id}': {described(error)}") from error
        self._episode = _Episode(task=task, state_key=observation.state_key)
        info = self._info((), None)
        info["tools"] = tuple(tool.schema for tool in self.turn_spec.tools)
        return observation, info

    def step(  # type: ignore[override]  # as above
        self, action: Action | str
    ) -> tuple[Observation, float, bool, bool, Info]:
        """One turn: observation, reward, terminated, truncated, info.

        A reward before the last turn is the part that no later turn can take back. The last turn pays the rest, so the
        rewards of an episode sum to the total of its score.
        """
        episode = self._running()
        parsed = self._read(action)
        turn = episode.n_turns
        try:
            outcome = self._checked(self.act(parsed))
        except AgentFault as fault:
            return self._broken(parsed, fault)
        except EpisodeError:
            raise
        except TooLong as problem:
            return self._broken(parsed, AgentFault(str(problem)))
        except Unfit as problem:
            raise EnvError(f"{type(self).__name__} broke in turn {turn}: {problem}") from None
        except BaseException as error:
            if not is_own(error):
                raise
            raise EnvError(f"{type(self).__name__} broke in turn {turn}: {described(error)}") from error
        if outcome.information:
            cut = parsed.parse_error if parsed.cut_off else None
            parsed = Action(text=parsed.text, thought=parsed.thought, parse_error=cut)
        facts = tuple([replace(fact, turn=turn) if fact.turn is None else fact for fact in outcome.evidence])
        if odd := _unplayed(facts, turn + 1):
            raise EnvError(
                f"{type(self).__name__} broke in turn {turn}: evidence '{odd.name}' is about turn {odd.turn}"
            )
        episode.evidence.extend(facts)
        episode.n_turns += 1
        episode.said = _answering(parsed)
        episode.state_key = outcome.observation.state_key
        if outcome.done or episode.n_turns >= self.max_turns:
            reward, info = self.finish(Ending.FINISHED if outcome.done else Ending.MAX_TURNS)
            info["evidence"], info["action"] = facts + info["evidence"], parsed
            info["learned"] = outcome.learned and not outcome.information
            assert episode.ending is not None
            return outcome.observation, reward, episode.ending.terminated, episode.ending.truncated, info
        certain = self.turn_spec.rubric.certain(self._record(Ending.MAX_TURNS))
        reward, episode.paid = certain - episode.paid, certain
        info = self._info(facts, None)
        info["action"], info["learned"] = parsed, outcome.learned and not outcome.information
        return outcome.observation, reward, False, False, info

    def finish(self, ending: Ending) -> tuple[float, Info]:
        """End the episode now, for a caller that cuts it short: verify, score, and return the rest of the reward.

        ``info["ending"]`` is ``ending``, or AGENT_FAULT if the agent made the outcome impossible to measure.
        """
        episode = self._running()
        try:
            answer = self._answered()
            facts = handed.evidence(self.verify(), self._note)
            measured = tuple(replace(fact, by="verifier") if fact.by == "env" else fact for fact in facts)
        except AgentFault as fault:
            return self._end_by(fault, turn=None)
        except EpisodeError:
            raise
        except TooLong as problem:
            return self._end_by(AgentFault(str(problem)), turn=None)
        except Unfit as problem:
            raise VerifierError(f"the verifier of {type(self).__name__} broke: {problem}") from None
        except BaseException as error:
            if not is_own(error):
                raise
            raise VerifierError(f"the verifier of {type(self).__name__} broke: {described(error)}") from error
        if odd := _unplayed(measured, episode.n_turns):
            raise VerifierError(
                f"the verifier of {type(self).__name__} broke: evidence '{odd.name}' is about turn {odd.turn} "
                f"of {episode.n_turns}"
            )
        return self._settled((answer, *measured), ending)

    @property
    def conversions(self) -> tuple[str, ...]:
        """Values from the subclass that had to be converted before they could be recorded: the first few, in words."""
        return tuple(self._conversions)

    def snapshot(self) -> Snapshot:
        """The running episode at this moment. ``restore`` continues from it, any number of times, also in another
        environment with the same settings."""
        episode = self._running()
        kept = replace(episode, evidence=list(episode.evidence))
        random = self.np_random.bit_generator.state
        return Snapshot(episode=kept, random=random, world=self.save(), tool_format=self.tool_format)

    def restore(self, snapshot: Snapshot) -> None:
        """Continue from a snapshot; an episode that was running here is dropped."""
        self._episode, self.tool_format = None, snapshot.tool_format
        self.load(snapshot.world)
        self._episode = replace(snapshot.episode, evidence=list(snapshot.episode.evidence))
        self.np_random.bit_generator.state = snapshot.random

    def close(self) -> None:
        """Free the environment's resources, for instance a task source that it opened. Safe to repeat."""
        if isinstance(self._opened, SupportsClose):
            self._opened.close()

    def render(self) -> str:
        """One line: the task and the number of turns played."""
        if self._episode is None:
            return "no episode"
        return f"{self._episode.task.id}: turn {self._episode.n_turns} of {self.max_turns}"

    # --- bookkeeping --------------------------------------------------------------------------------------------------

    def _pick(self, options: Mapping[str, object]) -> Task:
        unknown = set(options) - {"task"}
        if unknown:
            raise ConfigError(f"unknown reset option {sorted(unknown)}; known: 'task', 'tool_format'")
        wanted = options.get("task")
        if isinstance(wanted, Task):
            return wanted
        if isinstance(wanted, str):
            return self.tasks.find(wanted)
        if wanted is not None:
            raise ConfigError(f"options['task'] is {wanted!r:.80}; it must be a Task or the id of one")
        size = self.tasks.size(self.split)
        return self.tasks.task(self.split, int(self.np_random.integers(size if size is not None else 2**31 - 1)))

    @staticmethod
    def _agreed(tool_format: object) -> str:
        return tool_format_of(str(tool_format)).name if tool_format else ""

    def _running(self) -> _Episode:
        if self._episode is None or self._episode.ending is not None:
            raise gymnasium.error.ResetNeeded("no episode is running; call reset() first")
        return self._episode

    def _read(self, action: Action | str) -> Action:
        if isinstance(action, str):
            return parse(action, self.turn_spec.tools, self.tool_format)
        try:
            given = handed.action(action)
        except Unfit as problem:
            raise ConfigError(f"step() of {type(self).__name__}: {problem}") from None
        return parse(given.text, self.turn_spec.tools, self.tool_format, cut_off=True) if given.cut_off else given

    def _checked(self, outcome: object) -> Outcome:
        if not isinstance(outcome, Outcome):
            raise Unfit(f"act() returned {outcome!r:.80}; it must return an Outcome")
        facts, seen = handed.evidence(outcome.evidence, self._note), self._seen(outcome.observation)
        same = facts is outcome.evidence and seen is outcome.observation
        return outcome if same else replace(outcome, observation=seen, evidence=facts)

    def _seen(self, observation: object) -> Observation:
        return handed.observation(observation, self._note, most=self.turn_spec.observation_chars)

    def _note(self, conversion: str) -> None:
        if len(self._conversions) < CONVERSIONS:
            self._conversions[conversion] = None

    def _broken(self, action: Action, fault: AgentFault) -> tuple[Observation, float, bool, bool, Info]:
        """The end of a turn that broke the episode."""
        episode = self._running()
        episode.n_turns += 1
        episode.said, episode.state_key = _answering(action), ""
        reward, info = self._end_by(fault, turn=episode.n_turns - 1)
        info["action"] = action
        return Observation(text=f"the episode is over: {_reason(fault)}"), reward, True, False, info

    def _end_by(self, fault: AgentFault, *, turn: int | None) -> tuple[float, Info]:
        return self._settled((Evidence(name=FAULT, value=_reason(fault), turn=turn),), Ending.AGENT_FAULT)

    def _settled(self, measured: tuple[Evidence, ...], ending: Ending) -> tuple[float, Info]:
        """The end of the episode: the rest of its reward, and info."""
        episode = self._running()
        episode.evidence.extend(measured)
        episode.ending = ending
        score = self.turn_spec.rubric.score(self._record(ending))
        return score.total - episode.paid, self._info(measured, score)

    def _answered(self) -> Evidence:
        name = type(self).__name__
        try:
            answer = self.answer()
        except EpisodeError:
            raise
        except BaseException as error:
            if not is_own(error):
                raise
            raise EnvError(f"answer() of {name} raised {described(error)}") from error
        if not isinstance(answer, str | None):
            raise EnvError(f"answer() of {name} returned {answer!r:.80}; it must return text or None")
        return Evidence(name=ANSWER, value=None if answer is None else storable(answer, ANSWER_CHARS))

    def _record(self, ending: Ending) -> Record:
        episode = self._episode
        assert episode is not None
        return Record(task_id=episode.task.id, n_turns=episode.n_turns, ending=ending, evidence=tuple(episode.evidence))

    def _info(self, facts: tuple[Evidence, ...], score: Score | None) -> Info:
        episode = self._episode
        assert episode is not None
        return {
            "evidence": facts,
            "ledger": score.ledger if score else (),
            "score": score,
            "task_id": episode.task.id,
            "state_key": episode.state_key,
            "ending": episode.ending,
        }


def _unplayed(facts: Sequence[Evidence], n_turns: int) -> Evidence | None:
    """The first fact about a turn that was not played."""
    return next((fact for fact in facts if fact.turn is not None and not 0 <= fact.turn < n_turns), None)


def _answering(action: Action) -> str | None:
    """The text of an action as an answer; None for one that was cut off."""
    return None if action.cut_off else action.text


def _reason(fault: AgentFault) -> str:
    return storable(str(fault), FAULT_CHARS)
