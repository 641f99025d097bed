"""The loops of gem-llm and tau-bench around one tool; ``benchmarks/tool_calls.py`` runs this file by itself.

    PYTHON tool_call_loops.py KIND FOLDER DATA CALLS SECONDS

Imports nothing of turngate, so that it runs in the environment of the other package. Prints calls per second.
"""

import json
import re
import sys
import time
import types
from collections.abc import Callable
from importlib import import_module
from typing import Any


def best(begin: Callable[[], object], play: Callable[[], object], calls: int, seconds: float) -> float:
    """Calls per second of ``play`` in its best episode; ``begin`` is not in the time."""
    times, until = list[float](), time.perf_counter() + seconds
    while time.perf_counter() < until or len(times) < 20:
        begin()
        start = time.perf_counter()
        for _ in range(calls):
            play()
        times.append(time.perf_counter() - start)
    return calls / min(times)


class Nothing:
    """What gem's wrapper stands around: an environment that is asked for nothing but a reset."""

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Begin."""
        return "", {}


class FindMember:
    """A tool as gem takes them: it finds its call in the text and reads its JSON, as gem's own MCP tool does."""

    tool_type = "find_member"

    def __init__(self, members: dict[str, str]) -> None:
        self.members = members

    def instruction_string(self) -> str:
        """What an agent would be told."""
        return ""

    def execute_action(self, action: str) -> tuple[bool, bool, str, str]:
        """Whether there is a call, whether it failed, the result and the call."""
        match = re.search(r"<tool_call>(.*?)</tool_call>", action, re.DOTALL)
        if match is None:
            return False, True, "", ""
        name = json.loads(match[1])["arguments"]["name"]
        for key, known in self.members.items():
            if known.lower() == name.strip().lower():
                return True, False, key, match[0]
        return True, True, "no such member", match[0]


def gem(data: dict[str, Any], calls: int, seconds: float) -> float:
    """gem's ``ToolEnvWrapper``."""
    wrapper = import_module("gem.tools.tool_env_wrapper").ToolEnvWrapper
    env = wrapper(Nothing(), [FindMember(data["members"])], max_tool_uses=calls + 1)
    return best(env.reset, lambda: env.step(data["text"]), calls, seconds)


def tau(folder: str, calls: int, seconds: float, *, bare: bool) -> float:
    """tau-bench's ``Env.step`` on ``get_order_details``. Its user, which a tool call never asks, is left out."""
    sys.path.insert(0, folder)
    sys.modules["litellm"] = types.SimpleNamespace(completion=None)  # type: ignore[assignment]  # for the user only
    env = import_module("tau_bench.envs.retail.env").MockRetailDomainEnv(user_strategy="human", task_index=0)
    order = next(iter(env.data["orders"]))
    action = import_module("tau_bench.types").Action(name="get_order_details", kwargs={"order_id": order})
    if bare:
        function, tables = env.tools_map["get_order_details"].invoke, env.data
        return best(lambda: None, lambda: function(data=tables, order_id=order), calls, seconds)
    return best(env.actions.clear, lambda: env.step(action), calls, seconds)


def main() -> None:
    """Command line."""
    kind, folder, data, calls, seconds = sys.argv[1:]
    if kind == "gem":
        print(gem(json.loads(data), int(calls), float(seconds)))
    else:
        print(tau(folder, int(calls), float(seconds), bare=kind == "tau-bare"))


if __name__ == "__main__":
    main()
