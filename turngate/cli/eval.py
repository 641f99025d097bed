"""``turngate eval``: how often a model or a server solves tasks without hints. Every episode is kept."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from math import exp
from pathlib import Path
from typing import Any

from rich.console import Console

from turngate.agents.rollout import Player
from turngate.config.run_config import Config, dump, parse
from turngate.errors import ConfigError, StoreError
from turngate.judges.examiners.base import ExamineContext
from turngate.judges.examiners.examining import Examining
from turngate.judges.examiners.facts import recorded_answer
from turngate.progress_bar import Progress
from turngate.report.best_of import (
    Chooser,
    ChosenAt,
    PlayedEpisode,
    by_likelihood,
    by_verifier,
    by_vote,
    by_weighted_vote,
    chosen_curve,
    chosen_lines,
    played_episodes,
)
from turngate.report.difficulty import by_difficulty, difficulty_lines, pass_rates
from turngate.report.intervals import Interval, SuccessCount, by_question, rate_by_question
from turngate.report.pass_at import pass_curve, pass_line
from turngate.report.stated_odds import CalibrationScores, calibration, calibration_line
from turngate.run.assembly.assemble import check_examiners
from turngate.run.assembly.learners import rounded_for
from turngate.run.assembly.memory_file import read_memory, recalling
from turngate.run.assembly.models import check_model, load_model
from turngate.run.checks.context_fit import check_room
from turngate.run.checks.feeders import check_feeders
from turngate.run.checks.split_overlap import overlaps_with_run
from turngate.run.environments import Environments, naming_key
from turngate.run.start.examples import with_examples
from turngate.store import Store, machine, write_json_atomic, write_text_atomic
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.abstention import abstention_lines
from turngate.trainer.evaluation.evaluate import Evaluation, evaluate
from turngate.trainer.evaluation.evaluations_file import WITH_MEMORY, add_evaluation, withheld_line
from turngate.trainer.evaluation.overlap import SplitOverlap, overlap_lines
from turngate.trainer.guidance.experience_memory import Recalled
from turngate.types import JSON, ScoredGroup, Task, derive_seed

PHASE = "eval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """Further results that are printed beside the success rate, on demand.

    ``best_of``, ``vote``: what choosing one of the episodes of a task reaches. ``base``: a run and a phase of it, as
    RUN/PHASE, by whose success tasks are put into buckets.
    """

    best_of: bool = False
    vote: bool = False
    base: Path | None = None

    def rates(self) -> Mapping[str, SuccessCount]:
        """How often the base policy solved each task; empty without one. Raises ConfigError for a phase without any."""
        if self.base is None:
            return {}
        run, phase = self.base.parent, self.base.name
        phases = Store(run).phases() if run.is_dir() else []
        if phase not in phases:
            known = f"recorded: {', '.join(phases)}" if phases else "nothing is recorded there"
            raise ConfigError(f"--buckets: '{run}' has no episodes of phase '{phase}'; {known}")
        return pass_rates(Store(run).read(phase=phase))

    def choosers(self) -> dict[str, Chooser]:
        """The ways of choosing that are compared with the first episode; empty where none is asked for."""
        best: dict[str, Chooser] = {"by verifier": by_verifier, "by likelihood": by_likelihood} if self.best_of else {}
        votes: dict[str, Chooser] = {"by vote": by_vote, "by weighted vote": by_weighted_vote} if self.vote else {}
        return {"first": lambda block: block[0]} | best | votes if best or votes else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One evaluation with its further results."""

    label: str
    evaluation: Evaluation
    episodes: Sequence[PlayedEpisode]
    stated: CalibrationScores | None
    likelihood: CalibrationScores | None
    chosen: Mapping[int, ChosenAt]


def _placed(config: Config) -> Config:
    """The config with the place of its model from the root on: code of an environment may change the current one."""
    if not isinstance(config.model, str) or not Path(config.model).exists():
        return config
    return config.model_copy(update={"model": str(Path(config.model).absolute())})


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
    further: Further = Further(),
) -> None:
    """Play ``eval.splits`` of every environment at each temperature (0: greedy, once), print and keep the results.

    The new folder ``out``, by default evaluations/NAME, gets the config, the package versions, every episode and the
    success rates, so that ``turngate show`` and ``rescore`` read it like a run. If the evaluation fails the folder is
    removed. ``memory``: the ``memory.json`` of a run, whose rules each episode is shown, but for those that hold the
    answer of its task. ``further``: see the class. Raises ConfigError, also if the folder exists, and StoreError if no
    episode was usable.
    """
    path = Path("evaluations", config.name) if out is None else out
    here = Path.cwd()  # an environment may change it
    state = None if memory is None else read_memory(memory)
    if further.choosers() and (config.eval.samples < 2 or not any(temperatures)):
        raise ConfigError(
            "--best-of and --vote choose among episodes of a task, and each is played once; set --samples"
        )
    rates = further.rates()
    placed = _placed(config)
    with Environments(config.env, trained=False, cluster=config.cluster) as environments:
        for label, env in environments:
            for split in config.eval.splits:
                with naming_key(f"eval.splits, {label}"):
                    env.tasks.size(split)
        check_examiners(config, environments)
        check_feeders(config, environments)
        overlaps, lines = _overlaps(placed, environments)
        player = _player(placed)
        shown = None if state is None else recalling(config, state, environments, player.chat.tool_format)
        if any(env.turn_spec.tools for _, env in environments):
            console.print(player.chat.about_tools, markup=False, highlight=False, soft_wrap=True)
        if player.chat.about_history:
            console.print(player.chat.about_history, markup=False, highlight=False, soft_wrap=True)
        with fresh_folder(path, here) as folder:
            write_json_atomic(folder.machine, machine())
            write_text_atomic(folder.config, dump(config))
            if overlaps:
                write_json_atomic(folder.overlap, {"splits": [asdict(found) for found in overlaps]})
            results = asyncio.run(_play(config, environments, player, folder, temperatures, shown, further, console))
            write_json_atomic(folder.result, {"evaluations": [_row(result, rates) for result in results]})
    for line in [
        *(line for result in results for line in _lines(result, rates, further.base, helped=shown is not None)),
        *overlap_lines(overlaps),
        *lines,
    ]:
        console.print(line, markup=False, highlight=False)
    console.print(
        f"kept in {path}; look at it with: turngate show {path}", markup=False, highlight=False, soft_wrap=True
    )


def _overlaps(config: Config, environments: Environments) -> tuple[list[SplitOverlap], list[str]]:
    """What the evaluated splits share with the training tasks of the model, and lines on unknown cases."""
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


@contextmanager
def fresh_folder(path: Path, start: Path) -> Iterator[RunFolder]:
    """A new folder, which is removed if the block fails. A relative ``path`` begins in ``start``.

    Raises ConfigError for a folder that exists.
    """
    folder = start / path
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
    except FileExistsError:
        raise ConfigError(f"'{path}' exists already, and nothing is overwritten; choose another --out") from None
    except OSError as error:
        raise ConfigError(f"the folder '{path}' cannot be made: {error.strerror}; choose another --out") from error
    try:
        yield RunFolder(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


async def _play(
    config: Config,
    environments: Environments,
    player: Player,
    folder: RunFolder,
    temperatures: Sequence[float],
    memory: Callable[[Task], Recalled] | None,
    further: Further,
    console: Console,
) -> list[Result]:
    """Play every environment, split and temperature in turn; the result of each is on disk before the next begins."""
    sections, results = environments.sections, []
    async with AsyncExitStack() as stack:
        worlds = await stack.enter_async_context(environments.worlds(config.policy.concurrency))
        player = player.talking(await with_examples(config, environments, worlds, player.chat))
        desk = ExamineContext(player=player, step=0, seed=config.seed, answer=recorded_answer, verdicts=folder.verdicts)
        await stack.enter_async_context(player.policy.running())
        examining = await stack.enter_async_context(Examining(config.examine, desk))
        if config.policy.trainable:
            for split in config.eval.splits:
                await check_room(environments, worlds, player.chat, player.limits, split=split)
        for label, split, temperature in product(sections, config.eval.splits, temperatures):
            named = f"{label}:{split}" if len(sections) > 1 else split
            how = "sampled" if temperature else "greedy"
            with Progress(console, f"{named}, {how}", transient=True) as progress:
                result, played = await evaluate(
                    player.at(temperature) if temperature else player.greedy(),
                    worlds,
                    environments.score,
                    environments.heldout(label, split, config.eval.tasks),
                    split=named,
                    samples=config.eval.samples if temperature else 1,
                    seed=derive_seed(config.seed, PHASE, named, str(temperature)),
                    examining=examining,
                    reads=environments.rubrics[label].readers,
                    memory=memory,
                    told=progress.episodes,
                )
            _keep(folder, result, played, PHASE if memory is None else WITH_MEMORY)
            results.append(_further_results(label, result, played_episodes(played), further))
    return results


def _further_results(label: str, result: Evaluation, episodes: Sequence[PlayedEpisode], further: Further) -> Result:
    """The further results of an evaluation, beside its rate."""
    question = dict(zip(result.task_B, result.question_B, strict=True))

    def fits(confidences: Sequence[float | None]) -> CalibrationScores | None:
        known = [
            (c, one.success, question[one.task]) for c, one in zip(confidences, episodes, strict=True) if c is not None
        ]
        return calibration(*map(list, zip(*known, strict=True))) if known else None

    return Result(
        label=label,
        evaluation=result,
        episodes=episodes,
        stated=fits([one.stated for one in episodes]),
        likelihood=fits([None if one.logprob is None else min(1.0, exp(one.logprob)) for one in episodes]),
        chosen=chosen_curve(episodes, question, choosers) if (choosers := further.choosers()) else {},
    )


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


def _row(told: Result, rates: Mapping[str, SuccessCount]) -> dict[str, JSON]:
    """The numbers of an evaluation. ``rate`` is of usable episodes; ``rate_of_all`` counts unusable ones as failed.

    ``tasks`` and ``questions`` are distinct ones; ``pass_at``: pass@k by k, empty where a task was played once;
    ``chosen``: what choosing one of k reaches, by k; ``calibration``: of the stated confidence, and of the mean
    probability of an episode's tokens, null where there is none; ``buckets``: by the base policy's pass rate;
    ``withheld_rules`` and ``withheld_tasks``: of an experience memory, see ``Evaluation``.
    """
    label, result = told.label, told.evaluation
    n, successes = len(result.success_B), sum(result.success_B)
    _, low, high = rate_by_question(by_question(result.question_B, result.success_B))
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
        "pass_at": {
            str(k): dict(at._asdict())
            for k, at in pass_curve(result.task_B, result.question_B, result.success_B).items()
        },
        "chosen": {
            str(k): {"tokens": at.tokens, "success": {name: dict(of._asdict()) for name, of in at.success.items()}}
            for k, at in told.chosen.items()
        },
        "calibration": {"stated": _scores(told.stated), "likelihood": _scores(told.likelihood)},
        "buckets": {name: {"tasks": n, **rate._asdict()} for name, (n, rate) in _buckets(result, rates).items()},
        "abstention": None if result.abstention is None else {k: dict(v) for k, v in result.abstention.items()},
        "withheld_rules": result.withheld_rules,
        "withheld_tasks": result.withheld_tasks,
    }


def _scores(found: CalibrationScores | None) -> JSON:
    if found is None:
        return None
    scores = {"error": found.error, "brier": found.brier, "auroc": found.auroc}
    return {"episodes": found.n, **{name: None if at is None else dict(at._asdict()) for name, at in scores.items()}}


def _buckets(result: Evaluation, rates: Mapping[str, SuccessCount]) -> dict[str, tuple[int, Interval]]:
    return by_difficulty(rates, result.task_B, result.question_B, result.success_B) if rates else {}


def _lines(told: Result, rates: Mapping[str, SuccessCount], base: Path | None, *, helped: bool) -> list[str]:
    """The result of an evaluation; pass@k where tasks were played more than once; what choosing one of k reaches; how
    stated confidence fits; buckets of difficulty; and where some tasks have no answer, who answered and who held
    back; and what of a memory was withheld."""
    result = told.evaluation
    curve = pass_line(pass_curve(result.task_B, result.question_B, result.success_B))
    silent = sum(one.may_state and one.stated is None for one in told.episodes)
    lines = [*([curve] if curve else []), *chosen_lines(told.chosen)]
    if told.stated is not None:
        lines.append(calibration_line("stated confidence", told.stated) + f"; {silent} stated none")
    lines += difficulty_lines(_buckets(result, rates), str(base))
    lines += [] if result.abstention is None else abstention_lines(result.abstention)
    lines += [line] if (line := withheld_line(result)) else []
    return [_line(told.label, result, helped=helped), *(f"  {line}" for line in lines)]


def _line(label: str, result: Evaluation, *, helped: bool) -> str:
    n, successes = len(result.success_B), sum(result.success_B)
    _, low, high = rate_by_question(by_question(result.question_B, result.success_B))
    of_all = f", {result.rate_of_all:.1%} if they count as failures" if result.unusable else ""
    return (
        f"{label} {result.split.removeprefix(f'{label}:')}, temperature {result.temperature:g}: {successes} of {n} "
        f"solved {WITH_MEMORY if helped else 'unaided'} = {successes / n:.1%} (95 % interval {low:.1%} to {high:.1%}); "
        f"{result.tasks} tasks, {result.questions} distinct questions, {result.episodes} episodes, "
        f"{result.unusable} unusable{of_all}"
    )
