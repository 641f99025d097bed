"""Learn again from the recorded episodes of a training step, from the checkpoint before it, and compare bit for bit.

The update is the very function that trained (``turngate.trainer.step.update``): filters, signals, credit, packing and
the learner. Inputs of the step that the store does not hold are refused by name.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from turngate.config.run_config import Config
from turngate.errors import ReplayRefused, StoreError
from turngate.run.assembly.assemble import learning_run
from turngate.run.assembly.credit import answer_of
from turngate.run.assembly.models import be_deterministic, load_model
from turngate.run.assembly.target_policy import started_from
from turngate.run.environments import Environments
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import Clock, read_metrics
from turngate.trainer.checkpoint import STATE, Checkpoints
from turngate.trainer.offline.sources import Waves
from turngate.trainer.step import Collected, update
from turngate.types import ScoredGroup

OF_THE_SAMPLER = "canary/"
"""Metrics that compare with the sampler: those of a step are of the weights that it published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A number, or an array of numbers, that differs: both sides in words."""

    name: str
    recorded: str
    replayed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedUpdate:
    """``n_arrays`` of the learner's state (weights, optimizer, critic, reward model) and ``n_metrics`` were
    compared."""

    step: int
    n_arrays: int
    n_metrics: int
    differences: tuple[Difference, ...]


def replay_update_of(folder: RunFolder, config: Config, step: int) -> ReplayedUpdate:
    """Learn training step ``step`` again. Raises ReplayRefused, and what the update raised."""
    refuse_unrecorded(config)
    _refuse_without_checkpoints(folder, step)
    _refuse_gpu()
    be_deterministic()
    with Environments(config.env) as environments, tempfile.TemporaryDirectory() as scratch:
        return asyncio.run(_learned(folder, config, environments, step, Path(scratch)))


def refuse_unrecorded(config: Config) -> None:
    """Raise ReplayRefused for inputs of a step that no store holds."""
    if config.episodes.type != "played":
        raise ReplayRefused(
            f'the run learned from episodes that it did not play (episodes.type = "{config.episodes.type}"), which are '
            "not recorded step by step; its updates cannot be replayed"
        )
    if config.auxiliary:
        names = ", ".join(f"'{part.type}'" for part in config.auxiliary)
        raise ReplayRefused(
            f"the run learned beside its episodes from [[auxiliary]] {names}, whose rows are not recorded; its updates "
            "cannot be replayed"
        )


def replayable_steps(folder: RunFolder) -> list[int]:
    """The training steps whose update can be replayed: those with checkpoints after them and, but for 1, before."""
    saved = set(Checkpoints(folder.checkpoints).steps())
    return sorted(step for step in saved if step == 1 or step - 1 in saved)


def _refuse_without_checkpoints(folder: RunFolder, step: int) -> None:
    possible = replayable_steps(folder)
    if step in possible:
        return
    saved = Checkpoints(folder.checkpoints).steps()
    which = f"those of steps {', '.join(map(str, possible))} can be replayed" if possible else "none can be replayed"
    missing = [at for at in (step - 1, step) if at and at not in saved]
    raise ReplayRefused(
        f"update {step} needs a checkpoint of step {' and of step '.join(map(str, missing))}, and there are those of "
        f"steps {', '.join(map(str, saved)) or 'none'}: {which}; the last two are kept, at every "
        "train.checkpoint_every steps"
    )


def _refuse_gpu() -> None:
    import torch

    if torch.cuda.is_available():
        raise ReplayRefused(
            "on a GPU the sums of a gradient depend on the timing of its threads, so no update repeats bit for bit; "
            "replay one that was made on a CPU, with CUDA_VISIBLE_DEVICES= "
        )


async def _learned(
    folder: RunFolder, config: Config, environments: Environments, step: int, scratch: Path
) -> ReplayedUpdate:
    model, tokenizer = load_model(started_from(folder, config))
    control = folder.path.name if folder.path.parent.name == "controls" and folder.owner is not None else None
    async with environments.worlds(1) as worlds:
        run, _ = learning_run(
            config,
            environments,
            model,
            config.policy.chat(model, tokenizer),
            worlds,
            folder=RunFolder(scratch),
            control=control,
            answer=answer_of(config, environments),
        )
    checkpoints, others = Checkpoints(folder.checkpoints), dict(run.signals.learners)
    if step > 1:
        checkpoints.load(step - 1, run.learner, {**others, **run.reset.checkpointed})
    groups = [_whole(environments, group) for group in Store(folder.path).read(step, "train")]
    found = update(run, _collected(groups, config, step)).metrics
    compared, differences = 0, list(_metrics_differ(found, _row(folder, step)))
    for name, learner in {STATE: run.learner, **others}.items():
        learner.save(scratch / f"{name}.pt")
        kept = checkpoints.path_of(step) / f"{name}.pt"
        n, differ = states_differ(kept, scratch / f"{name}.pt")
        compared += n
        differences += differ
    n_metrics = sum(not name.startswith(OF_THE_SAMPLER) for name in found)
    return ReplayedUpdate(step=step, n_arrays=compared, n_metrics=n_metrics, differences=tuple(differences))


def _whole(environments: Environments, group: ScoredGroup) -> ScoredGroup:
    """The recorded group with the private data of its task, which some signals read."""
    task = environments.find(group.task.id)
    return replace(group, task=task, trajectories=tuple(replace(one, task=task) for one in group.trajectories))


def _collected(groups: list[ScoredGroup], config: Config, step: int) -> Collected:
    return Collected(
        step=step,
        n_tasks=config.train.tasks_per_step,
        waves=Waves(groups=groups, played=groups, unused=[], metrics={}),
        auxiliary=(),
        found={},
        observed={},
        clock=Clock(),
    )


def _row(folder: RunFolder, step: int) -> Mapping[str, float]:
    for row in read_metrics(folder.metrics):
        if int(row["step"]) == step:
            return row
    raise StoreError(f"'{folder.metrics}' has no line of step {step}")


def _metrics_differ(found: Mapping[str, float], recorded: Mapping[str, float]) -> Iterator[Difference]:
    for name, value in found.items():
        old = recorded.get(name)
        if not name.startswith(OF_THE_SAMPLER) and (old is None or repr(float(old)) != repr(float(value))):
            yield Difference(name=name, recorded="not recorded" if old is None else repr(old), replayed=repr(value))


def states_differ(kept: Path, found: Path) -> tuple[int, list[Difference]]:
    """How many arrays and numbers two saved states of a learner have, and which of them differ in any bit."""
    import torch

    from turngate.trainer.torch.shards import read_state

    cpu = torch.device("cpu")
    one, other = (dict(_leaves(read_state(path, cpu))) for path in (kept, found))
    differ = []
    for name in one.keys() | other.keys():
        a, b = one.get(name), other.get(name)
        if not _same(a, b):
            differ.append(Difference(name=name, recorded=_in_words(a, b), replayed=_in_words(b, a)))
    return len(one), sorted(differ, key=lambda difference: difference.name)


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every array or number of nested mappings and sequences, by its place."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(tree, list | tuple):
        for key, value in enumerate(tree):
            yield from _leaves(value, f"{path}.{key}")
    else:
        yield path, tree


def _same(one: Any, other: Any) -> bool:
    import torch

    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        return torch.equal(*(each.contiguous().reshape(-1).view(torch.uint8) for each in (one, other)))
    return type(one) is type(other) and repr(one) == repr(other)


def _in_words(one: Any, other: Any) -> str:
    """A value in words; for an array, how far it is from the other."""
    import torch

    if not isinstance(one, torch.Tensor):
        return "missing" if one is None else repr(one)
    if not isinstance(other, torch.Tensor) or one.shape != other.shape:
        return f"{one.dtype} {list(one.shape)}"
    apart = (one.double() - other.double()).abs()
    return f"{int((apart > 0).sum())} of {one.numel()} numbers differ, by up to {float(apart.max()):.3g}"
