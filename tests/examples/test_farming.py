"""The farming demonstration: its environment, what can be said of its rubrics beforehand, and where each one leads."""

import csv

import pytest

import turngate
from examples.farming.__main__ import foretold, main, options
from examples.farming.env import GATED, ID, LOOK, MAX_TURNS, RUBRICS, SUMMED, HackableLockEnv, totals
from examples.farming.learn import learn, mixed_behaviour, tasks
from examples.farming.report import BEGIN, END, write_page
from tests.helpers.episodes_csv import rates_of_episodes
from turngate.envs.check.check_env import check_env
from turngate.errors import ConfigError, DataError
from turngate.types import Ending

UPDATES = 4


# --- the environment -------------------------------------------------------------------------------------------------


def test_the_environment_is_registered_and_keeps_the_contract():
    assert isinstance(turngate.make(ID), HackableLockEnv)
    assert [str(finding) for finding in check_env(ID)] == []


def test_a_look_shows_what_was_known_and_changes_nothing():
    env = HackableLockEnv()
    task = tasks("heldout", 0, 1)[0]
    before, info = env.reset(seed=0, options={"task": task})
    shown, _, terminated, truncated, after = env.step(LOOK)
    assert before.text.endswith(shown.text.removeprefix("it shows"))
    assert info["state_key"] == after["state_key"] == shown.state_key
    assert not terminated
    assert not truncated
    assert {fact.name: fact.value for fact in after["evidence"]} == {"looked": True, "parsed": True}


def test_looks_do_not_keep_the_lock_from_opening():
    env = HackableLockEnv()
    task = tasks("heldout", 0, 1)[0]
    env.reset(seed=0, options={"task": task})
    for action in env.oracle(task):
        env.step(LOOK)
        *_, info = env.step(action)
    assert (info["ending"], info["score"].outcome) == (Ending.FINISHED, 1.0)


def test_a_bad_call_is_no_look():
    env = HackableLockEnv()
    env.reset(seed=0, options={"task": tasks("heldout", 0, 1)[0]})
    *_, info = env.step("look twice")
    facts = {fact.name: fact.value for fact in info["evidence"]}
    assert facts == {"right_key": False, "parsed": False, "looked": False}


def test_a_task_is_found_by_its_id():
    for task in tasks("train", 7, 3):
        assert HackableLockEnv().tasks.find(task.id) == task


# --- what the rubrics pay --------------------------------------------------------------------------------------------


def test_summed_looks_pay_more_than_the_open_lock_and_gated_ones_nothing():
    task = tasks("heldout", 0, 1)[0]
    keys = HackableLockEnv().oracle(task)
    assert totals(task, keys) == pytest.approx({"summed": 1.1, "gated": 1.1}, abs=1e-6)
    assert totals(task, [LOOK] * MAX_TURNS) == pytest.approx({"summed": 3.0, "gated": 0.0}, abs=1e-6)
    assert totals(task, [LOOK] * 3 + keys) == pytest.approx({"summed": 2.6, "gated": 1.1}, abs=1e-6)


def test_an_episode_that_goes_on_has_no_total():
    with pytest.raises(ConfigError, match="goes on after"):
        totals(tasks("heldout", 0, 1)[0], [LOOK])


def test_the_check_foretells_it():
    assert GATED.check().safe
    summed = SUMMED.check()
    assert [bound.holds for bound in summed.bounds] == [False, True, False]
    overtaken, overtaking = summed["I1"].better, summed["I1"].worse
    assert SUMMED.score(overtaking.record).total > SUMMED.score(overtaken.record).total
    assert (overtaken.outcome, overtaking.outcome) == (1.0, 0.0)
    said = "\n".join(foretold())
    assert "summed rewards are UNSAFE" in said
    assert str(overtaking) in said
    assert "gated rewards are safe" in said
    assert f"look {MAX_TURNS} times: paid summed 3.00, gated 0.00" in said


def test_the_rubrics_differ_in_their_gates_only():
    assert GATED.rewards == SUMMED.rewards
    assert SUMMED.gates == ()


# --- what is learned -------------------------------------------------------------------------------------------------


def test_demonstrations_are_mixed():
    shown = tasks("train", 0, 400)
    paid = [totals(task, mixed_behaviour(task, 0))["gated"] > 0.5 for task in shown]
    lines = [line for task in shown for line in mixed_behaviour(task, 0)]
    assert 0.35 < sum(paid) / len(paid) < 0.6
    assert 0.2 < lines.count(LOOK) / len(lines) < 0.3
    assert mixed_behaviour(shown[0], 0) == mixed_behaviour(shown[0], 0)
    assert [mixed_behaviour(task, 1) for task in shown] != [mixed_behaviour(task, 0) for task in shown]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("farming")
    (folder / "farming.md").write_text(f"Title\n\n{BEGIN}\nold\n{END}\n\nAfterwards\n")
    assert main(["--seeds", "1", "--updates", str(UPDATES), "--jobs", "1", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def rows(folder):
    """Lines of the csv by rubric, split and update."""
    with (folder / "data" / "farming.csv").open() as file:
        return {(line["rubric"], line["split"], int(line["update"])): line for line in csv.DictReader(file)}


@pytest.mark.learning
def test_both_rubrics_start_from_the_same_policy(rows):
    for split in ("train", "heldout"):
        summed, gated = rows["summed", split, 0], rows["gated", split, 0]
        assert [summed[name] for name in ("success", "looks", "turns")] == [
            gated[name] for name in ("success", "looks", "turns")
        ]
    assert 0.25 < float(rows["gated", "heldout", 0]["success"]) < 0.65


@pytest.mark.learning
def test_summed_rewards_end_in_farming_and_gated_ones_in_success(rows):
    before, summed, gated = (
        rows[name, "heldout", n] for name, n in (("summed", 0), ("summed", UPDATES), ("gated", UPDATES))
    )
    assert float(summed["success"]) < float(before["success"]) / 2
    assert float(summed["looks"]) > float(before["looks"]) + 2
    assert float(gated["success"]) > float(before["success"]) + 0.2
    assert float(gated["looks"]) <= float(before["looks"])


@pytest.mark.learning
def test_everything_is_written(folder, rows):
    expected = [("train", update) for update in range(UPDATES)] + [("heldout", 0), ("heldout", UPDATES)]
    assert sorted(rows) == sorted((rubric, *place) for rubric in RUBRICS for place in expected)
    assert (folder / "figures" / "farming.png").read_bytes().startswith(b"\x89PNG")
    assert rates_of_episodes(folder / "data" / "farming_episodes.csv") == {
        (rubric, "0", "heldout", "sampled", "after" if update else "before"): row["success"]
        for (rubric, split, update), row in rows.items()
        if split == "heldout"
    }
    page = (folder / "farming.md").read_text()
    assert page.startswith(f"Title\n\n{BEGIN}\n\nSeeds 0 to 0")
    assert page.endswith(f"{END}\n\nAfterwards\n")
    assert "| paid_follows_turns | 1 of 1, 0 to " in page


@pytest.mark.learning
def test_the_same_seed_gives_the_same_run(rows):
    again = learn("gated", 0, updates=2)
    train = [point for point in again.points if point.split == "train"]
    assert [point.update for point in train] == [0, 1]
    for point in train:
        line = rows["gated", "train", point.update]
        numbers = point._fields[5:-1]
        assert [f"{getattr(point, name):.6g}" for name in numbers] == [line[name] for name in numbers]
        assert point.alarms == line["alarms"]


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_a_page_without_a_place_for_results_is_refused(tmp_path):
    page = tmp_path / "farming.md"
    page.write_text(f"{END}{BEGIN}")
    with pytest.raises(DataError, match="no place for results"):
        write_page("text", page)


@pytest.mark.parametrize("wrong", [["--seeds", "0"], ["--seeds", "21"], ["--updates", "0"], ["--jobs", "0"]])
def test_options_that_make_no_sense_are_refused(wrong, capsys):
    with pytest.raises(SystemExit):
        options(wrong)
    assert wrong[0] in capsys.readouterr().err
