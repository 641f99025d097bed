"""``turngate check``: whether an environment keeps the rules of ``turngate.envs.check.check_env``."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from turngate.envs.check.check_env import check_env


def check(console: Console, env: str, kwargs: Mapping[str, object], *, episodes: int, seed: int) -> bool:
    """Print a line for each problem of an environment; returns whether none of them is an error.

    ``kwargs``: arguments of the environment.
    """
    findings = check_env(env, episodes=episodes, seed=seed, kwargs=kwargs)
    for finding in findings:
        console.print(f"{finding.level}: {finding}", markup=False, highlight=False)
    errors = sum(finding.level == "error" for finding in findings)
    console.print(f"{env}: {errors} errors, {len(findings) - errors} warnings", markup=False)
    return not errors
