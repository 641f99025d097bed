"""PCL: a small model predicts how often the policy solves a task, and tasks next to one half are played."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from turngate.trainer.curriculum.base import Numbers, Places, Supply
from turngate.trainer.curriculum.choosing import PoolCurriculum, PoolPart
from turngate.trainer.curriculum.pass_rates import restored, successes
from turngate.types import JSON, Metrics, Score, Task, derive_seed

WIDTH = 256
"""Entries of the hashed words of a task."""


def nearest_half(predicted: Numbers, n: int) -> Places:
    """The ``n`` places with the smallest ``|V − 1/2|``, nearest first; of equals the first."""
    return np.argsort(np.abs(predicted - 0.5), kind="stable")[:n]


def squared_error(predicted: Numbers | float, pass_rate: Numbers | float) -> float:
    """``(V − mean r)²``, which the predictor learns to make small; the mean over tasks."""
    return float(np.mean((np.asarray(predicted) - np.asarray(pass_rate)) ** 2))


def hashed_words(text: str) -> Numbers:
    """The words of a text, each added with a sign at one of ``WIDTH`` places, at length 1: float64[WIDTH]."""
    words = np.zeros(WIDTH)
    for word in re.findall(r"\w+", text.lower()):
        number = derive_seed("word", word)
        words[number % WIDTH] += 1 if number // WIDTH % 2 else -1
    length = float(np.linalg.norm(words))
    return words / length if length else words


class Predictor:
    """``V = σ(logit p̂ + w·words + b)``: the task's own record, corrected by what its words say.

    p̂ is the pass rate that results so far give (1/2 for a task that was never played), so a task of which nothing is
    known is predicted from its words alone. ``learn`` takes one gradient step on ``squared_error``.
    """

    def __init__(self, lr: float) -> None:
        self._lr = lr
        self.weights: Numbers = np.zeros(WIDTH + 1)

    def predict(self, rate_P: Numbers, words_PW: Numbers) -> Numbers:
        """The predicted pass rates: float64[P]."""
        logit_P = np.log(rate_P / (1 - rate_P)) + words_PW @ self.weights[:WIDTH] + self.weights[WIDTH]
        predicted_P: Numbers = 1 / (1 + np.exp(-logit_P))
        return predicted_P

    def learn(self, rate_P: Numbers, words_PW: Numbers, found_P: Numbers) -> float:
        """One step towards the pass rates ``found_P``; returns the error before it."""
        predicted_P = self.predict(rate_P, words_PW)
        slope_P = 2 * (predicted_P - found_P) * predicted_P * (1 - predicted_P) / len(found_P)
        self.weights[:WIDTH] -= self._lr * slope_P @ words_PW
        self.weights[WIDTH] -= self._lr * slope_P.sum()
        return squared_error(predicted_P, found_P)


class PclPart(PoolPart):
    """PCL: looks at several tasks for each one that it plays, and takes those whose predicted pass rate is nearest 1/2.

    The predictor is a logistic regression on the words of the task and on its own record, not a language model as in
    the paper, https://arxiv.org/abs/2510.01135.
    """

    type: Literal["pcl"] = "pcl"
    candidates: int = Field(4, ge=2)
    """How many tasks are looked at for each that is played."""
    random: float = Field(0.1, ge=0, lt=1)
    """Share of the tasks that are taken whatever is predicted, so that a wrong prediction is found out."""
    lr: float = Field(1.0, gt=0)
    """Learning rate of the predictor, which takes one step of gradient descent per training step."""

    def open(self, supply: Supply) -> Pcl:
        return Pcl(self, supply)


class Pcl(PoolCurriculum):
    """Draws ``candidates`` times as many places as wanted, and takes those with the smallest ``|V − 1/2|``.

    A share of them, ``random`` on average, is taken at random. Degenerate: with fewer free places than candidates all
    of them are looked at.
    """

    def __init__(self, part: PclPart, supply: Supply) -> None:
        super().__init__(part, supply)
        self._candidates, self._random = part.candidates, part.random
        self._predictor, self._error = Predictor(part.lr), 0.0
        self._words: dict[int, Numbers] = {}

    def choose(self, free_P: Places, n: int, rng: np.random.Generator) -> Places:
        """Some of the free places: a few at random, the others by the prediction."""
        seen = rng.permutation(free_P)[: self._candidates * n]
        at_random = int(rng.binomial(min(n, len(seen)), self._random))
        rest = seen[at_random:]
        return np.concatenate([seen[:at_random], rest[nearest_half(self.predicted(rest), n - at_random)]])

    def predicted(self, places: Places) -> Numbers:
        """V of some places."""
        return self._predictor.predict(self._rate(places), self._words_of(places))

    def learn(self, results: Mapping[int, Sequence[Score]]) -> None:
        """First one step of the predictor, which is shown the records as they were before these results."""
        if results:
            places = np.array(list(results), np.int64)
            found = np.array([successes(scores) / len(scores) for scores in results.values()])
            self._error = self._predictor.learn(self._rate(places), self._words_of(places), found)
        super().learn(results)

    def own_metrics(self) -> Metrics:
        """The error of the predictions of this step."""
        return {"curriculum/prediction_error": self._error}

    def state(self) -> dict[str, JSON]:
        """The predictor's weights too."""
        return super().state() | {"predictor": self._predictor.weights.tolist()}

    def restore(self, state: Mapping[str, JSON]) -> None:
        """Take back what ``state`` gave. Raises StoreError for another pool."""
        super().restore(state)
        self._predictor.weights = restored(state["predictor"], self._predictor.weights)

    def _rate(self, places: Places) -> Numbers:
        return self.rates.means(self.step)[places]

    def _words_of(self, places: Places) -> Numbers:
        for place in map(int, places):
            if place not in self._words:
                self._words[place] = hashed_words(_described(self.task(place)))
        return np.array([self._words[int(place)] for place in places]).reshape(len(places), WIDTH)


def _described(task: Task) -> str:
    return f"{re.sub(r'[^0-9A-Za-z]', '', task.env_id)} {task.prompt}"
