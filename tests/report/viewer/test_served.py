"""The page that ``turngate view`` serves.

1. It shows the same as the file, and what a run writes appears without a reload.
2. It is for this machine: another host name is refused, no path and no name leads out of the folder, nothing private.
3. Runs are compared, and searched for a text.
"""

import json
import shutil
import urllib.error
import urllib.request
from pathlib import Path

from tests.helpers.viewed_runs import episode, group, many_groups, recorded, served, turn
from tests.report.viewer.conftest import Watched
from tests.report.viewer.test_pages import data
from turngate.cli.view_runs import PARTS
from turngate.report.viewer.html_file import write_html
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.types import Task


def get(address: str, **headers: str) -> tuple[int, str, dict[str, str]]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=60) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


def test_the_served_page_follows_a_run_that_writes(watched: Watched, tmp_path: Path):
    run = recorded(tmp_path, many_groups(2, turns=2, siblings=2))
    with served(tmp_path) as address:
        watched.open(address)
        watched.go("#/run/made")
        assert "step 1, train" in watched.text()
        assert "step 2, train" not in watched.text()
        Store(run).write(2, many_groups(2, turns=2, siblings=2, first=2))
        watched.page.wait_for_selector("text=step 2, train")
        watched.go("#/run/made/step/2/train")
        watched.page.click(".chip >> nth=0")
        watched.page.wait_for_selector("#turn-1")
    assert all(url.startswith(address) for url in watched.asked)


def test_runs_are_compared_and_searched(watched: Watched, runs: tuple[Path, Path]):
    with served(runs[0].parent) as address:
        watched.open(address)
        watched.go("#/")
        for name in ("hinted", "branched"):
            watched.page.check(f"input[aria-label='compare {name}']")
        watched.page.click("text=compare hinted with branched")
        watched.page.wait_for_selector("text=Who wins where")
        assert "mean per episode" in watched.text()
        watched.page.click("text=next to each other >> nth=0")
        watched.page.wait_for_selector("text=turn by turn")
        watched.go("#/run/hinted/find")
        watched.page.fill("input[name=text]", "COULD NOT BE IN ANY TURN")
        watched.page.click("text=search texts")
        watched.page.wait_for_selector("text=is in 0 episodes")
        watched.page.fill("input[name=text]", "RIGHT_KEY")
        watched.page.click("text=search texts")
        watched.page.wait_for_function("() => /is in [1-9]/.test(document.querySelector('main').textContent)")
    assert watched.complaints == []


def test_only_this_machine_is_answered_and_only_about_the_folder(runs: tuple[Path, Path], tmp_path: Path):
    folder = tmp_path / "folder"
    shutil.copytree(runs[0], folder / "own")
    shutil.copytree(runs[1], tmp_path / "outside")
    (folder / "linked").symlink_to(tmp_path / "outside")
    with served(folder) as address:
        status, _, headers = get(address)
        assert status == 200
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert [run["id"] for run in json.loads(get(f"{address}api/index")[1])["runs"]] == ["own"]
        assert get(f"{address}api/index", Host="evil.example")[0] == 421
        assert get(f"{address}api/index", Host="127.0.0.1:1")[0] == 421
        for name in ("../outside", "linked", "/etc", "own/../own", "%2e%2e/outside", ""):
            assert get(f"{address}api/run?run={name}")[0] == 404, name
        assert get(f"{address}../outside/config.toml")[0] == 404
        assert get(f"{address}api/run?run=own&more=1")[0] == 400
        for key in ("1/train/99999", "1/../train/0", "x", "1/train/-1", ""):
            assert get(f"{address}api/group?run=own&key={key}")[0] == 404, key
        assert json.loads(get(f"{address}api/group?run=own&key=1/train/0")[1])["episodes"]


def test_nothing_private_is_in_it(tmp_path: Path):
    task = Task(
        id="t", env_id="turngate/Lock-v1", prompt="Open it.", private={"gold": "SECRET-GOLD"}, hints=("SECRET-HINT",)
    )
    run = recorded(tmp_path, [group(task, [episode(f"t#{n}", task, (turn("a", "b"),), float(n)) for n in range(2)])])
    file = write_html([RunFolder(run)], tmp_path / "run.html", PARTS).path
    told = [json.dumps([data(file, name) for name in ("index", "r-0", "g-0-1_train_0")])]
    with served(tmp_path) as address:
        told += [get(f"{address}api/{path}")[1] for path in ("index", "run?run=made", "group?run=made&key=1/train/0")]
    assert all("Open it." in one for one in (told[0], told[-1]))
    assert not any("SECRET" in one for one in told)
