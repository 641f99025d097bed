"""The model card of an exported model: its base model, its training data, its rewards and its results.

Everything on it is read from the run's folder, so a card tells what was done, not what is remembered of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w
from rich.console import Console

from turngate.config.run_config import Config
from turngate.config.sections import EnvSection, TinyModel
from turngate.errors import DataError
from turngate.jsonl import read_json
from turngate.parts import Part
from turngate.report.summary import evaluated_runs, overlaps_of, phases_of, unsafe_rubrics
from turngate.report.supervised import tell_baselines
from turngate.report.tables import comparison_markdown, note
from turngate.rewards import Rubric
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer.checks.alarm_log import read_alarms
from turngate.trainer.evaluation.validation_passes import read_passes
from turngate.trainer.evaluation.validation_steps import read_steps

LOADED = """\
from transformers import AutoModelForCausalLM, AutoTokenizer

model, tokenizer = AutoModelForCausalLM.from_pretrained("."), AutoTokenizer.from_pretrained(".")
"""


def model_card(
    run: RunFolder,
    config: Config,
    rubrics: Mapping[str, Rubric | str],
    *,
    steps: int,
    ends: str,
    adapter_of: str = "",
) -> str:
    """The card as Markdown, with the front matter of the Hugging Face hub.

    ``rubrics``: by name of the environment its rubric, or why it is not known. ``steps``: the training step whose
    weights these are. ``ends``: the tokens that end a turn, in words. ``adapter_of``: folder or name of the model that
    an adapter belongs to; "" for a whole model. Raises DataError for a file of the run that cannot be read.
    """
    what = f" {_adapter(adapter_of)}" if adapter_of else ""
    sections = [
        _front(config, is_adapter=bool(adapter_of)),
        f"# {run.label}\n\n{_summary(run, config, steps)}{what}\n",
        f"## Use\n\n{_use(config, ends, adapter_of)}",
        f"## Training\n\n{_table(_training(run, config, steps))}",
        "## What is paid\n\n" + "\n".join(_paid(label, rubrics[label]) for label in rubrics),
        "## Results\n\n" + "\n".join(_results(run, config)),
        "## Limits\n\n" + "".join(f"* {line}\n" for line in _limits(run, config)),
    ]
    return "\n".join(sections)


def _front(config: Config, *, is_adapter: bool) -> str:
    library, tag = ("peft", ", lora") if is_adapter else ("transformers", "")
    lines = [f"library_name: {library}", "pipeline_tag: text-generation", f"tags: [turngate, agent, tool-use{tag}]"]
    if isinstance(config.model, str) and not Path(config.model).exists():
        lines.insert(0, f"base_model: {config.model}")
    return "\n".join(["---", *lines, "---", ""])


def _summary(run: RunFolder, config: Config, steps: int) -> str:
    agents = " and ".join(section.label for section in config.env)
    what = f"the negative control '{run.path.name}' of a run" if _is_control(run) else "an agent"
    how = (
        f"by reinforcement learning from rewards ({steps} steps of {config.train.tasks_per_step} tasks, credit rule "
        f"'{config.credit.type}')"
        if steps
        else "by imitation alone"
    )
    return (
        f"A language model trained as {what} for {agents} over several turns {how}, with turngate {_version(run)}. It "
        f"began from {_base(config)}. The numbers below are of success without hints."
    )


def _is_control(run: RunFolder) -> bool:
    return run.owner is not None and run.path.parent.name == "controls"


def _base(config: Config) -> str:
    if isinstance(config.model, TinyModel):
        tiny = config.model
        return f"random weights (Qwen3's architecture, layers = {tiny.layers}, width = {tiny.width})"
    return _named_model(config.model)


def _named_model(model: str) -> str:
    return f"the local model `{_shown(model)}`" if Path(model).exists() else f"`{model}`"


def _shown(model: str) -> str:
    """A name of the hub as it is, a folder by its last two names."""
    return "/".join(Path(model).parts[-2:]) if Path(model).exists() else model


def _adapter(base: str) -> str:
    return (
        f"This folder holds an adapter (LoRA) and not a whole model: it is added to {_named_model(base)}, and all "
        "numbers are of the two together. `turngate export` without `--adapter` writes the whole model."
    )


def _version(run: RunFolder) -> str:
    row = read_json(run.machine) if run.machine.exists() else {}
    known: Mapping[str, Any] = row if isinstance(row, Mapping) else {}
    packages = known.get("packages", {})
    if not isinstance(packages, Mapping):
        raise DataError(run.machine, "does not hold the packages of a run")
    commit = f", commit {known['commit']}" if known.get("commit") else ""
    return f"{packages.get('turngate') or '(version not recorded)'}{commit}"


def _use(config: Config, ends: str, adapter_of: str) -> str:
    env = config.env[0].id
    policy = config.policy
    evaluated = (
        f"`turngate eval FOLDER --env {env} --turn-tokens {policy.turn_tokens} --context {policy.context}` measures "
        'it, and `model = "FOLDER"` in a config trains it further. '
    )
    return (
        f"```python\n{_loaded_adapter(adapter_of) if adapter_of else LOADED}```\n\n"
        f"{'' if adapter_of else evaluated}It ends a turn with {ends}; it was trained on at "
        f"most {policy.turn_tokens} tokens per turn and {policy.context} per episode, sampled at temperature "
        f"{policy.temperature:g}" + (f", after the system message `{policy.system}`" if policy.system else "") + ".\n"
    )


def _loaded_adapter(base: str) -> str:
    return (
        "from peft import PeftModel\n"
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
        f'base = AutoModelForCausalLM.from_pretrained("{_shown(base)}", dtype="float32")\n'
        'model, tokenizer = PeftModel.from_pretrained(base, "."), AutoTokenizer.from_pretrained(".")\n'
    )


# --- how it was made --------------------------------------------------------------------------------------------------


def _training(run: RunFolder, config: Config, steps: int) -> Iterator[tuple[str, str]]:
    """(what, which) for each line of the table."""
    train = config.train
    yield "base model", _base(config)
    for section in config.env:
        yield f"environment '{section.label}'", _environment(section)
    yield "demonstrations", _demonstrations(config)
    if (passes := read_passes(run)) is not None:
        yield "chosen in the warm start", passes.line
    if (validated := read_steps(run)) is not None and validated.tried:
        yield "chosen in training", validated.line
    if not steps:
        yield "reinforcement learning", "none"
    else:
        rows = read_metrics(run.metrics) if run.metrics.exists() else []
        sampled = sum(row.get("train/sampled_tokens", 0.0) for row in rows if row["step"] <= steps)
        yield "steps", f"{steps} of {train.steps}, each {train.tasks_per_step} tasks × {train.group_size} episodes"
        yield "tokens sampled", f"{sampled:,.0f}" if sampled else "not recorded"
        yield "credit rule", _named(config.credit)
        yield "loss", _settings(config.loss.model_dump(mode="json", exclude_defaults=True)) or "as by default"
        yield "guide", "none" if config.guide.type == "none" else _named(config.guide)
        yield "learned beside", ", ".join(map(_named, config.auxiliary)) or "nothing"
        yield "tasks chosen by", _named(config.curriculum)
        yield "filters", ", ".join(map(_named, train.filters)) or "none"
        yield "learner", f"{_named(config.learner)}, learning rate {config.learner.lr:g}"
    yield "seed", f"{config.seed}; all other settings: config.toml of the run"


def _environment(section: EnvSection) -> str:
    tasks = "its own tasks" if section.tasks is None else f"tasks {_named(section.tasks)}"
    arguments = _settings(section.kwargs)
    return f"{section.id}, split '{section.split}' of {tasks}" + (f", {arguments}" if arguments else "")


def _demonstrations(config: Config) -> str:
    warm_start = config.warm_start
    if warm_start is None:
        return "none"
    passes = f"passes: {warm_start.epochs}"
    if warm_start.validation is not None:
        passes = f"passes until {warm_start.validation.patience} in a row were no better on validation tasks"
    if warm_start.demonstrations is not None:
        return f"those of `{warm_start.demonstrations.name}`, {passes}"
    return f"{warm_start.episodes} tasks solved by the environment's own solution, {passes}"


def _named(part: Part) -> str:
    """A part by its name, with the settings that are not the default."""
    settings = part.model_dump(mode="json", exclude_defaults=True)
    told = _settings({name: value for name, value in settings.items() if name not in ("type", "lr")})
    name = getattr(part, "type", type(part).__name__)
    return f"{name} ({told})" if told else str(name)


def _settings(values: Mapping[str, object]) -> str:
    """``name = value, …`` as a config would write it."""
    kept = {name: value for name, value in values.items() if value is not None}
    return ", ".join(f"{name} = {_short(value)}" for name, value in kept.items())


def _short(value: object) -> str:
    text = tomli_w.dumps({"v": value}).removeprefix("v = ").strip() if not isinstance(value, Mapping | list) else ""
    return text or f"{value}"[:80]


def _table(rows: Iterator[tuple[str, str]]) -> str:
    lines = [f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in rows]
    return "\n".join(["| | |", "|---|---|", *lines]) + "\n"


# --- what it is paid for and what it reaches --------------------------------------------------------------------------


def _paid(label: str, rubric: Rubric | str) -> str:
    if isinstance(rubric, str):
        return f"The rubric of '{label}' is not known here: {rubric}.\n"
    head = ["component", "kind", "paid", "type", "reads"]
    rows = [
        [
            one.name,
            one.kind,
            f"{one.weight:g} {'in its turns' if one.per_turn else 'once'}",
            one.type,
            ", ".join(one.reads),
        ]
        for one in rubric.rewards
    ]
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [head, ["---"] * len(head), *rows]]
    gates = "".join(f"{number}. `{gate.name}`: {_named(gate)}\n" for number, gate in enumerate(rubric.gates, 1))
    told = f"Gates, in this order:\n\n{gates}" if gates else "No gates: everything that is earned is paid.\n"
    return f"Rubric of '{label}':\n\n" + "\n".join(lines) + f"\n\n{told}"


def _results(run: RunFolder, config: Config) -> Iterator[str]:
    runs = {title: phases for title, one in evaluated_runs(run) if (phases := phases_of(one))}
    if not runs:
        yield "Nothing was evaluated.\n"
        return
    for title, phases in runs.items():
        yield f"### {title}\n\n{comparison_markdown(phases)}"
    yield note(success for phases in runs.values() for results in phases.values() for success in results) + "\n"
    yield from (text.replace("## ", "### ", 1) for text in tell_baselines(run, Console(quiet=True)))
    missing = [
        name for name, there in (("controls", run.controls), ("supervised baselines", run.baselines)) if not there
    ]
    if missing and config.train.steps:
        yield f"The run has no {' and no '.join(missing)}.\n"


def _limits(run: RunFolder, config: Config) -> Iterator[str]:
    """Limits that the numbers do not show, as far as the run's folder tells."""
    splits = ", ".join(f"'{split}'" for split in config.eval.splits)
    yield f"Measured on split {splits} of the environments above and on nothing else; it may have lost other abilities."
    yield f"One run with seed {config.seed}: the intervals are about tasks and sampling, not about other runs."
    yield from unsafe_rubrics(config)
    yield from overlaps_of(run)
    alarms = read_alarms(run.path)
    if alarms:
        names = sorted({raised.alarm.name for raised in alarms})
        yield f"Alarms of monitors in training: {len(alarms)} ({', '.join(names)})."
    if config.guide.type != "none":
        yield f"Guide '{config.guide.type}' helped in training; every number above is without help, unless it says so."
    if isinstance(config.model, str):
        yield "The licence and the limits of the base model apply to this model too."
