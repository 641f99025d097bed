"""``turngate judge-check``: measure the judge that the user names on a file of labelled answers, and print a table."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError
from pydantic_core import PydanticCustomError
from rich.console import Console
from rich.table import Table

from turngate.cli import consoles
from turngate.errors import ConfigError
from turngate.problems import one_line
from turngate.report.tables import print_table
from turngate.types import JSON

if TYPE_CHECKING:
    from turngate.judges.asking.parts import JudgePart
    from turngate.judges.asking.trial import CheckResult

app = typer.Typer(rich_markup_mode=None)


@app.command("judge-check")
def judge_check_command(
    labelled: Annotated[Path, typer.Argument(metavar="LABELLED", help="JSON lines of labelled responses or pairs.")],
    judge: Annotated[
        str,
        typer.Option(
            help="A name on the Hugging Face hub, a model folder, the address of an OpenAI-style server, or a table "
            "{type = …}."
        ),
    ],
    model: Annotated[str, typer.Option(help="Name of the model on the server.")] = "",
    version: Annotated[
        str, typer.Option(help="Version of the judge; a model folder has a hash of its files instead.")
    ] = "",
    criterion: Annotated[
        str, typer.Option(help="What has to be true for the verdict yes; if not given, that the task is done.")
    ] = "",
    key_variable: Annotated[str, typer.Option(help="Environment variable that holds the server's key.")] = "",
    tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens of a reply; 512 if not given.")] = None,
    context: Annotated[
        int | None, typer.Option(min=16, help="Most tokens of prompt and reply together, for a model run here.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed samples other replies.")] = 0,
    cache: Annotated[
        Path | None, typer.Option(help="File that keeps verdicts, so that the same question is asked once.")
    ] = None,
) -> None:
    """Measure the errors of a judge on labelled answers.

    Prints error rates, consistency when the order is changed, length bias, and accepted canaries (known fakes). What
    must be repaired before the judge decides a reward is marked, and makes the command end with 1: a judge that always
    says no or yes, prefers a place or a length, gives no verdict, accepts a fake or obeys what it reads.
    """
    options = {"model": model, "version": version, "key_variable": key_variable}
    part = judge_named(judge, **options, max_tokens=tokens, context=context)
    result = judge_check(consoles.output(), labelled, part, criterion=criterion, seed=seed, cache=cache)
    if result.flaws:
        raise typer.Exit(1)


def judge_check(
    console: Console, path: Path, judge: JudgePart, *, criterion: str = "", seed: int = 0, cache: Path | None = None
) -> CheckResult:
    """Measure a judge on a labelled file and print the table. Raises DataError, ConfigError, MissingExtra, StoreError.

    The file is read before any model is loaded.
    """
    from turngate.judges.asking.judge import Judge
    from turngate.judges.asking.labelled import read_labelled
    from turngate.judges.asking.trial import check
    from turngate.judges.asking.verdict_store import VerdictCache
    from turngate.judges.texts import CORRECT, Criterion

    rows = read_labelled(path)
    wanted = Criterion(name="criterion", text=criterion) if criterion else CORRECT
    store = VerdictCache(cache) if cache is not None else None

    async def go() -> CheckResult:
        async with judge.text_model(None) as text_model:
            return await check(Judge(text_model, seed=seed, settings=judge, cache=store), rows, wanted)

    result = asyncio.run(go())
    print_table(console, table(result))
    for sentence in result.flaws.values():
        console.print(f"! {sentence}", highlight=False, markup=False)
    return result


def judge_named(text: str, **options: JSON) -> JudgePart:
    """The judge that ``--judge`` names: a server's address, a hub name, a model folder, or a table as in a config.

    ``options`` are the other options that the user gave; they become settings of the judge. Raises ConfigError, also
    for an option that this judge has no setting for.
    """
    from turngate.judges.asking.parts import JudgePart

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
    from turngate.jsonl import toml_of

    try:
        return dict(toml_of(f"judge = {text}")["judge"])
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"--judge '{text}' is not a TOML inline table such as {{type = \"model\"}}: {error}"
        ) from None


def table(result: CheckResult) -> Table:
    """The result as a table for people.

    "!" marks flaws that have to be repaired before the judge is used, see ``CheckResult.flaws``.
    """
    from turngate.judges.texts import FaultKind, upper_bound

    work, order, flaws = result.work, result.order, result.flaws
    made = Table("measure", "value", "", "on", box=None, title=f"judge {result.judge.name}, {result.judge.version}")
    made.caption = "! = repair this before the judge decides a reward"
    bound, negatives, positives = "95 % bound", f"{work.n_negative} rows labelled no", f"{work.n_positive} labelled yes"
    measured = result.n_canaries - result.n_unmeasured
    accepted = _rate(result.n_missed / measured, upper_bound(result.n_missed, measured), bound) if measured else "–"
    pairs = f"{order.n} of {order.n + order.n_missing} pairs, both orders"
    rows = [
        ("false positive rate", _rate(work.false_positive, work.false_positive_bound, bound), negatives),
        ("false negative rate", _rate(work.false_negative, work.false_negative_bound, bound), positives),
        ("kappa", _number(work.kappa), f"{work.n} rows with a verdict"),
        (
            "no verdict",
            str(work.n_missing + order.n_missing + result.n_unmeasured),
            f"{work.n + work.n_missing} rows, {order.n + order.n_missing} pairs, {result.n_canaries} canaries",
        ),
        ("length correlation", _number(work.length_correlation), "score and length, inside each label"),
        ("order consistency", _rate(order.consistency), pairs),
        ("won by the one shown first", _rate(order.first_share), "decided replies; 50 % is fair"),
        ("pair accuracy", _rate(order.accuracy), "orders that disagree are a tie"),
        ("canaries accepted", accepted, f"{measured} of {result.n_canaries} known fakes"),
        ("injections obeyed", str(result.n_obeyed), f"{result.n_injections} of these fakes ask for a yes"),
    ]
    for measure, value, on in rows:
        made.add_row(measure, value, "!" if measure in flaws else "", on)
    faults = ", ".join(f"{kind} {result.tally.faults[kind]}" for kind in FaultKind if result.tally.faults[kind])
    made.add_row("failed calls", faults or "0", "", f"{result.tally.n_calls} calls, {result.tally.n_cached} from cache")
    return made


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _rate(value: float | None, bound: float | None = None, said: str = "") -> str:
    if value is None:
        return "–"
    return f"{value:.1%}" + ("" if bound is None else f" ({said} {bound:.1%})")
