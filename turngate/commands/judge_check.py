"""What ``turngate judge-check`` does: from a name on the command line to a judge, and its table."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console
from rich.table import Table

from turngate.agents.chat import Chat
from turngate.errors import ConfigError
from turngate.judging.cache import VerdictCache
from turngate.judging.check import CheckResult, check
from turngate.judging.judge import Judge
from turngate.judging.labelled import read_labelled
from turngate.judging.openai import OpenAISpeaker
from turngate.judging.settings import JudgeSettings
from turngate.judging.speaker import PolicySpeaker, Speaker
from turngate.rewards.judge import CORRECT, Criterion, FaultKind, JudgeId, upper_bound
from turngate.rewards.judge.agreement import MAX_LENGTH_CORRELATION

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Load: TypeAlias = "Callable[[str], tuple[PreTrainedModel, PreTrainedTokenizerBase]]"
"""A model and its tokenizer, from a hub name or a folder."""
_WEIGHTS = ("*.safetensors", "*.bin", "*.json", "*.jinja", "*.model")


def judge_check(
    console: Console,
    path: Path,
    *,
    judge: str,
    load: Load,
    model: str = "",
    version: str = "",
    criterion: str = "",
    key_variable: str = "OPENAI_API_KEY",
    context: int = 8192,
    seed: int = 0,
    settings: JudgeSettings | None = None,
    cache: Path | None = None,
) -> CheckResult:
    """Measure a judge on a labelled file and print the table.

    ``judge`` is the address of a server that speaks OpenAI's protocol (then ``model`` names one there), or what
    ``load`` makes model and tokenizer from. Raises DataError, ConfigError, MissingExtra, StoreError.
    """
    rows = read_labelled(path)
    wanted = Criterion(name="criterion", text=criterion) if criterion else CORRECT
    if judge.startswith(("http://", "https://")):
        speaker: Speaker = _server(judge, model, version, key_variable)
    else:
        speaker = _local(judge, model, version, load, context)
    store = VerdictCache(cache) if cache is not None else None

    async def go() -> CheckResult:
        async with speaker:
            return await check(Judge(speaker, seed=seed, settings=settings, cache=store), rows, wanted)

    result = asyncio.run(go())
    console.print(table(result))
    return result


def table(result: CheckResult) -> Table:
    """The result for people. "!" marks what a judge should not be used with: missing verdicts, a score that goes with
    length (|r| ≥ 0.2), a canary accepted."""
    work, order = result.work, result.order
    made = Table("measure", "value", "", "on", box=None, title=f"judge {result.judge.name}, {result.judge.version}")
    made.caption = "! = mend this before the judge decides a reward"
    bound, negatives, positives = "95 % bound", f"{work.n_negative} rows labelled no", f"{work.n_positive} labelled yes"
    made.add_row("false positive rate", _rate(work.false_positive, work.false_positive_bound, bound), "", negatives)
    made.add_row("false negative rate", _rate(work.false_negative, work.false_negative_bound, bound), "", positives)
    made.add_row("kappa", _number(work.kappa), "", f"{work.n} rows with a verdict")
    made.add_row("no verdict", str(work.n_missing), "!" if work.n_missing else "", f"{work.n + work.n_missing} rows")
    r = work.length_correlation
    biased = r is not None and abs(r) >= MAX_LENGTH_CORRELATION
    made.add_row("length correlation", _number(r), "!" if biased else "", "score and length, inside each label")
    pairs = f"{order.n} of {order.n + order.n_missing} pairs, both orders"
    made.add_row("order consistency", _rate(order.consistency), "", pairs)
    made.add_row("won by the one shown first", _rate(order.first_share), "", "decided replies; 50 % is fair")
    made.add_row("pair accuracy", _rate(order.accuracy), "", "orders that disagree are a tie")
    measured = result.n_canaries - result.n_unmeasured
    accepted = _rate(result.n_missed / measured, upper_bound(result.n_missed, measured), bound) if measured else "–"
    asked = f"{measured} of {result.n_canaries} master keys, null and shuffled answers"
    made.add_row("canaries accepted", accepted, "!" if result.n_missed else "", asked)
    faults = ", ".join(f"{kind} {result.tally.faults[kind]}" for kind in FaultKind if result.tally.faults[kind])
    made.add_row("failed calls", faults or "0", "", f"{result.tally.n_calls} calls, {result.tally.n_cached} from cache")
    return made


def folder_version(folder: Path) -> str:
    """A hash of a model folder's weights, settings and tokenizer: equal weights are one judge, wherever they lie."""
    digest = hashlib.blake2b(digest_size=6)
    for file in sorted({file for pattern in _WEIGHTS for file in folder.glob(pattern)}):
        digest.update(file.name.encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "blake2b").digest())
    return digest.hexdigest()


def _server(url: str, model: str, version: str, key_variable: str) -> OpenAISpeaker:
    if not model:
        raise ConfigError(f"'{url}' is a server; name the model that it should judge with: --model NAME")
    return OpenAISpeaker(url, model, version=version or "0", api_key=os.environ.get(key_variable))


def _local(judge: str, model: str, version: str, load: Load, context: int) -> PolicySpeaker:
    if model:
        raise ConfigError(f"--model '{model}' is for servers; '{judge}' names a model already")
    made, tokenizer = load(judge)
    from turngate.agents.policies.local import LocalPolicy

    folder = Path(judge)
    known = folder_version(folder) if folder.is_dir() else getattr(made.config, "_commit_hash", None)
    id_ = JudgeId(name=folder.name if folder.is_dir() else judge, version=version or str(known or "0"))
    chat = Chat(tokenizer)
    return PolicySpeaker(LocalPolicy(made, chat, lanes=16, order="ready"), chat, id_, context=context)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _rate(value: float | None, bound: float | None = None, said: str = "") -> str:
    if value is None:
        return "–"
    return f"{value:.1%}" + ("" if bound is None else f" ({said} {bound:.1%})")
