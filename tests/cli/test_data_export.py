"""``turngate data export``: a run's episodes as rows that other tools read, and nothing in them that must not be."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.command_line import turngate_at
from tests.helpers.tiny_run import tiny_model
from turngate.store import Store
from turngate.types import Guidance, ScoredGroup

CONFIG = (
    """
name = "lock"
folder = "runs"

[env]
id = "turngate/Lock-v1"
"""
    + tiny_model(episodes=96, epochs=5).replace("concurrency = 8", 'concurrency = 8\nsystem = ""')
    + """
[train]
steps = 1
tasks_per_step = 6
group_size = 6
"""
)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a run was trained whose policy solves some tasks and fails at others."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "lock.toml").write_text(CONFIG)
    assert turngate_at(folder, "train", "lock.toml") == 0
    successes = [bool(score.success) for group in Store(folder / "runs/lock").read(1) for score in group.scores]
    assert 0 < sum(successes) < len(successes)
    return folder


def exported(folder: Path, format: str, *options: object, run: str = "runs/lock") -> list[dict]:
    out = folder / f"{format}.jsonl"
    out.unlink(missing_ok=True)
    assert turngate_at(folder, "data", "export", run, "--to", format, "--out", out, *options) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


def recorded(folder: Path) -> list[ScoredGroup]:
    return list(Store(folder / "runs/lock").read(1, "train"))


def copied(folder: Path, name: str, groups: list[ScoredGroup]) -> str:
    """A run with the settings of the trained one and these episodes."""
    run = folder / "runs" / name
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir()
    shutil.copyfile(folder / "runs/lock/config.toml", run / "config.toml")
    Store(run).write(1, groups)
    return f"runs/{name}"


def helped(group: ScoredGroup, places: tuple[int, ...], text: str = "press HINTED") -> ScoredGroup:
    """The group with a hint before the first turn of some of its episodes."""
    hint = Guidance(kind="hint", level=1, text=text, source="test", strip_for_train=True)

    def with_hint(one):
        return replace(one, guidance=hint, turns=(replace(one.turns[0], guidance=hint), *one.turns[1:]))

    found = tuple(with_hint(one) if n in places else one for n, one in enumerate(group.trajectories))
    return replace(group, trajectories=found)


def test_sft_has_the_successes_once_for_each_way_of_acting(here: Path):
    rows = exported(here, "sft")
    ways = {
        (group.task.id, *(turn.action.text for turn in one.turns))
        for group in recorded(here)
        for one, score in zip(group.trajectories, group.scores, strict=True)
        if score.success
    }
    assert len(rows) == len(ways)
    assert all(row["turngate"]["success"] for row in rows)
    assert [tool["function"]["name"] for tool in rows[0]["tools"]] == ["press"]
    first = rows[0]["messages"]
    assert [one["role"] for one in first[:3]] == ["user", "assistant", "tool"]
    assert first[1]["tool_calls"][0]["function"]["name"] == "press"
    assert isinstance(first[1]["tool_calls"][0]["function"]["arguments"], dict)
    assert first[2]["tool_call_id"] == first[1]["tool_calls"][0]["id"]
    assert first[-1]["role"] == "assistant"


def test_sft_takes_other_episodes_where_asked(here: Path):
    everything = [pair for group in recorded(here) for pair in zip(group.trajectories, group.scores, strict=True)]
    failures = [one for one, score in everything if not score.success]
    rows = exported(here, "sft", "--where", "success == false", "--copies")
    assert [row["turngate"]["id"] for row in rows] == [one.id for one in failures]
    assert len(exported(here, "sft", "--min-paid", "-9", "--copies")) == len(everything)
    limited = exported(here, "sft", "--where", "turns >= 1", "--copies", "--most", 2)
    assert len(limited) == 2 * len(recorded(here))


def test_kto_labels_every_usable_episode(here: Path):
    rows = exported(here, "kto")
    assert [row["label"] for row in rows] == [bool(s.success) for group in recorded(here) for s in group.scores]
    assert all(row["prompt"][-1]["role"] == "user" and row["completion"][0]["role"] == "assistant" for row in rows)


def test_pairs_share_everything_up_to_the_turn_in_which_they_differ(here: Path):
    rows = exported(here, "pairs")
    assert rows
    by_id = {one.id: one for group in recorded(here) for one in group.trajectories}
    for row in rows:
        told = row["turngate"]
        win, lose = by_id[told["chosen"]["id"]], by_id[told["rejected"]["id"]]
        at = told["turn"]
        assert [t.action for t in win.turns[:at]] == [t.action for t in lose.turns[:at]]
        assert win.turns[at].action != lose.turns[at].action
        assert win.turns[at].observation == lose.turns[at].observation
        assert sum(one["role"] == "assistant" for one in row["prompt"]) == at
        assert row["chosen"][0] != row["rejected"][0]
        assert told["chosen"]["success"]
        assert not told["rejected"]["success"]
    for row in exported(here, "pairs", "--one-turn"):
        assert len(row["chosen"]) == len(row["rejected"]) == 1


def test_a_side_with_help_and_one_without_are_no_pair(here: Path, capsys: pytest.CaptureFixture[str]):
    group = next(g for g in recorded(here) if len({bool(s.success) for s in g.scores}) == 2)
    wins = tuple(n for n, score in enumerate(group.scores) if score.success)
    run = copied(here, "mixed", [helped(group, wins)])
    assert turngate_at(here, "data", "export", run, "--to", "pairs", "--out", here / "none.jsonl") == 2
    assert "one side had help and the other not the same" in capsys.readouterr().err
    assert not (here / "none.jsonl").exists()
    both = exported(here, "pairs", run=copied(here, "both", [helped(group, tuple(range(len(group.scores))))]))
    assert both
    assert "HINTED" not in json.dumps([[row["prompt"], row["chosen"], row["rejected"]] for row in both])


def test_hints_are_stripped_and_said_or_their_episodes_left_out(here: Path):
    group = next(g for g in recorded(here) if any(s.success for s in g.scores))
    run = copied(here, "helped", [helped(group, tuple(range(len(group.scores))))])
    rows = exported(here, "sft", run=run)
    assert rows
    assert "HINTED" not in json.dumps(rows)
    assert {(row["turngate"]["guided"], row["turngate"]["hint"]) for row in rows} == {("hint", "left out")}
    assert exported(here, "chat", run=run)[0]["messages"][0]["content"].endswith("press HINTED")
    out = here / "left.jsonl"  # nothing is left of a run in which all had help
    assert turngate_at(here, "data", "export", run, "--to", "kto", "--hints", "leave-out", "--out", out) == 2


@pytest.mark.parametrize("format", ["sft", "pairs", "kto", "atif", "chat"])
def test_private_data_of_tasks_is_in_no_export(here: Path, format: str):
    canary = "CANARY-4711"
    groups = [
        replace(group, task=private, trajectories=tuple(replace(one, task=private) for one in group.trajectories))
        for group in recorded(here)
        for private in [replace(group.task, private={"gold": canary}, hints=(canary,))]
    ]
    rows = exported(here, format, run=copied(here, "canary", groups))
    assert rows
    assert canary not in json.dumps(rows)


def test_atif_has_tokens_and_what_was_paid_and_comes_back_as_it_was(here: Path):
    rows = exported(here, "atif")
    assert len(rows) == sum(len(group.scores) for group in recorded(here))
    first, group = rows[0], recorded(here)[0]
    agents = [step for step in first["steps"] if step["source"] == "agent"]
    turns = group.trajectories[0].turns
    ids = np.concatenate([turns[0].context_ids, turns[0].completion.ids_K, turns[1].context_ids])
    assert agents[1]["metrics"]["prompt_token_ids"] == ids.tolist()
    assert np.allclose(agents[0]["metrics"]["logprobs"], turns[0].completion.logprobs_K)
    told = first["extra"]["turngate"]
    assert [event["name"] for event in told["score"]["ledger"]] == [event.name for event in group.scores[0].ledger]
    assert len(told["evidence"]) == len(group.trajectories[0].evidence)
    shutil.rmtree(here / "back", ignore_errors=True)
    assert turngate_at(here, "data", "import", "atif.jsonl", "--from", "atif", "--out", "back") == 0
    back = list(Store(here / "back").read(1, "train"))
    assert [one.trajectories for one in back] == [one.trajectories for one in recorded(here)]
    assert [[s.ledger for s in one.scores] for one in back] == [
        [s.ledger for s in one.scores] for one in recorded(here)
    ]


def test_a_policy_is_judged_by_imported_episodes_as_by_recorded_ones(here: Path):
    exported(here, "atif")
    shutil.rmtree(here / "again", ignore_errors=True)
    told = ("data", "import", "atif.jsonl", "--from", "atif", "--out", "again", "--temperature", "1")
    assert turngate_at(here, *told) == 0
    found = []
    for store in ("runs/lock", "again"):
        judged = ("ope", store, "--policy", "runs/lock/model", "--json", f"{Path(store).name}.json")
        assert turngate_at(here, *judged) == 0
        found.append(json.loads((here / f"{Path(store).name}.json").read_text()))
    assert found[0]["overlap"]["episodes"] == 36
    assert found[0]["estimates"] == found[1]["estimates"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "dpo"), "--to dpo is not one of sft, pairs, kto, atif, chat"),
        (("--to", "sft", "--phase", "eval"), "has no episodes of phase 'eval'; recorded:"),
        (("--to", "sft", "--where", "paid is high"), "--where 'paid is high' is no condition"),
        (("--to", "sft", "--where", "openned > 0"), "unknown name in --where 'openned'"),
        (("--to", "sft", "--min-gap", "1"), "--min-gap has no effect with --to sft"),
        (("--to", "atif", "--hints", "leave-out"), "--hints has no effect with --to atif"),
        (("--to", "kto", "--copies"), "--copies has no effect with --to kto"),
        (("--to", "sft", "--min-paid", "99"), "nothing is left to export: 36 paid less than 99"),
        (("--to", "sft", "--out", "lock.toml"), "'lock.toml' exists already"),
    ],
)
def test_mistakes_are_told_in_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
):
    assert turngate_at(here, "data", "export", "runs/lock", *arguments) == 2
    assert message in capsys.readouterr().err
    assert not list((here / "runs/lock").glob("exported/*"))
