"""What is compared: guides that help in different ways in a lock that nobody opens by chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from turngate.config import Config, load
from turngate.envs.lock import COLOURS, colours_of, key_of
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.runs import RunFolder
from turngate.trainer.guidance import Guide, GuideGrpoPart, Helpers
from turngate.types import Task, Trajectory

SETTINGS = Path(__file__).parent / "lock.toml"
DIALS = 12
SHOWN = 800

OPENED = Rubric(rewards=(FromEvidence(name="opened", evidence="opened", kind="outcome", levels=(0, 1)),))
"""The outcome alone: nothing says which key was wrong."""
READABLE = Rubric(rewards=(FromEvidence(name="parsed", evidence="parsed", kind="outcome", agg="mean"),))
"""What makes a demonstration worth imitating: that every turn can be read, whichever key it presses."""

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
        """See ``GuideGrpoPart``."""
        return super().open(_Silent())


class _Silent:
    def hint(self, task: Task, level: int) -> str | None:
        return "Every dial takes one key." if level <= self.hint_levels(task) else None

    def hint_levels(self, task: Task) -> int:
        return 3

    def solutions(self, task: Task) -> Sequence[Sequence[str]]:
        return ()


# --- what is compared -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Help:
    """One way to help. ``guide``: the table of the config."""

    title: str
    guide: str
    colour: str


HELP: Mapping[str, Help] = MappingProxyType(
    {  # colours of Okabe and Ito, which people with any colour vision tell apart
        "plain": Help(title="GRPO, no help", guide='{type = "none"}', colour="#000000"),
        "ladder": Help(
            title="hint ladder", guide='{type = "ladder", exempt_steps = 0, strip = true}', colour="#E69F00"
        ),
        "guide": Help(title="Guide-GRPO", guide='{type = "guide", level = 3, joining = 2}', colour="#56B4E9"),
        "bread": Help(title="oracle prefix (BREAD)", guide='{type = "bread"}', colour="#009E73"),
        "reverse": Help(
            title="reverse curriculum",
            guide='{type = "reverse_curriculum", by = "env", start = 10, high = 0.6}',
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


def config_of(kind: str, seed: int, *, settings: Path, out: Path, updates: int | None) -> Config:
    """The settings of one run. ``updates``: None = those of the file."""
    steps = [f"--train.steps={updates}", f"--train.checkpoint_every={updates}"] if updates else []
    return _load(settings, out, seed, f"{kind}-{seed}", f"--guide={HELP[kind].guide}", *steps)


def start_config(seed: int, *, settings: Path, out: Path) -> Config:
    """The settings of the run that only makes the model which all runs of a seed begin with."""
    rubric = f"--env.rubric={__name__}:READABLE"
    return _load(settings, out, seed, f"start-{seed}", rubric, "--train.steps=0", "--eval.tasks=1")


def start_of(seed: int, *, out: Path) -> RunFolder:
    """The folder of that run."""
    return RunFolder(out / f"start-{seed}")


def shown_file(seed: int, *, out: Path) -> Path:
    """Where the demonstrations of a seed are."""
    return out / f"demonstrations-{seed}.jsonl"


def _load(settings: Path, out: Path, seed: int, name: str, *changes: str) -> Config:
    shown = f'--warm_start.demonstrations="{shown_file(seed, out=out)}"'
    return load(settings, [f"--name={name}", f"--folder={out}", f"--seed={seed}", shown, *changes])
