"""What is compared: ways to learn from a store alone, the best of them with some playing on top, and playing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from turngate.config.run_config import Config, load
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.store.folder import RunFolder

HERE = Path(__file__).parent
READABLE = Rubric(rewards=(FromEvidence(name="parsed", evidence="parsed", kind="outcome", agg="mean"),))
"""What makes a demonstration of the lock worth imitating: that every turn can be read, whichever key it presses."""

START, STORE, ONLINE, ON_TOP = "start", "store", "online", "on_top"
STORE_SEED = 1000
"""Added to the seed of the run that records, so that it plays otherwise than the run that learns online."""
EXTRA = 0.2
"""Played updates on top of the best way to learn from the store, as a share of the updates before them."""
IMITATION = '--loss={objective = "imitation", aggregate = "sequence"}'
NO_POLICY_LOSS = '--loss={objective = "none"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to learn. ``changes``: what it sets beside the settings that all share."""

    title: str
    colour: str
    changes: tuple[str, ...] = ()


OFFLINE: Mapping[str, Arm] = MappingProxyType(
    {  # colours of Okabe and Ito, which people with any colour vision tell apart
        "bc": Arm(title="BC of everything", colour="#999999", changes=('--credit="imitate"', IMITATION)),
        "filtered_bc": Arm(
            title="filtered BC",
            colour="#E69F00",
            changes=('--credit="imitate"', IMITATION, '--train.filters=["successes"]'),
        ),
        "awr": Arm(title="AWR", colour="#56B4E9", changes=('--credit={type = "awr", beta = 0.3}', IMITATION)),
        "a_lol": Arm(
            title="A-LoL",
            colour="#009E73",
            changes=('--credit="a_lol"', '--loss={objective = "a_lol", aggregate = "sequence"}'),
        ),
        "dpo": Arm(
            title="DPO",
            colour="#0072B2",
            changes=(
                NO_POLICY_LOSS,
                '--auxiliary=[{type = "pairs", winners = "all", span = "difference", imitated = 0.1}]',
            ),
        ),
        "cpl": Arm(
            title="CPL", colour="#CC79A7", changes=(NO_POLICY_LOSS, '--auxiliary=[{type = "cpl", span = "difference"}]')
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where they are compared.

    ``settings``: the config that all runs share. ``played``: what runs that play set. ``recording``: what the run sets
    that makes the store. ``shows``: whether the study writes demonstrations that err; else the oracle's are imitated.
    """

    title: str
    settings: Path
    played: tuple[str, ...]
    recording: tuple[str, ...]
    validation_tasks: int = 100
    shows: bool = False


ENVIRONMENTS: Mapping[str, Environment] = MappingProxyType(
    {
        "lock": Environment(
            title="a lock of six dials",
            settings=HERE / "lock.toml",
            played=('--credit="rloo"', '--loss.aggregate="sequence"'),
            recording=("--learner.lr=2e-4",),
            shows=True,
        ),
        "sql": Environment(
            title="questions about databases",
            settings=HERE / "sql.toml",
            played=('--credit="gigpo"', '--loss.aggregate="sequence"'),
            recording=("--learner.lr=2e-4",),
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One run of the study: ``arm`` is the name of an ``OFFLINE`` one, or one of the four names above.

    ``settings``: the config; None = the environment's. ``updates``: None = those of the file. ``best``: of a run on
    top, the arm whose model it begins with.
    """

    place: str
    arm: str
    seed: int
    out: Path
    settings: Path | None = None
    updates: int | None = None
    best: str = ""

    @property
    def folder(self) -> RunFolder:
        """Where it is."""
        return self.beside(self.arm)

    def beside(self, arm: str) -> RunFolder:
        """Where another run of the same seed is."""
        return RunFolder(self.out / self.place / f"{arm}-{self.seed}")

    @property
    def shown(self) -> Path:
        """Where the demonstrations of a lock are."""
        return self.out / self.place / f"demonstrations-{self.seed}.jsonl"


def config_of(wanted: Wanted) -> Config:
    """The settings of one run."""
    environment, arm = ENVIRONMENTS[wanted.place], wanted.arm
    steps = wanted.updates or _load(wanted).train.steps
    changes = [f"--train.steps={steps}"]
    validation = f"--train.validation={{tasks = {environment.validation_tasks}, every = {steps // 2}, keep = 'last'}}"
    if arm == START:
        wrong = (f'--env.rubric="{__name__}:READABLE"',) if environment.shows else ()
        changes = ["--train.steps=0", "--eval.tasks=1", *wrong]
    elif arm == STORE:
        changes += [*environment.played, *environment.recording, "--eval.tasks=1", f"--seed={wanted.seed + STORE_SEED}"]
    elif arm == ONLINE:
        changes += [*environment.played, validation]
    elif arm == ON_TOP:
        changes = [f"--train.steps={max(1, round(EXTRA * steps))}", *environment.played]
        model = str(wanted.beside(wanted.best).model)
        return _load(wanted, *changes).model_copy(update={"model": model, "warm_start": None})
    else:
        store = wanted.beside(STORE).path
        changes += [f'--episodes={{type = "stored", runs = ["{store}"]}}', validation, *OFFLINE[arm].changes]
    return _load(wanted, *changes)


def _load(wanted: Wanted, *changes: str) -> Config:
    environment, folder = ENVIRONMENTS[wanted.place], wanted.folder.path
    shown = [f'--warm_start.demonstrations="{wanted.shown}"'] if environment.shows else []
    fixed = [f"--name={folder.name}", f"--folder={folder.parent}", f"--seed={wanted.seed}"]
    rare = "--train.checkpoint_every=1000"  # the last step is always kept
    return load(wanted.settings or environment.settings, [*fixed, *shown, rare, *changes])
