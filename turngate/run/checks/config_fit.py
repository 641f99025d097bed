"""Whether a config fits the environments that it names, found out before any work."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from turngate.config.run_config import Config
from turngate.errors import ConfigError
from turngate.run.assembly.assemble import check_credit, check_examiners, trees_of
from turngate.run.assembly.auxiliary_setup import check_teachers
from turngate.run.assembly.credit import Answer, answer_of
from turngate.run.assembly.guide_help import check_guide
from turngate.run.assembly.reference_reset import check_reset
from turngate.run.checks.feeders import Unfed, check_feeders
from turngate.run.environments import Environments, naming_key
from turngate.run.supervised_baselines import check_baselines


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """``unfed``: rubrics of which only episodes can show whether anything feeds them (see ``check_first_step``).
    ``answer`` gives the right answers of tasks, for credit rules that need them."""

    unfed: list[Unfed]
    answer: Answer | None


def check_policy(config: Config) -> None:
    """Raise ConfigError for a policy that cannot be trained, MissingExtra for one that is not installed."""
    if not config.policy.trainable:
        raise ConfigError(
            f'policy.type "{config.policy.type}" can be evaluated (turngate eval --config CONFIG) but not trained; '
            'train with a policy of another type, such as policy.type = "local"'
        )
    config.policy.check_installed()


def fit_of(config: Config, environments: Environments, *, unmade: Collection[str] = ()) -> Fit:
    """Check everything that does not need the model. Raises ConfigError for what does not fit.

    ``unmade``: folders of models that are made before this run begins, such as those of earlier stages.
    """
    for _, env in environments:
        for split in config.eval.splits:
            with naming_key("eval.splits"):
                env.tasks.size(split)  # raises for an unknown split
    check_credit(config, environments)
    check_examiners(config, environments)
    unfed = check_feeders(config, environments)
    check_guide(config, environments)
    check_teachers(config, unmade)
    trees_of(config, environments)  # raises for an environment that cannot be forked
    check_baselines(config, environments)
    check_reset(config)
    return Fit(unfed=unfed, answer=answer_of(config, environments))
