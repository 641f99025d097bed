"""What is compared: environments with what they pay, credit rules, and the model that every run begins with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from turngate.config.run_config import Config, load
from turngate.envs.code.rubric import RUBRIC as CODE_RUBRIC
from turngate.envs.lock import KEYS, LockTasks, colours_of, key_of
from turngate.envs.sql.rubric import RUBRIC as SQL_RUBRIC
from turngate.errors import ConfigError
from turngate.rewards.gates.whole_kinds import Veto
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.store.folder import RunFolder
from turngate.types import Task, derive_seed

HERE = Path(__file__).parent

# --- payments: an outcome, and verdicts on turns that are open in failures too ----------------------------------------


def _verdict(evidence: str, weight: float) -> FromEvidence:
    """A fact about single turns; all of an episode together pay at most ``weight``."""
    return FromEvidence(name=evidence, evidence=evidence, weight=weight, per_turn=True, agg="mean")


def _vetoes(rubric: Rubric) -> tuple[Veto, ...]:
    return tuple(gate for gate in rubric.gates if isinstance(gate, Veto))


def _lock(weight: float) -> Rubric:
    opened = FromEvidence(name="opened", evidence="opened", kind="outcome", levels=(0, 1))
    return Rubric(rewards=(opened, _verdict("right_key", weight)))


PAID = 0.1
"""What the verdicts on all turns of an episode in the lock are paid together; opening it is paid 1."""
CAPO_OUTCOME, CAPO_PROCESS = 2.0, 1.0
"""``capo``'s own w_outcome and w_process."""
CAPO_WEIGHT = CAPO_PROCESS / CAPO_OUTCOME
"""What a verdict on one turn is worth in the credit of ``capo``, in outcomes."""
LOCK = _lock(PAID)
LOCK_HEAVY = _lock(CAPO_WEIGHT * 12)
"""Of twelve dials: a verdict is paid as much as ``capo`` gives it, 60 times what ``LOCK`` pays. It is unsafe by
``Rubric.check()``: eleven right keys are paid more than an opened lock alone, though no lock opens with fewer than
twelve."""
LOCK_3_HEAVY = _lock(CAPO_WEIGHT * 3)
"""The same of three dials."""
SQL = Rubric(
    rewards=(SQL_RUBRIC.rewards[0], _verdict("parsed", 0.05), _verdict("executes", 0.05), _verdict("looked_up", 0.1)),
    gates=_vetoes(SQL_RUBRIC),
)
CODE = Rubric(
    rewards=(
        CODE_RUBRIC.rewards[0],
        _verdict("parsed", 0.05),
        _verdict("call_ok", 0.05),
        _verdict("tests_fixed", 0.1),
    ),
    gates=_vetoes(CODE_RUBRIC),
)
READABLE = Rubric(rewards=(FromEvidence(name="parsed", evidence="parsed", kind="outcome", agg="mean"),))
"""What makes a demonstration of the lock worth imitating: that every turn can be read, whichever key it presses."""

# --- what the lock's demonstrations show ------------------------------------------------------------------------------

RIGHT = MappingProxyType({"red": 0.7, "green": 0.7, "blue": 0.3, "white": 0.3})
"""How often a demonstration presses the right key of a colour."""
HABIT = 0.6
"""How often a key that is not right is the one after the right one; so that one is shown most for two colours."""
SHOWN = 200
FIRST_SHOWN = 1_000_000  # training plays the tasks before it


def shown_keys(task: Task, seed: int) -> list[str]:
    """What a demonstration of this lock does: a key for every dial, drawn with ``RIGHT`` and ``HABIT``."""
    rng = np.random.default_rng(derive_seed(seed, "shown", task.id))
    lines = []
    for colour in colours_of(task):
        right, habit, other = rng.random() < RIGHT[colour], rng.random() < HABIT, int(rng.integers(2))
        shift = 0 if right else 1 if habit else 2 + other
        lines.append(f"press {KEYS[(KEYS.index(key_of(colour)) + shift) % len(KEYS)]}")
    return lines


def show_locks(file: Path, seed: int, *, dials: int) -> None:
    """Write the demonstrations of a seed."""
    tasks = [LockTasks(dials).task("train", FIRST_SHOWN + number) for number in range(SHOWN)]
    rows = [json.dumps({"task": task.id, "actions": shown_keys(task, seed)}) for task in tasks]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")


# --- what is compared -------------------------------------------------------------------------------------------------


class EqualWeight(NamedTuple):
    """How a verdict weighs the same, against an outcome, in the total that ``rloo`` compares and in ``capo``'s credit.

    ``rubric``: pays a verdict what ``capo`` gives it by default. ``w_process``: of ``capo``, which then gives a verdict
    what the environment's own rubric pays for it.
    """

    rubric: str
    w_process: float


def light_w_process(turns: int) -> float:
    """``w_process`` with which a verdict is worth ``PAID / turns`` outcomes to ``capo``, as in ``rloo``'s total."""
    return CAPO_OUTCOME * PAID / turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """One panel of the figure.

    ``settings``: the config, into which the study puts ``rubric`` (``module:NAME``), rule, seed and ``changes``, which
    are written like options of ``turngate train``. ``updates``: of each run. ``threshold``: success in training that
    counts as learned. ``show``: what writes the demonstrations of a seed to a file; None: the config has them.
    ``show_rubric``: what demonstrations have to satisfy, if that is another one than ``rubric``. ``equal``: how rules
    can give a verdict the same weight; None where that is not compared.
    """

    title: str
    settings: Path
    rubric: str
    updates: int
    threshold: float
    changes: tuple[str, ...] = ()
    show: Callable[[Path, int], None] | None = None
    show_rubric: str = ""
    equal: EqualWeight | None = None


LOCK_12 = Environment(
    title="a lock of twelve dials",
    settings=HERE / "lock.toml",
    rubric=f"{__name__}:LOCK",
    updates=50,
    threshold=0.5,
    show=partial(show_locks, dials=12),
    show_rubric=f"{__name__}:READABLE",
    equal=EqualWeight(f"{__name__}:LOCK_HEAVY", light_w_process(12)),
)
LOCK_3 = replace(
    LOCK_12,
    title="a lock of three dials",
    changes=("--env.tasks.dials=3", "--env.kwargs.max_turns=3"),
    show=partial(show_locks, dials=3),
    equal=EqualWeight(f"{__name__}:LOCK_3_HEAVY", light_w_process(3)),
)


ENVIRONMENTS: Mapping[str, Environment] = MappingProxyType(
    {
        "lock": LOCK_12,
        "lock3": LOCK_3,
        "sql": Environment(
            title="questions about databases whose literals have to be looked up",
            settings=HERE.parent / "sql_gates" / "settings.toml",
            rubric=f"{__name__}:SQL",
            updates=60,
            threshold=0.3,
        ),
        "code": Environment(
            title="code repair",
            settings=HERE.parent / "code_demo.toml",
            rubric=f"{__name__}:CODE",
            updates=20,
            threshold=0.7,
            # few demonstrations, so that there is something left to learn, and small updates: each episode runs tests
            changes=(
                "--warm_start.episodes=400",
                "--warm_start.epochs=3",
                "--policy.temperature=1",
                "--train.tasks_per_step=4",
                "--eval.tasks=60",
            ),
        ),
    }
)

RULES: Mapping[str, str] = MappingProxyType(
    {
        "grpo": "trajectory",
        "rloo": "trajectory",
        "rloo_heavy": "trajectory, a verdict paid as `capo` weighs it",
        "gigpo": "turn, by state",
        "capo": "turn, by verdict",
        "capo_light": "turn, by verdict, weighed as `rloo` is paid",
        "turn_gae": "turn, by critic",
        "shuffled": "control",
    }
)
"""What is compared, and how: credit rules with the defaults of their papers; ``rloo`` and ``capo`` with equal weight of
a verdict (see ``EqualWeight``); and ``shuffled``, the control: ``rloo``, but every episode gets the credit of another
one."""
REFERENCE = "rloo"
EQUAL_WEIGHT = ("rloo_heavy", "capo_light")
SAME_WEIGHT: Mapping[str, str] = MappingProxyType({"capo": "rloo_heavy", "capo_light": "rloo"})
"""The two comparisons in which a verdict weighs the same: which rule, and less which one."""


def rules_in(label: str) -> list[str]:
    """The rules that are compared in an environment."""
    return [rule for rule in RULES if ENVIRONMENTS[label].equal or rule not in EQUAL_WEIGHT]


def config_of(label: str, rule: str, seed: int, *, out: Path, updates: int | None = None) -> Config:
    """The settings of one run. ``updates``: None = those of the environment."""
    environment = ENVIRONMENTS[label]
    credit, payments = _credit(rule, environment)
    # Truncated work is verified and paid in all of these, so nothing is left for a critic to add to it.
    critic = ("--value={bootstrap = false}",) if rule == "turn_gae" else ()
    steps = f"--train.steps={updates or environment.updates}"
    return config_with(label, seed, out, f"{rule}-{seed}", f"--credit={credit}", steps, *critic, *payments)


def _credit(rule: str, environment: Environment) -> tuple[str, tuple[str, ...]]:
    """The section ``[credit]`` of a rule, and what it changes in the payments."""
    if rule in EQUAL_WEIGHT and environment.equal is None:
        raise ConfigError(f"'{rule}' is not compared in {environment.title}: it has no payments of equal weight")
    if rule == "rloo_heavy":
        return '{type = "rloo"}', (f"--env.rubric={environment.equal.rubric}", "--env.allow_unsafe=true")
    if rule == "capo_light":
        return f'{{type = "capo", w_process = {environment.equal.w_process!r}}}', ()
    return f'{{type = "{REFERENCE if rule == "shuffled" else rule}"}}', ()


def start_config(label: str, seed: int, *, out: Path) -> Config:
    """The settings of the run that only makes the model which all runs of a seed begin with."""
    rubric = ENVIRONMENTS[label].show_rubric
    config = config_with(label, seed, out, f"start-{seed}", *([f"--env.rubric={rubric}"] if rubric else ()))
    train, evaluation = config.train.model_copy(update={"steps": 0}), config.eval.model_copy(update={"tasks": 1})
    return config.model_copy(update={"train": train, "eval": evaluation})


def start_of(label: str, seed: int, *, out: Path) -> RunFolder:
    """The folder of that run."""
    return RunFolder(out / label / f"start-{seed}")


def shown_file(label: str, seed: int, *, out: Path) -> Path:
    """Where ``Environment.show`` writes."""
    return out / label / f"demonstrations-{seed}.jsonl"


def config_with(label: str, seed: int, out: Path, name: str, *changes: str) -> Config:
    """The settings of a run called ``name``, with ``changes`` written like options of ``turngate train``."""
    environment, folder, shown = ENVIRONMENTS[label], out / label, json.dumps(str(shown_file(label, seed, out=out)))
    start = [f"--warm_start.demonstrations={shown}"] if environment.show else []
    common = [f"--name={name}", f"--folder={folder}", f"--seed={seed}", f"--env.rubric={environment.rubric}"]
    config = load(environment.settings, [*common, *environment.changes, '--eval.splits=["heldout"]', *start, *changes])
    # the study has a control of its own
    return config.model_copy(update={"controls": (), "baselines": None})
