"""``turngate judge-check``: measure the judge that the user names on a file of labelled answers, and print a table."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import PydanticCustomError
from rich.console import Console
from rich.table import Table

from turngate.errors import ConfigError
from turngate.judging.judge import Judge
from turngate.judging.labelled import read_labelled
from turngate.judging.parts import JudgePart
from turngate.judging.trial import CheckResult, check
from turngate.judging.verdict_store import VerdictCache
from turngate.problems import one_line
from turngate.report.tables import print_table
from turngate.rewards.judge import CORRECT, Criterion, FaultKind, upper_bound
from turngate.rewards.judge.agreement import MAX_LENGTH_CORRELATION
from turngate.types import JSON


def judge_check(
    console: Console, path: Path, judge: JudgePart, *, criterion: str = "", seed: int = 0, cache: Path | None = None
) -> CheckResult:
    """Measure a judge on a labelled file and print the table. Raises DataError, ConfigError, MissingExtra, StoreError.

    The file is read before any model is loaded.
    """
    rows = read_labelled(path)
    wanted = Criterion(name="criterion", text=criterion) if criterion else CORRECT
    store = VerdictCache(cache) if cache is not None else None

    async def go() -> CheckResult:
        async with judge.speaker(None) as speaker:
            return await check(Judge(speaker, seed=seed, settings=judge, cache=store), rows, wanted)

    result = asyncio.run(go())
    print_table(console, table(result))
    return result


def judge_named(text: str, **options: JSON) -> JudgePart:
    """The judge that ``--judge`` names: a server's address, a hub name, a model folder, or a table as in a config.

    ``options`` are the other options that the user gave; they become settings of the judge. Raises ConfigError, also
    for an option that this judge has no setting for.
    """
    chosen: dict[str, JSON] = {name: value for name, value in options.items() if value}
    if text.startswith("{"):
        data = _inline(text) | chosen
    elif text.startswith(("http://", "https://")):
        if not chosen.get("model"):
            raise ConfigError(f"'{text}' is a server; name its model that should judge: --model NAME")
        data = {"type": "server", "url": text, **chosen}
    else:
        if chosen.get("model"):
            raise ConfigError(
                f"--model '{chosen['model']}' has no effect: --judge '{text}' names a model already; --model is for "
                "servers"
            )
        data = {"type": "model", "model": text, **chosen}
    try:
        return JudgePart.load(data)
    except ValidationError as error:
        raise ConfigError(f"--judge: {one_line(error, JudgePart.find(str(data['type'])), data)}") from None
    except PydanticCustomError as error:
        raise ConfigError(f"--judge: {error.message()}") from None


def _inline(text: str) -> dict[str, JSON]:
    try:
        return dict(tomllib.loads(f"judge = {text}")["judge"])
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"--judge '{text}' is not a TOML inline table such as {{type = \"model\"}}: {error}"
        ) from None


def table(result: CheckResult) -> Table:
    """The result as a table for people.

    "!" marks what has to be repaired before the judge is used: missing verdicts, a score that follows the length of the
    answer (|r| ≥ 0.2), a canary (a known fake) that was accepted.
    """
    work, order = result.work, result.order
    made = Table("measure", "value", "", "on", box=None, title=f"judge {result.judge.name}, {result.judge.version}")
    made.caption = "! = repair this before the judge decides a reward"
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


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _rate(value: float | None, bound: float | None = None, said: str = "") -> str:
    if value is None:
        return "–"
    return f"{value:.1%}" + ("" if bound is None else f" ({said} {bound:.1%})")
