"""What is compared: guides that help in different ways, in a lock that nobody opens by chance and on SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from examples.guidance_study.show import show_locks, show_queries
from turngate.config.run_config import Config, load
from turngate.envs.lock import COLOURS, colours_of, key_of
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.store.folder import RunFolder
from turngate.trainer.guidance.base import Guide, Helpers
from turngate.trainer.guidance.hint_guides import GuideGrpoPart
from turngate.types import Task, Trajectory

HERE = Path(__file__).parent
DIALS = 12

OPENED = Rubric(rewards=(FromEvidence(name="opened", evidence="opened", kind="outcome", levels=(0, 1)),))
"""The outcome alone: nothing says which key was wrong."""
READABLE = Rubric(rewards=(FromEvidence(name="parsed", evidence="parsed", kind="outcome", agg="mean"),))
"""What makes a demonstration of the lock worth imitating: that every turn can be read, whichever key it presses."""

# --- help that the guides get -----------------------------------------------------------------------------------------


def wrong_keys(trajectory: Trajectory) -> tuple[int, str]:
    """A reflection on a failed attempt: try again from the first turn, knowing the right keys of all wrong ones."""
    colours = colours_of(trajectory.task)
    wrong = [fact.turn for fact in trajectory.evidence if fact.name == "right_key" and not fact.value]
    missed = {colours[turn] for turn in wrong if turn is not None}
    return 0, f"{', '.join(f'{colour} takes {key_of(colour)}' for colour in COLOURS if colour in missed)}."


class SilentGuidePart(GuideGrpoPart):
    """The negative control: Guide-GRPO whose hint says nothing about the keys."""

    type: Literal["silent"] = "silent"

    def open(self, helpers: Helpers) -> Guide:
        """Guide-GRPO, whose hint says nothing about the keys."""
        return super().open(_Silent(helpers.seed))


@dataclass(frozen=True, slots=True)
class _Silent:
    seed: int

    def hint(self, task: Task, level: int) -> str | None:
        return "Every dial takes one key." if level <= self.hint_levels(task) else None

    def hint_levels(self, task: Task) -> int:
        return 3

    def solutions(self, task: Task) -> Sequence[Sequence[str]]:
        return ()

    def secrets(self, task: Task) -> Sequence[str]:
        return ()


# --- what is compared -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Help:
    """One way to help. ``guide``: the table of the config. ``as_many_steps``: the run gets as many updates as it takes
    to play as many environment steps as the run of its seed that plays most."""

    title: str
    guide: str
    colour: str
    as_many_steps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where the guides are compared.

    ``settings``: the config, into which the study puts guide and seed. ``show``: writes the demonstrations of a seed
    for such a config. ``start``: changes of the run that makes the model which all others begin with.
    """

    title: str
    settings: Path
    show: Callable[[Path, int, Config], None]
    help: Mapping[str, Help]
    start: tuple[str, ...] = ()


LOCK_HELP: Mapping[str, Help] = MappingProxyType(
    {  # colours of Okabe and Ito, which people with any colour vision tell apart
        "plain": Help(title="GRPO, no help", guide='{type = "none"}', colour="#000000"),
        "ladder": Help(
            title="hint ladder", guide='{type = "ladder", exempt_steps = 0, strip = true}', colour="#E69F00"
        ),
        "guide": Help(title="Guide-GRPO", guide='{type = "guide", level = 3, joining = 2}', colour="#56B4E9"),
        "bread": Help(title="oracle prefix (BREAD)", guide='{type = "bread"}', colour="#009E73"),
        "reverse": Help(
            title="reverse curriculum",
            guide='{type = "reverse_curriculum", by = "env", start = 11, high = 0.5}',
            colour="#D55E00",
        ),
        "reflect": Help(
            title="reflect and retry", guide=f'{{type = "reflect", writer = "{__name__}:wrong_keys"}}', colour="#CC79A7"
        ),
        "silent": Help(
            title="Guide-GRPO, hints that say nothing (control)",
            guide=f'{{type = "{__name__}:SilentGuidePart", level = 3, joining = 2}}',
            colour="#999999",
        ),
    }
)
SQL_HELP: Mapping[str, Help] = MappingProxyType(
    {
        "plain": Help(title="no help", guide='{type = "none"}', colour="#000000"),
        "longer": Help(
            title="no help, as many environment steps", guide='{type = "none"}', colour="#999999", as_many_steps=True
        ),
        "ladder": LOCK_HELP["ladder"],
        "bread": LOCK_HELP["bread"],
    }
)
ENVIRONMENTS: Mapping[str, Environment] = MappingProxyType(
    {
        "lock": Environment(
            title="a lock of twelve dials",
            settings=HERE / "lock.toml",
            show=partial(show_locks, dials=DIALS),
            help=LOCK_HELP,
            start=(f"--env.rubric={__name__}:READABLE",),
        ),
        "sql": Environment(
            title="questions whose literals have to be looked up",
            settings=HERE / "sql.toml",
            show=show_queries,
            help=SQL_HELP,
        ),
    }
)


def config_of(place: str, kind: str, seed: int, *, settings: Path, out: Path, updates: int | None) -> Config:
    """The settings of one run. ``updates``: None = those of the file."""
    steps = [f"--train.steps={updates}", f"--train.checkpoint_every={updates}"] if updates else []
    guide = ENVIRONMENTS[place].help[kind].guide
    return _load(settings, out, seed, f"{kind}-{seed}", f"--guide={guide}", *steps)


def start_config(place: str, seed: int, *, settings: Path, out: Path) -> Config:
    """The settings of the run that only makes the model which all runs of a seed begin with."""
    return _load(settings, out, seed, f"start-{seed}", *ENVIRONMENTS[place].start, "--train.steps=0", "--eval.tasks=1")


def start_of(seed: int, *, out: Path) -> RunFolder:
    """The folder of that run."""
    return RunFolder(out / f"start-{seed}")


def shown_file(seed: int, *, out: Path) -> Path:
    """Where the demonstrations of a seed are."""
    return out / f"demonstrations-{seed}.jsonl"


def _load(settings: Path, out: Path, seed: int, name: str, *changes: str) -> Config:
    shown = f'--warm_start.demonstrations="{shown_file(seed, out=out)}"'
    return load(settings, [f"--name={name}", f"--folder={out}", f"--seed={seed}", shown, *changes])
