"""ATIF in both directions: ours comes back as it was, and the standard fields are what counts."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.random_episodes import random_groups
from turngate.store.codecs import Row
from turngate.store.formats import atif
from turngate.store.formats.fields import clean_texts
from turngate.types import Observation


def documents(seed: int, groups: int):
    for number, group in enumerate(random_groups(seed, groups=groups, siblings=4)):
        for sibling, (one, score) in enumerate(zip(group.trajectories, group.scores, strict=True)):
            row = Row(f"000003/train/{number}", sibling, "train", one, score)
            yield row, atif.document(row, 3, agent="tester", version="1")


def read(document):
    value, _ = clean_texts(json.loads(json.dumps(document)), texts=False)
    (found,) = atif.episodes(value)
    return found


def taken_apart(score):
    return score.ledger, score.reward_T.tobytes(), score.outcome, score.usable, score.problem, score.success


def test_500_random_episodes_come_back_as_they_were():
    n = 0
    for row, document in documents(7, 125):
        found = read(document)
        assert found.trajectory == row.trajectory
        assert taken_apart(found.score) == taken_apart(row.score)
        assert found.place == (3, "train", row.group_id, row.sibling)
        n += 1
    assert n == 500


def test_the_package_of_the_format_reads_what_is_written():
    package = pytest.importorskip("atif")
    for row, document in documents(8, 25):
        read = package.Trajectory.model_validate(json.loads(json.dumps(document)))
        assert read.trajectory_id == row.trajectory.id
        played = [step for step in read.steps if step.source == "agent"]
        assert len(played) == len(row.trajectory.turns)
        ids = [step.metrics.completion_token_ids if step.metrics else [] for step in played]
        assert ids == [turn.completion.ids_K.tolist() for turn in row.trajectory.turns]


def test_missing_verdicts_and_what_stands_in_for_them_come_back():
    row, _ = next(documents(1, 1))
    score = replace(row.score, missing=("style",), filled=row.score)
    found = read(atif.document(row._replace(score=score), 1, agent="t", version="1")).score
    assert found.missing == ("style",)
    assert found.filled is not None
    assert taken_apart(found.filled) == taken_apart(score.filled)


def test_an_edit_of_a_standard_field_counts():
    """A tool that corrects an observation or a log-probability edits what everybody reads, not our extra."""
    row, document = next(
        (row, one)
        for row, one in documents(3, 40)
        if len(row.trajectory.turns) > 1
        and len(row.trajectory.turns[0].completion.ids_K) > 1
        and np.isfinite(row.trajectory.turns[0].completion.logprobs_K).all()
        and row.trajectory.turns[1].guidance is None
    )
    agent = next(step for step in document["steps"] if step["source"] == "agent")
    agent["observation"]["results"][0]["content"] = "mended"
    agent["metrics"]["logprobs"][0] = -9.0
    found = read(document).trajectory
    second = row.trajectory.turns[1]
    assert found.turns[1].observation == replace(second.observation, text="mended")
    assert found.turns[0].completion.logprobs_K[0] == -9.0
    assert isinstance(found.turns[0].observation, Observation)
