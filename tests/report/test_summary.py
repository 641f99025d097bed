"""What a report says of a run as a whole: that its rubric is unsafe, wherever its numbers are shown."""

from tests.helpers.command_line import turngate
from turngate.config.run_config import dump, parse
from turngate.report.summary import episodes_line
from turngate.store.metrics import JsonlSink

FARMED = {
    "rewards": [
        {"type": "from_evidence", "name": "opened", "evidence": "opened", "kind": "outcome", "levels": [0, 1]},
        {"type": "from_evidence", "name": "key", "evidence": "right_key", "weight": 2.0, "per_turn": True},
    ]
}
LOCK = "turngate/Lock-v1"


def reported(folder, capsys, *environments):
    config = parse({"model": "any", "env": list(environments)})
    JsonlSink(folder / "metrics.jsonl").write(1, {"step": 1.0, "train/success": 0.5})
    (folder / "config.toml").write_text(dump(config))
    assert turngate("report", folder) == 0
    return capsys.readouterr().out, (folder / "report" / "summary.md").read_text()


def test_a_report_names_each_environment_whose_rubric_is_unsafe(tmp_path, capsys):
    unsafe = {"id": LOCK, "name": "farmed", "rubric": FARMED, "allow_unsafe": True}
    told, summary = reported(tmp_path, capsys, unsafe, {"id": LOCK, "name": "honest"})
    line = (
        "the rubric of 'farmed' is unsafe (env.allow_unsafe = true): process rewards can outrank the outcome, so a "
        "higher reward need not mean a better agent"
    )
    assert told.splitlines().count(line) == 1
    assert summary.startswith(f"# {tmp_path.name}\n\n* {line}\n\n## ")
    assert "'honest' is unsafe" not in told + summary


def test_a_report_of_safe_rubrics_says_nothing_of_safety(tmp_path, capsys):
    told, summary = reported(tmp_path, capsys, {"id": LOCK})
    assert "unsafe" not in told + summary


def test_curves_say_how_their_tasks_were_chosen():
    base = {"model": "m", "env": {"id": "turngate/Lock-v1"}}
    chosen = episodes_line(parse({**base, "curriculum": {"type": "band", "pool": 99}}), {})
    assert chosen.startswith("split 'train' of turngate/Lock-v1, tasks chosen by curriculum 'band', sampled at")
    assert "chosen" not in episodes_line(parse(base), {})
