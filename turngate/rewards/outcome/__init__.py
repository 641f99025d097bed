"""What an outcome is worth, domain by domain: pure functions from plain data to numbers.

``answers`` short texts, numbers, sets and abstention · ``calls`` tool calls · ``sql`` queries and their results ·
``search`` retrieval and citations · ``code`` tests, patches, diagnostics · ``gui`` step verdicts · ``calibration`` and
``confidence`` what the agent said and what its probabilities say · ``votes`` several attempts · ``criteria`` weighted
lists · ``components`` parts for rubrics.

Conventions. A score that could not be measured is None (NaN in an array), never zero. Where a published reward can be
farmed, the default is a repaired form of the same range if possible, and ``faithful=True`` gives the published one;
the docstring says how it is farmed. A verifier calls these functions and records what they return as evidence, so gold
answers stay on its side and rubrics stay pure.
"""

from turngate.rewards.outcome.answers import (
    CreditTable,
    Number,
    Overlap,
    exact_match,
    is_abstention,
    list_overlap,
    normalize,
    numeric_match,
    parse_number,
    set_overlap,
    token_f1,
)
from turngate.rewards.outcome.assignment import best_assignment
from turngate.rewards.outcome.calibration import (
    answer_or_abstain,
    answer_threshold,
    brier,
    log_score,
    rlcr,
    rlcr_released,
    spherical_score,
)
from turngate.rewards.outcome.calls import call_quality, ftrl_answer, ftrl_calls, same_value, toolrl
from turngate.rewards.outcome.code import (
    all_tests_pass,
    changed_lines,
    diagnostics_delta,
    difficulty_weights,
    fraction_of_tests,
    localisation,
    not_repeated,
    pass_rates,
    patch_similarity,
    process_score,
    reproduced_first,
    weighted_tests,
)
from turngate.rewards.outcome.components import UnitTests
from turngate.rewards.outcome.confidence import (
    answer_confidence,
    log_probability,
    mean_log_probability,
    mean_probability,
    perplexity,
    product_probability,
)
from turngate.rewards.outcome.criteria import criteria_score
from turngate.rewards.outcome.gui import both_orders, step_verdicts
from turngate.rewards.outcome.search import (
    citation_overlap,
    evidence_reward,
    redundancy,
    retrieval_gain,
    retrieval_relevance,
    search_steps,
    stepsearch,
    tfidf_similarity,
)
from turngate.rewards.outcome.sql import (
    SchemaItems,
    execution_match,
    ngram_similarity,
    reasoning_sql,
    result_f1,
    schema_items,
    schema_linking,
    tag_format,
)
from turngate.rewards.outcome.votes import (
    best_of_n,
    borda_weights,
    co_rewards,
    majority,
    majority_rewards,
    pass_at_k,
    weighted_vote,
    win_rate,
)

__all__ = [
    "CreditTable",
    "Number",
    "Overlap",
    "SchemaItems",
    "UnitTests",
    "all_tests_pass",
    "answer_confidence",
    "answer_or_abstain",
    "answer_threshold",
    "best_assignment",
    "best_of_n",
    "borda_weights",
    "both_orders",
    "brier",
    "call_quality",
    "changed_lines",
    "citation_overlap",
    "co_rewards",
    "criteria_score",
    "diagnostics_delta",
    "difficulty_weights",
    "evidence_reward",
    "exact_match",
    "execution_match",
    "fraction_of_tests",
    "ftrl_answer",
    "ftrl_calls",
    "is_abstention",
    "list_overlap",
    "localisation",
    "log_probability",
    "log_score",
    "majority",
    "majority_rewards",
    "mean_log_probability",
    "mean_probability",
    "ngram_similarity",
    "normalize",
    "not_repeated",
    "numeric_match",
    "parse_number",
    "pass_at_k",
    "pass_rates",
    "patch_similarity",
    "perplexity",
    "process_score",
    "product_probability",
    "reasoning_sql",
    "redundancy",
    "reproduced_first",
    "result_f1",
    "retrieval_gain",
    "retrieval_relevance",
    "rlcr",
    "rlcr_released",
    "same_value",
    "schema_items",
    "schema_linking",
    "search_steps",
    "set_overlap",
    "spherical_score",
    "step_verdicts",
    "stepsearch",
    "tag_format",
    "tfidf_similarity",
    "token_f1",
    "toolrl",
    "weighted_tests",
    "weighted_vote",
    "win_rate",
]
