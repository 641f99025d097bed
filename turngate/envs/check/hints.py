"""What ``check_env`` requires of an environment's hints: leveled, always the same, short enough, and without the
answer."""

from __future__ import annotations

from collections.abc import Iterator

from turngate.envs.base import TurnEnv
from turngate.envs.leak import leaked_secret
from turngate.types import Task


def hint_problems(env: TurnEnv, task: Task) -> Iterator[str]:
    """The problems of the hints of one task, one message each."""
    most, said = env.turn_spec.hint_levels, f"hint() of task '{task.id}'"
    found = {level: env.hint(task, level) for level in range(most + 2)}
    if found[0] is not None:
        yield f"{said} answers to level 0; levels begin with 1"
    if found[most + 1] is not None:
        yield f"{said} answers to level {most + 1}, but turn_spec.hint_levels is {most}; declare all levels"
    if odd := [text for text in found.values() if text is not None and not (isinstance(text, str) and text.strip())]:
        yield f"{said} gave {odd[0]!r:.60}; it must give text, or None where there is no such level"
        return
    texts = [text for level, text in found.items() if 1 <= level <= most]
    if any(text != env.hint(task, level) for level, text in enumerate(texts, 1)):
        yield f"{said} gave different texts for the same level"
    given = [text for text in texts if text is not None]
    if texts[: len(given)] != given:
        yield f"{said} has no level {texts.index(None) + 1}, but a higher one; number those that there are from 1"
    yield from _contents(env, task, given)


def _contents(env: TurnEnv, task: Task, texts: list[str]) -> Iterator[str]:
    room = env.turn_spec.observation_chars
    secrets = env.secrets(task)
    for level, (text, before) in enumerate(zip(texts, ["", *texts], strict=False), 1):
        if text == before:
            yield f"levels {level - 1} and {level} of task '{task.id}' say the same; each must say more"
        if len(text) > room:
            yield f"level {level} of task '{task.id}' has {len(text)} characters; an observation has at most {room}"
        if secret := leaked_secret(text, secrets, task.prompt):
            yield (
                f"level {level} of task '{task.id}' holds the answer, '{secret:.60}', so training would refuse it; say "
                "less, or override secrets() if this gives nothing away"
            )
