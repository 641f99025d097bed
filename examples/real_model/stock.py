"""A store room: the tools, and the tasks of ``tasks.jsonl``, which ``python -m examples.real_model.stock`` writes."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turngate import ToolError, tool
from turngate.envs.tooluse import State

ITEMS = ("bolts", "clips", "hinges", "hooks", "nails", "nuts", "pins", "rings", "screws", "springs", "tubes", "washers")
PER_PAIR = 12
FILE = Path(__file__).parent / "tasks.jsonl"


@tool
def take(item: str, count: int, state: State) -> str:
    """Take a number of one item out of the store room."""
    wanted = state["wanted"]
    if wanted.get(item) != count:
        listed = ", ".join(f"{number} {name}" for name, number in wanted.items())
        raise ToolError(f"{count} {item} is not on the list; on the list: {listed}")
    del wanted[item]
    state["taken"].append([item, count])
    listed = ", ".join(f"{number} {name}" for name, number in wanted.items())
    return f"on the list: {listed or 'nothing'}"


def tasks() -> Iterator[dict[str, Any]]:
    """Tasks about pairs of items, each pair in one split only."""
    rng = random.Random(0)
    for number, pair in enumerate(itertools.combinations(ITEMS, 2)):
        for which in range(PER_PAIR):
            wanted = {item: rng.randint(1, 30) for item in rng.sample(pair, 2)}
            yield {
                "id": f"{'-'.join(wanted)}-{which}",
                "prompt": f"Take {' and '.join(f'{count} {item}' for item, count in wanted.items())}.",
                "split": "heldout" if number % 4 == 0 else "train",
                "state": {"wanted": wanted, "taken": []},
                "gold": [_call("take", item=item, count=count) for item, count in wanted.items()],
                "goal": {"type": "state"},
            }


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


if __name__ == "__main__":
    FILE.write_text("".join(json.dumps(task) + "\n" for task in tasks()), encoding="utf-8")
    print(FILE)
