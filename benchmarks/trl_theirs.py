"""TRL's side of ``benchmarks/trl.py``; run by the Python that has TRL. Prints a JSON line per training step.

``GRPOTrainer`` with ``environment_factory``. What differs from its defaults, each because it is faster on these sizes
and changes nothing in what is learned: no gradient checkpointing, no reference model (β = 0, as turngate), one
optimizer step per batch of episodes (so no log-probabilities of an older policy), at most ``turn_tokens`` new tokens
per call of ``generate``, nothing saved or reported.

TRL knows no end of an episode: after the result of each call it generates again. So an episode here has one call less
than turns, and the call of the last turn is carried out when the reward is asked for. An episode that ends before its
last turn goes on in TRL until it has them. The prompt shows the schemas of turngate's tools, because those that TRL
makes of the methods have another order and more words, and both sides must see the same prompts.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.trl_world import WORLDS, Tools, schemas, tools_of


def reward(completions: list[list[dict[str, Any]]], environments: list[Tools], **row: object) -> list[float]:
    """What turngate's rubric pays each episode."""
    last = [said[-1].get("tool_calls") or [] if said[-1]["role"] == "assistant" else [] for said in completions]
    return [world._settle(calls) for world, calls in zip(environments, last, strict=True)]


def config_of(asked: argparse.Namespace, episodes: int) -> Any:
    """TRL's settings for steps of so many episodes."""
    from trl import GRPOConfig

    world, on_gpu = WORLDS[asked.world], asked.device == "cuda"
    return GRPOConfig(
        output_dir=str(asked.tasks.with_suffix(".trl")),
        use_cpu=not on_gpu,
        bf16=on_gpu,
        model_init_kwargs={"dtype": "float32"},
        max_steps=asked.steps,
        per_device_train_batch_size=asked.batch,
        gradient_accumulation_steps=episodes // asked.batch,
        num_generations=asked.group,
        max_completion_length=world.context,
        max_tool_calling_iterations=world.turns - 1,
        generation_kwargs={"max_new_tokens": world.turn_tokens},
        temperature=1.0,
        learning_rate=1e-6,
        lr_scheduler_type="constant",
        beta=0.0,
        gradient_checkpointing=False,
        shuffle_dataset=False,
        dataloader_pin_memory=on_gpu,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=0,
    )


def trainer_of(asked: argparse.Namespace, ids: list[str]) -> Any:
    """A ``GRPOTrainer`` that prints a line after each step."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOTrainer

    class Counting(GRPOTrainer):  # type: ignore[misc]
        """Notes how long episodes take, and how many tokens were sampled in them."""

        noted: dict[str, float]

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            start_s = time.perf_counter()
            found = super()._generate_and_score_completions(inputs)
            self.noted["rollout_s"] = time.perf_counter() - start_s
            return found

        def _generate(self, prompts: Any) -> Any:
            found = super()._generate(prompts)
            prompt_ids, _, mask, completions = found[:4]
            said = [[one for one in episode if one["role"] == "assistant"] for episode in completions]
            self.noted = {
                "episodes": len(mask),
                "turns": sum(map(len, said)),
                "calls": sum(bool(one.get("tool_calls")) for episode in said for one in episode),
                "sampled_tokens": sum(map(sum, mask)),
                "prompt_tokens": sum(map(len, prompt_ids)) / len(prompt_ids),
            }
            return found

    class Steps(TrainerCallback):
        """Prints a line after each step. The first one builds everything, so it is timed from no useful moment."""

        since = (time.perf_counter(), time.process_time())

        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            """See the class."""
            now = (time.perf_counter(), time.process_time())
            line = {"wall_s": now[0] - self.since[0], "cpu_s": now[1] - self.since[1], **trainer.noted}
            print(json.dumps(line), flush=True)
            self.since = (time.perf_counter(), time.process_time())

    trainer = Counting(
        model=asked.model,
        reward_funcs=reward,
        args=config_of(asked, len(ids) // asked.steps * asked.group),
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": ""}], "task": one} for one in ids]),
        environment_factory=partial(tools_of, asked.world),
        callbacks=[Steps()],
    )
    trainer._env_tools = {None: [dict(tool) for tool in schemas(asked.world)]}
    return trainer


def main() -> None:
    """Train for some steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--world", choices=list(WORLDS), required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tasks", type=Path, required=True, help="ids of the tasks, in order; one per group")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--group", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True, help="episodes per pass through the model")
    parser.add_argument("--device", required=True)
    asked = parser.parse_args()

    import torch

    trainer = trainer_of(asked, json.loads(asked.tasks.read_text()))
    torch.manual_seed(0)
    trainer.train()
