"""What steps get from recorded episodes: a store on disk, an index of it, and a mixed source, without a model.

1. Recorded tokens and log-probabilities are handed on as they were recorded; payments are those of today's rubric.
2. Replayed groups are compared with themselves, joined ones with their fresh siblings, with the numbers of the papers.
3. What cannot be learned from is refused by name; what is left out is counted.
"""

import asyncio
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from turngate.errors import ConfigError
from turngate.store import Store
from turngate.trainer.batch.contexts import Origin, origins
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.filters.parts import keep, varied
from turngate.trainer.loss.objectives import Clipped
from turngate.trainer.loss.settings import LossSettings
from turngate.trainer.offline.episode_index import RecordedEpisodes, Where
from turngate.trainer.offline.mixed import MixedPart
from turngate.trainer.offline.sources import SourceMeans, Waves
from turngate.trainer.offline.stored import StoredPart
from turngate.trainer.offline.usable import LEAVABLE
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Evidence,
    Group,
    Guidance,
    Observation,
    RewardEvent,
    Score,
    ScoredGroup,
    Source,
    Task,
    Trajectory,
    Turn,
)


def task(name: str) -> Task:
    return Task(id=name, env_id="e", prompt=f"do {name}")


def episode(name: str, of: str, right: float, *, version: int = 0, **changes) -> Trajectory:
    """One turn of two tokens, and the fact ``right``."""
    said = Completion(
        ids_K=np.array([7, 8], np.int32),
        logprobs_K=np.array([-0.5, -0.25], np.float32),
        ended_by=EndedBy.STOP,
        policy_version=version,
        text="say",
    )
    source = np.array([Source.CONTEXT, Source.POLICY, Source.POLICY], np.uint8)
    turn = Turn(
        observation=Observation(text="see"),
        context_ids=np.array([1], np.int32),
        completion=said,
        source=source,
        action=Action(text="say"),
    )
    evidence = (Evidence(name="right", value=right),)
    made = Trajectory(id=name, task=task(of), turns=(turn,), ending=Ending.FINISHED, seed=0, evidence=evidence)
    return replace(made, **changes)


def score(group: Group, step: int = 0) -> ScoredGroup:
    """Pays what ``right`` says; an episode without the fact is unusable."""

    def paid(one: Trajectory) -> Score:
        facts = [fact.value for fact in one.evidence if fact.name == "right"]
        if not facts:
            return Score(ledger=(), reward_T=np.zeros(1, np.float32), outcome=None, usable=False, problem="no 'right'")
        event = RewardEvent(name="right", kind="outcome", turn=None, value=float(facts[0]), weight=1.0)
        return Score(ledger=(event,), reward_T=np.float32([facts[0]]), outcome=float(facts[0]), usable=True)

    return ScoredGroup(task=group.task, trajectories=group.trajectories, scores=tuple(map(paid, group.trajectories)))


def group(of: str, *right: float, step: int = 1, **changes) -> ScoredGroup:
    members = [episode(f"{of}#{n}@{step}", of, value, version=step - 1, **changes) for n, value in enumerate(right)]
    return score(Group(task=task(of), trajectories=tuple(members)))


def index(folder, *groups: ScoredGroup, **settings) -> RecordedEpisodes:
    """Of a run that recorded one step of each of these groups."""
    store = Store(folder)
    for step, one in enumerate(groups, 1):
        store.write(step, [one])
    made = {"score": score, "find": task, "labels": {"e"}, "needs_logprobs": True, "leave_out": LEAVABLE, **settings}
    return RecordedEpisodes(stores=(store,), **made)


def means(recorded: RecordedEpisodes, group_size: int = 4) -> SourceMeans:
    return SourceMeans(
        recorded=recorded,
        entropies=lambda trajectories: [0.0] * len(trajectories),
        group_size=group_size,
        seed=5,
        filters_pass=lambda one: bool(keep([one], {"varied": varied})[0]),
    )


def played(*groups: ScoredGroup):
    """A stand-in for playing: what it was asked for, and these groups of the asked tasks."""
    asked = []

    async def play(tasks, *, group_size=None):
        asked.append(([one.id for one in tasks], group_size))
        chosen = [one for one in groups if one.task.id in {t.id for t in tasks}]
        return Waves(groups=list(chosen), played=list(chosen), unused=[], metrics={})

    return play, asked


def step_of(part: MixedPart, recorded: RecordedEpisodes, tasks: str, play, step: int = 9, size: int = 4) -> Waves:
    return asyncio.run(part.open(means(recorded, size)).waves(play, [task(one) for one in tasks], step))


def test_worked_numbers_of_rlep(tmp_path):
    """2 of 16 fresh episodes are right: A+ 2.561738; with two replayed successes 1.818119 and −0.519462."""
    recorded = index(tmp_path, group("a", 1, 0, 1, 0))
    recorded.add_all("train")
    fresh = group("a", *([1.0] * 2 + [0.0] * 14), step=9)
    alone = grpo(tabulate([fresh]))
    assert alone[0] == pytest.approx(2.561738, abs=1e-4)
    play, _ = played(fresh)
    part = MixedPart.model_validate({"type": "mixed", "replay": "rlep", "runs": [str(tmp_path)]})
    (joined,) = step_of(part, recorded, "a", play).groups
    credit = grpo(tabulate([joined]))
    assert len(credit) == 18
    assert credit[[0, 1, 16, 17]] == pytest.approx([1.818119] * 4, abs=1e-4)
    assert credit[2:16] == pytest.approx([-0.519462] * 14, abs=1e-4)


@pytest.mark.parametrize(("strategy", "paid"), [("highest", [1, 1]), ("max_variance", [0, 1])])
def test_repo_is_normalised_apart_from_the_fresh_group(tmp_path, strategy, paid):
    """Rewards [1, 0, 1, 0, 0], k = 2. The highest two are paid alike, so the filter drops them and they teach nothing;
    the credit of the fresh ones is as without them."""
    recorded = index(tmp_path, group("a", 1, 0, 1, 0, 0))
    fresh = group("a", 1, 0, 0, 0, step=9)
    replay = {"type": "repo", "strategy": strategy, "k": 2, "cached": 5}
    play, asked = played(fresh)
    waves = step_of(MixedPart.model_validate({"type": "mixed", "replay": replay}), recorded, "a", play)
    assert asked == [(["a"], None)]
    first, second = waves.groups
    assert sorted(one.total for one in second.scores) == paid
    credit = grpo(tabulate(waves.groups))
    assert credit[:4] == pytest.approx(grpo(tabulate([fresh])))
    assert (
        credit[4:].tolist() == [0, 0]
        if paid == [1, 1]
        else sorted(credit[4:]) == pytest.approx([-0.7071, 0.7071], 1e-3)
    )
    _, drops = keep(waves.groups, {"varied": varied})
    assert drops["drop/not_varied_groups"] == (paid == [1, 1])
    assert waves.fresh == [first]
    assert [one.task.id for one in waves.replayed] == ["a"]


def test_recorded_tokens_stay_and_are_marked(tmp_path):
    recorded = index(tmp_path, group("a", 1, 0))
    recorded.add_all("train")
    replayed = recorded.group(recorded.rows, 3)
    was = group("a", 1, 0)
    assert [one.turns for one in replayed.trajectories] == [one.turns for one in was.trajectories]
    assert all(one.replay is not None and one.replay.version == 0 for one in replayed.trajectories)
    assert origins(replayed.trajectories[0])[0].tolist() == [Origin.OWN, Origin.REPLAYED, Origin.REPLAYED]


def test_a_stripped_hint_is_learned_without_and_another_one_is_refused(tmp_path):
    hint = Guidance(kind="hint", level=1, text="look", source="env", strip_for_train=True)
    recorded = index(tmp_path / "stripped", group("a", 1, 0, guidance=hint), leave_out=())
    recorded.add_all("train")
    (one, _) = recorded.load(recorded.rows)
    assert origins(one)[0].tolist() == [Origin.OWN, Origin.HINTED, Origin.HINTED]
    kept = index(tmp_path / "kept", group("a", 1, 0, guidance=replace(hint, strip_for_train=False)), leave_out=())
    with pytest.raises(ConfigError, match=r'had help that stays in its context .* leave_out = \["guided"\]'):
        kept.add_all("train")
    left = replace(kept, leave_out=("guided",), rows=[])
    left.add_all("train")
    assert (left.rows, left.left_out["guided"]) == ([], 2)


def changed(**fields):
    """``group`` with other completions."""
    made = group("a", 1, 0)
    turn = made.trajectories[0].turns[0]
    one = replace(made.trajectories[0], turns=(replace(turn, completion=replace(turn.completion, **fields)),))
    return score(Group(task=made.task, trajectories=(one, made.trajectories[1])))


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        (changed(ended_by=EndedBy.SCRIPT), "was given, not sampled"),
        (changed(logprobs_K=np.array([np.nan, -1], np.float32)), "log-probability that is not finite"),
        (group("a", 1, 0, parent=("other", 1)), r'leave_out = \["branched"\]'),
    ],
)
def test_what_a_ratio_cannot_be_had_of_is_refused(tmp_path, recorded, said):
    with pytest.raises(ConfigError, match=said):
        index(tmp_path, recorded, leave_out=()).add_all("train")


def test_without_log_probabilities_an_objective_without_ratio_learns(tmp_path):
    missing = index(tmp_path, changed(logprobs_K=np.array([np.nan, -1], np.float32)), needs_logprobs=False)
    missing.add_all("train")
    assert len(missing.rows) == 2
    assert LossSettings().needs_sampler
    assert LossSettings(objective=Clipped(), decoupled=True).needs_sampler is False
    assert LossSettings.model_validate({"objective": "reinforce"}).needs_sampler is False
    assert LossSettings.model_validate({"objective": "reinforce", "correction": ["tis"]}).needs_sampler


def test_of_a_foreign_environment_nothing_is_learned(tmp_path):
    recorded = index(tmp_path, group("a", 1, 0), labels={"other"})
    with pytest.raises(ConfigError, match="has episodes of environment 'e', and this run has 'other'; name those"):
        recorded.add_all("train")


@pytest.mark.parametrize(
    ("where", "n"),
    [
        ({"success": True}, 3),
        ({"success": False}, 3),
        ({"tasks": ["b"]}, 2),
        ({"versions": [1, 1]}, 2),
        ({"envs": ["e"]}, 6),
    ],
)
def test_where(tmp_path, where, n):
    recorded = index(tmp_path, group("a", 1, 0), group("b", 1, 0, step=2), group("a", 1, 0, step=3))
    recorded = replace(recorded, where=Where.model_validate(where))
    recorded.add_all("train")
    assert len(recorded.rows) == n


def test_unusable_episodes_are_counted_and_all_alike_is_refused(tmp_path):
    broken = group("a", 1, 0)
    lost = replace(broken.trajectories[0], evidence=())
    recorded = index(tmp_path / "one", score(Group(task=task("a"), trajectories=(lost, broken.trajectories[1]))))
    recorded.add_all("train")
    assert recorded.left_out == {"unusable": 1}
    part = StoredPart.model_validate({"type": "stored", "runs": [str(tmp_path)]})
    with pytest.raises(ConfigError, match="no task has two episodes of one policy version; 1 episodes can be learned"):
        part.open(means(recorded))
    alike = index(tmp_path / "two", group("a", 1, 1))
    alike.add_all("train")
    with pytest.raises(ConfigError, match=r"train\.filters drop each of the 1 recorded groups"):
        part.open(means(alike))


def test_another_tokenizer_is_refused_at_the_beginning(tmp_path):
    recorded = index(tmp_path, group("a", 1, 0))
    recorded.add_all("train")
    with pytest.raises(ConfigError, match="reads otherwise"):
        recorded.shown_by(lambda one: "it reads otherwise with the policy's tokenizer")


def test_every_pass_over_stored_groups_has_each_once_in_another_order(tmp_path):
    recorded = index(tmp_path, *(group(f"t{n}", 1, 0, step=n) for n in range(1, 7)))
    recorded.add_all("train")
    source = StoredPart.model_validate({"type": "stored", "runs": [str(tmp_path)]}).open(means(recorded))
    play, asked = played()
    steps = [asyncio.run(source.waves(play, [task("x")] * 2, step)) for step in range(1, 7)]
    names = [[one.task.id for one in waves.groups] for waves in steps]
    passes = [sorted(chain(*some)) for some in (names[:3], names[3:])]
    assert passes == [[f"t{n}" for n in range(1, 7)]] * 2
    assert names[:3] != names[3:]
    assert not asked
    assert all(waves.fresh == [] for waves in steps)


def test_an_own_buffer_knows_steps_that_are_recorded_and_not_too_old(tmp_path):
    recorded = index(tmp_path, *(group("a", 1, 0, 1, 0, step=n) for n in range(1, 6)))
    play, _ = played(group("b", 1, 0, step=9), group("a", 1, 0, step=9))
    part = MixedPart.model_validate({"type": "mixed", "max_age": 2})
    for step, ages in ((1, None), (2, {1}), (4, {1, 2}), (6, {1, 2}), (9, None)):
        waves = step_of(part, recorded, "bc", play, step=step)
        found = {step - one.replay.step for some in waves.replayed for one in some.trajectories}
        assert found <= (ages or set())
        assert bool(found) == bool(ages)
        assert waves.metrics["replay/share"] == (0 if ages is None else 4 / 6)
