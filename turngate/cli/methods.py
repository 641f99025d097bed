"""``turngate methods``: the published methods that a config can name, by kind, and one of them in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turngate.cli import consoles
from turngate.errors import ConfigError, UnknownName
from turngate.methods.overlay import ENDING, KINDS, NOT_MEASURED, Method, find, listed, names
from turngate.report.tables import print_table

app = typer.Typer(rich_markup_mode=None)
ONLY = "the model, its data, learning rates, and how long and with how many episodes is trained: those are yours"
INTRODUCTION = f"""\
# Published methods

A method is an overlay: a file of settings that is merged into a config before it is validated.

```
turngate train my.toml --method gigpo
turngate methods                  # all of them, by kind
turngate methods entropy          # those with a word
turngate methods gigpo            # paper, equation, what is left out, and the settings
```

In a config it is `method = "gigpo"`, and `method = ["gigpo", "gspo"]` joins two. No overlay sets {ONLY}.

Where your config and a method meet: lists of parts (`examine`, `auxiliary`, `train.filters`, `loss.penalties`,
`loss.correction`) are joined. Two different parts for one key (`credit`, `guide`, `branching` …) are refused. Any other
setting counts as *you* wrote it, in the file or on the command line, and the run says at its start what the method has
instead. `config.toml` in the run's folder has every setting as it was merged, and under `[[method]]` which methods were
named and where yours counted instead.

A method that does not fit is refused by its name, with what it needs. Your own is a file of the same form: `--method
mine.toml`; a package names its own under `turngate.methods` (CONTRIBUTING.md). This page is what `turngate methods
--markdown` prints.
"""


@app.command()
def methods(
    name: Annotated[
        str, typer.Argument(metavar="[NAME|WORD]", help="A method to show; any other word lists the methods with it.")
    ] = "",
    kind: Annotated[str, typer.Option(help="Only this kind: credit, objective, guidance …")] = "",
    markdown: Annotated[bool, typer.Option("--markdown", help="Print all of them as docs/methods.md.")] = False,
) -> None:
    """List published methods, or show one: paper, equation, what is left out, its settings. train --method NAME."""
    if markdown:
        if name or kind:
            raise ConfigError("--markdown prints every method; leave the name and --kind out")
        consoles.output().print(markdown_page(), markup=False, highlight=False, soft_wrap=True, end="")
    else:
        _print_found(consoles.output(), name, kind)


def _print_found(console: Console, name: str, kind: str) -> None:
    """Print a method with its settings, or the list of those that hold a word, of one kind or all.

    Raises UnknownName for a kind that there is not, ConfigError where nothing is found.
    """
    if kind and kind not in KINDS:
        raise UnknownName("kind of method", kind, KINDS)
    if name in names() or name.endswith(ENDING) or ":" in name:
        if kind:
            raise ConfigError(f"--kind has no effect with the name of a method, '{name}'; leave it out")
        _print_method(console, find(name))
        return
    found, broken = listed()
    chosen = {one: method for one, method in found.items() if _holds(method, name) and kind in ("", method.head.kind)}
    if not chosen and not broken:
        where = f" of kind '{kind}'" if kind else ""
        raise UnknownName(
            f"method{where}, and no method holds the word,", name, found, hint="turngate methods lists all"
        )
    for group, some in _by_kind(chosen):
        console.print(f"{group}: {KINDS[group]}", markup=False, highlight=False)
        _list(console, {method.name: method.head.changes for method in some})
        console.print()
    for one, why in broken.items():
        console.print(f"{one}: {why}", markup=False, highlight=False)
    console.print(
        "turngate methods NAME shows one; turngate train CONFIG --method NAME trains with it.", highlight=False
    )


def markdown_page() -> str:
    """The page docs/methods.md: the methods that come with turngate, by kind."""
    found = [method for method in listed()[0].values() if method.is_shipped]
    pieces = [INTRODUCTION]
    for group, some in _by_kind({method.name: method for method in found}):
        pieces.append(f"\n## {group.capitalize()}: {KINDS[group]}\n")
        pieces += [f"\n{entry}" for entry in map(_entry, some)]
    return "".join(pieces)


def _entry(method: Method) -> str:
    head = method.head
    lines = [
        f"### `{method.name}`",
        "",
        f"[{head.called}]({head.source}): *{head.paper}* ({head.year}). {head.changes}",
        "",
    ]
    lines += [f"* equation: {head.equation}"] if head.equation else []
    lines.append(f"* parts: {', '.join(f'`{part}`' for part in method.parts)}")
    lines += [f"* left out: {head.left_out}"] if head.left_out else []
    lines += [f"* needs {head.needs}"] if head.needs else []
    lines.append(f"* {_measured(head.measured)}")
    return "\n".join(lines) + "\n"


def _measured(page: str) -> str:
    return page if page == NOT_MEASURED else f"measured: [{page.removeprefix('docs/')}]({page.removeprefix('docs/')})"


def _holds(method: Method, word: str) -> bool:
    head = method.head
    said = [method.name, head.called, head.kind, head.paper, str(head.year), head.changes, head.source, *method.parts]
    return word.casefold() in " ".join(said).casefold()


def _by_kind(methods: Mapping[str, Method]) -> Iterator[tuple[str, Sequence[Method]]]:
    for kind in KINDS:
        if some := [method for method in methods.values() if method.head.kind == kind]:
            yield kind, some


def _list(console: Console, lines: Mapping[str, str]) -> None:
    width = max(map(len, lines))
    table = Table.grid(padding=(0, 2))
    for name, said in lines.items():
        if console.soft_wrap:
            console.print(f"  {name:<{width}}  {said}", markup=False, highlight=False)
        table.add_row("", Text(name), Text(said))
    if not console.soft_wrap:
        print_table(console, table)


def _print_method(console: Console, method: Method) -> None:
    from turngate.report.show import indented

    head = method.head
    console.print(f"{method.name}: {head.called} ({head.kind})", markup=False, highlight=False)
    rows = {
        "paper": f"{head.paper} ({head.year}), {head.source}",
        "changes": head.changes,
        "equation": head.equation,
        "parts": ", ".join(method.parts),
        "left out": head.left_out or "nothing that is noted",
        "needs": head.needs,
        "measured": head.measured,
    }
    for label, said in rows.items():
        if said:
            console.print(f"  {label}:", highlight=False)
            indented(console, Text(said), 4)
    console.print("\nmerged into the config:\n", highlight=False)
    console.print(method.text, markup=False, highlight=False, soft_wrap=True)
    console.print(f"\nNo method sets {ONLY}.", markup=False, highlight=False)
