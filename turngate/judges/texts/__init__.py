"""Judges without the calls: the questions, how a reply is read, how judges are guarded, and what evidence they give.

``items`` defines the work to be judged, and rules that settle some items without a judge; ``fence`` shows judged text
safely; ``prompts`` writes the questions; ``replies`` reads the answers into ``verdicts``; ``votes`` combines critiques;
``canaries`` decides whether a batch can be trusted; ``tournament`` ranks siblings; ``as_facts`` turns verdicts into
evidence; ``agreement`` measures a judge on labelled work. Nothing here calls a model; ``turngate.judges.asking`` does.
"""

from turngate.judges.texts.agreement import Agreement, OrderReport, agreement, kappa, order_report, upper_bound
from turngate.judges.texts.as_facts import (
    JudgeId,
    critique_facts,
    panel_facts,
    rubric_facts,
    rubric_score,
    tournament_facts,
    verdict_facts,
    win_rate_facts,
)
from turngate.judges.texts.canaries import Canary, batch_fault, is_missed
from turngate.judges.texts.items import (
    CORRECT,
    MASTER_KEYS,
    Criterion,
    Item,
    Rule,
    ShownTurn,
    item_of,
    item_of_text,
    rule_out,
)
from turngate.judges.texts.prompts import PROTOCOL, Question, pairwise, pointwise, steps, support
from turngate.judges.texts.replies import read_answer, read_object
from turngate.judges.texts.tournament import Standings, bracket, single_elimination, zero_group
from turngate.judges.texts.verdicts import (
    Answer,
    Critique,
    Fault,
    PairScores,
    PairVerdict,
    Quote,
    Verdict,
    majority,
    settle_orders,
    unanimous,
)
from turngate.rewards.fence import addresses_judge, is_quoted
from turngate.rewards.no_verdict import FaultKind

__all__ = [
    "CORRECT",
    "MASTER_KEYS",
    "PROTOCOL",
    "Agreement",
    "Answer",
    "Canary",
    "Criterion",
    "Critique",
    "Fault",
    "FaultKind",
    "Item",
    "JudgeId",
    "OrderReport",
    "PairScores",
    "PairVerdict",
    "Question",
    "Quote",
    "Rule",
    "ShownTurn",
    "Standings",
    "Verdict",
    "addresses_judge",
    "agreement",
    "batch_fault",
    "bracket",
    "critique_facts",
    "is_missed",
    "is_quoted",
    "item_of",
    "item_of_text",
    "kappa",
    "majority",
    "order_report",
    "pairwise",
    "panel_facts",
    "pointwise",
    "read_answer",
    "read_object",
    "rubric_facts",
    "rubric_score",
    "rule_out",
    "settle_orders",
    "single_elimination",
    "steps",
    "support",
    "tournament_facts",
    "unanimous",
    "upper_bound",
    "verdict_facts",
    "win_rate_facts",
    "zero_group",
]
