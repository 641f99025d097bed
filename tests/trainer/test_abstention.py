"""Who answers and who holds back: every cell of the table, from episodes that were really played."""

import asyncio
import json

import turngate
from tests.helpers import chat_server, models
from tests.helpers.command_line import turngate as command
from turngate.agents.policies.scripted import ScriptedPolicy
from turngate.agents.rollout import TokenLimits
from turngate.envs.pool.pool import EnvPool
from turngate.trainer.evaluation.abstention import CELLS, WITH_ANSWER, WITHOUT_ANSWER, abstention_lines
from turngate.trainer.evaluation.evaluate import evaluate
from turngate.trainer.evaluation.evaluations_file import read_evaluations

TASKS = {"type": "generated_search", "unanswerable": 0.5, "max_hops": 1}


def make():
    return turngate.make("turngate/Search-v1", tasks=TASKS, max_turns=3)


def looked(task):
    return [f"search {title}" for title in task.private["titles"]]


ENDS = {
    "right": lambda task: [*looked(task), f"answer {(task.private['gold'] or ['unknown'])[0]}"],
    "wrong": lambda task: ["answer Atlantis"],
    "held back": lambda task: ["answer unknown"],
    "silent": lambda task: ["search a", "search b", "search c"],
}


def played(ends):
    """The evaluation of one answerable and one unanswerable task for each of ``ends``."""
    env = make()
    tasks = [env.tasks.task("heldout", number) for number in range(40)]
    kinds = [[task for task in tasks if bool(task.private["gold"]) is answerable] for answerable in (True, False)]
    chosen = {task.id: (task, end) for kind in kinds for task, end in zip(kind, ends, strict=False)}
    lines = {name: ENDS[end](task) for name, (task, end) in chosen.items()}

    async def go():
        async with EnvPool(make, size=2) as pool:
            policy = ScriptedPolicy(lambda r: lines[r.task_id][r.turn], models.chat())
            player = models.player(policy, limits=TokenLimits(turn_tokens=200, context=8000))
            asked = [task for task, _ in chosen.values()]
            score = env.turn_spec.rubric.score_group
            return await evaluate(player, pool, score, asked, split="heldout", samples=1, seed=0)

    return asyncio.run(asyncio.wait_for(go(), 60))[0]


def test_each_end_has_its_cell():
    found = played(list(ENDS)).abstention
    assert found == {kind: dict.fromkeys(CELLS, 1) for kind in (WITH_ANSWER, WITHOUT_ANSWER)}
    assert abstention_lines(found)[0] == "tasks with an answer, 4 episodes: 1 right, 1 wrong, 1 held back, 1 silent"


def test_where_every_task_has_an_answer_there_is_no_table():
    assert played([]).abstention is None


CONFIG = """
name = "asked"
model = "any"

[env]
id = "turngate/Search-v1"
tasks = {type = "generated_search", unanswerable = 0.5, max_hops = 1}
rubric = "search_truthful"

[policy]
type = "openai"
model = "big"
url = "URL"
turn_tokens = 16

[eval]
tasks = 8

[train]
steps = 0
"""


def test_eval_and_report_show_it(tmp_path, monkeypatch, capsys):
    """Of an agent that holds back in all episodes and looks at nothing."""
    monkeypatch.chdir(tmp_path)
    with chat_server.serving(lambda body, n: "answer unknown") as server:
        (tmp_path / "c.toml").write_text(CONFIG.replace("URL", server.url))
        assert command("eval", "--config", "c.toml", "--out", "kept") == 0
    said = capsys.readouterr().out
    row, _ = json.loads((tmp_path / "kept" / "result.json").read_text())["evaluations"]
    (_, kept), (_, greedy) = read_evaluations(tmp_path / "kept")
    assert row["abstention"] == kept.abstention
    assert sum(cells["held back"] for cells in kept.abstention.values()) == 8
    assert kept.abstention[WITHOUT_ANSWER]["held back"] > 0
    assert greedy.abstention == kept.abstention
    line = f"tasks without an answer, {kept.abstention[WITHOUT_ANSWER]['held back']} episodes: 0 right, 0 wrong, "
    assert f"  {line}" in said
    assert command("report", "kept") == 0
    assert f"eval, heldout, temperature 1; {line}" in capsys.readouterr().out
    assert f"* eval, heldout, temperature 1; {line}" in (tmp_path / "kept" / "report" / "summary.md").read_text()
