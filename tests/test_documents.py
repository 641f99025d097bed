"""What the documents say runs: every program, every config, the entry points, and the picture of the layers."""

import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

from tests.source.layers_picture import ROOT, picture
from turngate.trainer.credit.rule import CreditRule
from turngate.trainer.guidance.base import GuidePart

GUIDES = (
    "CONTRIBUTING.md",
    "docs/asynchrony.md",
    "docs/contents.md",
    "docs/environments.md",
    "docs/learner.md",
    "docs/offline.md",
    "docs/rewards.md",
    "docs/side_by_side.md",
    "docs/training.md",
    "README.md",
)


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


def entry_points() -> dict[str, dict[str, str]]:
    """Those that CONTRIBUTING.md writes for the package acme, by group."""
    (text,) = (block for block in blocks("CONTRIBUTING.md", "toml") if block.startswith("# pyproject.toml"))
    found: dict[str, dict[str, str]] = tomllib.loads(text)["project"]["entry-points"]
    return found


def configs(document: str) -> list[str]:
    others = ("# pyproject.toml", "[[rewards]]", "# acme/")  # a rubric, and a method, in files of their own
    return [block for block in blocks(document, "toml") if not block.startswith(others)]


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the package of CONTRIBUTING.md is installed, beside a module of one's own."""
    folder = tmp_path_factory.mktemp("documents")
    for block in blocks("CONTRIBUTING.md", "python"):
        name = re.match(r"# (acme/\w+\.py)\n", block)
        assert name, f"a program of CONTRIBUTING.md begins with the name of its file: {block[:40]}"
        (folder / "acme").mkdir(exist_ok=True)
        (folder / name[1]).write_text(block)
    for block in blocks("CONTRIBUTING.md", "toml"):
        if name := re.match(r"# (acme/\w+\.toml)\n", block):
            (folder / name[1]).write_text(block)
    (folder / "acme" / "__init__.py").touch()
    (folder / "my_rules.py").write_text("from acme.credit import winners_only\n")
    metadata = folder / "acme-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    lines = [
        line
        for group, names in entry_points().items()
        for line in (f"[{group}]", *(f"{name} = {path}" for name, path in names.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    return folder


def run(folder: Path, script: str) -> str:
    """What a script prints, run where the package is installed. In a process of its own: it defines parts."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "160"}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_every_config_is_read_without_torch(acme: Path) -> None:
    texts = {document: configs(document) for document in GUIDES}
    assert all(texts.values())
    script = f"""
        import re, sys, tomllib
        from turngate.config.run_config import parse
        for document, configs in {texts!r}.items():
            for text in configs:
                named = re.search(r"^model =|^\\[model", text, re.M)
                try:
                    parse(tomllib.loads(text if named else "model = 'any'\\n" + text))
                except Exception as error:
                    raise SystemExit(f"{{document}}: {{error}}; in: {{text}}")
        assert "torch" not in sys.modules
        print("read")
    """
    assert run(acme, script) == "read\n"


def test_every_part_of_the_package_is_found_by_its_short_name(acme: Path) -> None:
    """And there is an example for each kind of part that a config names."""
    script = f"""
        import turngate.config.run_config
        import turngate.envs.router.env, turngate.envs.search.env
        import turngate.envs.tooluse.generated.domains.users, turngate.envs.tooluse.env
        import turngate.trainer.offline.replays
        from turngate.parts import families
        from turngate.methods.overlay import find
        from turngate.rubrics import find_rubric
        points = {entry_points()!r}
        kinds = {{family.group(): family for family in families()}}
        others = {{"turngate.envs", "turngate.methods", "turngate.rubrics"}}
        assert set(kinds) | others == set(points), set(kinds) ^ set(points)
        for group, names in points.items():
            for name, path in names.items():
                if group in kinds:
                    assert kinds[group].find(name).__name__ == path.partition(":")[2], name
                elif group == "turngate.methods":
                    assert find(name).settings == find(path).settings
                elif group == "turngate.rubrics":
                    assert find_rubric(name) == find_rubric(path)
        print("found")
    """
    assert run(acme, script) == "found\n"


def test_the_least_environment_keeps_the_contract_and_says_how_it_ended(tmp_path: Path) -> None:
    (tmp_path / "guess.py").write_text(*blocks("docs/environments.md", "python"))
    script = """
        import turngate
        assert turngate.check_env("guess:acme/Guess-v0") == []
        with turngate.make("guess:acme/Guess-v0") as env:
            task = env.tasks.task("heldout", 0)
            env.reset(options={"task": task.id})
            told = env.step("word")[0].text
            *_, terminated, truncated, info = env.step(*env.oracle(task))
            print(told, terminated, truncated, info["score"].outcome, info["ending"])
    """
    assert run(tmp_path, script) == "Write a number below 100. True False 1.0 finished\n"


def test_the_table_of_parts_names_every_kind_with_its_group() -> None:
    table = set(re.findall(r"^\| [a-z ]+ \|.*\| `(turngate\.\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.M))
    assert table == set(entry_points())


def test_the_environment_keeps_the_contract_and_the_judge_speaks(acme: Path) -> None:
    script = """
        import asyncio, turngate
        from turngate.judges.asking import JudgePart
        from turngate.judges.asking.text_model import Prompt
        assert turngate.check_env("acme/Echo-v0") == [], turngate.check_env("acme/Echo-v0")
        for command, said in ((("cat",), "ask me"), (("false",), "")):
            text_model = JudgePart.load({"type": "command", "command": command}).text_model(None)
            reply = asyncio.run(text_model.complete(Prompt(name="one", text="ask me", seed=0, max_tokens=9)))
            assert (reply.text, reply.fault is None) == (said, bool(said)), reply
        print("both")
    """
    assert run(acme, script) == "both\n"


def test_all_parts_of_the_package_train_in_one_run(acme: Path) -> None:
    (acme / "echo.toml").write_text(configs("CONTRIBUTING.md")[-1])
    script = """
        import sys
        from turngate.cli.main import main
        sys.argv = ["turngate", "train", "echo.toml"]
        main()
    """
    assert "heldout" in run(acme, script)
    latest = (acme / "runs" / "echo" / "latest.txt").read_text()
    assert latest.startswith("step 2\n")
    numbers = dict(line.rsplit(" ", 1) for line in latest.splitlines())
    assert float(numbers["entropy/too_sure"]) >= 0
    assert (numbers["drop/not_long_enough_trajectories"], numbers["examine/polite/failed"]) == ("0", "0")


def test_tools_goals_users_documents_and_retrievers_of_the_package_are_played(acme: Path) -> None:
    row: dict[str, object] = {
        "id": "one",
        "prompt": "Unlock 2.",
        "gold": [{"name": "unlock", "arguments": {"door": 2}}],
    }
    rows: dict[str, object] = {"tasks.jsonl": row | {"goal": [{"type": "state"}, {"type": "brief", "characters": 4}]}}
    sheet = {"wish": "Help me.", "facts": {}}
    talk: dict[str, object] = row | {"state": {"locked": [2], "user": sheet}, "goal": {"type": "state"}}
    rows |= {"talk.jsonl": talk, "questions.jsonl": {"question": "What is the square of 7?", "answer": "49"}}
    rows["routed.jsonl"] = {"prompt": "What is the square of 7?", "answers": "49"}
    for name, one in rows.items():
        (acme / name).write_text(json.dumps(one) + "\n")
    script = """
        import turngate
        def played(id, *lines, **settings):
            with turngate.make(f"turngate/{id}", **settings) as env:
                env.reset(seed=0, options={"task": env.tasks.task("heldout" if id == "Search-v1" else "train", 0)})
                seen = [env.step(line) for line in lines]
            return seen[0][0].text, seen[-1][4]["score"].outcome
        tasks = lambda file: {"type": "tool_tasks", "file": file, "held_out": 0}
        doors = {"type": "doors", "number": 4}
        print(*played("ToolUse-v1", "unlock 2", "answer ok", tools=doors, tasks=tasks("tasks.jsonl")))
        print(*played("ToolUse-v1", "unlock 2", "answer it is open", tools=doors, tasks=tasks("tasks.jsonl")))
        desk = {"type": "domain", "module": "acme.desk", "user": "agreeable"}
        print(*played("ToolUse-v1", "say May I?", "unlock 2", "answer", tools=desk, tasks=tasks("talk.jsonl")))
        squares = {"type": "search_file", "questions": "questions.jsonl", "held_out": 1, "corpus": {"type": "squares"}}
        print(*played("Search-v1", "search square of 7", "answer 49", retriever="last_first", tasks=squares))
        clerks = [{"type": "clerk", "name": "ann", "price": 0.5, "says": "It is 49."}]
        routed = {"type": "routing_questions", "file": "routed.jsonl", "held_out": 0}
        print(*played("Router-v1", "ask ann", "answer 49", models=clerks, tasks=routed))
    """
    said = run(acme, script).splitlines()
    assert said[:3] == ["unlocked 1.0", "unlocked 0.0", "Yes. 1.0"]
    assert "The square of 7 is 49." in "".join(said[3:-1])
    assert said[-2].endswith(" 1.0")
    assert said[-1] == "ann: It is 49. 1.0"


def test_the_branching_of_the_package_grows_a_tree_of_its_environment(acme: Path) -> None:
    script = """
        import asyncio, turngate
        from turngate.agents.chat import Chat
        from turngate.agents.tiny import train_tokenizer
        from turngate.agents.policies.scripted import ScriptedPolicy
        from turngate.agents.rollout import Player, TokenLimits
        from turngate.agents.tree_rollout import play_tree
        from turngate.envs.pool.pool import EnvPool
        from turngate.trainer.branching.base import BranchingPart
        async def main():
            chat = Chat(train_tokenizer(["Say a."] * 4, vocabulary=300))
            policy = ScriptedPolicy(lambda request: f"say {request.seed % 1000}", chat, concurrency=2)
            async with EnvPool(lambda: turngate.make("acme/Echo-v0"), size=2) as worlds:
                env = turngate.make("acme/Echo-v0")
                player = Player(policy, chat, TokenLimits(turn_tokens=50, context=5000))
                tasks, part = [env.tasks.task("train", 0)], BranchingPart.load("from_the_middle")
                fork = lambda task: env.turn_spec.fork
                (group,) = await play_tree(player, worlds, tasks, [[None] * 3], part, fork=fork, seed=0)
            print([leaf.parent and leaf.parent[1] for leaf in group.trajectories])
        asyncio.run(main())
    """
    assert run(acme, script) == "[None, 1, 1]\n"


def test_the_picture_of_the_layers_is_the_contract() -> None:
    assert f"```\n{picture()}```" in (ROOT / "CONTRIBUTING.md").read_text(), (
        "paste what tests.source.layers_picture prints"
    )


def test_the_readme_counts_what_there_is() -> None:
    text, contents = (" ".join((ROOT / name).read_text().split()) for name in ("README.md", "docs/contents.md"))
    for family, noun in ((CreditRule, "credit rules"), (GuidePart, "guides")):
        known = sum(part.__module__.startswith("turngate.") for part in family.catalogue().values())
        for page, words in ((text, noun), (contents, noun.removeprefix("credit "))):
            assert f"over {known // 10 * 10} {words}" in page


def test_the_estimators_of_the_offline_page_print_what_it_says(acme: Path) -> None:
    program, *_ = blocks("docs/offline.md", "python")  # the others: tests/cli/test_data_document.py
    assert run(acme, program) == "0.5 0.4\n1.923\n0.45\n"
    assert "It prints `0.5 0.4`, `1.923` and `0.45`." in (ROOT / "docs/offline.md").read_text()


@pytest.mark.parametrize(("document", "count"), [("docs/offline.md", 19), ("AGENTS.md", 4)])
def test_the_commands_of_a_page_have_these_options(document: str, count: int, acme: Path) -> None:
    lines = [shlex.split(line, comments=True) for line in "".join(blocks(document, "sh")).splitlines()]
    script = f"""
        import typer
        from turngate.cli.main import app
        for _, name, *words in {lines!r}:
            command = typer.main.get_command(app).commands[name]
            if hasattr(command, "commands"):
                name, *words = words
                command = command.commands[name]
            command.make_context(name, list(words))
        print("read")
    """
    assert len(lines) == count
    assert run(acme, script) == "read\n"


def test_the_documents_name_files_that_exist() -> None:
    for document in (
        "CONTRIBUTING.md",
        "AGENTS.md",
        *(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")),
    ):
        text = (ROOT / document).read_text()
        for name in re.findall(r"`((?:turngate|tests|docs|examples|benchmarks)/[\w/.]+)`", text):
            assert (ROOT / name).exists() or "NAME" in name, f"{document} names {name}"


def test_llms_txt_names_every_page_by_its_title() -> None:
    text = (ROOT / "llms.txt").read_text()
    named = {path: title for title, path in re.findall(r"\* \[(.+?)\]\(([\w./]+)\)", text)}
    texts = {str(page.relative_to(ROOT)): page.read_text() for page in (ROOT / "docs").rglob("*.md")}
    pages = {path: page.partition("\n")[0].removeprefix("# ") for path, page in texts.items()}
    assert {path: title for path, title in named.items() if path.startswith("docs/")} == pages
    assert all((ROOT / path).exists() for path in named)
