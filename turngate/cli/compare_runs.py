"""``turngate compare``: two runs, or two recorded phases, on the same tasks."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from turngate.errors import ConfigError
from turngate.report.paired_runs import last_evaluations, paired, plot_paired, print_paired
from turngate.store import Store, write_json_atomic


def compare_runs(
    console: Console, a: Path, b: Path, *, phase: str, other: str, png: Path | None, json: Path | None
) -> None:
    """Print the differences between the episodes of two runs, and write them as a picture and as JSON.

    ``phase`` is that of A and, unless ``other`` is given, of B. Without it every split and sampling that both evaluated
    is compared, each run by its last evaluation of it. Raises ConfigError for phases that cannot be paired.
    """
    stores = Store.found(a), Store.found(b)
    if other and not phase:
        raise ConfigError("--other names the phase of B; name that of A with --phase")
    found = [
        paired(*(list(store.read(phase=name)) for store, name in zip(stores, names, strict=True)), phases=names)
        for names in (_given(stores, phase, other or phase) if phase else _common(stores))
    ]
    console.print(f"A: {a}\nB: {b}", markup=False, highlight=False, soft_wrap=True)
    for one in found:
        console.print()
        print_paired(console, one)
    if json is not None:
        write_json_atomic(json, {"a": str(a), "b": str(b), "phases": [one.as_json() for one in found]})
    if png is not None:
        plot_paired(found, png, title=f"{a.name} (A) and {b.name} (B); bars: 95 % of B − A")


def _given(stores: tuple[Store, Store], *names: str) -> list[tuple[str, str]]:
    for store, name in zip(stores, names, strict=True):
        if name not in store.phases():
            raise ConfigError(
                f"'{store.path}' has no episodes of phase '{name}'; recorded phases: {', '.join(store.phases())}"
            )
    return [(names[0], names[1])]


def _common(stores: tuple[Store, Store]) -> list[tuple[str, str]]:
    """The phases of A and B for each split and sampling that both evaluated."""
    last = [last_evaluations(store.phases()) for store in stores]
    if common := [split for split in last[0] if split in last[1]]:
        return [(last[0][split], last[1][split]) for split in common]
    known = "; ".join(f"{name}: {', '.join(store.phases())}" for name, store in zip("AB", stores, strict=True))
    raise ConfigError(
        f"no split was evaluated in both at one sampling; name the phases with --phase and --other. Recorded: {known}"
    )
