"""The card of the look-up tasks of ``turngate/Sql-v1``: what is asked, how long it takes, who wins without looking.

python -m benchmarks.lookup_card        prints the tables of docs/sql_tasks.md
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from time import perf_counter

from turngate.agents.chat import Chat
from turngate.agents.policies.scripted import ScriptedPolicy, by_task
from turngate.agents.rollout import Player, TokenLimits, play_groups
from turngate.config.sections import TinyModel
from turngate.envs.pool.pool import EnvPool
from turngate.envs.sql.engine.skeleton import skeleton
from turngate.envs.sql.env import SqlEnv
from turngate.envs.sql.sources import LookupSql
from turngate.run.assembly.models import new_model
from turngate.tools.read import rewritten
from turngate.trainer.evaluation.overlap import overlap, question_of
from turngate.types import Task, Trajectory

LOOK_BACK = 1000  # training tasks that a split is compared with
LENGTHS = 90  # training tasks whose oracle episodes are measured in tokens


def main() -> None:
    """Print the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=300, help="tasks of each split")
    n = parser.parse_args().tasks
    source, env = LookupSql().open(), SqlEnv(tasks="lookup_sql")
    trained = [source.task("train", index) for index in range(LOOK_BACK)]
    rows = []
    for split in source.splits:
        start_s = perf_counter()
        tasks = [source.task(split, index) for index in range(n)]
        time_ms = 1000 * (perf_counter() - start_s) / n
        rows.append([split, *_described(tasks), f"{time_ms:.0f}"])
    _print(
        ("split", "tasks", "distinct questions", "level 1 / 2 / 3", "code / date / absence / rate", "ms a task"), rows
    )
    heldout = {split: [source.task(split, index) for index in range(n)] for split in source.splits}
    rows = []
    for split in source.splits[1:]:
        shared = overlap(trained, heldout[split], env.marks)
        rows.append([split, *(f"{counts.count} of {counts.n}" for counts in shared.values())])
    _print(("in common with training", *shared), rows)
    rows = [[who, *(_won(env, pairs(heldout[split])) for split in source.splits)] for who, pairs in AGENTS.items()]
    _print(("who plays, won %", *source.splits), rows)
    played = asyncio.run(_episodes(env, heldout["train"][:LENGTHS]))
    rows = [[str(level), *_lengths([t for t in played if t.task.private["level"] == level])] for level in (1, 2, 3)]
    _print(("level", "turns", "tokens an episode, mean and most", "tokens of the longest turn"), rows)
    env.close()


def _described(tasks: Sequence[Task]) -> list[str]:
    levels = Counter(task.private["level"] for task in tasks)
    kinds = Counter(need["kind"] for task in tasks for need in task.private["needs"])
    return [
        str(len(tasks)),
        str(len(set(question_of(tasks).values()))),
        " / ".join(str(levels[level]) for level in (1, 2, 3)),
        " / ".join(str(kinds[kind]) for kind in ("code", "date", "absence", "rate")),
    ]


# --- agents -----------------------------------------------------------------------------------------------------------

Plays = Iterable[tuple[Task, str]]  # a task and the query that is submitted


def _borrowed(tasks: Sequence[Task]) -> Plays:
    """The gold query of another task of the same skeleton."""
    alike: dict[str, list[Task]] = {}
    for task in tasks:
        alike.setdefault(skeleton(task.private["gold"]), []).append(task)
    return [(one, other.private["gold"]) for group in alike.values() for one, other in pairwise(group)]


def _words(tasks: Sequence[Task]) -> Plays:
    """The words of the question in the places of literals."""
    for task in tasks:
        guesses = [_as_asked(need) for need in task.private["needs"]]
        yield task, task.private["frame"].format(*guesses)


def _as_asked(need: dict[str, str]) -> str:
    if need["kind"] == "rate":
        return f"{need['column']} {need['word']}"
    return f"{need['column']} LIKE '%{need['word']}%'"


def _best_guess(tasks: Sequence[Task]) -> Plays:
    """The most usual form of everything: ISO dates, NULL for what is absent; codes and rates it cannot know."""
    for task in tasks:
        guesses = [
            f"{need['column']} IS NULL" if need["kind"] == "absence" else _as_asked(need)
            for need in task.private["needs"]
        ]
        yield task, task.private["frame"].format(*guesses)


def _oracle(tasks: Sequence[Task]) -> Plays:
    """What the look-ups lead to."""
    return [(task, task.private["gold"]) for task in tasks]


AGENTS: dict[str, Callable[[Sequence[Task]], Plays]] = {
    "the oracle": _oracle,
    "the query of another task of the same skeleton": _borrowed,
    "the words of the question as literals": _words,
    "ISO dates, NULL for what is absent, else the words": _best_guess,
}


def _won(env: SqlEnv, plays: Plays) -> str:
    n = won = 0
    for task, sql in plays:
        env.reset(options={"task": task})
        _, _, _, _, info = env.step(f"submit {sql}")
        won += info["score"] is not None and info["score"].outcome == 1.0
        n += 1
    return f"{100 * won / n:.1f} of {n}" if n else "–"


# --- lengths ----------------------------------------------------------------------------------------------------------


def _read(env: SqlEnv, task: Task, lines: Sequence[str]) -> Iterator[str]:
    """All texts of an episode."""
    yield env.reset(options={"task": task})[0].text
    for line in lines:
        yield line
        yield env.step(line)[0].text


async def _episodes(env: SqlEnv, tasks: Sequence[Task]) -> list[Trajectory]:
    """The oracle's, in the tokens of a tiny model like that of the demo."""
    lines = {task.id: env.oracle(task) for task in tasks}
    async with EnvPool(SqlEnv, size=2) as pool:
        texts = [text for task in tasks for text in _read(env, task, lines[task.id])]
        tiny = TinyModel(layers=1, width=32, heads=2, vocabulary=1200)
        _, tokenizer = new_model(tiny, texts, context=1024, seed=0)
        chat = Chat(tokenizer)
        spoken = {
            name: [rewritten(line, env.turn_spec.tools, chat.tool_format) for line in of] for name, of in lines.items()
        }
        player = Player(
            ScriptedPolicy(by_task(spoken), chat, concurrency=2), chat, TokenLimits(turn_tokens=128, context=4096)
        )
        groups = await play_groups(player, pool, tasks, [[None]] * len(tasks), seed=0)
    return [trajectory for group in groups for trajectory in group.trajectories]


def _lengths(played: Sequence[Trajectory]) -> list[str]:
    tokens = [len(trajectory.ids()) for trajectory in played]
    turns = Counter(len(trajectory.turns) for trajectory in played)
    longest = max(len(turn.completion.ids_K) for trajectory in played for turn in trajectory.turns)
    return [" ".join(map(str, sorted(turns))), f"{sum(tokens) / len(tokens):.0f}, {max(tokens)}", str(longest)]


def _print(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    lines = [headings, ["---"] * len(headings), *rows]
    print("\n".join(f"| {' | '.join(line)} |" for line in lines), end="\n\n")


if __name__ == "__main__":
    main()
