"""What an episode costs in which the agent makes as many files as its sandbox lets it, and then goes on working.

    python benchmarks/many_files.py [--files N] [--wanted 90000] [--fork]

The agent asks for more files than there may be and is told of a full disk. Then each tool is used once, and the next
episode begins. ``--files``: the limit of the sandbox (default: the shipped one). ``--fork``: also the copy that a
branch of the episode begins with, which is not part of an ordinary episode. Seconds of the wall clock per turn; the
load of the machine is given beside.
"""

from __future__ import annotations

import argparse
import os
import time

from turngate.envs.code.env import CodeRepairEnv
from turngate.sandbox import ResourceLimits

MAKE = """bash python3 -c "
import os
for number in range(WANTED):
    if number % 1000 == 0:
        os.mkdir(f'd{number}')
    open(f'd{number // 1000 * 1000}/{number}', 'w').close()
" 2>&1 | tail -n 1"""
TURNS = ("view .", "bash true", "search no-such-text", "run_tests", "edit new.py +0 x", "submit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=ResourceLimits().files)
    parser.add_argument("--wanted", type=int, default=90_000)
    parser.add_argument("--fork", action="store_true")
    arguments = parser.parse_args()
    env = CodeRepairEnv(sandbox={"files": arguments.files})
    try:
        env.reset(seed=0)
        start_s = time.perf_counter()
        print(f"{'make files':>22}: {timed(env, MAKE.replace('WANTED', str(arguments.wanted))):6.2f} s")
        for action in TURNS:
            print(f"{action:>22}: {timed(env, action):6.2f} s")
        begin_s = time.perf_counter()
        env.reset(seed=1)
        print(f"{'next episode':>22}: {time.perf_counter() - begin_s:6.2f} s")
        print(f"{'all':>22}: {time.perf_counter() - start_s:6.2f} s, load {os.getloadavg()[0]:.1f}")
        if arguments.fork:
            env.step(MAKE.replace("WANTED", str(arguments.wanted)))
            begin_s = time.perf_counter()
            env.restore(env.snapshot())
            print(f"{'fork':>22}: {time.perf_counter() - begin_s:6.2f} s")
    finally:
        env.close()


def timed(env: CodeRepairEnv, action: str) -> float:
    """Seconds of one turn."""
    start_s = time.perf_counter()
    observation, *_ = env.step(action)
    if action.startswith("bash python3"):
        print(f"the agent is told: {observation.text}")
    return time.perf_counter() - start_s


if __name__ == "__main__":
    main()
