"""The registry: one line per estimator. A new method of ``turngate.trainer.credit`` needs one line here.

``claims`` is what the method's own text promises about the mean of its gradient, for siblings drawn independently:

* ``"gradient"``: it is the gradient of the expected payments;
* ``"causal gradient"``: it is, where no payment depends on what is done after the turn that it is booked on. Credit
  from reward-to-go drops what was booked before a turn; a gate that opens at the end changes just that;
* ``"direction"``: it is that gradient times a positive number which does not depend on what happened;
* ``""``: neither, by design. The laboratory measures how far off it is.
"""

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from benchmarks.credit_lab.processes import Process
from turngate.errors import UnknownName
from turngate.trainer.credit.cohorts import group
from turngate.types import FloatArray, TurnTable

PACKAGE = "turngate.trainer.credit"
BATCH = 5  # cohorts of one update, and of one batch where an estimator looks at the whole batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """One line. ``method`` and ``settings`` say what is called, ``columns`` what must be measured for it.

    ``forked``: cohorts are small trees. ``unit``: cohorts that act on each other. ``whole_batch``: the function must be
    called once for each unit, because it looks at everything that it is given. ``skips``: processes whose payments the
    method refuses by contract.
    """

    label: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    claims: Literal["gradient", "causal gradient", "direction", ""] = ""
    columns: tuple[str, ...] = ()
    forked: bool = False
    unit: int = 1
    whole_batch: bool = False
    skips: tuple[str, ...] = ()

    def claims_on(self, process: Process) -> bool:
        """Whether the claim covers this process."""
        late = process.gated and not process.book_last
        excused = process.name in self.skips or (self.claims.startswith("causal") and late)
        return bool(self.claims) and not excused

    def credit(self, table: TurnTable) -> FloatArray:
        """The credit of every turn. Raises UnknownName if no module has the method."""
        return find(self.method)(table, **self.settings)


def per_index_centring(table: TurnTable) -> FloatArray:
    """Negative control: ``Σ_{s≥t}`` of the payments, each centred over the siblings that reached its turn index.

    Biased wherever the policy decides which turns exist: what a further turn pays on average is centred away.
    """
    place_N = table.cohort_B[table.traj_N] * np.int64(table.index_N.max() + 1) + table.index_N
    centred_N = group(table.reward_N.astype(np.float64), place_N).centred_M
    end_N = np.cumsum(np.bincount(table.traj_N))[table.traj_N] - 1
    running_N = np.cumsum(centred_N)
    to_go_N: FloatArray = (running_N[end_N] - running_N + centred_N).astype(np.float32)
    return to_go_N


def find(method: str) -> Callable[..., FloatArray]:
    """The function called ``module.function`` of ``turngate.trainer.credit``, or of this module for a control.

    Raises UnknownName.
    """
    module, _, name = method.rpartition(".")
    if not module:
        function = globals().get(name)
    elif importlib.util.find_spec(f"{PACKAGE}.{module}") is None:
        function = None
    else:
        function = getattr(importlib.import_module(f"{PACKAGE}.{module}"), name, None)
    if function is None:
        raise UnknownName("credit method", method, [line.method for line in ESTIMATORS if line.method != method])
    result: Callable[..., FloatArray] = function
    return result


_TREE = ("parent_B", "branch_B")
_NEGATIVE = ("delayed",)
_ABOVE_ONE = ("hackable", "gated", "delayed")

ESTIMATORS: Sequence[Estimator] = (
    # a trajectory against its siblings
    Estimator(label="rloo", method="rloo.rloo", claims="gradient"),
    Estimator(label="dr_grpo", method="dr_grpo.dr_grpo", claims="direction"),
    Estimator(label="grpo", method="grpo.grpo"),
    Estimator(label="opo", method="opo.opo", columns=("tokens_N",)),
    Estimator(
        label="canon μ=½", method="canon.canon", settings={"by": "turns"}, columns=("tokens_N",), claims="direction"
    ),
    Estimator(label="canon μ=¾", method="canon.canon", settings={"by": "turns", "mu": 0.75}, columns=("tokens_N",)),
    Estimator(label="qae", method="qae.qae"),
    Estimator(label="ngrpo", method="ngrpo.ngrpo", skips=_ABOVE_ONE),
    Estimator(label="maxrl", method="maxrl.maxrl", skips=_NEGATIVE),
    Estimator(label="pass_at_k k=4", method="pass_at_k.pass_at_k"),
    Estimator(label="riskpo", method="riskpo.riskpo", unit=BATCH),
    Estimator(label="rl_zvp", method="rl_zvp.rl_zvp", columns=("surprisal_N",)),
    Estimator(
        label="reinforce_pp", method="reinforce_plus_plus.reinforce_plus_plus", columns=("tokens_N",), unit=BATCH,
        whole_batch=True,
    ),
    Estimator(
        label="reinforce_pp_base", method="reinforce_plus_plus.reinforce_plus_plus_baseline", columns=("tokens_N",),
        unit=BATCH, whole_batch=True,
    ),
    Estimator(label="empg", method="empg.empg", columns=("surprisal_N",), unit=BATCH, whole_batch=True),
    Estimator(
        label="gdpo", method="gdpo.gdpo", columns=("paid/outcome_B", "paid/process_B"), unit=BATCH, whole_batch=True
    ),
    Estimator(label="hero", method="hero.hero", unit=BATCH, whole_batch=True),
    # credit per turn
    Estimator(label="returns", method="returns.returns", claims="causal gradient"),
    Estimator(
        label="returns no baseline", method="returns.returns", settings={"baseline": "none"}, claims="causal gradient"
    ),
    Estimator(label="returns γ=.9", method="returns.returns", settings={"gamma": 0.9}),
    Estimator(label="mt_grpo", method="mt_grpo.mt_grpo"),
    Estimator(
        label="mt_grpo corrected", method="mt_grpo.mt_grpo", settings={"mode": "corrected"}, claims="causal gradient"
    ),
    Estimator(label="step_grpo", method="step_grpo.step_grpo"),
    Estimator(label="step_grpo to_go", method="step_grpo.step_grpo", settings={"mode": "to_go"}),
    Estimator(label="gigpo", method="gigpo.gigpo"),
    Estimator(label="gigpo γ=1", method="gigpo.gigpo", settings={"gamma": 1.0}),
    Estimator(label="gigpo std", method="gigpo.gigpo", settings={"mode": "mean_std_norm"}),
    Estimator(
        label="turn_gae γ=1 λ=1", method="turn_gae.turn_gae", settings={"gamma": 1.0, "lam": 1.0}, columns=("value_N",),
        claims="causal gradient",
    ),
    Estimator(
        label="turn_gae γ=1 λ=.9", method="turn_gae.turn_gae", settings={"gamma": 1.0}, columns=("value_N",),
        claims="causal gradient",
    ),
    Estimator(label="turn_gae", method="turn_gae.turn_gae", columns=("value_N",)),
    # process verdicts and reward models
    Estimator(label="sag", method="sag.sag"),
    Estimator(label="prorag", method="prorag.prorag", columns=("tokens_N",)),
    Estimator(label="pure", method="pure.pure", columns=("tokens_N",)),
    Estimator(label="spa", method="spa.spa"),
    Estimator(label="capo", method="capo.capo", columns=("tokens_N",), skips=_NEGATIVE),
    Estimator(label="rlvmr", method="rlvmr.rlvmr", columns=("tag_N",)),
    Estimator(label="ppr", method="ppr.ppr"),
    Estimator(label="clip", method="clip_delta.clip"),
    Estimator(label="delta", method="clip_delta.delta"),
    Estimator(label="progress", method="progress.progress", columns=("accuracy_N",)),
    Estimator(label="spae", method="spae.spae", columns=("accuracy_N", "confidence_N")),
    Estimator(label="igpo", method="igpo.igpo", columns=("gain_N",)),
    Estimator(label="prime", method="implicit.prime", columns=("logratio_N", "tokens_N")),
    Estimator(label="istar", method="implicit.istar", columns=("logratio_N",)),
    # trees
    Estimator(label="rloo on trees", method="rloo.rloo", forked=True),
    Estimator(label="arpo hard", method="arpo.arpo", settings={"mode": "hard"}, columns=_TREE, forked=True),
    Estimator(
        label="lambda_grpo", method="lambda_grpo.lambda_grpo", settings={"merge": "recorded"}, columns=_TREE,
        forked=True,
    ),
    Estimator(label="portool", method="portool.portool", columns=_TREE, forked=True),
    Estimator(label="tree_rpo", method="tree_rpo.tree_rpo", columns=_TREE, forked=True),
    Estimator(label="tree_rl", method="tree_rl.tree_rl", columns=_TREE, forked=True),
    Estimator(label="tree_grpo", method="tree_grpo.tree_grpo", columns=_TREE, forked=True),
    Estimator(label="tempo", method="tempo.tempo", settings={"merge": "recorded"}, columns=_TREE, forked=True),
    Estimator(label="r3l", method="r3l.r3l", columns=_TREE, forked=True),
    # must be caught
    Estimator(label="control: centred per index", method="per_index_centring"),
)  # fmt: skip
