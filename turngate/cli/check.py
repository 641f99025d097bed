"""``turngate check``: whether an environment keeps the rules of ``turngate.envs.check.check_env``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turngate.cli import consoles
from turngate.cli.named_env import EnvId, EnvKwargs, arguments_of

app = typer.Typer(rich_markup_mode=None)


@app.command()
def check(
    env: EnvId,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to play.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Another seed plays other episodes.")] = 0,
    kwargs: EnvKwargs = "{}",
    config: Annotated[
        Path | None, typer.Option(help="TOML file, as for train, whose environment ID is checked.")
    ] = None,
) -> None:
    """Check that an environment keeps the common rules. Exit code 1 if it does not."""
    from turngate.envs.check.check_env import check_env, rules_tried

    given, console = arguments_of(env, kwargs, config), consoles.output()
    findings = check_env(env, episodes=episodes, seed=seed, kwargs=given)
    for finding in findings:
        console.print(f"{finding.level}: {finding}", markup=False, highlight=False)
    errors = sum(finding.level == "error" for finding in findings)
    console.print(
        f"rules, tried with {episodes} seeds: {', '.join(rules_tried(findings))}", markup=False, highlight=False
    )
    console.print(f"{env}: {errors} errors, {len(findings) - errors} warnings", markup=False)
    raise typer.Exit(1 if errors else 0)
