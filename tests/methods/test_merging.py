"""What a user wrote and what a method sets, put together."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from turngate.config.run_config import dump, load, parse, parse_with
from turngate.errors import ConfigError, UnknownName

BASE: dict[str, Any] = {"model": "any"}
JUDGE = "--examine.judge.url=http://localhost:8000/v1"


def test_what_only_the_method_sets_is_taken() -> None:
    config = parse({**BASE, "method": "turn_ppo"})
    assert (config.credit.type, config.credit.settings()["gamma"]) == ("turn_gae", 0.99)
    assert config.value is not None
    assert [one.name for one in config.method] == ["turn_ppo"]
    assert config.method[0].instead == ()


def test_a_setting_of_the_users_counts_and_is_named_wherever_it_was_written() -> None:
    in_file = parse({**BASE, "method": "turn_ppo", "credit": {"gamma": 0.5}})
    in_command = parse_with({**BASE}, ["--method=turn_ppo", "--credit.gamma=0.5"])
    for config in (in_file, in_command):
        assert config.credit.settings()["gamma"] == 0.5
        assert config.method[0].instead == ("credit.gamma = 0.5 (the method has 0.99)",)


def test_the_command_line_changes_inside_of_what_a_method_brings() -> None:
    config = parse_with({**BASE}, ["--method=capo", JUDGE, "--examine.votes=2"])
    assert config.examine[0].settings()["votes"] == 2
    assert config.method[0].instead == ("examine.votes = 2 (the method has 4)",)
    other = parse_with({**BASE}, ["--method=capo", '--examine.judge={type = "policy"}'])
    assert other.method[0].instead == (
        'examine.judge = {"type": "policy"} (the method has {"type": "server", "model": "judge"})',
    )


def test_parts_that_contradict_each_other_are_refused_with_both_names() -> None:
    with pytest.raises(
        ConfigError, match=r"method 'gigpo' sets credit = 'gigpo', and the config 'rloo'.*--credit=gigpo"
    ):
        parse({**BASE, "method": "gigpo", "credit": "rloo"})
    assert parse({**BASE, "method": "gigpo", "credit": "gigpo"}).credit.type == "gigpo"
    in_file = {**BASE, "credit": {"type": "rloo"}}
    assert parse_with(in_file, ["--method=gigpo", "--credit=gigpo"]).credit.type == "gigpo"  # as the message says
    with pytest.raises(ConfigError, match="has stages of its own, and so has the config"):
        parse({**BASE, "method": "star", "stages": [{"name": "mine"}]})
    with pytest.raises(ConfigError, match=r"has train.filters = \[\"balanced\"\], and the config sets it to \[\]"):
        parse({**BASE, "method": "balanced_filter", "train": {"filters": []}})


def test_lists_of_parts_are_joined() -> None:
    config = parse({**BASE, "method": ["siren", "balanced_filter"], "loss": {"penalties": ["kl"]}})
    assert [one.type for one in config.loss.penalties] == ["kl", "siren"]
    mine = parse({**BASE, "method": "starpo_s", "train": {"filters": ["varied", {"type": "top_std", "share": 0.5}]}})
    assert [one.type for one in mine.train.filters] == ["varied", "top_std"]
    assert mine.method[0].instead == ("train.filters.share = 0.5 (the method has 0.25)",)
    kept = parse({**BASE, "method": "rl_zvp", "train": {"filters": ["varied"]}})
    assert kept.method[0].instead == ('train.filters = ["varied"] (the method has [])',)


def test_rewards_of_a_method_come_beside_those_of_any_rubric_and_the_users_own_stay() -> None:
    data = {**BASE, "method": "capo"}
    (added,) = parse_with(data, [JUDGE]).env
    assert added.rubric is None
    assert added.rubric_adds is not None
    assert [one.name for one in added.rubric_adds.rewards] == ["step"]
    rewards = [
        {"type": "from_evidence", "name": "opened", "evidence": "opened", "kind": "outcome"},
        {"type": "from_evidence", "name": "step", "evidence": "step", "per_turn": True, "weight": 0.1},
    ]
    (own,) = parse_with({**data, "env": {"rubric": {"rewards": rewards}}}, [JUDGE]).env
    assert own.rubric_adds is None
    (first, second) = parse_with({**data, "env": [{"name": "a"}, {"name": "b"}]}, [JUDGE]).env
    assert first.rubric_adds == second.rubric_adds == added.rubric_adds


def test_methods_are_joined_unless_they_contradict_each_other() -> None:
    config = parse({**BASE, "method": ["gigpo", "gspo"]})
    assert (config.credit.type, config.loss.objective.type) == ("gigpo", "gspo")
    with pytest.raises(ConfigError, match=r"methods 'gigpo' and 'rloo' both set credit.type"):
        parse({**BASE, "method": ["gigpo", "rloo"]})
    with pytest.raises(ConfigError, match="method 'gigpo' is named twice"):
        parse({**BASE, "method": ["gigpo", "gigpo"]})
    with pytest.raises(UnknownName, match="unknown method 'gigpro'; did you mean 'gigpo'"):
        parse({**BASE, "method": "gigpro"})


def test_the_config_of_a_run_holds_everything_and_is_read_without_the_method(tmp_path: Path) -> None:
    """So it stays what it was when the method's file changes or is gone."""
    mine = tmp_path / "mine.toml"
    head = (Path(__file__).parents[2] / "turngate/methods/gigpo.toml").read_text().split("\n\n")[0]
    mine.write_text(f'{head}\n\n[credit]\ntype = "gigpo"\nomega = 0.5\n')
    text = dump(parse_with({**BASE}, [f"--method={mine}", "--credit.omega=2.0"]))
    assert tomllib.loads(text)["method"] == [
        {"name": str(mine), "instead": ["credit.omega = 2.0 (the method has 0.5)"]}
    ]
    mine.unlink()
    (tmp_path / "config.toml").write_text(text)
    assert dump(load(tmp_path / "config.toml")) == text


def test_what_does_not_fit_is_refused_by_the_name_of_the_method_with_what_it_needs() -> None:
    with pytest.raises(
        ConfigError, match=r"^method 'capo', which needs a judge: .* does not fit: key 'examine\[0\].judge"
    ):
        parse({**BASE, "method": "capo"})
    with pytest.raises(ConfigError, match=r"^method 'seele', which needs .*train.group_size 8.* does not fit: guide"):
        parse({**BASE, "method": "seele", "train": {"group_size": 4}})
    with pytest.raises(ConfigError, match=r"^unknown key 'trian'"):  # the user's own mistake is no method's
        parse({**BASE, "method": "gigpo", "trian": {}})
    with pytest.raises(ConfigError, match=r"stages\[0\].method cannot be set: it is one for the whole run"):
        parse({**BASE, "stages": [{"name": "first", "method": "gigpo"}]})
