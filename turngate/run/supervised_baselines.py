"""Supervised baselines: the same untrained model, warm-started from more demonstrations and not trained further."""

from __future__ import annotations

from collections.abc import Iterator

from turngate.config.run_config import Config
from turngate.errors import ConfigError
from turngate.run.environments import Environments
from turngate.store.folder import RunFolder


def baseline_configs(config: Config, run: RunFolder) -> Iterator[Config]:
    """The settings of each baseline of a run, which is a run of its own in a folder of this one.

    They differ in the number of demonstrations, and in that nothing follows the warm start and its evaluation. The
    demonstrations are the first tasks of the training split, so those of the run are among them. A baseline of a new
    tiny model has a tokenizer trained on its own demonstrations, as a run with that warm start has.
    """
    if config.baselines is None:
        return
    assert config.warm_start is not None
    for n in config.baselines.demonstrations:
        folder = run.baseline(n).path
        changes = {
            "folder": folder.parent,
            "name": folder.name,
            "warm_start": config.warm_start.model_copy(update={"episodes": n}),
            "train": config.train.model_copy(update={"steps": 0, "ahead": 0, "validation": None}),
            "sink": (),
            "baselines": None,
            "controls": (),
        }
        yield config.model_copy(update=changes)


def check_baselines(config: Config, environments: Environments) -> None:
    """Raise ConfigError if an environment has too few training tasks for the demonstrations of a baseline."""
    if config.baselines is None:
        return
    for n in config.baselines.demonstrations:
        for label, count in environments.split(n).items():
            split = environments.sections[label].split
            size = environments[label].tasks.size(split)
            if size is not None and size < count:
                raise ConfigError(
                    f"baselines.demonstrations: {n} needs {count} tasks of '{label}' {split}, which holds {size}; "
                    "leave it out or name a smaller number"
                )
