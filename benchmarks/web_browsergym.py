"""BrowserGym playing pages of MiniWoB++; ``benchmarks/web.py`` runs this file by itself.

    PYTHON web_browsergym.py CHROMIUM PAGES_URL EPISODES DELAY_S PAGE …

Imports nothing of turngate, so that it runs in the environment of the other package. An episode is a reset and one
click on the first button of the page. Prints JSON: the median times of both in ms.
"""

import json
import logging
import statistics
import sys
import time
from importlib import import_module
from typing import Any


def first_button(seen: dict[str, Any]) -> str:
    """BrowserGym's name of the first button in its accessibility tree."""
    for node in seen["axtree_object"]["nodes"]:
        if node["role"]["value"] == "button" and "browsergym_id" in node:
            return str(node["browsergym_id"])
    raise SystemExit("the page has no button")


def main() -> None:
    """See above."""
    chromium, url, episodes, delay_s, *pages = sys.argv[1:]
    logging.disable(logging.WARNING)  # one line for each setting
    kind, env_class = import_module("playwright.sync_api").BrowserType, import_module("browsergym.core.env").BrowserEnv
    launch = kind.launch
    # its chat window has a browser of its own, which settings do not reach
    kind.launch = lambda self, **settings: launch(self, **settings, executable_path=chromium)
    tasks = {task.subdomain: task for task in import_module("browsergym.miniwob").ALL_MINIWOB_TASKS}
    reset_ms, click_ms = list[float](), list[float]()
    slow_mo_ms = None if float(delay_s) else 0
    for page in pages:
        env = env_class(
            tasks[page],
            task_kwargs={"base_url": url},
            slow_mo=slow_mo_ms,  # None is the task's own: 100 ms after each command
            pre_observation_delay=float(delay_s),
        )
        for seed in range(int(episodes) + 1):
            start_s = time.perf_counter()
            seen, _ = env.reset(seed=seed)
            between_s = time.perf_counter()
            *_, done, _, _ = env.step(f"click({first_button(seen)!r})")
            end_s = time.perf_counter()
            assert done, f"one click does not end {page}"
            if seed:  # the first one also starts the browser
                reset_ms.append(1000 * (between_s - start_s))
                click_ms.append(1000 * (end_s - between_s))
        env.close()
    print(json.dumps({"reset_ms": statistics.median(reset_ms), "click_ms": statistics.median(click_ms)}))


if __name__ == "__main__":
    main()
