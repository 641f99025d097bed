"""``turngate data import``: logs that real packages wrote, read by every other command; and files that are damaged."""

import gzip
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.helpers.command_line import turngate_at
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.formats.fields import MAX_DEPTH, MAX_MESSAGES
from turngate.store.imported import read_imported

LOGS = Path(__file__).parents[1] / "store" / "formats" / "logs"


def imported(folder: Path, file: Path | str, format: str, *options: object) -> Store:
    assert turngate_at(folder, "data", "import", file, "--from", format, "--out", "log", *options) == 0
    return Store(folder / "log")


def refused(folder: Path, capsys: pytest.CaptureFixture[str], file: Path | str, format: str, *options: object) -> str:
    assert turngate_at(folder, "data", "import", file, "--from", format, "--out", "log", *options) == 2
    assert not (folder / "log").exists()
    assert not list(folder.glob(".*importing"))
    return capsys.readouterr().err


def lines(folder: Path, *rows: object) -> str:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "rows.jsonl"


def chat(question: str = "What is 1 + 2?", answer: str = "3", **more: object) -> dict[str, Any]:
    calls = [{"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"x": 1, "y": 2}'}}]
    return {
        "messages": [
            {"role": "system", "content": "Use the tool."},
            {"role": "user", "content": question},
            {"role": "assistant", "content": "I add.", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c", "content": "3"},
            {"role": "assistant", "content": answer},
        ],
        **more,
    }


# --- what real packages wrote ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "format", "rewards", "tokens"),
    [
        ("verifiers-0.1.14-results.jsonl", "verifiers", [1, 0, 1, 0], {"sampled": 2, "none": 2}),
        ("verifiers-0.4.0-traces.jsonl", "verifiers", [1, 0, 1, 0], {"sampled": 4}),
        ("inspect-ai-0.3.285.json", "inspect", [1, 0, 0, 0], {"none": 4}),
        ("inspect-ai-0.3.285.eval", "inspect", [1, 0, 0, 0], {"none": 4}),
        ("openenv-0.10.0-training-traces.jsonl", "training-trace", [None, None], {"sampled": 2}),
        ("atif-1.8.0.jsonl", "atif", [None, None], {"sampled": 2}),
    ],
)
def test_a_log_of_a_real_package_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, format: str, rewards: list, tokens: dict
):
    store = imported(tmp_path, LOGS / file, format)
    groups = list(store.read(1, "train"))
    trajectories = [one for group in groups for one in group.trajectories]
    assert sorted(str(score.outcome) for group in groups for score in group.scores) == sorted(
        str(None if reward is None else float(reward)) for reward in rewards
    )
    assert {len(group.trajectories) for group in groups} == {2}
    assert {len(one.turns) for one in trajectories} == {2}
    for one in trajectories:
        assert [call.name for call in one.turns[0].action.calls] == ["add"]
        assert one.turns[1].observation.text in ("3", "4", "5")
        assert "1 + 2" in one.task.prompt or "2 + 2" in one.task.prompt
        assert one.answer() is not None
    assert read_imported(RunFolder(tmp_path / "log")).tokens == tokens
    said = capsys.readouterr().out
    for name, count in tokens.items():
        words = {"sampled": "with the ids that were sampled and", "none": "without token ids and log-probabilities"}
        assert f"{count} episodes {words[name]}" in said
    for where in (*(tmp_path / "log").rglob("*.json"), *(tmp_path / "log").rglob("*.parquet")):
        assert b"CANARY" not in where.read_bytes()
    assert not any("CANARY" in str(fact.value) for one in trajectories for fact in one.evidence)
    assert turngate_at(tmp_path, "show", "log", "--trajectory", trajectories[0].id) == 0
    if format != "training-trace" and format != "atif":
        assert turngate_at(tmp_path, "credit", "log", "--method", "gigpo") == 0
    assert turngate_at(tmp_path, "data", "export", "log", "--to", "atif") == 0


def test_tokens_of_a_trace_are_those_that_the_engine_saw(tmp_path: Path):
    store = imported(tmp_path, LOGS / "openenv-0.10.0-training-traces.jsonl", "training-trace")
    first = next(store.read(1)).trajectories[0]
    assert first.ids().tolist() == [1, 2, 3, 51, 51, 9, 61, 61]
    assert first.turns[1].context_ids.tolist() == [9]
    assert first.turns[1].completion.logprobs_K.tolist() == [-1.5, -0.125]
    assert first.turns[1].source.tolist() == [0, 1, 0]  # its loss_mask leaves the last token out


def test_completions_that_grpo_logged(tmp_path: Path):
    rows = [
        {"step": 3, "prompt": "2 + 2?", "completion": text, "correct": paid, "advantage": paid - 0.5}
        for text, paid in (("4", 1.0), ("5", 0.0))
    ]
    (group,) = imported(tmp_path, lines(tmp_path, *rows), "trl").read(1)
    assert [score.total for score in group.scores] == [1.0, 0.0]
    assert {fact.name for fact in group.trajectories[0].evidence} >= {"correct", "reward", "answer"}


def test_the_parquet_file_in_which_trl_logs_completions(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Columns as ``GRPOTrainer.log`` of TRL 1.16 writes them; NaN is a completion that could not be scored."""
    said = [[{"role": "assistant", "content": text}] for text in ("4", "5", "6")]
    table = {
        "step": [1, 1, 1],
        "prompt": [[{"role": "user", "content": "2 + 2?"}]] * 3,
        "completion": said,
        "correct": [1.0, 0.0, float("nan")],
        "advantage": [0.7, -0.7, 0.0],
    }
    pd.DataFrame(table).to_parquet(tmp_path / "completions_00001.parquet")
    (group,) = imported(tmp_path, "completions_00001.parquet", "trl").read(1)
    assert [(score.outcome, score.usable) for score in group.scores] == [(1.0, True), (0.0, True), (None, False)]
    (tmp_path / "half.parquet").write_bytes((tmp_path / "completions_00001.parquet").read_bytes()[:900])
    (tmp_path / "log").rename(tmp_path / "first")
    assert "half.parquet: cannot be read as Parquet" in refused(tmp_path, capsys, "half.parquet", "trl")


def test_preference_rows_are_a_success_and_a_failure(tmp_path: Path):
    sides = {"chosen": [{"role": "assistant", "content": "4"}], "rejected": [{"role": "assistant", "content": "5"}]}
    row = {"prompt": [{"role": "user", "content": "2 + 2?"}], **sides}
    (group,) = imported(tmp_path, lines(tmp_path, row), "trl").read(1)
    assert [score.success for score in group.scores] == [True, False]


def test_several_scores_are_no_reward_until_a_rubric_says_how_they_add_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rows = [{"prompt": "2 + 2?", "completion": "4", "correct": 1.0, "short": 0.5}] * 2
    (group,) = imported(tmp_path, lines(tmp_path, *rows), "trl").read(1)
    assert not group.scores[0].usable
    assert "2 episodes have no reward that counts" in capsys.readouterr().out
    (tmp_path / "both.toml").write_text(
        '[[rewards]]\ntype = "from_evidence"\nname = "right"\nkind = "outcome"\nevidence = "correct"\n'
        '[[rewards]]\ntype = "from_evidence"\nname = "brief"\nkind = "process"\nevidence = "short"\nweight = 0.5\n'
    )
    assert turngate_at(tmp_path, "rescore", "log", "--rubric", "both.toml") == 0
    (group,) = Store(tmp_path / "log/rescored/both").read(1)
    assert [score.total for score in group.scores] == [1.25, 1.25]


# --- what is not there -----------------------------------------------------------------------------------------------


def test_what_needs_log_probabilities_refuses_a_log_without_them_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    imported(tmp_path, lines(tmp_path, chat(reward=1), chat(reward=0)), "chat")
    capsys.readouterr()
    assert turngate_at(tmp_path, "ope", "log", "--policy", "nobody") == 2
    told = capsys.readouterr().err
    assert "imported from a log of format 'chat': 2 episodes without token ids and log-probabilities" in told
    assert turngate_at(tmp_path, "report", "log") == 2
    assert "was imported from a log, so it has no settings of a run" in capsys.readouterr().err


def test_sampled_tokens_need_the_temperature_that_they_were_sampled_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    imported(tmp_path, LOGS / "verifiers-0.4.0-traces.jsonl", "verifiers")
    assert turngate_at(tmp_path, "ope", "log", "--policy", "nobody") == 2
    assert "not known at which temperature" in capsys.readouterr().err


def test_a_context_that_was_rewritten_leaves_the_texts_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    row = json.loads((LOGS / "atif-1.8.0.jsonl").read_text().splitlines()[0])
    row["steps"][3]["metrics"]["prompt_token_ids"] = [7, 7, 7]
    (group,) = imported(tmp_path, lines(tmp_path, row), "atif").read(1)
    assert not len(group.trajectories[0].ids())
    assert "tokens of 1 episodes were left out: the context of turn 1 does not begin with" in capsys.readouterr().out


def test_fields_that_nobody_reads_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    imported(tmp_path, lines(tmp_path, chat(reward=1, latency_s=3.5, user="me")), "chat")
    assert "left behind: latency_s (1), user (1)" in capsys.readouterr().out
    assert read_imported(RunFolder(tmp_path / "log")).left_behind == {"latency_s": 1, "user": 1}


# --- damaged and hostile files ---------------------------------------------------------------------------------------


def _nested(depth: int) -> dict[str, Any]:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return chat(metrics=value)


BAD: list[tuple[str, Callable[[Path], bytes], str]] = [
    ("chat", lambda _: json.dumps(chat()).encode() + b"\n" + json.dumps(chat()).encode()[:90], "line 2: it is cut off"),
    ("chat", lambda _: b'{"messages": \n', "line 1: it is not JSON"),
    ("chat", lambda _: b'{"messages": "hello"}\n', "line 1: field 'messages' is a text"),
    ("chat", lambda _: b'{"messages": []}\n', "line 1: it has no message of the assistant"),
    ("chat", lambda _: b"[1, 2]\n", "line 1: the record is a list"),
    ("chat", lambda _: b'{"messages": [{"role": "robot", "content": "x"}]}\n', "has the role 'robot'"),
    ("chat", lambda _: b"\xff\xfe{}\n", "line 1: it is not UTF-8 text (byte 0)"),
    ("chat", lambda _: pickle.dumps(chat()), "maybe a pickle; pickles run code"),
    ("chat", lambda _: gzip.compress(b"{}"), "packed by gzip"),
    ("chat", lambda _: b"PAR1" + b"\0" * 20, "a Parquet file"),
    ("chat", lambda _: b"", "is empty"),
    ("chat", lambda _: b"\n\n", "only blank lines"),
    ("chat", lambda _: json.dumps(_nested(MAX_DEPTH + 2)).encode(), f"nested more than {MAX_DEPTH} deep"),
    ("chat", lambda _: b"[" * 100_000, "line 1: it is"),
    ("chat", lambda _: b'{"reward": 1' + b"0" * 9_000 + b"}\n", "line 1: it is not readable JSON"),
    ("chat", lambda _: json.dumps(chat(reward=1e999)).encode() + b"\n", "field 'reward' is inf"),
    ("chat", lambda _: json.dumps(chat(evidence=[{"name": "x", "value": 1, "turn": 9}])).encode(), "about turn 9"),
    (
        "chat",
        lambda _: json.dumps({"messages": [{"role": "user", "content": ""}] * (MAX_MESSAGES + 1)}).encode(),
        f"at most {MAX_MESSAGES} are taken",
    ),
    (
        "chat",
        lambda _: json.dumps(
            {"messages": [{"role": "assistant", "content": [{"type": "image_url", "image_url": "http://x/y.png"}]}]}
        ).encode(),
        "not fetched",
    ),
    (
        "atif",
        lambda _: b'{"schema_version": "ATIF-v2.0", "steps": []}\n',
        "schema_version is 'ATIF-v2.0'; this turngate",
    ),
    ("atif", lambda _: b'{"schema_version": "1.0", "steps": []}\n', "which is not ATIF"),
    ("atif", lambda _: b'{"messages": []}\n', "field 'schema_version' is missing"),
    (
        "atif",
        lambda _: b'{"schema_version": "ATIF-v1.7", "steps": [], "extra": {"turngate": {"version": 2}}}\n',
        "has version 2, this turngate reads 1; a newer turngate may read it",
    ),
    ("training-trace", lambda _: b'{"schema_version": 2, "turns": []}\n', "schema_version is 2, this turngate reads 1"),
    ("verifiers", lambda _: b'{"traces": [{"version": 9}]}\n', "its trace has version 9"),
    ("verifiers", lambda _: b'{"example_id": 1, "completion": null, "error": "boom"}\n', "it has no completion: boom"),
    ("trl", lambda _: b'{"text": "plain"}\n', "it has none of 'messages', 'completion' and 'chosen'"),
    ("inspect", lambda _: (LOGS / "inspect-ai-0.3.285.json").read_bytes()[:5_000], "it may be cut off"),
    ("inspect", lambda _: (LOGS / "inspect-ai-0.3.285.eval").read_bytes()[:5_000], "no complete zip file"),
    ("inspect", lambda _: b'{"version": 3, "eval": {}, "samples": []}', "version is 3, this turngate reads"),
    ("inspect", lambda _: b'{"version": 2, "eval": {"task": "t"}}', "it has no samples"),
]


@pytest.mark.parametrize(("format", "content", "message"), BAD, ids=[f"{one[0]}-{one[2][:30]}" for one in BAD])
def test_a_bad_file_is_named_with_the_place_and_nothing_is_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], format: str, content: Callable[[Path], bytes], message: str
):
    (tmp_path / "bad.jsonl").write_bytes(content(tmp_path))
    told = refused(tmp_path, capsys, "bad.jsonl", format)
    assert "bad.jsonl" in told
    assert message in told
    assert len(told) < 700


def test_a_packed_sample_that_is_damaged_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    whole = bytearray((LOGS / "inspect-ai-0.3.285.eval").read_bytes())
    place = whole.index(b"samples/one_epoch_1.json") + 200
    whole[place] ^= 0xFF
    (tmp_path / "bad.eval").write_bytes(whole)
    assert re.search(
        r"bad.eval, samples/one_epoch_1.json: (it cannot be unpacked|its checksum)",
        refused(tmp_path, capsys, "bad.eval", "inspect"),
    )


def test_bad_records_are_left_out_only_where_asked_and_then_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = lines(tmp_path, chat(reward=1), {"messages": []}, chat(reward=0))
    told = refused(tmp_path, capsys, file, "chat")
    assert "line 2: it has no message of the assistant" in told
    assert "nothing was imported; mend the file, or leave 1 of its records out with --skip-bad" in told
    (group,) = imported(tmp_path, file, "chat", "--skip-bad").read(1)
    assert [score.total for score in group.scores] == [1.0, 0.0]
    assert "left out: rows.jsonl, line 2" in capsys.readouterr().out
    (left,) = read_imported(RunFolder(tmp_path / "log")).left_out
    assert "line 2" in left


def test_nothing_that_can_be_read_is_an_error_also_with_skip_bad(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert "has no episode" in refused(tmp_path, capsys, lines(tmp_path, {"messages": []}), "chat", "--skip-bad")


def test_half_characters_and_nul_become_storable(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (group,) = imported(tmp_path, lines(tmp_path, chat(answer="a\ud800b\0c", reward=1)), "chat").read(1)
    assert group.trajectories[0].turns[1].action.text == "a?b\ufffdc"
    assert "1 texts held half characters or NUL" in capsys.readouterr().out


@pytest.mark.parametrize(
    "change",
    [
        lambda own: own["score"]["ledger"].append({"name": "x"}),
        lambda own: own["score"]["ledger"].append(
            {"name": "x", "kind": "outcome", "turn": "zero", "value": 1, "weight": 1}
        ),
        lambda own: own["score"].update(reward_T=[1, 2, 3, 4, 5]),
        lambda own: own.update(ending="won"),
        lambda own: own.update(evidence=[{"name": 3, "value": 1}]),
        lambda own: own["task"].update(private={"gold": 1}, hints=7),
        lambda own: own.update(step=-4),
    ],
)
def test_what_calls_itself_ours_is_not_trusted(tmp_path: Path, capsys: pytest.CaptureFixture[str], change):
    imported(tmp_path, lines(tmp_path, chat(reward=1)), "chat")
    assert turngate_at(tmp_path, "data", "export", "log", "--to", "atif", "--out", "ours.jsonl") == 0
    row = json.loads((tmp_path / "ours.jsonl").read_text())
    change(row["extra"]["turngate"])
    (tmp_path / "log").rename(tmp_path / "first")
    capsys.readouterr()
    assert "rows.jsonl, line 1" in refused(tmp_path, capsys, lines(tmp_path, row), "atif")


def test_calls_that_cannot_be_read_are_a_fact_about_their_turn(tmp_path: Path):
    row = chat(reward=0)
    row["messages"][2]["tool_calls"][0]["function"]["arguments"] = '{"x": '
    (group,) = imported(tmp_path, lines(tmp_path, row), "chat").read(1)
    one = group.trajectories[0]
    assert [fact.value for fact in one.evidence if fact.name == "parsed"] == [False, True]
    assert one.turns[0].action.parse_error == "the arguments of 'add' are no JSON object"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rows.jsonl", "--from", "csv", "--out", "new"), "--from csv is not one of chat, atif, trl"),
        (("rows.jsonl", "--from", "chat", "--out", "."), "'.' exists already"),
        (("none.jsonl", "--from", "chat", "--out", "new"), "none.jsonl: cannot be read: No such file"),
        (("rows.jsonl", "--from", "chat", "--out", "new", "--temperature", "1"), "--temperature has no effect"),
    ],
)
def test_mistakes_are_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
):
    lines(tmp_path, chat())
    assert turngate_at(tmp_path, "data", "import", *arguments) == 2
    assert message in capsys.readouterr().err


def test_ids_of_a_template_are_given_not_sampled(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from turngate.agents.tiny import random_model, save, train_tokenizer

    tokenizer = train_tokenizer(["What is 1 + 2? I add. Use the tool."] * 4, vocabulary=300)
    save(random_model(tokenizer, layers=1, width=16, heads=2, context=256, seed=0), tokenizer, tmp_path / "model")
    (group,) = imported(tmp_path, lines(tmp_path, chat(), chat()), "chat", "--tokenizer", "model").read(1)
    said = group.trajectories[0].turns[1].completion
    assert tokenizer.decode(said.ids_K.tolist()).startswith("3")
    assert said.ended_by == "script"
    assert np.isnan(said.logprobs_K).all()
    assert "ids that a chat template made of the texts: nobody sampled them" in capsys.readouterr().out
    assert turngate_at(tmp_path, "ope", "log", "--policy", "model") == 2
    assert "nobody sampled them" in capsys.readouterr().err
