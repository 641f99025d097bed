"""Whether anything in a run records the evidence that its rubrics, filters, guide and credit rule read.

A component without evidence would silently pay nothing. Evidence comes from the environment, which declares it in
``TurnSpec.evidence``, and from examiners. Evidence that neither has is looked for in one episode of the oracle. After
that a declared environment refuses the rubric at once. Where nothing is declared, a fact may still be recorded now and
then, so the first step decides: a run in which a component had no fact by then stops.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from turngate.config.run_config import Config
from turngate.envs.base import TurnEnv
from turngate.errors import ConfigError, RunError
from turngate.foreign import staying
from turngate.judges.examiners.base import Examiner
from turngate.parts import Part
from turngate.rewards import Rubric
from turngate.run.environments import Environments
from turngate.types import ANSWER, FAULT, ScoredGroup, Task

_log = logging.getLogger(__name__)
ALWAYS = frozenset({ANSWER, FAULT})
"""What every environment records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfed:
    """Components of one rubric for which nothing was recorded in the oracle's episode either, by an environment that
    does not declare its evidence. ``recorded``: the evidence that is known to be recorded."""

    label: str
    rubric: Rubric
    recorded: frozenset[str]


def check_feeders(config: Config, environments: Environments) -> list[Unfed]:
    """Raise ConfigError for evidence that a part reads and nothing in the run records; it names the part.

    Returns the rubrics of which only episodes can show it: give them to ``check_first_step``.
    """
    left, by_label = list[Unfed](), dict[str, frozenset[str]]()
    for label, env in environments:
        rubric, declared = environments.rubrics[label], env.turn_spec.evidence
        recorded = ALWAYS | set(declared or ()) | _written(config.examine, label)
        unfed = rubric.unfed(recorded)
        if unfed or declared is None:
            recorded |= _played(env, environments.task(label, environments.sections[label].split, 0))
            unfed = rubric.unfed(recorded)
        by_label[label] = frozenset(recorded)
        if unfed and declared is not None:
            raise ConfigError(f"the rubric of '{label}': {_problem(unfed, recorded)}; {_advice(type(env).__name__)}")
        if unfed:
            left.append(Unfed(label=label, rubric=rubric, recorded=frozenset(recorded)))
    if all(env.turn_spec.evidence is not None for _, env in environments):
        _check_others(config, frozenset[str]().union(*by_label.values()))
    return left


def check_first_step(unfed: Iterable[Unfed], played: Iterable[ScoredGroup]) -> None:
    """Raise RunError for a component or gate of ``unfed`` for which no episode of ``played`` has a fact.

    A gate may read facts that are recorded only on certain events, so such evidence of gates (``Gate.occasional``) is
    left out, as in ``turngate rescore``.
    """
    n_episodes, names = dict[str, int](), dict[str, set[str]]()
    for group in played:
        n_episodes[group.task.env_id] = n_episodes.get(group.task.env_id, 0) + len(group.trajectories)
        for trajectory in group.trajectories:
            names.setdefault(group.task.env_id, set()).update(fact.name for fact in trajectory.record().evidence)
    for one in unfed:
        recorded = one.recorded | names.get(one.label, set())
        missing = one.rubric.unfed(recorded | one.rubric.occasional)
        if missing:
            raise RunError(
                f"the rubric of '{one.label}': in {n_episodes.get(one.label, 0)} episodes of the first step "
                f"{_problem(missing, recorded)}; correct the name; if the environment records it now and then, declare "
                "all that it records: TurnSpec(…, evidence={NAME: MEANING, …})"
            )


def _check_others(config: Config, recorded: Collection[str]) -> None:
    """Raise ConfigError for evidence that another part of the config names and no declared environment records."""
    for place, name in _named(config):
        if name not in recorded:
            raise ConfigError(f"{place}: {_problem({}, recorded, name)}; correct the name")


def _named(config: Config) -> Iterator[tuple[str, str]]:
    """(where in the config, evidence that is read there)."""
    yield from ((f"signals.evidence.{column}", name) for column, name in config.signals.evidence.items())
    parts: list[tuple[str, Part]] = [("guide", config.guide)]
    parts += [(f"train.filters[{place}]", part) for place, part in enumerate(config.train.filters)]
    for place, part in parts:
        name = getattr(part, "evidence", "")
        if isinstance(name, str) and name:
            yield f"{place}.evidence", name


def _written(examiners: Iterable[Examiner], label: str) -> set[str]:
    return {name for one in examiners if one.env in ("", label) for name in (*one.writes, one.label)}


def _played(env: TurnEnv, task: Task) -> set[str]:
    """The names of what the oracle's episode records, as far as the episode gets; none where there is no oracle, and
    where an episode reaches the outside world, which a check must not do."""
    names = set[str]()
    if not env.turn_spec.has_oracle or env.turn_spec.side_effects == "external":
        return names
    try:
        with staying():
            _, info = env.reset(seed=0, options={"task": task})
            names.update(fact.name for fact in info["evidence"])
            for action in env.oracle(task):
                _, _, terminated, truncated, info = env.step(action)
                names.update(fact.name for fact in info["evidence"])
                if terminated or truncated:
                    break
    except (Exception, SystemExit) as error:  # a broken oracle is an error where its episodes are needed
        _log.info("the oracle of task '%s' broke while it showed what is recorded: %s", task.id, error)
    return names


def _problem(unfed: Mapping[str, Collection[str]], recorded: Collection[str], name: str = "") -> str:
    """The missing evidence in words, the nearest name, and the names that there are."""
    reader, missing = next(iter(unfed.items()), ("", (name,)))
    reads = f", which '{reader}' reads" if reader else ""
    names = " and ".join(f"'{one}'" for one in missing)
    close = [found for one in missing for found in difflib.get_close_matches(one, sorted(recorded), n=1)]
    guess = f"; did you mean '{close[0]}'?" if close else ""
    return f"nothing records the evidence {names}{reads}{guess} (recorded: {', '.join(sorted(recorded))})"


def _advice(env: str) -> str:
    return (
        f"correct the name, leave the part out, add an examiner that records it, or declare it in the evidence of "
        f"{env}.turn_spec if the environment does record it"
    )
