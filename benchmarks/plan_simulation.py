"""What ``turngate plan`` says of fleets that are not here, beside its simulator: the tables of docs/scale.md.

    python -m benchmarks.plan_simulation [--csv docs/data/scale_plan.csv] [--largest]

Every number is modelled from turngate/run/plan/rate_table.toml. Each row is a config, a number of GPUs and nodes, and
what differs from that table. With --largest only the largest fleet is simulated, 1,000 engines and 100,000
environments, and its processor seconds are printed. Needs torch and transformers, for the shapes of models; no weights
are made.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from turngate.agents.protocols import LanguageModel
from turngate.config.run_config import parse
from turngate.run.plan.fleet import Fleet, collect_bounds
from turngate.run.plan.fleet_simulation import SimulatedStep, simulate_step
from turngate.run.plan.rate_table import RateTable, read_rates
from turngate.run.plan.scale_plan import scale_plan

SHAPES = {
    "0.6B": (1024, 3072, 28, 16, True),
    "4B": (2560, 9728, 36, 32, True),
    "8B": (4096, 12288, 36, 32, False),
}
"""Of Qwen3: width, inner width, layers, heads, tied embeddings."""
PASS_TOKENS = {"0.6B": 16_384, "4B": 4096, "8B": 1024}
"""Of a pass of the learner, few enough that it fits an H100."""
LARGEST = Fleet(
    engines=1000,
    slots=100,
    workers=100_000,
    decode_s=0.41,
    env_s=0.058,
    env_sigma=0.5,
    engine_failures_per_s=5.5e-9,
    engine_restart_s=60.0,
    env_failures_per_s=1e-4,
    env_restart_s=1.0,
)
Changes: TypeAlias = Mapping[str, Mapping[str, object]]
NO_HOST: Changes = {"host": {"turn_s": 0.0}}
"""As if any number of processes started turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row. ``changes`` of the table of rates; ``what`` says them in words."""

    what: str
    model: str = "0.6B"
    gpus: int = 1
    nodes: int = 1
    episodes: int = 128
    env: str = "turngate/Sql-v1"
    ahead: int = 0
    changes: Changes = field(default_factory=dict)


def calls(env_s: float, sigma: float) -> Changes:
    """Changes for calls of this mean and spread, with a worker for every slot."""
    environment = {"turngate/Sql-v1": {"turn_s": env_s, "source": "assumed"}}
    return {**NO_HOST, "environments": environment, "episode": {"env_sigma": sigma}, "node": {"workers": 4096}}


CASES = (
    Case(what="as measured"),
    Case(what="as measured", gpus=8, episodes=1024),
    Case(what="as measured", gpus=64, nodes=8, episodes=8192),
    Case(what="as measured", gpus=1000, nodes=125, episodes=128_000),
    Case(what="no host", gpus=8, episodes=1024, changes=NO_HOST),
    Case(what="no host", gpus=64, nodes=8, episodes=8192, changes=NO_HOST),
    Case(what="no host", gpus=1000, nodes=125, episodes=128_000, changes=NO_HOST),
    Case(what="no host", gpus=64, nodes=8, episodes=1024, changes=NO_HOST),
    Case(what="no host, ahead", gpus=64, nodes=8, episodes=8192, ahead=1, changes=NO_HOST),
    Case(what="no host", model="4B", gpus=8, episodes=1024, changes=NO_HOST),
    Case(what="no host", model="4B", gpus=64, nodes=8, episodes=8192, changes=NO_HOST),
    Case(what="no host", model="8B", gpus=8, episodes=1024, changes=NO_HOST),
    Case(what="no host", model="8B", gpus=64, nodes=8, episodes=8192, changes=NO_HOST),
    Case(what="no host", model="8B", gpus=1000, nodes=125, episodes=128_000, changes=NO_HOST),
    Case(what="no host, clicks in a browser", gpus=64, nodes=8, episodes=8192, env="turngate/Web-v1", changes=NO_HOST),
    *(Case(what=f"calls of 2 s, σ {s:g}", gpus=8, episodes=1024, changes=calls(2.0, s)) for s in (0.0, 0.5, 1.0, 1.5)),
    *(
        Case(
            what=f"calls of 30 s, an engine dies every {hours:g} h",
            gpus=64,
            nodes=8,
            episodes=8192,
            changes={**calls(30.0, 0.5), "failures": {"engine_per_s": 1 / (3600 * hours)}},
        )
        for hours in (1000.0, 10.0, 1.0)
    ),
    *(
        Case(
            what=f"calls of 30 s, an environment dies every {minutes:g} min",
            gpus=64,
            nodes=8,
            episodes=8192,
            changes={**calls(30.0, 0.5), "failures": {"env_per_s": 1 / (60 * minutes), "env_restart_s": 5.0}},
        )
        for minutes in (1000.0, 10.0, 2.0)
    ),
)
COLUMNS = (
    "what model gpus nodes engines learners episodes collect_s simulated_s slowest_s tail_s learn_s exchange_s push_s "
    "step_s simulated_step_s limit useful_engines broken simulated_steps"
).split()


def model_of(shape: str) -> LanguageModel:
    """A model of Qwen3's architecture without memory for weights."""
    width, inner, layers, heads, tied = SHAPES[shape]
    settings = Qwen3Config(
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=151_936,
        tie_word_embeddings=tied,
        max_position_embeddings=40_960,
    )
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(settings, dtype=torch.float32, attn_implementation="sdpa")
    found: LanguageModel = model
    return found


def rates_of(changes: Changes) -> RateTable:
    """The shipped table with changes."""
    table = read_rates().model_dump()
    for section, change in changes.items():
        table[section] |= change
    return RateTable.model_validate(table)


def row_of(case: Case) -> dict[str, object]:
    """What the plan and the simulator say of a case."""
    config = parse(
        {
            "model": case.model,
            "env": {"id": case.env},
            "policy": {"concurrency": 128},
            "learner": {"tokens_per_pass": PASS_TOKENS[case.model]},
            "train": {"tasks_per_step": case.episodes // 8, "group_size": 8, "ahead": case.ahead},
        }
    )
    plan = scale_plan(config, model_of(case.model), rates_of(case.changes), gpus=case.gpus, nodes=case.nodes)
    stages, steps = plan.stages, plan.simulated(config.seed)
    found = steps[len(steps) // 2]
    seconds = {
        "collect_s": stages.collect.most_s,
        "simulated_s": found.collect_s,
        "slowest_s": steps[-1].collect_s,
        "tail_s": found.tail_s,
        "learn_s": stages.learn_s,
        "exchange_s": stages.exchange_s,
        "push_s": stages.push_s,
        "step_s": stages.step_s,
        "simulated_step_s": stages.step_with(found.collect_s),
    }
    return {
        **{name: getattr(case, name) for name in ("what", "model", "gpus", "nodes", "episodes")},
        "engines": plan.split.sampling,
        "learners": plan.split.learning,
        **{name: f"{value:.4g}" for name, value in seconds.items()},
        "limit": stages.limit,
        "useful_engines": plan.useful,
        "broken": found.broken,
        "simulated_steps": len(steps),
    }


def markdown(rows: Sequence[Mapping[str, object]]) -> str:
    """The rows as the table of docs/scale.md."""
    shown = "what model gpus episodes collect_s simulated_s learn_s exchange_s push_s step_s limit broken".split()
    lines = [shown, ["---"] * len(shown), *([str(row[name]) for name in shown] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def largest(*, episodes: int = 100_000, turns: int = 4) -> tuple[SimulatedStep, float]:
    """The largest fleet plays a step of an episode for every slot; and the processor seconds that this takes."""
    start_s = time.process_time()
    found = simulate_step(LARGEST, episodes=episodes, turns=turns, seed=0)
    return found, time.process_time() - start_s


def main() -> None:
    """Print the tables, and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, help="where the rows are written")
    parser.add_argument("--largest", action="store_true", help="only the largest fleet")
    chosen = parser.parse_args()
    if not chosen.largest:
        rows = [row_of(case) for case in CASES]
        print(markdown(rows))
        if chosen.csv is not None:
            with chosen.csv.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
        return
    found, processor_s = largest()
    bounds = collect_bounds(LARGEST, episodes=100_000, turns=4)
    print(
        f"1,000 engines × 100 slots, 100,000 environments, 100,000 episodes of 4 turns: {found.collect_s:.3f} s "
        f"(bound {bounds.most_s:.3f} s), {found.broken} broke; simulated in {processor_s:.1f} s of one core"
    )


if __name__ == "__main__":
    main()
