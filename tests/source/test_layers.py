"""Who may import whom, and what only some places may do. The contracts themselves are in pyproject.toml."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "turngate").rglob("*.py"))
TORCH_HOMES = {
    "agents/policies/forward.py",
    "agents/policies/lean.py",
    "agents/policies/local.py",
    "agents/policies/slots.py",
    "agents/policies/truncation.py",
    "agents/tiny.py",
    "trainer/torch/critic.py",
    "trainer/torch/learner.py",
    "trainer/torch/passes.py",
    "trainer/torch/rows.py",
}
OPTIONAL = {"torch", "transformers", "tokenizers", "safetensors", "matplotlib", "duckdb", "sqlglot", "peft", "wandb"}
OPTIONAL |= {"httpx2", "docker", "tensorboard"}
PRINTERS = {"cli.py", "envs/code/grading/inside/run_plain.py"}  # the second one is the program of a sandbox
LONGEST_FILE, LONGEST_FUNCTION = 600, 80


def name_of(path):
    return path.relative_to(ROOT / "turngate").as_posix()


def imported_on_load(tree):
    """Top-level packages that are imported when the module is, so not inside a function or for type checkers only."""
    queue = list(tree.body)
    while queue:
        node = queue.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            queue.extend(node.orelse)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            queue.extend(ast.iter_child_nodes(node))


def lint_imports(folder):
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)
    return result.returncode, result.stdout + result.stderr


@pytest.mark.component
def test_the_contracts_hold():
    code, output = lint_imports(ROOT)
    assert code == 0, output


@pytest.mark.component
@pytest.mark.parametrize(
    ("where", "line", "contract"),
    [
        ("envs/lock.py", "import turngate.trainer.credit", "Each layer imports only"),
        ("agents/chat.py", "import turngate.envs.base", "Each layer imports only"),
        ("types.py", "import turngate.errors", "Each layer imports only"),
        ("agents/chat.py", "import turngate.rewards.rubric", "never see a reward component"),
        ("rewards/rubric.py", "import torch", "torch is imported by"),
        ("trainer/credit/__init__.py", "import subprocess", "do no I/O"),
    ],
)
def test_the_contracts_catch_a_wrong_import(tmp_path, where, line, contract):
    shutil.copytree(ROOT / "turngate", tmp_path / "turngate", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "turngate" / where).open("a") as file:
        file.write(f"\n{line}\n")
    code, output = lint_imports(tmp_path)
    assert code != 0
    assert any(contract in broken and "BROKEN" in broken for broken in output.splitlines()), output


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_optional_packages_are_imported_where_they_are_needed(path):
    allowed = OPTIONAL if name_of(path) in TORCH_HOMES else set()
    assert set(imported_on_load(ast.parse(path.read_text()))) & OPTIONAL <= allowed


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_files_and_functions_stay_small(path):
    assert len(path.read_text().splitlines()) <= LONGEST_FILE
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = node.end_lineno - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_the_library_does_not_print_or_touch_global_randomness(path):
    tree = ast.parse(path.read_text())
    forks = [node for node in ast.walk(tree) if isinstance(node, ast.With) and "fork_rng" in ast.unparse(node.items[0])]
    restored = {id(node) for fork in forks for node in ast.walk(fork)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and id(node) not in restored:
            call = ast.unparse(node.func)
            assert call != "print" or name_of(path) in PRINTERS, f"line {node.lineno} prints"
            assert call not in ("random.seed", "np.random.seed", "torch.manual_seed"), f"line {node.lineno} seeds"


def test_imported_on_load_sees_what_it_should():
    source = """
import a.b
from c import d
if TYPE_CHECKING:
    import e
else:
    import f
try:
    import g
except ImportError:
    pass
class K:
    import h
def function():
    import i
"""
    assert set(imported_on_load(ast.parse(source))) == {"a", "c", "f", "g", "h"}
