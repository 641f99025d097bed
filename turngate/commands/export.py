"""``turngate export``: the trained model of a run as a Hugging Face folder, with a model card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from turngate.config import Config, load_run
from turngate.errors import ConfigError, UserError
from turngate.report.model_card import model_card
from turngate.rewards import Rubric
from turngate.run.environments import Environments
from turngate.run.models import load_model, require_torch, save_model, stop_at
from turngate.runs import RunFolder


def export(console: Console, path: Path, out: Path) -> None:
    """Write the model of a run into the new folder ``out``, in float32 as it was trained.

    Raises ConfigError for a run without a trained model and for a folder that exists.
    """
    run = RunFolder.of(path)
    config = load_run(run)
    if out.exists():
        raise ConfigError(f"'{out}' exists already, and nothing is overwritten; name another folder")
    source = _source(run)
    require_torch()
    model, tokenizer = load_model(str(source))
    ends = config.policy.chat(model, tokenizer).ends
    stop_at(model, tokenizer, ends)
    rubrics = _rubrics(config)
    for label, rubric in rubrics.items():
        if isinstance(rubric, str):
            console.print(f"the card does not describe the rubric of '{label}': {rubric}", markup=False, soft_wrap=True)
    tokens = " or ".join(
        f"`{tokenizer.decode([one], skip_special_tokens=False, clean_up_tokenization_spaces=False)}`"
        for one in sorted(ends)
    )
    card = model_card(run, config, rubrics, steps=config.train.steps, ends=tokens)
    save_model(model, tokenizer, out, card=card)
    console.print(f"{source} → {out}; its README.md is the model card", markup=False, highlight=False, soft_wrap=True)


def _source(run: RunFolder) -> Path:
    """The folder of the trained model. Raises ConfigError if there is none."""
    if run.result.exists():
        raise ConfigError(f"'{run.path}' is an evaluation, which has no model of its own; name the folder of a run")
    if not run.is_complete:
        raise ConfigError(
            f"'{run.path}' has no trained model, because it is not complete; go on with it by the command that began it"
        )
    return run.model


def _rubrics(config: Config) -> Mapping[str, Rubric | str]:
    """By environment its rubric, or why it cannot be had here: a card needs no Docker and no data files."""
    found: dict[str, Rubric | str] = {}
    for section in config.env:
        try:
            with Environments([section], trained=False) as environments:
                found[section.label] = environments.rubrics[section.label]
        except UserError as error:
            found[section.label] = section.rubric or str(error)
    return found
