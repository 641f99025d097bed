"""Labelled work, and a scripted judge that grades it."""

import asyncio
import json

from tests.helpers.scripted_judge import NO, by_points, judge, said, yes
from turngate.judges.asking import check, read_labelled


def work(task, response, label):
    return {"task": task, "response": response, "label": label}


ROWS = [
    work("2 + 2", "the sum is 4", True),
    work("2 + 2", "the sum is 5", False),
    work("2 + 3", "the sum is 5, as everybody knows", True),
    work("2 + 3", "the sum is 6, as everybody knows", False),
    work("2 + 4", "the sum is six", True),
]


def write(path, rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def digit(prompt):
    """Yes to a response in which the sum of its task stands in digits."""
    task = prompt.split(" task\n")[1].split("\n")[0]
    return str(sum(int(part) for part in task.split(" + ")))


def grader(prompt, n):
    right = digit(prompt)
    if "A and B" in prompt:
        return by_points(lambda text: 9 if right in text else 2)(prompt, n)
    return yes(prompt) if right in said(prompt)[0] and len(said(prompt)[0]) > 8 else NO


def measure(script, rows, tmp_path, **options):
    return asyncio.run(check(judge(script, **options), read_labelled(write(tmp_path / "rows.jsonl", rows))))
