"""The rubrics of a recorded run, as far as this machine can load them."""

from __future__ import annotations

from collections.abc import Mapping

from turngate.config.run_config import Config
from turngate.errors import UserError
from turngate.rewards.rubric import Rubric
from turngate.run.environments import Environments


def known_rubrics(config: Config) -> Mapping[str, Rubric | str]:
    """By environment, its rubric or why it cannot be loaded here; describing it needs neither Docker nor data files."""
    found: dict[str, Rubric | str] = {}
    for section in config.env:
        try:
            with Environments([section], trained=False) as environments:
                found[section.label] = environments.rubrics[section.label]
        except UserError as error:
            found[section.label] = section.rubric or str(error)
    return found
