"""Public signatures say what they take and give: ``Any`` stands in none of them but where a library decides."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.source.trees import tree_of

ROOT = Path(__file__).parents[2] / "turngate"
GYMNASIUM = "as gymnasium declares it"
DOCKER = "Docker's package for Python has no types"
MODULE = "whatever stands in a module of the user's"
OF_A_PAGE = "JSON that a page's script returns"
ALLOWED: dict[str, str] = {
    "turngate.store.formats.fields:Plain": "a JSON value of a file that somebody else wrote, checked field by field",
    "turngate.envs.web.engine.browser_session:BrowserSession.evaluate": OF_A_PAGE,
    "turngate.envs.web.engine.tab:Tab.call": OF_A_PAGE,
    "turngate.envs.web.engine.tab:Tab.evaluate": OF_A_PAGE,
    "turngate.envs.web.engine.view:read_view": OF_A_PAGE,
    "turngate.envs.web.loaders.miniwob.page_guard:PageReading.of": OF_A_PAGE,
    "turngate.envs.web.loaders.miniwob.page_steps:Look.js": OF_A_PAGE,
    "turngate.envs.web.loaders.own.scenario:PageEnd.evaluate": OF_A_PAGE,
    "turngate.envs.web.engine.browser_session:StorageSeen.cookies": "cookies as Playwright has them",
    "turngate.envs.web.engine.driver:Driver.run": "what a coroutine takes and sends is nobody's concern here",
    "turngate.envs.web.engine.driver:Driver.spawn": "what a coroutine takes and sends is nobody's concern here",
    "turngate.envs.web.engine.chromium:DriverLoop.subprocess_exec": "a method of asyncio, as it is there",
    "turngate.envs.web.loaders.own.scenario:OwnTask.expected": "JSON of a task's row, which its verifier knows",
    "turngate.envs.web.loaders.own.scenario:PageEnd.expected": "JSON of a task's row, which its verifier knows",
    "turngate.agents.protocols:LanguageModel.base_model": "what lies inside a model differs by architecture",
    "turngate.agents.protocols:Tokenizer.apply_chat_template": "what a template knows is its own",
    "turngate.agents.protocols:LanguageModel.config": "what lies inside a model differs by architecture",
    "turngate.agents.protocols:LanguageModel.get_output_embeddings": "what lies inside a model differs by architecture",
    "turngate.envs.code.grading.returned:Answers": "JSON of anybody's making",
    "turngate.envs.code.grading.returned:Claim.known": "a value of any kind",
    "turngate.envs.code.grading.returned:Claim.holds": "JSON of anybody's making",
    "turngate.envs.code.grading.returned:decoded": "a value of any kind",
    "turngate.trainer.torch.plain_pickle:loads": "a value of any kind",
    "turngate.jsonl:toml_of": "TOML of anybody's making",
    "turngate.envs.code.grading.folding:Approx.known": "a value of any kind",
    "turngate.envs.code.grading.folding:Approx.fits": "a value of any kind",
    "turngate.envs.code.grading.folding:fold": "a value of any kind",
    "turngate.agents.engines.link:Message": "JSON between two processes, whose keys depend on the request",
    "turngate.agents.architecture:HubSettings": "the settings of an architecture",
    "turngate.envs.spaces:Texts": GYMNASIUM,
    "turngate.envs.spaces:Texts.sample": GYMNASIUM,
    "turngate.envs.base:TurnEnv.metadata": GYMNASIUM,
    "turngate.envs.tooluse.engine.python_world:State": MODULE,
    "turngate.envs.pool.pool:EnvPool.call": "what the method that is named returns",
    "turngate.envs.registry:make": "as gymnasium.make, arguments of any environment",
    "turngate.sandbox.container:sdk": DOCKER,
    "turngate.sandbox.container:ContainerBackend.api": DOCKER,
    "turngate.sandbox.container:ContainerBackend.create": DOCKER,
    "turngate.sandbox.docker:Docker.api": DOCKER,
    "turngate.sandbox.docker:Docker.create": DOCKER,
    "turngate.sandbox.docker_exec:Exec.__init__": DOCKER,
    "turngate.sandbox.docker_exec:ContainerSupervisor.__init__": DOCKER,
    "turngate.sandbox.messages:Message": "JSON between two processes of the sandbox, whose keys depend on the request",
    "turngate.parts:Part.function": MODULE,
    "turngate.parts:Part.settings": "a part's own settings, each of its own type",
    "turngate.parts:import_object": MODULE,
    **dict.fromkeys(
        [
            f"turngate.part_calls:{name}"
            for name in ("answering", "call_part", "call_part_later", "check_result", "instance_of")
        ],
        "a user's part may return anything",
    ),
    "turngate.parts:load_entry_point": MODULE,
    "turngate.parts:when_used": "a module stands for itself",
    "turngate.rewards.parts:Verdict": "a recorded value before it is known to be a number",
    "turngate.types:Task.private": "known to the task's environment only",
    "turngate.types:ToolCall.arguments": "typed by the tool that is called",
}
"""``module:name`` → why. ``NDArray[Any]``, an array of any type of numbers, is no ``Any``."""


def signatures(tree: ast.Module) -> Iterator[tuple[str, list[ast.expr]]]:
    """Public functions, methods and attributes with their annotations; what stands in a function is its own affair."""
    yield from _in("", tree.body)


def _in(prefix: str, body: list[ast.stmt]) -> Iterator[tuple[str, list[ast.expr]]]:
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from _in(prefix, [*node.body, *node.orelse])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _public(node.name):
            arguments = node.args
            named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            found = [argument.annotation for argument in named if argument is not None] + [node.returns]
            yield f"{prefix}{node.name}", [annotation for annotation in found if annotation is not None]
        elif isinstance(node, ast.ClassDef) and _public(node.name):
            yield f"{prefix}{node.name}", list(node.bases)
            yield from _in(f"{prefix}{node.name}.", node.body)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and _public(node.target.id):
            alias = "TypeAlias" in ast.unparse(node.annotation) and node.value is not None
            yield f"{prefix}{node.target.id}", [node.value if alias else node.annotation]  # type: ignore[list-item]


def _public(name: str) -> bool:
    return not name.startswith("_") or name in ("__init__", "__call__")


def _says_any(annotation: ast.expr) -> bool:
    text = annotation
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        text = ast.parse(annotation.value, mode="eval").body
    arrays = {id(node.slice) for node in ast.walk(text) if isinstance(node, ast.Subscript) and _is_array(node.value)}
    return any(isinstance(node, ast.Name) and node.id == "Any" and id(node) not in arrays for node in ast.walk(text))


def _is_array(node: ast.expr) -> bool:
    return ast.unparse(node).endswith("NDArray")


def with_any(root: Path = ROOT) -> list[str]:
    found = []
    for path in sorted(root.rglob("*.py")):
        module = ".".join((root.name, *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        if any(part.startswith("_") for part in module.split(".")):
            continue
        for name, annotations in signatures(tree_of(path)):
            if any(map(_says_any, annotations)):
                found.append(f"{module}:{name}")
    return found


def test_public_signatures_name_their_types() -> None:
    found = set(with_any())
    assert found - set(ALLOWED) == set(), "name the type, or a Protocol; Any at a border stays inside the function"
    assert set(ALLOWED) <= found, "these name their types now: take them out of ALLOWED"


def test_where_any_counts(tmp_path: Path) -> None:
    root = tmp_path / "house"
    root.mkdir()
    (root / "rooms.py").write_text("""
from typing import Any, TypeAlias
Row: TypeAlias = tuple[Any, ...]
_Own: TypeAlias = tuple[Any, ...]
def kitchen(pan: "Any"): ...
def bath(water: NDArray[Any], soap: npt.NDArray[Any]) -> None:
    inside: Any = water
def _cellar(wine: Any) -> Any: ...
def attic() -> dict[str, list[Any]]: ...
if True:
    def porch(*steps: Any): ...
class Door(Base[Any]):
    handle: Any
    _lock: Any
    def __init__(self, key: Any): ...
    def open(self): ...
    async def knock(self, **times: Any): ...
class _Hidden:
    def open(self, key: Any): ...
""")
    (root / "_own.py").write_text("from typing import Any\ndef anything(x: Any): ...\n")
    names = ["Row", "kitchen", "attic", "porch", "Door", "Door.handle", "Door.__init__", "Door.knock"]
    assert with_any(root) == [f"house.rooms:{name}" for name in names]


if __name__ == "__main__":
    sys.stdout.write("\n".join(with_any()) + "\n")
