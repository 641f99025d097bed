"""Sampled tokens per second of vLLM and of the ``local`` engine, on the same model and the same episodes:

    TURNGATE_VLLM_PYTHON=.venv-vllm/bin/python OMP_NUM_THREADS=2 python -m benchmarks.vllm_engine [--model FOLDER]
    python -m benchmarks.vllm_engine --shape 0.6b --sleep 1        # on a GPU; nobody has run that yet

Each episode has three turns, every turn begins with a prompt or an observation of random ids, and siblings share the
first prompt; so both engines use their caches over turns and siblings. Weights are random, so nearly all turns use
their whole budget. Runs alternate, the first of each is left out, and the median counts. Also printed: seconds to
start vLLM, and of one push of weights with all that is compared after it. On a GPU both engines compute in
bfloat16, and free memory is printed while vLLM samples and while it sleeps. Prints JSON.

``--lora RANK`` compares vLLM with itself instead: adapters of that rank on all linear layers, sent merged into the
weights or apart.
"""

import argparse
import asyncio
import copy
import json
import math
import statistics
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.one_gpu import DEVICE, SHAPES, model_of, versions
from turngate.agents.chat import Chat
from turngate.agents.policies.base import Policy
from turngate.agents.policies.forward import cast, precision_of
from turngate.agents.policies.local import LocalPolicy
from turngate.agents.policies.parts import VLLMPolicyPart
from turngate.agents.tiny import load, random_model, train_tokenizer
from turngate.trainer.learner import Lora
from turngate.trainer.torch.learner import TorchLearner
from turngate.types import Request

GROUP, TURNS, PROMPT, OBSERVATION = 8, 3, 128, 32


async def play(policy: Policy, *, episodes: int, tokens: int, vocabulary: int, seed: int) -> tuple[int, float]:
    """Number of sampled tokens, and seconds."""
    rng = np.random.default_rng(seed)
    prompts = rng.integers(3, vocabulary, (-(-episodes // GROUP), PROMPT)).astype(np.int32)
    seen = rng.integers(3, vocabulary, (episodes, TURNS, OBSERVATION)).astype(np.int32)

    async def episode(number: int) -> int:
        ids, n = prompts[number // GROUP], 0
        name = f"{seed}.{number}"
        async with policy.slot():
            for turn in range(TURNS):
                order = Request(
                    episode=name, task_id="", ids=ids, turn=turn, seed=1000 * number + turn, max_tokens=tokens
                )
                said = await policy.complete(order)
                ids, n = np.concatenate([ids, said.ids_K, seen[number, turn]]), n + len(said.ids_K)
            policy.release(name)
        return n

    start_s = time.perf_counter()
    sampled = await asyncio.gather(*map(episode, range(episodes)))
    return sum(sampled), time.perf_counter() - start_s


async def compare(model: Any, chat: Chat, asked: argparse.Namespace) -> dict[str, Any]:
    context = PROMPT + TURNS * (asked.tokens + OBSERVATION)
    weights = dict(model.named_parameters())
    n_tokens = model.get_output_embeddings().weight.shape[0]
    local = LocalPolicy(model, chat, concurrency=asked.episodes)
    part = VLLMPolicyPart(context=context, concurrency=asked.episodes, gpu_memory=asked.gpu_memory, sleep=asked.sleep)
    vllm = part.open(model, chat)
    rates: dict[str, list[float]] = {"local": [], "vllm": []}
    start_s = time.perf_counter()
    async with vllm.running():
        start_s = time.perf_counter() - start_s
        for round_ in range(asked.rounds + 1):
            for name, policy in (("local", local), ("vllm", vllm)):
                n, took_s = await play(
                    policy, episodes=asked.episodes, tokens=asked.tokens, vocabulary=n_tokens, seed=round_
                )
                rates[name] += [n / took_s] if round_ else []
        push_s = time.perf_counter()
        await vllm.publish(weights, 1)
        push_s = time.perf_counter() - push_s
        free_gib = {"idle": gib_free()}
        playing = asyncio.ensure_future(
            play(vllm, episodes=GROUP, tokens=asked.tokens, vocabulary=n_tokens, seed=asked.rounds + 1)
        )
        while not (await asyncio.wait([playing], timeout=0.02))[0]:
            free_gib["sampling"] = min(gib_free(), free_gib.get("sampling", math.inf))
    per_s = {name: statistics.median(found) for name, found in rates.items()}
    return {
        "parameters": sum(weight.numel() for weight in weights.values()),
        "shape": f"{asked.episodes} episodes in groups of {GROUP}, {TURNS} turns of {asked.tokens} tokens, prompt "
        f"{PROMPT}, observations {OBSERVATION}",
        "threads": torch.get_num_threads(),
        "tokens_per_s": {name: round(rate) for name, rate in per_s.items()},
        "vllm_over_local": round(per_s["vllm"] / per_s["local"], 2),
        "start_s": round(start_s, 1),
        "push_s": round(push_s, 3),
        "device": DEVICE.type,
        "sleep": asked.sleep,
        "gib_free_on_gpu": free_gib if DEVICE.type == "cuda" else None,
        "versions": versions(),
    }


def gib_free() -> float:
    """Memory of the GPU that no process has; 0 on a CPU."""
    return round(torch.cuda.mem_get_info()[0] / 2**30, 2) if DEVICE.type == "cuda" else 0.0


async def compare_adapters(model: Any, chat: Chat, asked: argparse.Namespace) -> dict[str, Any]:
    """Both ways to send adapters of some size, in ``--dtype``; each engine is started on its own."""
    context = PROMPT + TURNS * (asked.tokens + OBSERVATION)
    n_tokens = model.get_output_embeddings().weight.shape[0]
    learner = TorchLearner(copy.deepcopy(model), lr=1e-4, lora=Lora(rank=asked.lora, alpha=2 * asked.lora))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in learner.model.named_parameters():
            if ".lora_B." in name:
                weight.copy_(1e-3 * torch.randn(weight.shape, generator=generator))
    found: dict[str, Any] = {"rank": asked.lora, "dtype": asked.dtype}
    for adapters in ("merged", "apart"):
        part = VLLMPolicyPart(context=context, concurrency=asked.episodes, dtype=asked.dtype, adapters=adapters)
        policy = part.open(copy.deepcopy(model), chat)
        policy.expect(learner.weights)
        pushes, rates = list[float](), list[float]()
        async with policy.running():
            for round_ in range(asked.rounds + 1):
                push_s = time.perf_counter()
                await policy.publish(learner.weights(), round_ + 1)
                pushes.append(time.perf_counter() - push_s)
                n, took_s = await play(
                    policy, episodes=asked.episodes, tokens=asked.tokens, vocabulary=n_tokens, seed=round_
                )
                rates.append(n / took_s)
        found[adapters] = {
            "push_s": round(statistics.median(pushes[1:]), 4),
            "tokens_per_s": round(statistics.median(rates[1:])),
        }
    return found


def main() -> None:
    model: Any
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder or hub name; without it 4 layers of width 256 with random weights")
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=32, help="tokens of a turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", choices=SHAPES, help="sizes of a model with random weights")
    parser.add_argument("--gpu-memory", type=float, default=0.45, help="vLLM's share of the GPU")
    parser.add_argument("--sleep", type=int, choices=(0, 1, 2), default=0, help="vLLM's level, on a GPU")
    parser.add_argument("--lora", type=int, default=0, metavar="RANK", help="compare the ways to send adapters")
    parser.add_argument("--dtype", default="float32", help="precision of the engine, with --lora")
    asked = parser.parse_args()
    if asked.model:
        model, tokenizer = load(asked.model, dtype="float32", device=DEVICE.type)
    else:
        tokenizer = train_tokenizer(["one two three four five six seven eight nine ten"] * 4, vocabulary=1500)
        model = random_model(tokenizer, layers=4, width=256, heads=4, context=1024, seed=0)
        model = model_of(replace(SHAPES[asked.shape], prompt=1024)) if asked.shape else model.to(DEVICE)
    cast(model, precision_of("auto", DEVICE))
    measure = compare_adapters if asked.lora else compare
    print(json.dumps(asyncio.run(measure(model, Chat(tokenizer), asked)), indent=1))


if __name__ == "__main__":
    main()
