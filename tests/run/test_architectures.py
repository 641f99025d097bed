"""A folder of each model family trains as it is, from a config; and what the engines compute is what the model says."""

import copy
import json

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors import safe_open

from tests.helpers import architectures, models, templates
from tests.helpers.architectures import SHAPES
from tests.helpers.rounding import assert_alike, pass_tolerance
from turngate.agents import tiny
from turngate.agents.chat import Chat, ends_of
from turngate.agents.policies.local import LocalPolicy
from turngate.agents.rollout import TokenLimits
from turngate.config.run_config import parse
from turngate.errors import ConfigError
from turngate.run.job import Job
from turngate.trainer.batch.pack import pack
from turngate.trainer.torch.learner import TorchLearner
from turngate.trainer.torch.packing import tree_problem
from turngate.trainer.torch.shards import read_state
from turngate.types import Source

WITHOUT_TREES = {"gemma2": "softcap", "gpt_oss": "s_aux"}
"""Those that hand attention more than it knows along a tree, and what that is."""
FAMILIES = pytest.mark.parametrize("name", SHAPES)


def chat_of(name):
    return Chat(templates.tokenizer(SHAPES[name].template))


def played(name, source, monkeypatch, concurrency=3):
    """Episodes of the lock with this model: several turns, all of them longer than its window."""
    monkeypatch.setattr(models, "chat", lambda: chat_of(name))
    limits = TokenLimits(turn_tokens=6, context=1000)
    return models.play(
        LocalPolicy(source, chat_of(name), concurrency=concurrency), limits=limits, n_tasks=2, siblings=2
    )


@FAMILIES
def test_sampler_and_learner_compute_what_the_model_computes(name, monkeypatch):
    """Both the learner that computes rows and the one that computes trees, where the model can attend along one."""
    source = architectures.model(name)
    episodes = played(name, copy.deepcopy(source), monkeypatch)
    assert max(len(one.turns) for one in episodes) > 1
    assert min(len(one.ids()) for one in episodes) > 1.5 * architectures.WINDOW
    within = pass_tolerance(source, tokens=max(len(one.ids()) for one in episodes))
    batch = pack([models.scored(episodes)], np.ones(sum(len(one.turns) for one in episodes), np.float32))
    for packing in ("rows", "tree"):
        learner = TorchLearner(copy.deepcopy(source), lr=1e-3, packing=packing)
        if packing == "tree" and name in WITHOUT_TREES:
            with pytest.raises(ConfigError, match=f"cannot learn from shared prefixes .*{WITHOUT_TREES[name]}"):
                learner.logprobs(batch)
            continue
        learned = np.split(learner.logprobs(batch), np.cumsum([len(one.ids()) for one in episodes])[:-1])
        for one, theirs in zip(episodes, learned, strict=True):
            expected = models.naive_logprobs(source, one.ids())
            spoken = np.concatenate([turn.source for turn in one.turns]) == Source.POLICY
            said = np.concatenate([turn.completion.logprobs_K for turn in one.turns])
            assert_alike(said, expected[spoken], within)
            assert_alike(theirs[spoken], expected[spoken], within)


@FAMILIES
def test_a_folder_of_the_family_trains_from_a_config(name, tmp_path):
    """Two steps after a short warm start: canary green, and what is saved is what was learned."""
    folder = architectures.saved(name, tmp_path / "model")
    table = {
        "name": "family",
        "folder": str(tmp_path / "runs"),
        "env": {"id": "turngate/Lock-v1"},
        "model": str(folder),
        "warm_start": {"episodes": 4, "epochs": 2, "episodes_per_batch": 4, "lr": 5e-3},
        "policy": {"turn_tokens": 6, "context": 700, "concurrency": 4},
        "learner": {"lr": 1e-3},
        "train": {"steps": 2, "tasks_per_step": 1, "group_size": 4, "filters": []},
        "eval": {"tasks": 1},
    }
    outline, _ = tiny.outline(str(folder))
    assert WITHOUT_TREES.get(name, "") in (problem := tree_problem(outline))
    assert bool(problem) == (name in WITHOUT_TREES)
    Job(parse(table), Console(quiet=True)).run()
    run = tmp_path / "runs" / "family"
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["canary/max_logprob_difference"] < 1e-4 for row in rows] == [True, True]
    state = read_state(run / "checkpoints" / "step=000002" / "state.pt", torch.device("cpu"))["model"]
    again, tokenizer = tiny.load(str(run / "model"))
    assert all(torch.equal(state[key], weight) for key, weight in again.named_parameters())
    learned = architectures.model(name)
    learned.load_state_dict(state, strict=False)
    learned.tie_weights()
    ids = torch.arange(3 * architectures.WINDOW)[None] * 7 % 290
    with torch.no_grad():
        assert torch.equal(again(ids).logits, learned(ids).logits)
        assert not torch.equal(again(ids).logits, architectures.model(name)(ids).logits)
    assert {tokenizer.decode([end]) for end in Chat(tokenizer, ends=ends_of(again)).ends} == ends(name)
    with safe_open(run / "model" / "model.safetensors", "pt") as file:
        assert ("lm_head.weight" in file.keys()) != SHAPES[name].tied  # noqa: SIM118


def ends(name):
    family = templates.FAMILIES[SHAPES[name].template]
    return set(family.ends or {family.eos})
