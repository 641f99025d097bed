"""The two environments that ``docs/side_by_side.md`` compares: played by hand, with files of one's own, and trained on.

1. The oracle wins every bundled task; a wrong answer, and none at all, loses.
2. Whatever an agent writes is an observation, and never keeps an episode from being graded.
3. The page counts our lines as they are, and its config for a judge fits the wiki.
4. The bundled data is right: the sums add up, and each answer stands in the section that its row names.
"""

import ast
import json
import re
import tomllib
from pathlib import Path

import pyarrow.json
import pyarrow.parquet
import pytest

import turngate
from examples.environments import gsm8k, wiki_search
from tests.helpers.command_line import turngate as command
from turngate.config.run_config import parse
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics

MODULES = [gsm8k, wiki_search]
ROWS = [
    {"question": "How many?", "answer": "2 * 600 = 1200.\n#### 1,200"},
    {"question": "How much?", "answer": "#### .5"},
]


@pytest.fixture(params=MODULES, ids=lambda module: module.ID)
def env(request):
    env = turngate.make(request.param.ID)
    yield env
    env.close()


@pytest.fixture
def sums():
    env = turngate.make(gsm8k.ID)
    env.reset(options={"task": "heldout/1"})
    return env


@pytest.fixture
def wiki():
    env = turngate.make(wiki_search.ID)
    env.reset(options={"task": "wiki/0"})
    return env


def all_tasks(env):
    return [env.tasks.task(split, n) for split in ("train", "heldout") for n in range(env.tasks.size(split))]


def play(env, lines):
    for line in lines:
        *_, terminated, truncated, info = env.step(line)
    assert terminated or truncated
    return info


@pytest.mark.parametrize("module", MODULES)
def test_the_check_finds_nothing(module):
    assert turngate.check_env(module.ID) == []


def test_the_oracle_wins_every_task(env):
    for task in all_tasks(env):
        env.reset(options={"task": task})
        assert play(env, env.oracle(task))["score"].total == 1.0


def test_a_wrong_answer_and_none_lose(env):
    for lines, answer in ((["answer 17"], "17"), (["???"] * env.max_turns, None)):
        env.reset(options={"task": all_tasks(env)[0]})
        info = play(env, lines)
        assert (info["score"].total, info["score"].usable) == (0.0, True)
        assert [fact.value for fact in info["evidence"] if fact.name == "answer"] == [answer]


# --- the page ---------------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "side_by_side.md").read_text()


def lines_of_code(path: str) -> int:
    """Without blank lines, comments and docstrings."""
    text = Path(path).read_text()
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
    said = [node for node in nodes if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)]
    docs = {number for node in said for number in range(node.lineno, node.end_lineno + 1)}
    lines = enumerate(text.splitlines(), 1)
    return sum(n not in docs and bool(line.strip()) and not line.lstrip().startswith("#") for n, line in lines)


def test_our_lines_are_those_of_the_page():
    tables = re.findall(r"^\| lines for .*?(?=\n\n)", PAGE, re.MULTILINE | re.DOTALL)
    for module, table in zip(MODULES, tables, strict=True):
        *parts, total = [int(re.match(r"\**(\d+)", row.split("|")[3].strip())[1]) for row in table.splitlines()[2:]]
        assert total == sum(parts) == lines_of_code(module.__file__)


def test_the_judge_of_the_page_sees_what_the_wiki_has(wiki):
    config = parse({"model": "any", **tomllib.loads(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0])})
    (examiner,) = config.examine
    assert wiki.task.private[examiner.reference] == ["Ottar Lunde", "Lunde"]
    assert [reward.reads for reward in config.env[0].rubric.rewards] == [(examiner.name,)]


# --- word problems ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["answer 3000", "answer 3000.0", "answer 3e3"])
def test_a_number_is_right_however_it_is_written(sums, written):
    assert play(sums, [written])["score"].outcome == 1.0


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("calculate 200 * 15", "3000"),
        ("calculate 0.1 + 0.2", "0.3"),
        ("calculate 1 / 0", "error: nothing can be divided by 0"),
        ("calculate 2 ^ 3", "error: argument 'sign' of calculate should be '+', '-', '*' or '/', not '^'"),
        ("answer 3,000 metres", "error: argument 'number' of answer should be a valid number"),
        ("answer", "error: answer needs NUMBER"),
        ('<tool_call>{"name": "answer"', "error: "),
        ("I think that it is 3000", "error: unknown tool 'I'"),
    ],
)
def test_a_sum_and_a_mistake_are_observations(sums, written, told):
    observation, _, terminated, _, _ = sums.step(written)
    assert observation.text.startswith(told)
    assert not terminated
    assert play(sums, ["answer 3000"])["score"].outcome == 1.0  # a mistake can be mended


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_files_of_ones_own(tmp_path: Path, name: str):
    lines, file = tmp_path / "rows.jsonl", tmp_path / name
    lines.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    if file != lines:
        pyarrow.parquet.write_table(pyarrow.json.read_json(lines), file)
    table = {"type": "examples.environments.gsm8k:word_problems", "train": file, "heldout": file}
    env = turngate.make(gsm8k.ID, tasks=table, split="heldout")
    assert [task.private["number"] for task in all_tasks(env)] == [1200.0, 0.5] * 2
    env.reset(options={"task": "heldout/0"})
    assert play(env, ["answer 1200"])["score"].outcome == 1.0


def test_a_row_without_a_number_stops_before_anything_is_played(tmp_path: Path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"question": "How many?", "answer": "#### many"}\n')
    with pytest.raises(turngate.ConfigError, match="could not convert string to float: ' many'"):
        turngate.make(gsm8k.ID, tasks={"type": "examples.environments.gsm8k:word_problems", "train": file})


@pytest.mark.parametrize("name", ["train.jsonl", "heldout.jsonl"])
def test_the_bundled_sums_add_up(name: str):
    for row in gsm8k.rows(gsm8k.OURS / name):
        steps, number = row["answer"].split("####")
        sums = re.findall(r"([\d.]+ [-+*/] [\d.]+) = ([\d.]+)\.(?: |$)", steps)
        assert sums
        for left, right in sums:
            assert eval(left) == float(right), row
        assert float(sums[-1][1]) == float(number.replace(",", "")), row


# --- the wiki ---------------------------------------------------------------------------------------------------------


def test_every_bundled_answer_stands_where_its_row_says_and_is_found():
    env = turngate.make(wiki_search.ID)
    for task in all_tasks(env):
        env.reset(options={"task": task})
        found, _, read, _ = [env.step(line)[0].text for line in env.oracle(task)]
        assert task.private["page"] in [line.partition(":")[0] for line in found.splitlines()[:3]]
        assert all(answer.split()[0] in read for answer in task.private["answers"])


@pytest.mark.parametrize("written", ["answer Ottar Lunde", "answer  the LUNDE.", 'answer "Lunde"'])
def test_case_article_and_punctuation_do_not_matter(wiki, written):
    assert play(wiki, [written])["score"].outcome == 1.0


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("search_pages puffin", "birds: Birds of Skarvholm"),
        ("search_pages zebra", "no page has any of these words"),
        ("search_pages ???", "no page has any of these words"),
        ('search_pages NEAR("', "no page has any of these words"),
        ("search_pages _", "no page has any of these words"),
        ("view_sections ferry", "0 Skarvholm Ferry\n1 Timetable\n2 Ships\n3 Accidents"),
        ("view_sections ../gsm8k", "error: there is no page '../gsm8k'; find its name with search_pages"),
        ("read_section ferry two", "error: argument 'number' of read_section should be a valid integer"),
        ("read_section ferry -1", "error: page 'ferry' has the sections 0 to 3, not -1"),
        ("read_section ferry 4", "error: page 'ferry' has the sections 0 to 3, not 4"),
        ("answer", "error: answer needs TEXT"),
    ],
)
def test_a_look_and_a_mistake_are_observations(wiki, written, told):
    observation, _, terminated, _, _ = wiki.step(written)
    assert observation.text.startswith(told)
    assert not terminated
    assert play(wiki, ["answer Lunde"])["score"].outcome == 1.0


def test_a_wiki_of_ones_own(tmp_path: Path):
    (tmp_path / "tea.md").write_text("From leaves.\n# Tea\nHot.\n## Green\nFrom Uji.\n## Green\nFrom Hangzhou.\n")
    (tmp_path / "rice.md").write_text("A grain.")
    row = {"question": "Whence?", "answers": ["Uji"], "page": "tea", "section": "Green", "split": "train"}
    (tmp_path / "asked.jsonl").write_text(json.dumps(row))
    tasks = {"type": "examples.environments.wiki_search:questions", "file": tmp_path / "asked.jsonl"}
    env = turngate.make(wiki_search.ID, pages=str(tmp_path), tasks=tasks)
    env.reset(seed=0)
    assert env.step("view_sections tea")[0].text == "0 Beginning\n1 Tea\n2 Green\n3 Green"
    assert env.step("read_section tea 3")[0].text == "Green\n\nFrom Hangzhou."
    assert env.step("search_pages grains")[0].text == "rice: Beginning"
    assert play(env, ["answer uji"])["score"].outcome == 1.0


def test_a_folder_without_pages_is_said():
    with pytest.raises(turngate.ConfigError, match=r"no file in .* ends in \.md"):
        turngate.make(wiki_search.ID, pages="examples/environments/word_problems")


def test_an_argument_that_is_handed_on_is_still_spelt_checked():
    assert turngate.make(wiki_search.ID, max_turns=3, split="heldout").max_turns == 3
    with pytest.raises(turngate.ConfigError, match=r"'max_truns'; did you mean 'max_turns'\?"):
        turngate.make(wiki_search.ID, max_truns=3)
    with pytest.raises(turngate.ConfigError, match=r"'page'; did you mean 'pages'\?"):
        turngate.make(wiki_search.ID, page="x")


# --- training ---------------------------------------------------------------------------------------------------------

CONFIG = """
name = "side"
[model]
layers = 1
width = 16
heads = 2
vocabulary = 300
[warm_start]
episodes = 4
epochs = 1
episodes_per_batch = 4
[policy]
turn_tokens = 8
context = 2048
[train]
steps = 1
tasks_per_step = 2
group_size = 2
[eval]
tasks = 2
[env]
"""
OWN_FILES = 'tasks = {type = "examples.environments.gsm8k:word_problems", heldout = "FILE"}\nkwargs = {max_turns = 4}'
OWN_PAGES = 'kwargs = {pages = "FOLDER", max_turns = 4}'


@pytest.mark.parametrize(
    ("module", "own"), [(gsm8k, OWN_FILES), (wiki_search, OWN_PAGES)], ids=["gsm8k", "wiki_search"]
)
def test_a_config_trains_on_it(tmp_path: Path, module, own: str):
    own = own.replace("FILE", str(gsm8k.OURS / "heldout.jsonl")).replace("FOLDER", str(wiki_search.OURS))
    (tmp_path / "side.toml").write_text(f'{CONFIG}id = "{module.ID}"\n{own}\n')
    assert command("train", tmp_path / "side.toml", f"--folder={tmp_path}") == 0
    (row,) = read_metrics(RunFolder(tmp_path / "side").metrics)
    assert row["train/unusable_share"] == 0
