"""The parts that open a policy: what is written reaches whoever plays."""

import pytest

from tests.helpers import models
from turngate.agents.policies.local import LocalPolicy
from turngate.agents.policies.parts import LocalPolicyPart, PolicyPart
from turngate.agents.rollout import TokenLimits
from turngate.errors import ConfigError
from turngate.trainer.loss import Penalty
from turngate.types import Sampling


def test_a_table_without_a_type_opens_a_local_policy():
    data = {"temperature": 0.7, "top_p": 0.9, "top_k": 5, "turn_tokens": 3, "context": 99, "episode_s": 7, "lanes": 4}
    part = PolicyPart.model_validate(data)
    assert part == LocalPolicyPart(**data)
    player = part.player(models.model(), models.chat())
    assert isinstance(player.policy, LocalPolicy)
    assert player.policy.lanes == 4
    assert player.sampling == part.sampling == Sampling(temperature=0.7, top_p=0.9, top_k=5)
    assert player.limits == part.limits() == TokenLimits(turn_tokens=3, context=99, episode_s=7)


@pytest.mark.parametrize("order", ["fixed", "ready"])
def test_the_order_reaches_the_engine(order):
    opened = LocalPolicyPart(order=order).open(models.model(), models.chat())
    assert type(opened._pace) is type(models.local(order=order)._pace)


def test_every_setting_is_explained():
    assert [name for name, field in LocalPolicyPart.model_fields.items() if not field.description] == ["type"]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"temperature": 0}, "temperature\n  Input should be greater than 0"),
        ({"top_k": 1}, "top_k = 1 leaves one token"),
        ({"order": "fast"}, "order\n  Input should be 'fixed' or 'ready'"),
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
