"""Results as a csv file, and as the tables in docs/credit_lab.md between two marker lines."""

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.credit_lab.estimators import Estimator
from benchmarks.credit_lab.learn import Curve
from benchmarks.credit_lab.measure import Measurement, bound
from benchmarks.credit_lab.processes import Process
from turngate.errors import DataError

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
NONE = "–"


@dataclass(frozen=True, kw_only=True, eq=False)
class Results:
    """Everything that one run of the laboratory found, by (process, label of the estimator)."""

    processes: Sequence[Process]
    estimators: Sequence[Estimator]
    measured: Mapping[tuple[str, str], Measurement]
    curves: Mapping[tuple[str, str], Curve]
    about: str

    def of(self, estimator: Estimator) -> list[Measurement]:
        """The measurements of one estimator, process by process."""
        keys = [(process.name, estimator.label) for process in self.processes]
        return [self.measured[key] for key in keys if key in self.measured]

    def covered(self, estimator: Estimator) -> list[Measurement]:
        """Those that its claim is about."""
        return [self.measured[one.name, estimator.label] for one in self.processes if estimator.claims_on(one)]

    def verdict(self, estimator: Estimator) -> tuple[float, float]:
        """The worst deviation from the claim in standard errors, and what an honest estimator may show."""
        found = self.covered(estimator) or self.of(estimator)
        deviations = [one.bias.bend_z if estimator.claims == "direction" else one.bias.z for one in found]
        return max(deviations), bound(sum(len(one.bias.mean_X) for one in found))

    def broken(self) -> list[str]:
        """Estimators that do not keep what they claim."""
        claimed = [one for one in self.estimators if one.claims]
        return [one.label for one in claimed if self.verdict(one)[0] > self.verdict(one)[1]]


def rows(results: Results) -> list[dict[str, object]]:
    """One row for each process and estimator."""
    return [
        _row(results, process, estimator)
        for process in results.processes
        for estimator in results.estimators
        if (process.name, estimator.label) in results.measured
    ]


def _row(results: Results, process: Process, estimator: Estimator) -> dict[str, object]:
    one, curve = results.measured[process.name, estimator.label], results.curves[process.name, estimator.label]
    mean_U, low_U, high_U = curve.interval()
    return {
        "process": process.name,
        "estimator": estimator.label,
        "claims": estimator.claims if estimator.claims_on(process) else "nothing",
        "trajectories": one.trajectories,
        "raw_bias": one.bias.raw,
        "raw_bias_error": one.bias.raw_error,
        "bias_z": one.bias.z,
        "scale": one.bias.scale,
        "direction_bias": one.bias.bend,
        "direction_bias_error": one.bias.bend_error,
        "direction_z": one.bias.bend_z,
        "z_bound": results.verdict(estimator)[1],
        "variance_per_trajectory": one.variance,
        "noise_to_signal": one.noise,
        "cosine_limit": one.cosine,
        "cosine_of_a_batch": one.cosine_batch,
        "trajectories_to_cosine_0.9": one.samples,
        "success_before": mean_U[0],
        "success_after": mean_U[-1],
        "success_after_low": low_U[-1],
        "success_after_high": high_U[-1],
        "success_mean_over_updates": mean_U[1:].mean(),
    }


def write_csv(results: Results, path: Path) -> None:
    """All numbers, with six digits."""
    lines = rows(results)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        for line in lines:
            writer.writerow({key: f"{x:.6g}" if isinstance(x, float) else x for key, x in line.items()})


# --- the page --------------------------------------------------------------------------------------------------------


def write_page(results: Results, path: Path) -> None:
    """Replace what stands between the marker lines. Raises DataError if the page has none."""
    page = path.read_text(encoding="utf-8")
    if BEGIN not in page or END not in page:
        raise DataError(path, f"the marker lines '{BEGIN}' and '{END}' are missing; put them where the tables belong")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n\n{tables(results)}\n{END}{after}", encoding="utf-8")


def tables(results: Results) -> str:
    """The text between the markers: how the run was made, who keeps his claim, bias, sample size, learning."""
    header = ["estimator", *(process.name for process in results.processes)]
    by_claim = [one for one in results.estimators if one.claims]
    by_design = [one for one in results.estimators if not one.claims]
    parts = [
        results.about,
        "### Claims",
        _table(["estimator", "claims", "worst deviation, SE", "bound, SE", "kept"],
               [_claim(results, one) for one in by_claim]),
        "### Biased by design: measured bias",
        _table(["estimator", "worst process", "bias / exact gradient", "scale there", "direction bias there"],
               [_worst(results, one) for one in by_design]),
        "### Direction bias, % (what is left after the best positive scale)",
        _table(header, [[one.label, *_cells(results, one, _bend)] for one in results.estimators]),
        "### Trajectories until the cosine with the exact gradient of the true objective is 0.9",
        _table(header, [[one.label, *_cells(results, one, _samples)] for one in results.estimators]),
        "### Success under the true objective after training, % [95 %]",
        _table(header, [[one.label, *_learned(results, one)] for one in results.estimators]),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    cells = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def _claim(results: Results, estimator: Estimator) -> list[str]:
    worst, allowed = results.verdict(estimator)
    kept = "yes" if worst <= allowed else "**no**"
    return [estimator.label, estimator.claims, f"{worst:.1f}", f"{allowed:.1f}", kept]


def _worst(results: Results, estimator: Estimator) -> list[str]:
    one = max(results.of(estimator), key=lambda found: found.bias.raw)
    bias = one.bias
    return [estimator.label, one.process, f"{bias.raw:.3f} ± {bias.raw_error:.3f}", f"{bias.scale:.2f}", _bend(one)]


def _cells(results: Results, estimator: Estimator, show: Callable[[Measurement], str]) -> list[str]:
    found = [results.measured.get((process.name, estimator.label)) for process in results.processes]
    return [NONE if one is None else show(one) for one in found]


def _bend(one: Measurement) -> str:
    """In percent; in brackets where it is within what noise explains; a minus where the mean points backwards."""
    if math.isnan(one.bias.bend):
        return "no signal"
    text = f"{100 * one.bias.bend:.1f}"
    text = f"({text})" if one.bias.bend_z <= bound(len(one.bias.mean_X)) else text
    return f"{text}, backwards" if one.bias.scale < 0 else text


def _samples(one: Measurement) -> str:
    if math.isinf(one.samples):
        return "never"
    return "many" if math.isnan(one.samples) else f"{one.samples:,.0f}"


def _learned(results: Results, estimator: Estimator) -> list[str]:
    cells = []
    for process in results.processes:
        curve = results.curves.get((process.name, estimator.label))
        if curve is None:
            cells.append(NONE)
            continue
        mean, low, high = (100 * float(line_U[-1]) for line_U in curve.interval())
        cells.append(f"{mean:.0f} [{low:.0f}, {high:.0f}]")
    return cells
