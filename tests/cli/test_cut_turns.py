"""A reply that a server cut off, at its token limit or by a filter: not carried out in an evaluation, and
not in a replay of it."""

import pytest

from tests.helpers.chat_server import completion, serving
from tests.helpers.command_line import turngate
from turngate.envs.lock import key_of
from turngate.store import Store
from turngate.trainer.evaluation.evaluations_file import read_evaluations
from turngate.types import CUT_OFF, EndedBy


@pytest.mark.parametrize("finish", ["stop", "length", "content_filter"])
def test_a_whole_command_of_a_cut_reply_is_not_carried_out(finish, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cut = finish != "stop"

    def opener(body, n):
        """Opens every lock: the last word of what it is told is the colour."""
        return completion(f"press {key_of(body['messages'][-1]['content'].split()[-1])}", finish=finish)

    with serving(lambda body, n: (200, opener(body, n), {})) as server:
        options = ("--url", server.url, "--model", "m", "--env", "turngate/Lock-v1", "--tasks", 4, "--out", "kept")
        assert turngate("eval", "--policy", "openai", *options) == 0
    ((_, result),) = read_evaluations(tmp_path / "kept")
    assert result.success_B == (not cut,) * 4
    episodes = [one for group in Store(tmp_path / "kept").read() for one in group.trajectories]
    turns = [turn for one in episodes for turn in one.turns]
    assert {turn.completion.ended_by for turn in turns} == {EndedBy.LENGTH if cut else EndedBy.STOP}
    assert {turn.action.cut_off for turn in turns} == {cut}
    assert {one.turns[1].observation.text.startswith(CUT_OFF) for one in episodes} == {cut}
    assert turngate("replay", "kept") == 0
    assert " 0 diverged" in capsys.readouterr().out
