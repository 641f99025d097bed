"""``turngate eval``: how often a model or a server solves tasks without hints. Every episode is kept."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console

from turngate.agents.rollout import Player
from turngate.config import Config, dump, parse
from turngate.errors import ConfigError, DataError, StoreError
from turngate.evaluations import WITH_MEMORY, add_evaluation
from turngate.examine.base import Desk
from turngate.examine.facts import recorded_answer
from turngate.examine.run import Examining
from turngate.jsonl import read_json
from turngate.report.tables import wilson
from turngate.run.assemble import check_examiners
from turngate.run.environments import Environments, naming_key
from turngate.run.learners import rounded_for
from turngate.run.models import check_model, load_model
from turngate.run.room import check_room
from turngate.run.splits import overlaps_with_run
from turngate.runs import RunFolder
from turngate.store import Store, machine, write_json_atomic, write_text_atomic
from turngate.trainer.abstention import abstention_lines
from turngate.trainer.evaluate import Evaluation, evaluate
from turngate.trainer.guidance import MemoryGuide, MemoryGuidePart
from turngate.trainer.overlap import SplitOverlap, overlap_lines
from turngate.types import JSON, Guidance, ScoredGroup, Task, derive_seed

PHASE = "eval"


def settings_for(
    model: str,
    *,
    policy: Mapping[str, object],
    env_id: str,
    kwargs: Mapping[str, JSON],
    split: str,
    n_tasks: int,
    samples: int,
    seed: int,
) -> Config:
    """The config of an evaluation that options describe. A policy that has its own model does not read ``model``."""
    name = re.sub(r"[^A-Za-z0-9._]+", "-", f"{model}-{env_id.rpartition('/')[2]}-{split}").strip("-.")
    table: dict[str, Any] = {
        "name": name,
        "folder": "evaluations",
        "model": model,
        "seed": seed,
        "env": {"id": env_id, "kwargs": dict(kwargs)},
        "policy": dict(policy),
        "eval": {"splits": [split], "tasks": n_tasks, "samples": samples},
        "train": {"steps": 0},
    }
    return parse(table)


def evaluate_config(
    console: Console,
    config: Config,
    *,
    out: Path | None,
    temperatures: Sequence[float],
    memory: Path | None = None,
) -> None:
    """Play ``eval.splits`` of every environment at each temperature (0: greedy, once), print and keep the results.

    The new folder ``out``, by default evaluations/NAME, gets the config, the package versions, every episode and the
    success rates, so that ``turngate show`` and ``rescore`` read it like a run. If the evaluation fails the folder is
    removed. ``memory``: the ``memory.json`` of a run, whose rules each episode is shown. Raises ConfigError, also if
    the folder exists, and StoreError if no episode was usable.
    """
    path = Path("evaluations", config.name) if out is None else out
    shown = None if memory is None else _remembering(config, memory)
    with Environments(config.env, trained=False) as environments:
        for label, env in environments:
            for split in config.eval.splits:
                with naming_key(f"eval.splits, {label}"):
                    env.tasks.size(split)
        check_examiners(config, environments)
        overlaps, lines = _overlaps(config, environments)
        player = _player(config)
        if any(env.turn_spec.tools for _, env in environments):
            console.print(player.chat.about_tools, markup=False, highlight=False, soft_wrap=True)
        if player.chat.about_history:
            console.print(player.chat.about_history, markup=False, highlight=False, soft_wrap=True)
        with _fresh(path) as folder:
            write_json_atomic(folder.machine, machine())
            write_text_atomic(folder.config, dump(config))
            if overlaps:
                write_json_atomic(folder.overlap, {"splits": [asdict(found) for found in overlaps]})
            results = asyncio.run(_play(config, environments, player, folder, temperatures, shown))
            write_json_atomic(folder.result, {"evaluations": [_row(label, result) for label, result in results]})
    for line in [
        *(line for label, result in results for line in _lines(label, result, helped=shown is not None)),
        *overlap_lines(overlaps),
        *lines,
    ]:
        console.print(line, markup=False, highlight=False)
    console.print(
        f"kept in {path}; look at it with: turngate show {path}", markup=False, highlight=False, soft_wrap=True
    )


def _overlaps(config: Config, environments: Environments) -> tuple[list[SplitOverlap], list[str]]:
    """What the evaluated splits share with what the model was trained on, and lines for what is not known."""
    if isinstance(config.model, str) and config.policy.trainable:
        return overlaps_with_run(config.model, config, environments)
    return [], ["overlap with training: not known, because the policy brings a model of its own"]


def _player(config: Config) -> Player:
    if not config.policy.trainable:
        return config.policy.served()
    if not isinstance(config.model, str):
        raise ConfigError(
            "model is a table for a new model, which has learned nothing yet; name a trained one: --model RUN/model"
        )
    with naming_key("model"):
        check_model(config.model, config.policy)
    model, tokenizer = load_model(config.model)
    return config.policy.player(rounded_for(config, model), config.policy.chat(model, tokenizer))


def _remembering(config: Config, path: Path) -> Callable[[Task], Guidance | None]:
    """What each task is shown of the memory that a run kept, by the settings of its guide if the config has it."""
    part = config.guide if isinstance(config.guide, MemoryGuidePart) else MemoryGuidePart()
    guide = MemoryGuide(most=part.most, share=part.share)
    try:
        guide.load(read_json(path))
    except (DataError, StoreError) as error:
        raise ConfigError(f"--memory: '{path}' is not the memory.json of a run: {error}") from error
    if not guide.memory.entries:
        raise ConfigError(f"--memory: '{path}' holds no rule, so it has no effect; leave it out")
    return guide.remembered


@contextmanager
def _fresh(path: Path) -> Iterator[RunFolder]:
    """A new folder, which is removed if the block fails. Raises ConfigError for a folder that exists."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir()
    except FileExistsError:
        raise ConfigError(f"'{path}' exists already, and nothing is overwritten; choose another --out") from None
    except OSError as error:
        raise ConfigError(f"the folder '{path}' cannot be made: {error.strerror}; choose another --out") from error
    try:
        yield RunFolder(path)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


async def _play(
    config: Config,
    environments: Environments,
    player: Player,
    folder: RunFolder,
    temperatures: Sequence[float],
    memory: Callable[[Task], Guidance | None] | None,
) -> list[tuple[str, Evaluation]]:
    """Play every environment, split and temperature in turn; the result of each is on disk before the next begins."""
    sections, results = environments.sections, []
    desk = Desk(player=player, step=0, seed=config.seed, answer=recorded_answer, verdicts=folder.verdicts)
    async with (
        player.policy.running(),
        environments.worlds(config.policy.lanes) as worlds,
        Examining(config.examine, desk) as examining,
    ):
        if config.policy.trainable:
            for split in config.eval.splits:
                await check_room(environments, worlds, player.chat, player.limits, split=split)
        for label, split, temperature in product(sections, config.eval.splits, temperatures):
            named = f"{label}:{split}" if len(sections) > 1 else split
            result, played = await evaluate(
                player if temperature else player.greedy(),
                worlds,
                environments.score,
                environments.heldout(label, split, config.eval.tasks),
                split=named,
                samples=config.eval.samples if temperature else 1,
                seed=derive_seed(config.seed, PHASE, named, str(temperature)),
                examining=examining,
                reads=environments.rubrics[label].readers,
                memory=memory,
            )
            _keep(folder, result, played, PHASE if memory is None else WITH_MEMORY)
            results.append((label, result))
    return results


def _keep(folder: RunFolder, result: Evaluation, played: Sequence[ScoredGroup], kind: str) -> None:
    """Write the episodes and their result. Raises StoreError if no episode was usable."""
    if not result.success_B:
        raise StoreError(f"none of the {result.unusable} episodes was usable; the first says: {_problem(played)}")
    phase = f"{PHASE}-{result.split}-{'sampled' if result.temperature else 'greedy'}"
    Store(folder.path).write(0, played, phase=phase.replace("/", ".").replace(":", "."))
    add_evaluation(folder.path, kind, result)


def _problem(played: Sequence[ScoredGroup]) -> str:
    pairs = (pair for group in played for pair in zip(group.trajectories, group.scores, strict=True))
    return next((t.error or s.problem for t, s in pairs if t.error or s.problem), "nothing")


def _row(label: str, result: Evaluation) -> dict[str, JSON]:
    """The numbers of an evaluation. ``rate`` is of usable episodes; ``rate_of_all`` counts unusable ones as failed.

    ``tasks`` and ``questions`` are distinct ones.
    """
    n, successes = len(result.success_B), sum(result.success_B)
    low, high = wilson(successes, n)
    return {
        "env": label,
        "split": result.split,
        "temperature": result.temperature,
        "tasks": result.tasks,
        "questions": result.questions,
        "episodes": result.episodes,
        "solved": successes,
        "usable": n,
        "unusable": result.unusable,
        "rate": successes / n,
        "rate_low": low,
        "rate_high": high,
        "rate_of_all": result.rate_of_all,
        "abstention": None if result.abstention is None else {k: dict(v) for k, v in result.abstention.items()},
    }


def _lines(label: str, result: Evaluation, *, helped: bool) -> list[str]:
    """The result of an evaluation, and where some tasks have no answer, who answered and who held back."""
    table = [] if result.abstention is None else abstention_lines(result.abstention)
    return [_line(label, result, helped=helped), *(f"  {line}" for line in table)]


def _line(label: str, result: Evaluation, *, helped: bool) -> str:
    n, successes = len(result.success_B), sum(result.success_B)
    low, high = wilson(successes, n)
    of_all = f", {result.rate_of_all:.1%} if they count as failures" if result.unusable else ""
    return (
        f"{label} {result.split.removeprefix(f'{label}:')}, temperature {result.temperature:g}: {successes} of {n} "
        f"solved {WITH_MEMORY if helped else 'unaided'} = {successes / n:.1%} (95 % interval {low:.1%} to {high:.1%}); "
        f"{result.tasks} tasks, {result.questions} distinct questions, {result.episodes} episodes, "
        f"{result.unusable} unusable{of_all}"
    )
