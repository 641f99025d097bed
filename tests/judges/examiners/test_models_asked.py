"""Examiners that ask the policy and its learner, in one stage of a run with real models, up to the score."""

import numpy as np

from tests.helpers import examine_kit, models
from turngate.judges.examiners.base import Examiner
from turngate.rewards import FromEvidence, InformationGain, Rubric, UnitTests
from turngate.trainer.signals.likelihoods import likelihoods_of

EXAMINERS = (
    {"type": "probe", "answer": "{gold}", "accuracy": "probability", "n": 2},
    {"type": "likelihood", "answer": "{gold}", "without": "observations", "floor": 0.0},
    {"type": "likelihood", "answer": "{gold}", "name": "gold_logprob", "reduce": "mean_log", "per_turn": True},
    {"type": "test_weights"},
)
RUBRIC = Rubric(
    rewards=(
        UnitTests(name="tests"),
        FromEvidence(name="score", evidence="test_score", weight=0.5),
        FromEvidence(name="likelihood", evidence="likelihood", weight=0.25),
        FromEvidence(name="accuracy", evidence="accuracy", per_turn=True, weight=0.125),
        FromEvidence(name="confidence", evidence="confidence", per_turn=True, weight=0.0625),
        InformationGain(name="gain", weight=0.1),
    )
)


def test_one_stage_of_a_run():
    results = [{"a": True, "b": True}, {"a": True, "b": False}]
    played = examine_kit.told(examine_kit.group(examine_kit.episodes(3, 2), gold="click red"), fail_to_pass=results)
    examiners = [Examiner.load(table) for table in EXAMINERS]
    learner = models.learner(models.model(), lr=1e-3)
    at = examine_kit.context(models.local(), likelihoods=likelihoods_of(learner))
    (group,), metrics = examine_kit.examined(examiners, [played], at)
    assert {name: value for name, value in metrics.items() if value} == {}  # nothing failed, nothing is missing
    facts = [one.evidence[1:] for one in group.trajectories]
    assert {fact.name for fact in facts[0]} == {name for examiner in examiners for name in examiner.writes}
    assert examine_kit.values(facts, "likelihood_version") == [{None: 7}, {None: 7}]
    assert examine_kit.values(facts, "test_score") == [{None: 1.0}, {None: 0.0}]
    (again,), _ = examine_kit.examined(examiners, [played], at)
    assert again == group

    scores = RUBRIC.score_group(group).scores
    for own, passed, score in zip(facts, (True, False), scores, strict=True):
        found = {fact.name: examine_kit.values([own], fact.name)[0] for fact in own}
        n_turns = len(score.reward_T)
        rates = [0.125 * found["accuracy"][t] + 0.0625 * found["confidence"][t] for t in range(n_turns)]
        paid_T = np.array(rates) / n_turns
        logprobs = [found["gold_logprob_start"][None], *(found["gold_logprob"][t] for t in range(n_turns - 1))]
        paid_T[:-1] += 0.1 * np.diff(np.exp(logprobs))
        paid_T[-1] += 1.5 * passed + 0.25 * found["likelihood"][None]
        np.testing.assert_allclose(score.reward_T, paid_T, atol=1e-6)
