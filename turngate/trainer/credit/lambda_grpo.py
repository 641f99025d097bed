"""λ-GRPO: a turn that siblings share counts once, not once per sibling."""

from turngate.trainer.credit.baselines import as_credit, one_of
from turngate.trainer.credit.cohorts import check_scale, group, validate
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Ddof, Eps, Merged, Std
from turngate.trainer.credit.tree import MERGES, grow
from turngate.types import FloatArray, TurnTable


@rule
def lambda_grpo(
    table: TurnTable, *, merge: Merged = "tokens", eps: Eps = 1e-4, ddof: Ddof = 1, std: Std = True
) -> FloatArray:
    """λ-GRPO: GRPO in which a turn that several siblings share counts once, not once for each of them.

    ``A_{i,t} = z_i / |λ_{i,t}|``, λ = the siblings that share the turn and all before it: float32[N].

    z is ``grpo``'s advantage of the trajectory (``std=False``: only centred). Dividing the advantage by |λ| divides
    the policy loss of the turn by |λ|; a KL penalty in the loss is not divided. ``merge`` says when siblings share a
    turn: "tokens" if its token ids are the same, "action_observation" if they saw and did the same, "recorded" if one
    branched off the other (see ``credit.tree``).

    Branches: a turn that k leaves share has k terms in the policy gradient, so this leaves 1/k of it, and the mean over
    all siblings takes more: in two trees of two leaves that branch after turn 1, ``std=False`` keeps exactly 1/4 of
    turn 1's gradient and 3/4 of turn 2's (see ``docs/branching.md``).

    Source: https://arxiv.org/abs/2509.21154 (its eps is 1e-4), which counts token by token: ``lambda_grpo_tokens``
    does. Where nothing is shared it is ``grpo`` with this eps. Not zero-mean over a cohort. Degenerate: a cohort of one
    or of equal totals gives exactly 0. Raises ShapeError (see ``validate`` and ``tree.grow``), ConfigError for eps < 0,
    another ddof than 0 or 1 or an unknown ``merge``.
    """
    check_scale("lambda_grpo", eps=eps, ddof=ddof)
    one_of("lambda_grpo", "merge", merge, MERGES)
    validate(table)
    groups = group(table.total_B, table.cohort_B)
    advantage_B = groups.z_M(eps=eps, ddof=ddof) if std else groups.centred_M
    tree = grow(table, "lambda_grpo", merge)
    return as_credit(advantage_B[table.traj_N] / tree.visits_G[tree.node_N])
