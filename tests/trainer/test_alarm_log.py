"""The alarms on disk: what is written comes back, and what is played again is forgotten first."""

import json
import math

import pytest

from turngate.errors import DataError
from turngate.rewards.monitors.alarm import Alarm
from turngate.trainer.checks.alarm_log import AlarmLog, Raised, read_alarms

SPAM = Alarm(
    name="tool_spam",
    severity="warning",
    sentence="4 episodes\u2028 [red]repeat[/red]",
    evidence={"episodes": 4, "call": "ls {'x': 'ä'}", "trajectories": ["a", "b"]},
)
SLOPE = Alarm(name="diverging_slopes", severity="warning", sentence="…", evidence={"t": [math.inf, 2.5]})


def test_what_is_written_comes_back(tmp_path):
    log = AlarmLog(tmp_path)
    assert read_alarms(tmp_path) == []
    log.write(3, SPAM)
    log.write(7, SLOPE)
    first, second = read_alarms(tmp_path)
    assert first == Raised(3, SPAM)
    assert first.alarm.trajectories == ("a", "b")
    assert second.alarm.evidence == {"t": ["inf", 2.5]}
    assert [json.loads(line)["step"] for line in (tmp_path / "alarms.jsonl").read_text().split("\n")[:-1]] == [3, 7]


def test_steps_that_are_played_again_are_forgotten(tmp_path):
    log = AlarmLog(tmp_path)
    log.truncate_after(0)
    assert list(tmp_path.iterdir()) == []
    for step in (1, 2, 3):
        log.write(step, SPAM)
    log.truncate_after(2)
    assert [raised.step for raised in read_alarms(tmp_path)] == [1, 2]
    log.truncate_after(0)
    assert read_alarms(tmp_path) == []


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"step": 1, "name": "a"}'])
def test_a_line_that_is_no_alarm_is_named(tmp_path, line):
    AlarmLog(tmp_path).write(1, SPAM)
    with (tmp_path / "alarms.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=r"alarms\.jsonl.*line 2"):
        read_alarms(tmp_path)
