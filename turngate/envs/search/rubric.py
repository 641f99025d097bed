"""Payments of a search episode: for the answer, and for its citations, the path to it, or abstention."""

from turngate.rewards.gates.whole_kinds import CapProcess, NeedsOutcome, Requires
from turngate.rewards.rubric import FromEvidence, Rubric

_CORRECT = FromEvidence(name="correct", evidence="correct", kind="outcome", weight=1.0, levels=(0, 1))
_NEW_GOLD = FromEvidence(name="new_gold", evidence="new_gold", kind="process", weight=0.1, per_turn=True, agg="sum")
_REPEATED = FromEvidence(name="repeated", evidence="repeated", kind="process", weight=-0.05, per_turn=True, agg="mean")
_OPENED_BY_SUCCESS = (Requires(evidence="parsed", on="new_gold"), NeedsOutcome(at_least=0.5), CapProcess(limit=0.1))

RUBRIC = Rubric(rewards=(_CORRECT, _NEW_GOLD, _REPEATED), gates=_OPENED_BY_SUCCESS)
"""The answer, word for word. In episodes that were won, each needed document that was found, once, and a charge for
queries that were asked before."""

CITED_RUBRIC = Rubric(
    rewards=(
        _CORRECT,
        FromEvidence(name="citation_f1", evidence="citation_f1", kind="process", weight=0.9),
        _NEW_GOLD,
    ),
    gates=(Requires(evidence="parsed", on="new_gold"), NeedsOutcome(at_least=0.5), CapProcess(limit=1.0)),
)
"""The answer, and almost as much again for its citations: their F1 against the documents that are needed. The shape of
LongRLVR (https://arxiv.org/abs/2603.02146) with η = 0: citations of a wrong answer are worth nothing."""

PATH_RUBRIC = Rubric(
    rewards=(
        _CORRECT,
        FromEvidence(
            name="path_progress", evidence="path_progress", kind="process", weight=0.2, per_turn=True, agg="sum"
        ),
        FromEvidence(name="near_answer", evidence="near_answer", kind="process", weight=0.2),
    ),
    gates=(Requires(evidence="parsed", on="path_progress"), CapProcess(limit=0.4)),
)
"""The answer, and the way to it, also in episodes that were lost: documents found in the order of the path, and
an answer that lies on it (as ExCyTIn, https://arxiv.org/abs/2507.14201, pays). Together less than half of a right
answer.

Left out of the paper: its environment, in which an agent investigates incidents by SQL over tables of security logs.
Here documents are searched."""

NUGGET_RUBRIC = Rubric(rewards=(FromEvidence(name="nuggets", evidence="nugget_score", kind="outcome", weight=1.0),))
"""Share of the required facts that a long answer contains, by a judge; needs the examiner ``nuggets``. Nothing is paid
for the way, because two answers may be worth almost the same."""

TRUTHFUL_RUBRIC = Rubric(
    rewards=(
        FromEvidence(name="truthful", evidence="truthful", kind="outcome", low=-1.0, weight=1.0, levels=(-1, 0, 1)),
        _NEW_GOLD,
    ),
    gates=_OPENED_BY_SUCCESS,
)
"""1 for a right answer, 0 for holding back, −1 for a wrong one; and 1 for saying that there is no answer where the
documents hold none, once they were looked at. For tasks some of which have no answer (``unanswerable``)."""
