"""``turngate export``: the trained model of a run, or its adapter alone, as a Hugging Face folder with a model card."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from turngate.config.run_config import Config, load_run
from turngate.errors import ConfigError
from turngate.report.model_card import model_card
from turngate.run.assembly.models import load_model, outlined, require_torch, save_adapter, save_model, stop_at
from turngate.run.replay.known_rubrics import known_rubrics
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.validation_steps import read_steps


def export(console: Console, path: Path, out: Path, *, best: bool = False, adapter: bool = False) -> None:
    """Write the model of a run into the new folder ``out``, in float32 as it was trained.

    ``best``: that of the best validated step, which a run that is not complete has too. ``adapter``: its adapter alone,
    in peft's format. Raises ConfigError for a run without such a model or adapter and for a folder that exists.
    """
    run = RunFolder.of(path)
    config = load_run(run)
    if out.exists():
        raise ConfigError(f"'{out}' exists already, and nothing is overwritten; name another folder")
    source, steps = _best(run) if best else _trained(run, config)
    base = _base_model(run, config) if adapter else ""
    alone = _adapter(run.best_adapter(steps) if best else run.adapter) if adapter else None
    require_torch()
    model, tokenizer = load_model(str(source)) if alone is None else outlined(str(source))
    ends = config.policy.chat(model, tokenizer).ends
    stop_at(model, tokenizer, ends)
    rubrics = known_rubrics(config)
    for label, rubric in rubrics.items():
        if isinstance(rubric, str):
            console.print(f"the card does not describe the rubric of '{label}': {rubric}", markup=False, soft_wrap=True)
    tokens = " or ".join(
        f"`{tokenizer.decode([one], skip_special_tokens=False, clean_up_tokenization_spaces=False)}`"
        for one in sorted(ends)
    )
    card = model_card(run, config, rubrics, steps=steps, ends=tokens, adapter_of=base)
    if alone is None:
        save_model(model, tokenizer, out, card=card)
    else:
        save_adapter(alone, model, tokenizer, out, base=base, card=card)
    told = f"{alone or source} → {out}; its README.md is the model card"
    console.print(told, markup=False, highlight=False, soft_wrap=True)


def _trained(run: RunFolder, config: Config) -> tuple[Path, int]:
    """The folder of the trained model, and the step that it is of. Raises ConfigError if there is none."""
    if run.result.exists():
        raise ConfigError(f"'{run.path}' is an evaluation, which has no model of its own; name the folder of a run")
    known = read_steps(run)
    kept = known.best if known is not None else None
    if not run.is_complete:
        advice = ", or export the best step so far: --best" if kept is not None else ""
        raise ConfigError(
            f"'{run.path}' has no trained model, because it is not complete; go on with it by the command that began it"
            + advice
        )
    if known is not None and kept is not None and known.keep == "best":
        return run.model, kept.number
    return run.model, config.train.steps


def _best(run: RunFolder) -> tuple[Path, int]:
    """The folder of the best step's model, and the step. Raises ConfigError for a run that validated none."""
    known = read_steps(run)
    if known is None or known.best is None:
        raise ConfigError(
            f"--best has no effect: '{run.path}' validated no step; set [train.validation], or leave it out"
        )
    return run.best(known.best.number), known.best.number


def _adapter(folder: Path) -> Path:
    """The folder of the trained adapter. Raises ConfigError if there is none."""
    if not folder.exists():
        raise ConfigError(
            f"--adapter has no effect: there is no '{folder}', because the run was trained without adapters; leave it "
            "out for the whole model, or train with learner.lora"
        )
    return folder


def _base_model(run: RunFolder, config: Config) -> str:
    """Folder or name of the model that adapters were added to."""
    first = run.first_model if config.warm_start is not None else None
    return str(config.model if first is None else first.resolve())
