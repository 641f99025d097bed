"""``turngate replay``: what a run recorded is done again, and one character that differs is found at its turn."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.small_run import write_config
from tests.helpers.command_line import turngate_at
from tests.helpers.planted import Change, in_turn, one_character, planted
from turngate.store import Store
from turngate.types import Ending, Evidence, Observation, Source, ToolCall

RUN = "runs/lock"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a run of two steps was trained on the toy."""
    folder = tmp_path_factory.mktemp("replay")
    config = write_config(folder)
    config.write_text(config.read_text().replace("[train]", "[train]\ncheckpoint_every = 1"))
    assert turngate_at(folder, "train", config.name) == 0
    return folder


def replayed(folder: Path, *arguments: object, code: int = 0) -> dict:
    assert turngate_at(folder, "replay", *arguments, "--json", "found.json") == code
    found: dict = json.loads((folder / "found.json").read_text())
    return found


def test_every_episode_of_a_run_replays_identically(here: Path, capsys: pytest.CaptureFixture[str]):
    """Training and the evaluations before and after it."""
    found = replayed(here, RUN)
    n = sum(len(group.trajectories) for group in Store(here / RUN).read())
    assert (found["replayed"], found["identical"], found["diverged"]) == (n, n, [])
    assert len(found["phases"]) == 5
    assert f"{n} of {n} replayed episodes are identical, 0 diverged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "n"),
    [(("--phase", "train"), 24), (("--phase", "train", "--step", 2), 12), (("--limit", 3), 3), (("--step", 1), 12)],
)
def test_part_of_a_run_is_replayed(here: Path, arguments: tuple[object, ...], n: int):
    assert replayed(here, RUN, *arguments)["replayed"] == n


def observed(**fields: object) -> Change:
    return in_turn(1, lambda turn: replace(turn, observation=replace(turn.observation, **fields)))


def text_changed() -> Change:
    def change(turn):
        seen = turn.observation
        return replace(turn, observation=Observation(text=one_character(seen.text), state_key=seen.state_key))

    return in_turn(1, change)


def key_changed() -> Change:
    def change(turn):
        seen = turn.observation
        return replace(turn, observation=replace(seen, state_key=one_character(seen.state_key)))

    return in_turn(1, change)


def read_otherwise() -> Change:
    call = ToolCall(name="press", arguments={"key": "q?"})
    return in_turn(2, lambda turn: replace(turn, action=replace(turn.action, calls=(call,))))


def measured_otherwise(one, score):
    facts = [replace(f, value=not f.value) if (f.name, f.turn) == ("right_key", 1) else f for f in one.evidence]
    return replace(one, evidence=tuple(facts)), score


def measured_more(one, score):
    return replace(one, evidence=(*one.evidence, Evidence(name="opened", value=False, by="verifier"))), score


def measured_in_another_order(one, score):
    return replace(one, evidence=(*one.evidence[2:4], *one.evidence[:2], *one.evidence[4:])), score


def ended_otherwise(one, score):
    return replace(one, ending=Ending.AGENT_FAULT), score


def ended_later(one, score):
    return replace(one, turns=(*one.turns, one.turns[-1])), score


def ended_earlier(one, score):
    kept = tuple(fact for fact in one.evidence if fact.turn != len(one.turns) - 1)
    return replace(one, turns=one.turns[:-1], evidence=kept), score


def paid_otherwise(one, score):
    first, *rest = score.ledger
    return one, replace(score, ledger=(replace(first, weight=first.weight + 1e-9), *rest))


def solved_otherwise(one, score):
    return one, replace(score, success=not score.success)


@pytest.mark.parametrize(
    ("change", "turn", "what"),
    [
        (text_changed(), 1, "observation"),
        (key_changed(), 1, "state key"),
        (observed(images=(b"GIF89a",)), 1, "images"),
        (read_otherwise(), 2, "calls of the action"),
        (in_turn(0, lambda turn: replace(turn, action=replace(turn.action, thought="hm"))), 0, "thought of the action"),
        (measured_otherwise, 1, "evidence 'right_key'"),
        (measured_more, None, "evidence 'opened'"),
        (measured_in_another_order, None, "order of evidence, evidence 'right_key'"),
        (ended_otherwise, "last", "ending"),
        (ended_later, "last but one", "ending"),
        (ended_earlier, "last", "ending"),
        (paid_otherwise, None, "score: payment"),
        (solved_otherwise, None, "score: success"),
    ],
)
def test_one_difference_is_found_at_its_turn(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Change, turn: int | str | None, what: str
):
    """All other episodes are identical, and the message shows both sides around the place."""
    name = planted(here / RUN, tmp_path / "planted", change, least=3)
    found = replayed(tmp_path, "planted", "--phase", "train", "--step", 1, code=1)
    (one,) = found["diverged"]
    last = len(next(t for g in Store(tmp_path / "planted").read(1) for t in g.trajectories if t.id == name).turns) - 1
    at = {"last": last, "last but one": last - 1}.get(turn, turn) if isinstance(turn, str) else turn
    assert (one["episode"], one["turn"], one["what"]) == (name, at, what)
    assert found["identical"] == found["replayed"] - 1 == 11
    assert one["recorded"] != one["replayed"]
    place = one["place"]
    assert one["recorded"][:place] == one["replayed"][:place]
    assert one["recorded"][place : place + 1] != one["replayed"][place : place + 1]
    told = capsys.readouterr().out
    assert "11 of 12 replayed episodes are identical, 1 diverged" in told
    assert f"{what} differs from character {place} on" in told


def test_an_episode_that_broke_is_counted_and_left_out(here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def broke(one, score):
        return replace(one, ending=Ending.ENV_ERROR, error="gone"), replace(score, usable=False)

    planted(here / RUN, tmp_path / "planted", broke)
    found = replayed(tmp_path, "planted", "--phase", "train", "--step", 1)
    assert (found["identical"], sum(found["left_out"].values())) == (11, 1)
    assert "1 left out: ended by env_error" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((RUN, "--phase", "test"), "has no episodes of phase 'test'; recorded phases: after-heldout-greedy"),
        ((RUN, "--step", 7), "has no step 7; recorded: 0, 1, 2"),
        (("runs/none",), "'runs/none' is not the folder of a run"),
    ],
)
def test_mistakes_are_told_in_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...], message: str
):
    assert turngate_at(here, "replay", *arguments) == 2
    assert message in capsys.readouterr().err


def test_rescoring_refuses_what_only_a_live_verifier_could_measure(here: Path, capsys: pytest.CaptureFixture[str]):
    """A rubric reads the record alone; a fact that nobody recorded is not measured later."""
    rubric = {"rewards": [{"type": "from_evidence", "name": "left", "evidence": "files_left", "kind": "outcome"}]}
    rubric["rewards"][0]["levels"] = [0, 1]
    (here / "live.json").write_text(json.dumps(rubric))
    assert turngate_at(here, "rescore", RUN, "--rubric", "live.json") == 2
    assert "no trajectory has evidence 'files_left', which 'left' reads" in capsys.readouterr().err
    assert not (here / RUN / "rescored" / "live").exists()


# --- going on from a turn ---------------------------------------------------------------------------------------------


def branched(folder: Path, *arguments: object, out: str) -> tuple[dict, list]:
    """The rates, and the continued episodes."""
    assert turngate_at(folder, "replay", *arguments, "--out", out) == 0
    rates: dict = json.loads((folder / out / "result.json").read_text())
    return rates, [one for group in Store(folder / out).read(phase="continued") for one in group.trajectories]


def test_a_policy_goes_on_from_a_turn_of_each_episode(here: Path, capsys: pytest.CaptureFixture[str]):
    """The turns before are those that were recorded, as given turns; the rest is sampled; show reads the result."""
    named = (RUN, "--branch-at", 1, "--policy", f"{RUN}/checkpoints/step=000001", "--samples", 2, "--step", 2)
    rates, continued = branched(here, *named, out="from-1")
    recorded = {one.id: one for group in Store(here / RUN).read(2, "train") for one in group.trajectories}
    assert (rates["episodes"], rates["continued"], rates["left_out"]) == (12, 24, 0)
    assert len(continued) == 24
    for one in continued:
        source = recorded[one.parent[0]]
        assert one.parent[1] == 1
        assert one.turns[0].action.text == source.turns[0].action.text
        assert one.turns[1].observation == source.turns[1].observation
        assert (one.turns[0].source != Source.POLICY).all()
        assert (one.turns[1].source == Source.POLICY).any()
    told = capsys.readouterr().out
    assert "12 recorded episodes of 3 tasks, continued from turn 1 by" in told
    assert "recorded: " in told
    assert "continued: " in told
    assert turngate_at(here, "show", "from-1") == 0
    assert continued[0].id in capsys.readouterr().out
    assert turngate_at(here, "show", "from-1", "--trajectory", continued[0].id) == 0


def test_one_episode_is_continued_from_its_beginning(here: Path):
    """Also by a model folder; the run keeps the result where no folder is named."""
    name = next(Store(here / RUN).read(1, "train")).trajectories[1].id
    named = ("--branch-at", 0, "--policy", f"{RUN}/model", "--episode", name)
    assert turngate_at(here, "replay", RUN, *named) == 0
    (group,) = Store(here / RUN / "continued" / "turn-0-model").read()
    (one,) = group.trajectories
    assert one.parent == (name, 0)
    assert all((turn.source == Source.POLICY).any() for turn in one.turns)


def test_a_continuation_that_starts_elsewhere_is_refused(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    name = planted(here / RUN, tmp_path / "planted", text_changed())
    named = ("--branch-at", 1, "--policy", here / RUN, "--episode", name, "--out", "none")
    assert turngate_at(tmp_path, "replay", "planted", *named) == 2
    assert "before turn 1 its environment shows" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--branch-at", 1), "--branch-at needs --policy"),
        (("--policy", RUN), "--policy has no effect without --branch-at TURN"),
        (("--samples", 2), "--samples has no effect without --branch-at TURN"),
        (("--update", 2, "--phase", "train"), "--phase has no effect with --update"),
        (("--update", 2, "--branch-at", 1), "are two things to do"),
        (("--branch-at", 1, "--policy", RUN, "--json", "x"), "--json has no effect with --branch-at"),
        (("--branch-at", 1, "--policy", RUN, "--episode", "x", "--step", 1), "--step has no effect with --episode"),
        (("--branch-at", 9, "--policy", RUN), "no episode can be continued from turn 9: 24 are over by then"),
        (("--branch-at", 1, "--policy", RUN, "--episode", "x"), "unknown trajectory 'x'"),
    ],
)
def test_options_without_effect_are_refused(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...], message: str
):
    assert turngate_at(here, "replay", RUN, *arguments) == 2
    assert message in capsys.readouterr().err
