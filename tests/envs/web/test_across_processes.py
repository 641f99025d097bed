"""An episode of ``turngate/Web-v1`` is a function of its task and its actions, in every run, process and hash seed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import turngate

pytestmark = pytest.mark.component
ROOT = Path(__file__).parents[3]
SITE = """<!doctype html><title>Drawn</title>
<button onclick="document.body.dataset.n = l.children.length">Count</button> <h1 id=t></h1><ul id=l></ul>
<script>
t.textContent = 'Drawn ' + Math.random() + ' at ' + Date.now();
for (let i = 0; i < 3 + Math.random() * 5; i++) l.append(document.createElement('li'));
for (const one of l.children) one.textContent = crypto.getRandomValues(new Uint8Array(2)).join('-');
setInterval(() => l.title = performance.now(), 40);
</script>"""
CHECK = """def counted(end):
    return end.evaluate("document.body.dataset.n === String(document.querySelectorAll('li').length)")
"""


def own_site(folder):
    """A site whose page depends on chance and time as far as pages can."""
    (folder / "site").mkdir()
    (folder / "site" / "index.html").write_text(SITE)
    (folder / "drawn_checks.py").write_text(CHECK)
    row = {"id": "drawn", "prompt": "Count.", "gold": ["wait 70", "click e1", "answer done"], "split": "train"}
    (folder / "tasks.jsonl").write_text(json.dumps(row))
    files = {"file": str(folder / "tasks.jsonl"), "folder": str(folder / "site")}
    return {"type": "web_site", "verifier": "drawn_checks:counted", **files}


def played(folder, plans=()):
    """What the oracle's episodes look like, as JSON: its actions, and per turn observation, state key, reward and
    evidence. ``plans``: the actions of each, where they are known."""
    sys.path.insert(0, str(folder))
    kinds = (
        ({"type": "shop", "levels": [1]}, "none"),
        ({"type": "miniwob", "pages": ["choose-list", "find-greatest"], "seeds": 1, "held_out": 0}, "none"),
        (json.loads((folder / "kind.json").read_text()), "plain"),
    )
    episodes = []
    for tasks, screenshot in kinds:
        with turngate.make("turngate/Web-v1", tasks=tasks, screenshot=screenshot) as env:
            for index in range(env.tasks.size("train") or 1):
                task = env.tasks.task("train", index)
                episodes.append(episode(env, task, plans[len(episodes)] if plans else env.oracle(task)))
    return episodes


def episode(env, task, actions):
    seen, info = env.reset(options={"task": task})
    steps = [[task.id, *actions], look(seen, info)]
    for action in actions:
        seen, reward, _, _, info = env.step(action)
        steps.append([*look(seen, info), reward])
    score = info["score"]
    return [*steps, [score.outcome, score.total]]


def look(seen, info):
    facts = [[fact.name, fact.value, fact.turn] for fact in info["evidence"]]
    return [seen.text, seen.state_key, [image.hex()[-64:] for image in seen.images], facts]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("drawn")
    (made / "kind.json").write_text(json.dumps(own_site(made)))
    return made


def test_the_oracles_episodes_are_equal_in_three_runs_and_in_a_process_of_another_hash_seed(folder):
    first = played(folder)
    assert played(folder, [actions for (_, *actions), *_ in first]) == first
    assert [one[-1][0] for one in first] == [1.0] * len(first)
    program = f"import json, pathlib; from {__name__} import played"
    program += f"; print(json.dumps(played(pathlib.Path({str(folder)!r}))))"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "5", "TZ": "Asia/Tokyo"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    for here, there in zip(json.loads(json.dumps(first)), json.loads(run.stdout), strict=True):
        assert there == here
