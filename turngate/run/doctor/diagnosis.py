"""What a run would do with its model, found before anything is trained and without weights: ``turngate doctor``.

Settings, model and environment are read by the code that the run itself uses (``outlined``, ``PolicyPart.chat``,
``Job``, ``check_room``), so it refuses what ``turngate train`` would refuse, and for the same reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console

from turngate.agents.architecture import SCORES, logit_cap, window
from turngate.agents.chat import Chat
from turngate.agents.policies.parts import LocalPolicyPart
from turngate.agents.protocols import LanguageModel, Tokenizer
from turngate.config.run_config import Config
from turngate.config.sections import TinyModel
from turngate.errors import ConfigError, RunError, UserError
from turngate.parts import when_used
from turngate.run.assembly.credit import needs_reference, trains_reward_model
from turngate.run.assembly.learners import bytes_of_passes, device_here, sampler_precision
from turngate.run.assembly.models import memory_here, outlined
from turngate.run.assembly.stored_weights import stored_weights
from turngate.run.checks.context_fit import check_room, first_prompt
from turngate.run.doctor.needed_memory import (
    LEARNER_PASS,
    SAMPLER_PASS,
    MemoryUse,
    adapter_weights,
    most_at_once,
    needed_memory,
    size_of,
)
from turngate.run.environments import Environments
from turngate.run.job import Job
from turngate.run.remote_folder import remote_folder
from turngate.run.start.demonstrations import Demonstrations, demonstrations
from turngate.run.start.examples import with_examples
from turngate.run.start.warm_start import untrained
from turngate.tools.formats.base import THOUGHT
from turngate.trainer.learner import logits_at_once, tokens_of_a_pass
from turngate.types import Task

captured = when_used("turngate.agents.policies.cuda_graphs")
packing = when_used("turngate.trainer.torch.packing")

HELP = {
    LEARNER_PASS: "lower learner.tokens_per_pass",
    SAMPLER_PASS: "lower policy.concurrency",
    "key-value cache": "lower policy.concurrency or policy.context",
}
"""By share of the memory, the setting that makes it smaller; the other shares need a smaller model."""
SMALLER = "name a smaller model"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorLine:
    """One line. ``refused``: a run with these settings would not begin, or would run out of memory. ``text`` follows
    the line, whole."""

    about: str
    line: str
    refused: bool = False
    text: str = ""


def findings(config: Config) -> Iterator[DoctorLine]:
    """The findings, in the order of a run. Ends at a refusal without which the next ones cannot be known."""
    try:
        model, tokenizer = outlined(config.model) if isinstance(config.model, str) else _new_model(config)
        config.policy.check(model)
    except (UserError, RunError) as error:
        yield DoctorLine(about="model", line=str(error), refused=True)
        return
    yield from _about_model(config.model, model, tokenizer)
    try:
        chat = config.policy.chat(model, tokenizer)
    except ConfigError as error:
        yield DoctorLine(about="chat", line=str(error), refused=True)
        return
    yield from _about_chat(chat)
    if isinstance(config.policy, LocalPolicyPart):
        yield _about_decoding(config, model)  # before trees, which choose how experts are computed
    yield _about_trees(config, model)
    shortest = 0
    try:
        quiet = Console(quiet=True)
        job = Job(remote_folder(config, quiet).settings, quiet)
    except UserError as error:
        yield DoctorLine(about="settings", line=str(error), refused=True)
    else:
        with job.environments:
            told, shortest = asyncio.run(_about_prompts(config, job.environments, chat))
        yield from told
    yield from _about_memory(config, model, shortest)


def _new_model(config: Config) -> tuple[LanguageModel, Tokenizer]:
    """The model that the warm start would begin with; its vocabulary is that of the demonstrations."""
    assert config.warm_start is not None  # a new model needs one

    async def made(environments: Environments, shown: Demonstrations) -> tuple[LanguageModel, Tokenizer]:
        async with environments.worlds(config.policy.concurrency) as worlds:
            return await untrained(config, shown, worlds)

    with Environments(config.env) as environments:
        return asyncio.run(made(environments, demonstrations(environments, config.warm_start)))


def _about_model(name: str | TinyModel, model: LanguageModel, tokenizer: Tokenizer) -> Iterator[DoctorLine]:
    size = size_of(model)
    heads = f"{size.heads} heads" + (", tied embeddings" if _tied(model) else "")
    shape = f"{type(model).__name__}, {size.layers} layers of width {size.width}, {heads}"
    yield DoctorLine(about="model", line=f"{shape}, {size.weights:,} weights")
    yield _about_files(name, model) if isinstance(name, str) else DoctorLine(about="files", line="none, it is new")
    yield DoctorLine(about="vocabulary", line=f"{len(tokenizer):,} tokens, {size.vocabulary:,} embeddings")
    yield DoctorLine(about="attention", line="; ".join(_attention(model)))


def _about_files(name: str, model: LanguageModel) -> DoctorLine:
    try:
        stored = stored_weights(name, model)
    except ConfigError as error:
        return DoctorLine(about="files", line=str(error), refused=True)
    line = "not here yet; they are downloaded when a run begins"
    if stored is not None:
        line = f"{stored.files} of {bytes_text(stored.size)} in {'/'.join(stored.formats) or 'an older format'}"
    return DoctorLine(about="files", line=f"{line}; trained in float32")


def _attention(model: LanguageModel) -> Iterator[str]:
    config = model.config
    yield f"{config._attn_implementation}, {config.max_position_embeddings} positions"
    if experts := getattr(config, "num_experts_per_tok", None):
        yield f"each token goes through {experts} experts"
    if (seen := window(config)) is not None:
        yield f"sliding layers see {seen} tokens"
    if cap := getattr(config, SCORES, None):
        yield f"scores capped at {cap:g}"
    if cap := logit_cap(config):
        yield f"logits capped at {cap:g}"


def _about_chat(chat: Chat) -> Iterator[DoctorLine]:
    yield DoctorLine(about="tools", line=chat.about_tools)
    ends = " ".join(sorted(str(chat.tokenizer.decode([end], **_WHOLE)) for end in chat.ends))
    yield DoctorLine(about="a turn ends with", line=ends)
    known = [mark for mark in THOUGHT if mark in chat.tokenizer.get_added_vocab()]
    yield DoctorLine(about="thoughts", line=f"{' and '.join(known)} are tokens" if known else "no tokens of their own")
    yield DoctorLine(
        about="earlier turns", line=chat.about_history or "the chat template keeps them as they were written"
    )


def _about_decoding(config: Config, model: LanguageModel) -> DoctorLine:
    problem = captured.capture_problem(model, sampler_precision(config))
    line = "on a GPU captured as graphs, each of which is compared with a plain step at first"
    if problem:
        line = f"on a GPU not captured as graphs, each goes through the model's modules ({problem})"
    return DoctorLine(about="decode steps", line=line)


def _about_trees(config: Config, model: LanguageModel) -> DoctorLine:
    problem, asked = packing.tree_problem(model), getattr(config.learner, "packing", "auto")
    line = "possible, so what siblings share is computed once where that costs less"
    if problem:
        line = f"not possible, so every episode is computed as a whole ({problem})"
    elif asked == "rows":
        line = 'possible, but learner.packing = "rows"'
    wanted = bool(problem) and asked == "tree"
    advice = '; leave out learner.packing = "tree"' if wanted else ""
    return DoctorLine(about="prefix trees", line=line + advice, refused=wanted)


async def _about_prompts(config: Config, environments: Environments, chat: Chat) -> tuple[list[DoctorLine], int]:
    """The first prompt of each environment, and the number of tokens of the shortest."""
    found, lengths, limits = list[DoctorLine](), list[int](), config.policy.limits()
    async with environments.worlds(1) as worlds:
        try:
            chat = await with_examples(config, environments, worlds, chat)
        except UserError as error:
            return [DoctorLine(about="examples", line=str(error), refused=True)], 0
        for label, section in environments.sections.items():
            (task, *_) = environments.heldout(label, section.split, 1)
            ids = await first_prompt(worlds, chat, task)
            if ids is None:
                found.append(
                    DoctorLine(about="prompt", line=f"the environment fails on task '{task.id}'", refused=True)
                )
                continue
            lengths.append(len(ids))
            line = f"{_named(label, task)} begins with {len(ids)} tokens of policy.context {limits.context}"
            shown = str(chat.tokenizer.decode(ids.tolist(), **_WHOLE))
            found.append(DoctorLine(about="prompt", line=f"{line}; a turn has up to {limits.turn_tokens}", text=shown))
        try:
            await check_room(environments, worlds, chat, limits, hinted="hints" in config.guide.needs)
        except ConfigError as error:
            found.append(DoctorLine(about="room", line=str(error), refused=True))
    return found, min(lengths, default=0)


def _about_memory(config: Config, model: LanguageModel, prompt: int) -> Iterator[DoctorLine]:
    """``prompt``: tokens of the shortest first prompt, which the policy does not write."""
    needed = needed_memory(size_of(model), memory_use(config, model, prompt, device_here(), bytes_of_passes(config)))
    most, (place, there) = most_at_once(needed), memory_here()
    listed = "\n".join(f"{what:<16} {bytes_text(size):>9}" for what, size in needed.items())
    line = f"{bytes_text(most)} at most, by estimate; {place} has {bytes_text(there)}"
    refused = most > there
    if refused:
        largest = max(needed, key=lambda what: needed[what])
        line += f": too little; the most is the {largest}: {HELP.get(largest, SMALLER)}"
    yield DoctorLine(about="memory", line=line, refused=refused, text=listed)
    if config.policy.context > model.config.max_position_embeddings:
        line = f"policy.context {config.policy.context} goes beyond the model's {model.config.max_position_embeddings}"
        yield DoctorLine(about="context", line=f"{line} positions, where it was not trained; lower it")


def memory_use(
    config: Config, model: LanguageModel, prompt: int, device: str, bytes_of_numbers: tuple[int, int]
) -> MemoryUse:
    """What a run on one device does with its model, which may be without weights.

    ``prompt``: tokens of an episode that the policy does not write. ``device``: its kind, such as "cuda".
    ``bytes_of_numbers``: in the passes of the learner, and of the sampler.
    """
    learner, train, context = config.learner, config.train, config.policy.context
    most = tokens_of_a_pass(getattr(config.learner, "tokens_per_pass", "auto"), device)
    tokens = max(min(most, train.tasks_per_step * train.group_size * context), context)
    lora = getattr(learner, "lora", None)
    teachers = {name for part in config.auxiliary for name in part.teachers}
    if config.reward_model is not None and config.reward_model.fitted:
        teachers.add(config.reward_model.fitted)
    learner_bytes, sampler_bytes = bytes_of_numbers
    return MemoryUse(
        trained=int(config.learner.type != "frozen") + int(trains_reward_model(config)),
        copies=int(needs_reference(config) and lora is None) + len(teachers),
        learner_bytes=learner_bytes,
        sampler_bytes=sampler_bytes,
        concurrency=config.policy.concurrency,
        caches=1 if config.branching is None else 2,
        context=context,
        pass_tokens=tokens,
        said=tokens * max(context - prompt, 1) // context,
        logits=logits_at_once(device),
        adapters=None if lora is None else adapter_weights(model, lora),
        moment_bytes=2 if getattr(learner, "optimizer", "adamw") == "adamw_8bit" else 8,
        recomputes=getattr(learner, "checkpoint_activations", False),
    )


def _tied(model: LanguageModel) -> bool:
    names = {name for name, _ in model.named_parameters()}
    return not any(name.endswith("lm_head.weight") for name in names)


def _named(label: str, task: Task) -> str:
    return f"task '{task.id}' of '{label}'"


def bytes_text(size: float) -> str:
    """A number of bytes with its unit, to three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


_WHOLE = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
