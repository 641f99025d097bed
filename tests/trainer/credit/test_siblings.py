"""Whom a turn is compared with: laws that every rule over siblings keeps where some of them branched."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from turngate.trainer.credit.canon import canon
from turngate.trainer.credit.cohorts import group
from turngate.trainer.credit.dr_grpo import dr_grpo
from turngate.trainer.credit.gigpo import gigpo
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.implicit import prime
from turngate.trainer.credit.maxrl import maxrl
from turngate.trainer.credit.mt_grpo import mt_grpo
from turngate.trainer.credit.ngrpo import ngrpo
from turngate.trainer.credit.opo import opo
from turngate.trainer.credit.qae import qae
from turngate.trainer.credit.reinforce_plus_plus import reinforce_plus_plus_baseline
from turngate.trainer.credit.returns import returns
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.credit.sag import sag
from turngate.trainer.credit.siblings import siblings
from turngate.types import TurnTable

RULES = [
    rloo, grpo, partial(grpo, std=False), dr_grpo, opo, maxrl, ngrpo, qae, canon, returns, gigpo,
    partial(mt_grpo, mode="corrected"), prime, sag,
]  # fmt: skip


def name_of(rule):
    return f"{rule.func.__name__}, {rule.keywords}" if isinstance(rule, partial) else rule.__name__


every_rule = pytest.mark.parametrize("rule", RULES, ids=name_of)


def table_with(table_of: Any, rows: Any, cohorts: Any, parents: Any, branches: Any) -> TurnTable:
    n = sum(map(len, rows))
    table: TurnTable = table_of(
        rows,
        cohorts,
        states=[[turn for turn in range(len(row))] for row in rows],
        parent_B=np.array(parents, np.int32),
        branch_B=np.array(branches, np.int32),
        tokens_N=1 + np.arange(n, dtype=np.int32) % 3,
        logratio_N=np.linspace(-1, 1, n),
    )
    return table


def without_branches(table: TurnTable) -> TurnTable:
    own = {name: column for name, column in table.measured.items() if name not in ("parent_B", "branch_B")}
    return replace(table, measured=own)


@every_rule
def test_a_cohort_of_chains_is_what_it_is_without_branches_bit_for_bit(table_of: Any, rule: Any):
    """Cohort 0 branches, cohort 1 does not."""
    rows = [[0.0, 0.3], [0.0, 0.9], [0.1, 0.2], [0.1, 0.7, 0.1], [0.2, 0.1], [0.0, 1 / 3]]
    table = table_with(table_of, rows, [0, 0, 1, 1, 1, 0], [-1, 0, -1, -1, -1, -1], [0, 1, 0, 0, 0, 0])
    chains_N = table.cohort_B[table.traj_N] == 1
    np.testing.assert_array_equal(rule(table)[chains_N], rule(without_branches(table))[chains_N])
    assert not np.array_equal(rule(table)[~chains_N], rule(without_branches(table))[~chains_N])


@every_rule
def test_branches_before_the_first_turn_are_chains_bit_for_bit(table_of: Any, rule: Any):
    table = table_with(table_of, [[0.0, 0.3], [0.0, 0.9], [0.1, 0.2]], [0, 0, 0], [-1, 0, 1], [0, 0, 0])
    np.testing.assert_array_equal(rule(table), rule(without_branches(table)))


def test_the_weights_of_a_worked_tree(table_of: Any):
    """0 and 1 share turn 1, and 2 is a chain: it stands in for both others there, and after the branch each counts."""
    rows = [[0.0, 1.0], [0.0, 0.5], [0.0, 0.0]]
    table = table_with(table_of, rows, [0, 0, 0], [-1, 0, -1], [0, 1, 0])
    compared = siblings(table)
    assert compared.outside_N.tolist() == [1, 2, 1, 2, 2, 2]
    for turn, others in enumerate([[(2, 2.0)], [(1, 1.0), (2, 1.0)], [(2, 2.0)], [(0, 1.0), (2, 1.0)]]):
        own = compared.own_N[turn]
        members = np.flatnonzero(compared.group_M == compared.group_M[own])
        weighed = [(int(compared.member_M[m]), float(compared.weight_M[m])) for m in members if m != own]
        assert weighed == others
    assert rloo(table).tolist() == pytest.approx([1.0, 0.75, 0.5, 0.0, -0.75, -0.75])
    assert dr_grpo(table).tolist() == pytest.approx([2 / 3, 0.5, 1 / 3, 0.0, -0.5, -0.5])


def test_chains_are_one_group_each_cohort(table_of: Any):
    table = table_of([[0.0, 1.0], [0.5], [0.25]], [0, 0, 1])
    compared = siblings(table)
    assert compared.weight_M is None
    np.testing.assert_array_equal(
        compared.group(table.total_B).centred_M, group(table.total_B, table.cohort_B).centred_M
    )
    assert compared.alone_N.tolist() == [False, False, False, True]


def test_a_turn_that_all_share_is_left_out_of_whitening(table_of: Any):
    table = table_with(table_of, [[0.0, 1.0], [0.0, 0.5]], [0, 0], [-1, 0], [0, 1])
    credit_N = reinforce_plus_plus_baseline(table)
    assert credit_N[[0, 2]].tolist() == [0, 0]
    assert credit_N[1] > 0 > credit_N[3]
