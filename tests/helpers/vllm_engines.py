"""vLLM engines for tests: where their interpreter is, a model that its attention on a CPU has kernels for, a policy."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.helpers import models, vllm_venv
from turngate.agents import tiny
from turngate.agents.policies.parts import VLLMPolicyPart

ROOT = Path(__file__).parents[2]


needed = pytest.mark.skipif(not vllm_venv.IS_HERE, reason="no interpreter with vllm; `make test` installs .venv-vllm")


def model(seed=0):
    """Heads of width 32; the end of a turn is often likely or unlikely, so that turns end in both ways."""
    made = tiny.random_model(models.tokenizer(), layers=2, width=64, heads=2, context=256, seed=seed)
    with torch.no_grad():
        table = made.get_input_embeddings().weight
        table[models.chat().eos_id] = 3 * table[40]  # the row of the token that pads is 0
    return made


def policy(source, *, concurrency=5, **settings):
    """A policy whose server takes faults (``planted_vllm``). ``settings`` of the part."""
    settings = {"extra": {"max_num_batched_tokens": 256}, **settings}  # fewer than all slots may ask for at once
    part = VLLMPolicyPart(python=vllm_venv.PYTHON, context=models.LIMITS.context, concurrency=concurrency, **settings)
    opened = part.open(source, models.chat())
    server = {"server": "tests.helpers.planted_vllm:serve", "search": [str(ROOT)]}
    opened._settings = replace(opened._settings, **server)
    return opened
