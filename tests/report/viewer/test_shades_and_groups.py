"""Tokens of one shade that stand side by side are one element; a group says how far its payments lie apart."""

import re
from pathlib import Path

from tests.helpers.viewed_runs import episode, group, recorded, settings, turn
from tests.report.viewer.conftest import Watched
from tests.report.viewer.test_pages import data, rows_of
from turngate.cli.view_runs import PARTS
from turngate.config import parse
from turngate.config.run_config import dump
from turngate.report.viewer.html_file import write_html
from turngate.store.folder import RunFolder
from turngate.types import Task


def test_neighbouring_tokens_of_one_shade_are_one_element(watched: Watched, page_file: Path):
    watched.open(page_file.as_uri())
    row = next(one for one in rows_of(data(page_file, "r-0")) if one["phase"] == "train" and one["credit"])
    own = row["id"].replace("/", "%2F").replace("#", "%23")
    held = data(page_file, f"g-0-{row['group'].replace('/', '_')}")
    (played,) = [one for one in held["episodes"] if one["id"] == row["id"]]
    tokens = played["turns"][0]["tokens"]
    assert tokens["lengths"] is not None
    watched.go(f"#/run/hinted/episode/{own}")
    watched.page.wait_for_selector("#turn-0 .wrote pre")
    assert watched.page.eval_on_selector_all("#turn-0 .tok", "all => all.length") <= 1
    assert watched.page.inner_text("#turn-0 .wrote pre") == played["turns"][0]["text"]
    watched.page.hover("#turn-0 .wrote pre", position={"x": 3, "y": 8})
    title = watched.page.get_attribute("#turn-0 .wrote pre", "title")
    assert re.match(r"token \d+: surprise ", title or "")
    assert watched.complaints == []


def test_a_group_says_how_far_payments_lie_apart_and_whether_it_is_silent(watched: Watched, tmp_path: Path):
    groups = []
    for name, outcomes in (("split", (0.0, 1.0)), ("equal", (1.0, 1.0))):
        task = Task(id=name, env_id="turngate/Lock-v1", prompt="Open it.")
        played = [episode(f"{name}#{n}", task, (turn("a", "b"),), outcome) for n, outcome in enumerate(outcomes)]
        groups.append(group(task, played))
    file = write_html([RunFolder(recorded(tmp_path, groups))], tmp_path / "run.html", PARTS).path
    watched.open(file.as_uri())
    watched.go("#/run/made/step/1/train")
    split, equal = watched.page.query_selector_all("article")
    assert re.search(r"standard deviation of reward\s+0\.55", split.inner_text())  # 0 and 1 + 0.1
    assert "silent" not in split.inner_text()
    assert re.search(r"standard deviation of reward\s+0 silent", equal.inner_text())
    assert watched.complaints == []


def test_a_token_has_its_own_credit_under_a_rule_that_gives_it(watched: Watched, tmp_path: Path):
    task = Task(id="split", env_id="turngate/Lock-v1", prompt="Open it.")
    played = [episode(f"split#{n}", task, (turn(f"a{n}", "b"),), outcome) for n, outcome in enumerate((0.0, 1.0))]
    run = recorded(tmp_path, [group(task, played)])
    config = parse(settings(tmp_path, "made", credit={"type": "lambda_grpo_tokens"}))
    (run / "config.toml").write_text(dump(config))
    file = write_html([RunFolder(run)], tmp_path / "run.html", PARTS).path
    watched.open(file.as_uri())
    for name, sign in (("split%230", "-"), ("split%231", r"\+")):
        watched.go(f"#/run/made/episode/{name}")
        watched.page.wait_for_selector("#turn-0 .cells i")
        titles = watched.page.eval_on_selector_all("#turn-0 .cells i", "all => all.map((one) => one.title)")
        assert [bool(re.search(rf", credit {sign}0\.\d+$", title)) for title in titles] == [True] * 3
        assert "the mean of its tokens" in watched.text()
    assert watched.complaints == []
