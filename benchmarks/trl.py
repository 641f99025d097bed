"""A training step of turngate against one of TRL's ``GRPOTrainer`` with ``environment_factory``:

    python3 -m venv trl && trl/bin/pip install torch==2.13.0
    trl/bin/pip install trl==1.16.0 "transformers>=5.16,<5.20" datasets accelerate
    trl/bin/pip install docstring_parser gymnasium pydantic rich tomli-w typer
    python -m benchmarks.trl --trl-python trl/bin/python [--world sql] [--pairs 5]

Both train the same model, of Qwen3's architecture and with Qwen3's chat template, on the same tasks of the same
environments: as many episodes, groups, turns and sampled tokens per step, one update each, temperature 1, learning rate
1e-6, so that the policy stays the one that both begin with. That one is made here: random weights, then a warm start on
the oracle's calls, until it calls a tool in nearly every turn. Wall time is from the end of a step to the end of the
next one; the first step, which builds everything, is left out. A pair is a process of each, one after the other, in
turn the one or the other first; the ratio of a pair is that of its median steps, above 1 where turngate is faster.

Each side first tries numbers of threads (and TRL episodes per pass) and keeps what was fastest (``--no-tune``: one
thread, 32 episodes). ``cpu`` is the same ratio in processor seconds, which depend less on what else a machine does.

What differs. turngate also stores every episode, compares sampler and learner after each update and writes metrics;
TRL does not. TRL evaluates nothing and keeps no checkpoint; turngate's are outside of the measured steps but for the
last one's. turngate learns from equal prefixes of siblings once, decodes episodes independently of each other and keeps
their caches between turns; TRL computes all rows, waits for the longest of a turn and reads the whole context again in
each turn.

    python -m benchmarks.trl --trl-python … --shape 0.6b --device cuda

is the same with the sizes of Qwen3-0.6B on a GPU, in bfloat16. Nobody has run that yet. Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.trl_ours import settings, tasks_of
from benchmarks.trl_world import SHAPES, TOOL_FORMAT, WORLDS, Shape
from turngate.agents.chat import Chat
from turngate.agents.tiny import train_tokenizer
from turngate.config.run_config import Config
from turngate.run.assembly.models import load_model, save_model
from turngate.run.environments import Environments
from turngate.run.job import Job
from turngate.run.start.demonstrations import demonstrations, texts_of
from turngate.store.folder import RunFolder
from turngate.tools.read import rewritten

TEMPLATE = "import trl, pathlib; print((pathlib.Path(trl.__file__).parent / 'chat_templates/qwen3.jinja').read_text())"
MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
Line = dict[str, float]


def untrained(config: Config, shape: Shape, template: str, folder: Path) -> None:
    """A model with random weights, and a tokenizer trained on what the environment and its oracle say."""
    import torch
    from transformers import AddedToken, Qwen3Config, Qwen3ForCausalLM

    assert config.warm_start is not None
    with Environments(config.env) as environments:
        shown = demonstrations(environments, config.warm_start)

        async def texts() -> list[str]:
            async with environments.worlds(8) as worlds:
                return await texts_of(shown, worlds)

        (_, env), *_ = environments
        tools = env.turn_spec.tools
        calls = [rewritten(line, tools, TOOL_FORMAT) for lines in shown.lines.values() for line in lines]
        listed = [json.dumps(tool.schema) for tool in tools] * 20  # often enough to become few tokens
        tokenizer: Any = train_tokenizer([*asyncio.run(texts()), *calls, *listed, template], vocabulary=shape.tokenizer)
    tokenizer.add_special_tokens(
        {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "additional_special_tokens": ["<|im_start|>"]}
    )
    tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in MARKS])
    tokenizer.chat_template = template
    sizes = Qwen3Config(
        vocab_size=shape.vocabulary or len(tokenizer),
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_width,
        max_position_embeddings=config.policy.context,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        initializer_range=shape.width**-0.5,
    )
    torch.manual_seed(0)
    save_model(Qwen3ForCausalLM(sizes), tokenizer, folder)


def start(name: str, shape: Shape, template: str, folder: Path, device: str) -> str:
    """The folder of the model that both sides begin with."""
    world = WORLDS[name]
    fresh = str(folder / "untrained")
    config = settings(name, fresh, folder, steps=1, tasks=1, group=2, device=device)
    data = config.model_dump(mode="json", exclude_unset=True) | {
        "name": "start",
        "warm_start": {
            "episodes": world.demonstrations,
            "epochs": world.epochs,
            "episodes_per_batch": 16,
            "lr": shape.lr,
        },
        "train": {"steps": 0},
        "eval": {"tasks": 32},
        "sink": [{"type": "console"}],
    }
    config = Config.model_validate(data)
    made = RunFolder(folder / "start").warm_start
    if made.exists():
        return str(made)
    untrained(config, shape, template, Path(fresh))
    Job(config, Console(stderr=True)).run()
    return str(made)


class Sides:
    """Both sides on one world."""

    def __init__(self, asked: argparse.Namespace, name: str, model: str, folder: Path) -> None:
        self._asked, self._name, self._model, self._folder = asked, name, model, folder
        self._runs = 0

    def ours(self, steps: int, threads: int) -> list[Line]:
        """The measured steps of a run of turngate."""
        asked, self._runs = self._asked, self._runs + 1
        arguments = ["--folder", str(self._folder / f"run{self._runs}"), "--tasks", str(asked.tasks)]
        return self._steps(sys.executable, "ours", steps, threads, arguments)

    def theirs(self, steps: int, threads: int, batch: int) -> list[Line]:
        """The measured steps of TRL."""
        asked, path = self._asked, self._folder / "tasks.json"
        sizes = {"steps": steps + 1, "tasks": asked.tasks, "group": asked.group, "device": asked.device}
        path.write_text(json.dumps(tasks_of(settings(self._name, self._model, self._folder, **sizes))))
        return self._steps(asked.trl_python, "theirs", steps, threads, ["--tasks", str(path), "--batch", str(batch)])

    def _steps(self, python: str, side: str, steps: int, threads: int, arguments: list[str]) -> list[Line]:
        asked = self._asked
        command = [
            python, "-c", f"from benchmarks.trl_{side} import main; main()",
            "--world", self._name, "--model", self._model,
            "--steps", str(steps + 1), "--group", str(asked.group), "--device", asked.device, *arguments,
        ]  # fmt: skip
        root = str(Path(__file__).resolve().parents[1])
        env = {
            **os.environ,
            "PYTHONPATH": root,
            "OMP_NUM_THREADS": str(threads),
            "HF_HUB_OFFLINE": "1",
            "TRL_EXPERIMENTAL_SILENCE": "1",
        }
        done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
        if done.returncode or len(lines) != steps + 1:
            raise RuntimeError(f"{' '.join(command)} failed ({done.returncode}):\n{done.stderr[-4000:]}")
        return lines[1:]


def best_settings(sides: Sides, episodes: int) -> tuple[int, tuple[int, int]]:
    """Threads of turngate; threads of TRL and its episodes per pass: what took the shortest step."""
    threads = sorted({1, os.cpu_count() or 1})
    batches = [batch for batch in (16, 32, 64, 128) if episodes % batch == 0]
    ours = {count: _median(sides.ours(2, count), "wall_s") for count in threads}
    theirs = {pair: _median(sides.theirs(2, *pair), "wall_s") for pair in product(threads, batches)}
    print(json.dumps({"tried": {"ours": ours, "theirs": {str(key): s for key, s in theirs.items()}}}), file=sys.stderr)
    return min(ours, key=ours.__getitem__), min(theirs, key=theirs.__getitem__)


def compared(sides: Sides, asked: argparse.Namespace) -> dict[str, Any]:
    """All pairs, and the medians of their ratios."""
    episodes = asked.tasks * asked.group
    ours_threads, theirs_best = best_settings(sides, episodes) if asked.tune else (1, (1, min(32, episodes)))
    pairs = []
    for number in range(asked.pairs):
        if number % 2:
            theirs = sides.theirs(asked.steps, *theirs_best)
            ours = sides.ours(asked.steps, ours_threads)
        else:
            ours = sides.ours(asked.steps, ours_threads)
            theirs = sides.theirs(asked.steps, *theirs_best)
        pairs.append((_summary(ours), _summary(theirs)))
        print(json.dumps(pairs[-1]), file=sys.stderr)
    ratios = {
        name: [theirs[key] / ours[key] for ours, theirs in pairs]
        for name, key in (("step", "wall_s"), ("rollout", "rollout_s"), ("rest", "rest_s"), ("cpu", "cpu_s"))
    }
    ratios["sampled tokens per second"] = [ours["tokens_per_s"] / theirs["tokens_per_s"] for ours, theirs in pairs]
    return {
        "threads": {"turngate": ours_threads, "trl": theirs_best[0]},
        "trl episodes per pass": theirs_best[1],
        "medians": {name: round(statistics.median(values), 2) for name, values in ratios.items()},
        "ratios": {name: [round(value, 2) for value in values] for name, values in ratios.items()},
        "turngate": _rounded(pairs, 0),
        "trl": _rounded(pairs, 1),
    }


def _summary(lines: list[Line]) -> Line:
    """The median step. ``rest_s``: what is not rollout and rewards."""
    found = {name: _median(lines, name) for name in lines[0]}
    found["rest_s"] = statistics.median(line["wall_s"] - line["rollout_s"] for line in lines)
    found["tokens_per_s"] = statistics.median(line["sampled_tokens"] / line["wall_s"] for line in lines)
    return found


def _rounded(pairs: list[tuple[Line, Line]], side: int) -> Line:
    return {name: round(statistics.median(pair[side][name] for pair in pairs), 3) for name in pairs[0][side]}


def _median(lines: list[Line], name: str) -> float:
    return statistics.median(line[name] for line in lines)


def prompt_tokens(name: str, model: str) -> float:
    """Mean length of turngate's prompts of the first tasks."""
    _, tokenizer = load_model(model)
    chat = Chat(tokenizer)
    with Environments(settings(name, model, Path(), steps=1, tasks=1, group=2, device="cpu").env) as environments:
        label, env = next(iter(environments))
        schemas = [tool.schema for tool in env.turn_spec.tools]
        tasks = environments.heldout(label, "train", 16)
        shown = [env.reset(seed=0, options={"task": task, "tool_format": TOOL_FORMAT})[0].text for task in tasks]
        return statistics.mean(len(chat.frames(schemas).opening(text)) for text in shown)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trl-python", required=True, help="a Python that has TRL")
    parser.add_argument("--world", choices=list(WORLDS), action="append", help="default: all")
    parser.add_argument("--shape", choices=list(SHAPES), default="tiny", help="sizes of the model")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs")
    parser.add_argument("--steps", type=int, default=5, help="measured steps of each run, after one that is not")
    parser.add_argument("--tasks", type=int, default=16, help="tasks of a step")
    parser.add_argument("--group", type=int, default=8, help="episodes of a task")
    parser.add_argument("--keep", default="", help="a folder in which the models to begin with are kept and looked for")
    parser.add_argument("--no-tune", dest="tune", action="store_false", help="try no settings first")
    asked = parser.parse_args()
    template = subprocess.run([asked.trl_python, "-c", TEMPLATE], check=True, capture_output=True, text=True).stdout
    found = {}
    for name in asked.world or WORLDS:
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(asked.keep or folder) / f"{name}-{asked.shape}"
            model = start(name, SHAPES[asked.shape], template.removesuffix("\n"), kept, asked.device)
            found[name] = compared(Sides(asked, name, model, Path(folder)), asked)
            found[name]["turngate"]["prompt_tokens"] = prompt_tokens(name, model)
    print(json.dumps({"shape": asked.shape, "device": asked.device, "worlds": found}, indent=2))


if __name__ == "__main__":
    main()
