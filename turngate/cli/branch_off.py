"""``turngate replay RUN --branch-at TURN --policy MODEL``: another policy goes on from a turn of recorded episodes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from turngate.cli.eval import fresh_folder
from turngate.cli.replay_run import recorded_phases
from turngate.config.run_config import dump, load_run
from turngate.errors import ReplayRefused
from turngate.report.intervals import by_question, rate_by_question
from turngate.run.assembly.target_policy import playing_policy
from turngate.run.environments import Environments
from turngate.run.replay.continued_episodes import Begun, Continued, continue_from
from turngate.run.replay.replayed_actions import recorded_episodes, tool_format_of
from turngate.run.start.examples import with_examples
from turngate.store import Store, write_json_atomic, write_text_atomic
from turngate.store.folder import RunFolder
from turngate.types import JSON, ScoredGroup, derive_seed

TRAINING = "train"


def branch_episodes(
    console: Console,
    path: Path,
    policy: str,
    *,
    turn: int,
    episode: str,
    phase: str,
    step: int | None,
    limit: int | None,
    samples: int,
    seed: int,
    out: Path | None,
) -> None:
    """Continue recorded episodes from ``turn`` with ``policy``, store the results in ``out`` and print who succeeded.

    Without ``phase`` the episodes are those of training. Raises ConfigError, also if ``out`` exists; ReplayRefused.
    """
    run = RunFolder.of(path)
    store = Store.found(path)
    config = load_run(run)
    tool_format = tool_format_of(run, config)
    here = Path.cwd()  # an environment may change it
    target = run.continued(f"turn-{turn}-{Path(policy).name}").path if out is None else out
    with Environments(config.env, trained=False) as environments:
        begun, short = _begun(store, environments, turn, episode=episode, phase=phase, step=step, limit=limit)
        playing = playing_policy(policy, config)
        if playing.player.chat.tool_format != tool_format:
            raise ReplayRefused(
                f"'{policy}' writes calls in {playing.player.chat.tool_format or 'any'} tool format, recorded turns "
                f"are in {tool_format or 'any'}; name a policy with the same chat template"
            )

        async def work() -> Continued:
            shown = config.model_copy(update={"policy": playing.part})
            async with playing.player.policy.running(), environments.worlds(config.policy.concurrency) as worlds:
                chat = await with_examples(shown, environments, worlds, playing.player.chat)
                player = playing.player.talking(chat)
                if playing.weights is not None:
                    await player.policy.publish(playing.weights, 0)
                return await continue_from(
                    begun,
                    turn,
                    config=config,
                    environments=environments,
                    worlds=worlds,
                    player=player,
                    samples=samples,
                    seed=derive_seed(seed, "branch"),
                )

        with fresh_folder(target, here) as folder:
            found = asyncio.run(work())
            write_text_atomic(folder.config, dump(config))
            if run.machine.exists():  # it names the modules that the config needs
                shutil.copyfile(run.machine, folder.machine)
            Store(folder.path).write(0, found.groups, phase="continued")
            write_json_atomic(folder.result, _rates(found, path, policy, turn, short))
    for line in _summary_lines(found, playing.label, turn, short):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"kept in {target}; look at it with: turngate show {target}", markup=False, highlight=False, soft_wrap=True
    )


def _begun(
    store: Store,
    environments: Environments,
    turn: int,
    *,
    episode: str,
    phase: str,
    step: int | None,
    limit: int | None,
) -> tuple[list[Begun], int]:
    """The episodes to go on from, and how many are left out because they are over before ``turn`` or cannot be begun
    again. Raises ReplayRefused where none is left."""
    begun, left_out = list[Begun](), 0
    for at, groups in _groups_of(store, episode, phase or TRAINING, step):
        known = {one.id: one for group in store.read(at) for one in group.trajectories}
        scores = {t.id: s for group in groups for t, s in zip(group.trajectories, group.scores, strict=True)}
        for one in recorded_episodes(environments, groups, known):
            recorded = one.trajectory
            if episode and recorded.id != episode:
                continue
            usable = recorded.ending.usable and scores[recorded.id].usable
            if len(recorded.turns) <= turn or not usable or one.new_attempt or one.seed is None:
                left_out += 1
            elif limit is None or len(begun) < limit:
                begun.append(Begun(episode=one, score=scores[recorded.id]))
    if not begun:
        raise ReplayRefused(
            f"no episode can be continued from turn {turn}: {left_out} are over by then, broke, or began with another "
            "attempt; turns are counted from 0"
        )
    return begun, left_out


def _groups_of(store: Store, episode: str, phase: str, step: int | None) -> Iterator[tuple[int, list[ScoredGroup]]]:
    if episode:
        at, group, _ = store.find(episode)
        yield at, [group]
        return
    recorded_phases(store, phase, step)  # raises for phases and steps that are not recorded
    for at in store.steps(phase) if step is None else [step]:
        yield at, list(store.read(at, phase))


def _rates(found: Continued, path: Path, policy: str, turn: int, left_out: int) -> dict[str, JSON]:
    rates = {
        name: dict(rate_by_question(by_question(of_B, success_B))._asdict())
        for name, of_B, success_B in (
            ("recorded", found.of_recorded_B, found.recorded_B),
            ("continued", found.of_continued_B, found.continued_B),
        )
        if success_B
    }
    return {
        "run": str(path),
        "policy": policy,
        "turn": turn,
        "episodes": len(found.recorded_B),
        "continued": len(found.continued_B),
        "unusable": found.unusable,
        "left_out": left_out,
        "success": rates,
    }


def _summary_lines(found: Continued, label: str, turn: int, left_out: int) -> Sequence[str]:
    n_tasks = len(set(found.of_recorded_B))
    lines = [f"{len(found.recorded_B)} recorded episodes of {n_tasks} tasks, continued from turn {turn} by {label}"]
    for name, of_B, success_B in (
        ("recorded", found.of_recorded_B, found.recorded_B),
        ("continued", found.of_continued_B, found.continued_B),
    ):
        if success_B:
            rate, low, high = rate_by_question(by_question(of_B, success_B))
            lines.append(
                f"{name}: {sum(success_B)} of {len(success_B)} succeeded = {rate:.1%} (95 % interval {low:.1%} to "
                f"{high:.1%})"
            )
    if found.unusable:
        lines.append(f"{found.unusable} continued episodes broke and are in no rate")
    if left_out:
        lines.append(f"{left_out} recorded episodes left out: over before turn {turn}, broken, or another attempt")
    return lines
