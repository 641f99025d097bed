"""Who may import whom, and what only some places may do. The contracts themselves are in pyproject.toml."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source.trees import tree_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "turngate"
TORCH_HOMES = {
    "agents/engines/weight_sums.py",
    "agents/policies/cuda_graphs.py",
    "agents/policies/sampling.py",
    "agents/policies/forward.py",
    "agents/policies/gpu.py",
    "agents/policies/fast_cpu.py",
    "agents/policies/local.py",
    "agents/policies/kv_cache.py",
    "agents/policies/truncation.py",
    "agents/tiny.py",
    "trainer/torch/critic.py",
    "trainer/torch/fsdp.py",
    "trainer/torch/fsdp_functions.py",
    "trainer/torch/learner.py",
    "trainer/torch/lora.py",
    "trainer/torch/model_parts.py",
    "trainer/torch/optimizers.py",
    "trainer/torch/packing.py",
    "trainer/torch/passes.py",
    "trainer/torch/prediction.py",
    "trainer/torch/ray_ranks.py",
    "trainer/torch/rows.py",
    "trainer/torch/sharded.py",
    "trainer/torch/shards.py",
    "trainer/torch/team.py",
    "trainer/torch/torchrun_ranks.py",
    "trainer/torch/trained_weights.py",
    "trainer/torch/tree_attention.py",
    "trainer/torch/tree_flex.py",
}
OPTIONAL = {
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "matplotlib",
    "duckdb",
    "sqlglot",
    "peft",
    "wandb",
    "trackio",
}
OPTIONAL |= {"httpx2", "docker", "tensorboard", "tantivy"}
PRINTERS = {"cli/main.py", "envs/code/grading/inside/run_plain.py"}  # the second one is the program of a sandbox
SEEDING = ("random.seed", "np.random.seed", "torch.manual_seed")
LONGEST_FILE, LONGEST_FUNCTION = 600, 80


def modules():
    """Path within the package, text and syntax tree of every module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield path.relative_to(PACKAGE).as_posix(), text, tree_of(path)


def imported_on_load(tree):
    """Line and top-level package of what is imported with the module: not in a function, nor for type checkers only."""
    queue = list(tree.body)
    while queue:
        node = queue.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.split(".")[0]
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


def test_there_are_modules_to_look_at():
    assert {"types.py", *TORCH_HOMES, *PRINTERS} <= {name for name, _, _ in modules()}


def test_optional_packages_are_imported_where_they_are_needed():
    found = [
        f"{name}:{line} imports {package} when it is imported itself"
        for name, _, tree in modules()
        for line, package in imported_on_load(tree)
        if package in OPTIONAL and name not in TORCH_HOMES | {"servers/http_client.py"}
    ]
    assert not found, "\n".join(found)


def test_files_stay_small():
    lengths = {name: len(text.splitlines()) for name, text, _ in modules()}
    found = [f"{name} has {length} lines" for name, length in lengths.items() if length > LONGEST_FILE]
    assert not found, "\n".join(found)


def test_functions_stay_small():
    found = [
        f"{name}:{node.lineno} {node.name} has {length} lines"
        for name, _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (length := node.end_lineno - node.lineno + 1) > LONGEST_FUNCTION
    ]
    assert not found, "\n".join(found)


def test_the_library_does_not_print():
    found = [
        f"{name}:{node.lineno} prints"
        for name, _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print" and name not in PRINTERS
    ]
    assert not found, "\n".join(found)


def test_the_library_does_not_touch_global_randomness():
    found = []
    for name, _, tree in modules():
        nodes = list(ast.walk(tree))
        forks = [node for node in nodes if isinstance(node, ast.With) and "fork_rng" in ast.unparse(node.items[0])]
        restored = {id(node) for fork in forks for node in ast.walk(fork)}
        calls = [node for node in nodes if isinstance(node, ast.Call) and id(node) not in restored]
        found += [f"{name}:{call.lineno} {seeds}" for call in calls if (seeds := ast.unparse(call.func)) in SEEDING]
    assert not found, "\n".join(found)


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
    assert set(imported_on_load(ast.parse(source))) == {(2, "a"), (3, "c"), (7, "f"), (9, "g"), (13, "h")}
