"""What is compared: one process reward paid in different ways, from the same model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from turngate.config.run_config import Config, load
from turngate.envs.sql.rubric import RUBRIC as SQL_RUBRIC
from turngate.rewards.gates.whole_kinds import CapProcess, NeedsOutcome
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.store.folder import RunFolder

SETTINGS = Path(__file__).parent / "settings.toml"

CORRECT = SQL_RUBRIC.rewards[0]
LOOKED_UP = FromEvidence(name="looked_up", evidence="looked_up", kind="process", weight=0.25, per_turn=True, agg="sum")
"""Every look-up pays, also one that was made before: four of them as much as a right answer."""

OUTCOME = Rubric(rewards=(CORRECT,))
"""The outcome alone."""
DIRECT = Rubric(rewards=(CORRECT, LOOKED_UP))
"""Outcome and look-ups, added up."""
GATED = DIRECT.model_copy(update={"gates": (NeedsOutcome(at_least=0.5), CapProcess(limit=LOOKED_UP.weight))})
"""The same rewards, but look-ups pay in episodes that were won, and no more than one of them earns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """One way to pay. ``rubric``: its name in this module; ``control``: the negative control that these runs are."""

    title: str
    rubric: str
    colour: str
    control: str | None = None
    unsafe: bool = False


PAYMENTS: Mapping[str, Payment] = MappingProxyType(
    {  # colours of Okabe and Ito, which people with any colour vision tell apart
        "direct": Payment(title="look-ups summed", rubric="DIRECT", colour="#D55E00", unsafe=True),
        "gated": Payment(title="look-ups gated", rubric="GATED", colour="#0072B2"),
        "outcome": Payment(title="outcome alone", rubric="OUTCOME", colour="#009E73"),
        "shuffled": Payment(
            title="gated, rewards shuffled (control)", rubric="GATED", colour="#666666", control="shuffled_reward"
        ),
    }
)


def config_of(kind: str, seed: int, *, settings: Path, out: Path, repeated: bool, updates: int | None) -> Config:
    """The settings of one run. ``updates``: None = those of the file. ``repeated``: see ``start_config``."""
    payment = PAYMENTS[kind]
    changes = [f"--env.rubric={__name__}:{payment.rubric}", *(["--env.allow_unsafe=true"] if payment.unsafe else ())]
    steps = [f"--train.steps={updates}"] if updates else ()
    return _load(settings, out, seed, f"{kind}-{seed}", *changes, *steps, repeated=repeated)


def start_config(seed: int, *, settings: Path, out: Path, repeated: bool) -> Config:
    """The settings of the run that only makes the model which all runs of a seed begin with.

    ``repeated``: it imitates demonstrations in which look-ups are made again (``shown.py``), and not the oracle.
    """
    return _load(settings, out, seed, f"start-{seed}", "--train.steps=0", "--eval.tasks=1", repeated=repeated)


def start_of(seed: int, *, out: Path) -> RunFolder:
    """The folder of that run."""
    return RunFolder(out / f"start-{seed}")


def shown_file(seed: int, *, out: Path) -> Path:
    """Where the demonstrations of a seed are written."""
    return out / f"demonstrations-{seed}.jsonl"


def _load(settings: Path, out: Path, seed: int, name: str, *changes: str, repeated: bool) -> Config:
    config = load(settings, [f"--name={name}", f"--folder={out}", f"--seed={seed}", *changes])
    # the study has a control of its own
    config = config.model_copy(update={"controls": (), "baselines": None})
    if not repeated or config.warm_start is None:
        return config
    shown = {"episodes": None, "demonstrations": shown_file(seed, out=out)}
    return config.model_copy(update={"warm_start": config.warm_start.model_copy(update=shown)})
