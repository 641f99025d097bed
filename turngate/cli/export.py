"""``turngate export``: the trained model of a run, or its adapter alone, as a Hugging Face folder with a model card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turngate.cli import consoles
from turngate.cli.reading_runs import RunPath, reads_runs
from turngate.errors import ConfigError

if TYPE_CHECKING:
    from turngate.config.run_config import Config
    from turngate.store.folder import RunFolder

app = typer.Typer(rich_markup_mode=None)


@app.command()
@reads_runs(weights_with=("run",))
def export(
    run: RunPath,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder for the model.")],
    best: Annotated[
        bool, typer.Option("--best", help="The best validated step of a run with [train.validation].")
    ] = False,
    adapter: Annotated[
        bool, typer.Option("--adapter", help="The adapter alone, of a run with learner.lora, as peft reads it.")
    ] = False,
) -> None:
    """Write the trained model of a run as a Hugging Face folder, with a model card.

    The folder has weights, tokenizer, chat template, generation settings with the tokens that end a turn, and a
    README.md that states data, rubric, settings and results. It loads with transformers alone; an adapter, with peft.
    """
    from turngate.config.run_config import load_run
    from turngate.report.model_card import model_card
    from turngate.run.assembly.models import load_model, outlined, require_torch, save_adapter, save_model, stop_at
    from turngate.run.replay.known_rubrics import known_rubrics
    from turngate.store.folder import RunFolder

    folder, console = RunFolder.of(run), consoles.output()
    config = load_run(folder)
    if out.exists():
        raise ConfigError(f"'{out}' exists already, and nothing is overwritten; name another folder")
    source, steps = _best(folder) if best else _trained(folder, config)
    base = _base_model(folder, config) if adapter else ""
    alone = _adapter(folder.best_adapter(steps) if best else folder.adapter) if adapter else None
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
    card = model_card(folder, config, rubrics, steps=steps, ends=tokens, adapter_of=base)
    if alone is None:
        save_model(model, tokenizer, out, card=card)
    else:
        save_adapter(alone, model, tokenizer, out, base=base, card=card)
    told = f"{alone or source} → {out}; its README.md is the model card"
    console.print(told, markup=False, highlight=False, soft_wrap=True)


def _trained(run: RunFolder, config: Config) -> tuple[Path, int]:
    """The folder of the trained model, and the step that it is of. Raises ConfigError if there is none."""
    from turngate.trainer.evaluation.validation_steps import read_steps

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
    from turngate.trainer.evaluation.validation_steps import read_steps

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
