"""Every guide that ships trains in a whole run, from its table in a config to the episodes on disk."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.helpers.guided import shipped
from tests.helpers.run_metrics import MEASURED
from turngate.config.run_config import Config
from turngate.envs.lock import LockEnv
from turngate.errors import ConfigError
from turngate.foreign import Interruption
from turngate.run.assembly.guide_help import check_guide
from turngate.run.job import Job
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.trainer.guidance.base import Helpers
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.prefix_schedules import ReverseCurriculum, ReverseCurriculumPart
from turngate.types import ScoredGroup, Source, Task

GUIDES: dict[str, dict[str, object]] = {
    "ladder": {"exempt_steps": 0},
    "guide": {},
    "sage": {},
    "sage_light": {"by": "env"},
    "ghpo": {},
    "questa": {"stage_steps": 1},
    "seele": {},
    "stephint": {},
    "g2rpo_a": {},
    "bread": {},
    "oracle_prefix": {},
    "reverse_curriculum": {"by": "env"},
    "luffy": {},
    "acnchor": {},
    "reflect": {"evidence": "right_key"},
    "speed": {},
}


def config(folder: Path, name: str, **more: object) -> Config:
    return Config.model_validate(
        {
            "name": name,
            "folder": folder,
            "env": {"id": "turngate/Lock-v1"},
            "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
            "warm_start": {"episodes": 96, "epochs": 4, "episodes_per_batch": 8, "lr": 5e-3},
            "policy": {"turn_tokens": 8, "context": 256, "concurrency": 8},
            "learner": {"lr": 1e-3},
            "train": {"steps": 2, "tasks_per_step": 3, "group_size": 8},
            "eval": {"tasks": 2},
            **more,
        }
    )


def train(settings: Config, start: RunFolder | None = None) -> RunFolder:
    Job(settings, Console(quiet=True), start=start).run()
    return RunFolder(settings.folder / settings.name)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run whose warm-started model the others begin from."""
    settings = config(tmp_path_factory.mktemp("runs"), "start")
    return train(settings.model_copy(update={"train": settings.train.model_copy(update={"steps": 0})}))


def rows(run: RunFolder) -> list[dict[str, float]]:
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


def without_clocks(run: RunFolder) -> list[dict[str, float]]:
    return [{key: value for key, value in row.items() if not key.startswith(MEASURED)} for row in rows(run)]


def test_all_guides_without_writers_are_tried_here() -> None:
    assert set(GUIDES) == set(shipped())


@pytest.mark.parametrize("kind", GUIDES)
def test_a_guide_trains_a_whole_run(kind: str, begun: RunFolder, tmp_path: Path) -> None:
    run = train(config(tmp_path, kind, guide={"type": kind, **GUIDES[kind]}), begun)
    for step, row in enumerate(rows(run), 1):
        learned = list(Store(run.path).read(step, "train"))
        assert row["guide/sampled"] == row["guide/kept"] + sum(
            row[f"guide/{reason}"] for reason in ("replaced", "tried", "failed_experts")
        )
        assert row["guide/kept"] == sum(len(group.trajectories) for group in learned)
        assert 0 <= row["guide/guided_share"] <= 1
        assert row["guide/failed_experts"] == 0
        for group in learned:
            assert all(one.ending.usable for one in group.trajectories), group.trajectories[0].error
            for one in group.trajectories:
                forced = sum(turn.source[-1] == Source.GUIDE for turn in one.turns)
                prefixed = one.guidance is not None and one.guidance.kind in ("prefix", "expert", "correction")
                assert forced == (one.guidance.level if prefixed and one.guidance else 0)
    if kind != "speed":
        assert max(row["guide/guided_share"] for row in rows(run)) > 0
    evaluated = [
        one
        for phase in ("before-heldout-sampled", "after-heldout-greedy")
        for group in Store(run.path).read(None, phase)
        for one in group.trajectories
    ]
    assert evaluated
    assert {one.guidance for one in evaluated} == {None}


# --- a run that is stopped in a wave ---------------------------------------------------------------------------------


STOP = {"at": 0}


class StoppedPart(ReverseCurriculumPart):
    """Stops the run in the second wave of a step, as a signal would; it has a state, and plays the group twice."""

    def open(self, helpers: Helpers) -> "Stopped":
        return Stopped(helpers, self)


class Stopped(ReverseCurriculum):
    steps = 0

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        if STOP["at"] == self.steps + 1 and wave == 2:
            raise Interruption
        return Plan(entries=[None] * 2, into="own") if wave < 3 else None

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        self.steps += 1
        super().observe(groups)


def test_a_run_that_was_stopped_in_a_wave_goes_on_bit_for_bit(begun: RunFolder, tmp_path: Path) -> None:
    guide = {"type": "tests.run.test_guides:StoppedPart", "by": "env", "low": 0.0, "high": 0.01}
    steps = {"steps": 4, "tasks_per_step": 2, "group_size": 4, "filters": []}
    whole = train(config(tmp_path / "a", "run", guide=guide, train=steps), begun)
    STOP["at"] = 3
    with pytest.raises(Interruption):
        train(config(tmp_path / "b", "run", guide=guide, train=steps), begun)
    STOP["at"] = 0
    again = train(config(tmp_path / "b", "run", guide=guide, train=steps), begun)
    assert without_clocks(again) == without_clocks(whole)
    assert len({row["guide/prefix_turns"] for row in rows(whole)}) > 1  # its state moved
    for step in range(1, 5):
        one, other = (list(Store(run.path).read(step, "train")) for run in (whole, again))
        assert [group.trajectories for group in one] == [group.trajectories for group in other]
    weights = [(run.path / "model/model.safetensors").read_bytes() for run in (whole, again)]
    assert weights[0] == weights[1]


# --- what a config may say -------------------------------------------------------------------------------------------


def test_retries_are_branches_so_rules_over_trees_can_be_used(begun: RunFolder, tmp_path: Path) -> None:
    guide = {"type": "reflect", "evidence": "right_key", "strip": False}
    run = train(config(tmp_path, "r3l", guide=guide, credit={"type": "r3l"}), begun)
    retries = [one for group in Store(run.path).read(1, "train") for one in group.trajectories if one.parent]
    assert retries
    with pytest.raises(ConfigError, match="credit 'r3l' cannot be used here"):
        config(tmp_path, "r3l", credit={"type": "r3l"})


def test_a_retry_begins_as_the_episode_that_it_retries(begun: RunFolder, tmp_path: Path) -> None:
    guide = {"type": "reflect", "evidence": "right_key", "strip": False}
    run = train(config(tmp_path, "retry", guide=guide), begun)
    groups = [group for step in (1, 2) for group in Store(run.path).read(step, "train")]
    told = 0
    for group in groups:
        known = {one.id: one for one in group.trajectories}
        for retry in group.trajectories:
            if retry.parent is None:
                continue
            first, pivot = known[retry.parent[0]], retry.parent[1]
            for mine, theirs in zip(retry.turns[:pivot], first.turns[:pivot], strict=True):
                assert mine.observation == theirs.observation
                assert mine.action == theirs.action
            assert retry.turns[pivot].observation == first.turns[pivot].observation
            if retry.guidance.text:
                told += 1
                assert retry.turns[pivot].guidance == retry.guidance
            else:  # the text held the answer, so it was withheld
                assert retry.turns[pivot].guidance is None
    assert told


def test_settings_that_do_not_fit_the_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"guide\.first is 8, which leaves no more of 8 siblings"):
        config(tmp_path, "x", guide={"type": "speed", "first": 8})


class Bare(LockEnv):
    """Neither an oracle nor hints."""

    turn_spec = replace(LockEnv.turn_spec, has_oracle=False, hint_levels=0)


class Solved(Bare):
    """Solutions that no oracle gives, and a hint of its own."""

    turn_spec = replace(Bare.turn_spec, hint_levels=1)

    def solutions(self, task: Task) -> Sequence[Sequence[str]]:
        return [["press a"], ["press b"]]


@pytest.mark.parametrize(("kind", "what"), [("luffy", "solutions"), ("ladder", "hints")])
def test_a_guide_needs_an_environment_that_answers_for_it(kind: str, what: str, tmp_path: Path) -> None:
    section = config(tmp_path, "x", guide=kind)
    with pytest.raises(ConfigError, match=f"guide: '{kind}' needs {what}, and 'mine' has none"):
        check_guide(section, {"mine": Bare()}.items())  # type: ignore[arg-type]
    check_guide(section, {"mine": Solved()}.items())  # type: ignore[arg-type]
