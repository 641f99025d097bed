"""Whether environments grow: memory, files, threads and processes over many episodes.

    python -m benchmarks.flat_memory [--episodes 1000] [--only search_local search_server …]

Plays the oracle's actions of ever new episodes, one environment each of:

1. ``search_local``: ``turngate/Search-v1`` on generated worlds, BM25 in memory;
2. ``search_server``: the same questions, asked of an HTTP server in this process;
3. ``tools_python``: ``turngate/ToolUse-v1`` with functions of a module;
4. ``tools_mcp``: ``turngate/ToolUse-v1`` with a real MCP server over standard input and output, only read from;
5. ``tools_mcp_anew``: the same server written to in each episode, so that it is started anew for the next one: a
   twentieth of the episodes, because a start takes about a second.

The first fifth warms up caches. Of the rest it prints, as JSON, the least-squares slope of the resident memory in KiB
per episode (with ``mib``, the whole of it), and the open files, threads and child processes before the first and after
the last episode, the environment closed. ``--most`` is the largest slope that passes; anything left behind fails, too.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import turngate
from turngate.envs.base import TurnEnv
from turngate.envs.search.engine.bm25 import Bm25
from turngate.envs.search.engine.index_cache import corpus_of
from turngate.envs.search.engine.over_http import RetrievalServer
from turngate.types import JSON, Task

MOST_KIB = 4.0
"""Growth per episode that is noise of the allocator: 4 MiB in a thousand episodes."""

_ADD: Mapping[str, JSON] = {"name": "add", "arguments": {"goods": "apples", "number": 2}}
_MCP: Mapping[str, JSON] = {"type": "mcp_stdio", "command": [sys.executable, "stock.py"]}
_PYTHON = '''
from turngate import tool
from turngate.envs.tooluse import State

STATE = {"stock": {"apples": 3}}


@tool
def add(goods: str, number: int, state: State) -> str:
    """Put goods into the stock."""
    state["stock"][goods] = state["stock"].get(goods, 0) + number
    return f"{state['stock'][goods]} {goods}"
'''
_SERVER = '''
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("stock")
STOCK = {"apples": 3}


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def count(goods: str) -> str:
    """How many there are of some goods."""
    return str(STOCK[goods])


@server.tool()
def add(goods: str, number: int) -> str:
    """Put goods into the stock."""
    STOCK[goods] = STOCK.get(goods, 0) + number
    return f"{STOCK[goods]} {goods}"


server.run()
'''


def resident_kib() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def held() -> dict[str, int]:
    """Open files, threads and child processes of this process, those that have just ended left out."""
    gc.collect()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="utf-8").split()
    files = len(os.listdir("/proc/self/fd"))
    return {"files": files, "threads": threading.active_count(), "children": len(children)}


def slope(kib_E: list[float]) -> float:
    """Least-squares growth per episode."""
    return float(np.polyfit(np.arange(len(kib_E)), kib_E, 1)[0])


@contextmanager
def search_local() -> Iterator[tuple[TurnEnv, Callable[[int], Task]]]:
    """Questions about made-up worlds."""
    with turngate.make("turngate/Search-v1", tasks={"type": "generated_search", "worlds": 4}) as env:
        yield env, lambda number: env.tasks.task("train", number)


@contextmanager
def search_server() -> Iterator[tuple[TurnEnv, Callable[[int], Task]]]:
    """Questions about one world, whose documents a server searches."""
    tasks = {"type": "generated_search", "worlds": 1}
    local = turngate.make("turngate/Search-v1", tasks=tasks)
    corpus = corpus_of(local.tasks.task("train", 0).private["corpus"])
    assert corpus is not None
    with RetrievalServer(Bm25(corpus.passages)) as server:
        retriever = {"type": "server", "url": server.url}
        with turngate.make("turngate/Search-v1", tasks=tasks, retriever=retriever) as env:
            yield env, lambda number: env.tasks.task("train", number)


@contextmanager
def _tools(
    world: Mapping[str, JSON] | str, source: str, gold: Mapping[str, JSON], goal: str
) -> Iterator[tuple[TurnEnv, Callable[[int], Task]]]:
    row = {"id": "apples", "prompt": "See to the apples.", "gold": [gold], "goal": {"type": goal}}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("stock.py").write_text(source, encoding="utf-8")
            Path("tasks.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
            tasks = {"type": "tool_tasks", "file": "tasks.jsonl", "held_out": 0}
            with turngate.make("turngate/ToolUse-v1", tools=world, tasks=tasks) as env:
                yield env, lambda number: env.tasks.task("train", 0)
        finally:
            os.chdir(before)


@contextmanager
def tools_python() -> Iterator[tuple[TurnEnv, Callable[[int], Task]]]:
    """One function with a state."""
    with _tools("stock.py", _PYTHON, _ADD, "state") as opened:
        yield opened


@contextmanager
def tools_mcp() -> Iterator[tuple[TurnEnv, Callable[[int], Task]]]:
    """A function that only reads, behind an MCP server."""
    with _tools(_MCP, _SERVER, {"name": "count", "arguments": {"goods": "apples"}}, "calls") as opened:
        yield opened


@contextmanager
def tools_mcp_anew() -> Iterator[tuple[TurnEnv, Callable[[int], Task]]]:
    """A function that writes, behind an MCP server."""
    with _tools(_MCP, _SERVER, _ADD, "calls") as opened:
        yield opened


CASES = {one.__name__: one for one in (search_local, search_server, tools_python, tools_mcp, tools_mcp_anew)}


def measured(name: str, episodes: int) -> dict[str, object]:
    """One case over so many episodes."""
    before, kib_E, start = held(), list[float](), time.perf_counter()
    with CASES[name]() as (env, task_of):
        for number in range(episodes):
            task = task_of(number)
            env.reset(seed=number, options={"task": task})
            for action in env.oracle(task):
                *_, info = env.step(action)
            if info["score"] is None or info["score"].outcome != 1.0:
                raise SystemExit(f"{name}: the oracle did not solve '{task.id}'")
            kib_E.append(resident_kib())
    return {
        "episodes": episodes,
        "kib_per_episode": round(slope(kib_E[episodes // 5 :]), 3),
        "mib": round(kib_E[-1] / 1024, 1),
        "before": before,
        "after": held(),
        "s": round(time.perf_counter() - start, 1),
    }


def main() -> None:
    """Run what the module says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--most", type=float, default=MOST_KIB, help="largest growth that passes, KiB per episode")
    args = parser.parse_args()
    grown = []
    for name in args.only:
        found = measured(name, args.episodes // (20 if name == "tools_mcp_anew" else 1))
        print(json.dumps({name: found}), flush=True)
        if float(str(found["kib_per_episode"])) > args.most or found["before"] != found["after"]:
            grown.append(name)
    if grown:
        raise SystemExit(f"grows or leaves something behind: {', '.join(grown)}")


if __name__ == "__main__":
    main()
