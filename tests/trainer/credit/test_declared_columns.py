"""A rule reads the columns that its decorator names, each under some of its settings, and no other one."""

from itertools import product
from typing import Literal, get_args, get_origin

import pytest

from tests.helpers.every import for_every
from turngate.errors import ConfigError
from turngate.trainer.credit.dry_run import beyond_tabulated
from turngate.trainer.credit.rule import CreditRule

SHIPPED = {name: part for name, part in CreditRule.catalogue().items() if part.__module__.startswith("turngate.")}
DECLARED = sorted({column for part in SHIPPED.values() for column in part.function.reads})
WITH_WEIGHT = {"format_weight": 0.5, "grounding": 0.5, "kl": 0.1}
"""Settings that are 0 by default, and with which a rule reads one column more."""


def variants(part):
    """The rule under each combination of its settings that are one of several words, and with and without weights."""
    choices = {
        name: get_args(field.annotation) if get_origin(field.annotation) is Literal else [WITH_WEIGHT[name], 0.0]
        for name, field in part.model_fields.items()
        if name != "type" and (get_origin(field.annotation) is Literal or name in WITH_WEIGHT)
    }
    for chosen in product(*choices.values()):
        yield part(type=part.model_fields["type"].default, **dict(zip(choices, chosen, strict=True)))


@for_every("name", SHIPPED)
def test_a_rule_reads_what_it_declares(name):
    found = set()
    for rule in variants(SHIPPED[name]):
        for offered in (DECLARED, [one for one in DECLARED if not one.startswith("entropy")]):
            needs = [*offered, *rule.declared, *(["turn_S"] if any(one.endswith("_S") for one in offered) else [])]
            found |= beyond_tabulated(rule.reads(set(needs), siblings=8, branching=True))
    sampled = {"surprisal_S"} if name == "rl_zvp_tokens" else set()  # read only where no exact entropies are there
    assert found | sampled == set(SHIPPED[name].function.reads)


def test_a_rule_that_reads_another_column_is_refused(monkeypatch):
    monkeypatch.setattr(SHIPPED["turn_gae"].function, "reads", ("value_N",))
    with pytest.raises(ConfigError, match="credit 'turn_gae' reads bootstrap_B, which its @rule does not name"):
        CreditRule.load("turn_gae").reads({"value_N", "bootstrap_B"})
    assert CreditRule.load("turn_gae").reads({"value_N"}) == {"value_N"}
