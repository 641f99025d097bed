"""Names: what ``register`` takes, what ``make`` gives, and plugins that arrive in wheels of their own."""

import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import gymnasium
import pytest

import turngate
from turngate.envs import registry
from turngate.envs.lock import LockEnv
from turngate.envs.registry import make, register, registered
from turngate.errors import ConfigError, DuplicateName, MissingExtra, UnknownName, UserError


@pytest.fixture
def _clean():
    """Forget what a test registered."""
    ours, theirs = dict(registry._registered), dict(gymnasium.registry)
    yield
    registry._registered.clear()
    registry._registered.update(ours)
    gymnasium.registry.clear()
    gymnasium.registry.update(theirs)


def test_make_is_what_gymnasium_makes():
    ours, theirs = turngate.make("turngate/Lock-v1"), gymnasium.make("turngate/Lock-v1")
    assert type(ours) is type(theirs) is LockEnv  # no wrapper around either
    assert ours.spec.id == "turngate/Lock-v1"
    first, _ = ours.reset(seed=5)
    second, _ = theirs.reset(seed=5)
    assert first == second


def test_the_built_in_environments_are_listed_in_order():
    ids = [name for name in registered() if name.startswith("turngate/")]
    assert {"turngate/Lock-v1", "turngate/Sql-v1"} <= set(ids)
    assert ids == sorted(ids)
    assert all(registered()[name].description and ":" in registered()[name].entry_point for name in ids)


def test_make_can_be_sent_to_another_process():
    env = pickle.loads(pickle.dumps(partial(make, "turngate/Lock-v1", split="heldout")))()
    assert env.split == "heldout"


@pytest.mark.usefixtures("_clean")
def test_registered_arguments_are_defaults():
    register("test/Lock-v0", "turngate.envs.lock:LockEnv", kwargs={"split": "heldout", "max_turns": 5})
    env = make("test/Lock-v0", max_turns=7)
    assert (env.split, env.max_turns) == ("heldout", 7)
    assert registered()["test/Lock-v0"].kwargs == {"split": "heldout", "max_turns": 5}


@pytest.mark.usefixtures("_clean")
def test_registering_never_overwrites():
    gymnasium.register("taken/Env-v0", "nowhere:Nothing")
    with pytest.raises(DuplicateName, match=r"'turngate/Lock-v1' is taken by 'turngate\.envs\.lock:LockEnv'"):
        register("turngate/Lock-v1", "elsewhere:Env")
    with pytest.raises(DuplicateName, match="'taken/Env-v0' is taken by 'nowhere:Nothing'"):
        register("taken/Env-v0", "elsewhere:Env")
    assert registered()["turngate/Lock-v1"].entry_point == "turngate.envs.lock:LockEnv"


@pytest.mark.usefixtures("_clean")
def test_a_file_that_registers_twice_is_told_how_a_script_registers():
    register("test/Twice-v0", "shop:Shop")
    with pytest.raises(DuplicateName, match=r'imported, register it as f"\{__name__\}:Shop"'):
        register("test/Twice-v0", "shop:Shop")


def test_an_unknown_namespace_is_told_how_an_id_of_a_module_is_written():
    with pytest.raises(UnknownName, match=r"write MODULE:nobody/Shop-v0$"):
        make("nobody/Shop-v0")
    with pytest.raises(UnknownName) as caught:
        make("turngate/Lok-v1")
    assert "MODULE" not in str(caught.value)


# --- module:namespace/Name-vN -----------------------------------------------------------------------------------------

SHOP = 'from turngate import register\nregister("test/Shop-v3", "turngate.envs.lock:LockEnv")\n'


@pytest.fixture
def _folder(_clean, tmp_path, monkeypatch):
    """The current folder is a new one, and what is imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    known = set(sys.modules)
    yield
    for name in sys.modules.keys() - known:
        del sys.modules[name]


@pytest.mark.usefixtures("_folder")
def test_the_module_before_the_colon_is_imported_from_the_current_folder():
    Path("small_shop.py").write_text(SHOP)
    env = turngate.make("small_shop:test/Shop-v3", split="heldout")
    assert (type(env), env.spec.id, env.split) == (LockEnv, "test/Shop-v3", "heldout")
    assert gymnasium.make("small_shop:test/Shop-v3").spec.id == "test/Shop-v3"
    assert turngate.check_env("small_shop:test/Shop-v3", episodes=1) == []


@pytest.mark.usefixtures("_folder")
def test_a_module_of_a_package_and_an_id_that_it_does_not_register_itself():
    Path("shops").mkdir()
    Path("shops", "corner.py").write_text(SHOP)
    assert registry.find("shops.corner:test/Shop-v3").id == "test/Shop-v3"
    assert registry.find("shops.corner:turngate/Lock-v1").id == "turngate/Lock-v1"  # as gymnasium has it


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize(
    ("id", "said"),
    [
        ("shp:test/Shop-v3", "unknown module 'shp'; did you mean 'shop' or 'shops'? looked in"),
        ("shp:test/Shop-v3", "looked in the current folder, '{here}', and on Python's path"),
        ("shops.cornr:test/Shop-v3", "unknown module 'shops.cornr'; did you mean 'shops.corner'? looked in"),
        ("shop.py:test/Shop-v3", "'shop.py' is not the name of a module; write 'shop:test/Shop-v3'"),
        ("shops/corner.py:a/B-v0", "'shops/corner.py' is not the name of a module; write 'shops.corner:a/B-v0'"),
        ("/tmp/shop.py:a/B-v0", "'/tmp/shop.py' is not the name of a module; write 'shop:a/B-v0' in"),
        (":test/Shop-v3", "'' is not the name of a module; write 'MODULE:test/Shop-v3'"),
        ("shop:test/Shp-v3", "unknown environment of module 'shop', 'test/Shp-v3'; did you mean 'test/Shop-v3'?"),
        ("shop:test/Shp-v3", "'{here}/shop.py' registers test/Shop-v3"),
        ("empty:test/Shop-v3", "module 'empty' ('{here}/empty.py') registers no environment when it is imported"),
        ("typo:a/B-v0", "'typo:a/B-v0' failed on import: NameError: name 'x' is not defined (typo.py, line 2)"),
        ("lacks:a/B-v0", "failed on import: ModuleNotFoundError: No module named 'no_such_package' (lacks.py, line 1)"),
        ("crooked:a/B-v0", "SyntaxError: '(' was never closed (crooked.py, line 1)"),
        ("leaves:a/B-v0", "module 'leaves' of 'leaves:a/B-v0' failed on import: SystemExit: 3 (leaves.py, line 2)"),
        ("taken:a/B-v0", "environment id 'turngate/Lock-v1' is taken by 'turngate.envs.lock:LockEnv'"),
    ],
)  # fmt: skip
def test_a_module_that_cannot_be_used_says_why(id, said, tmp_path):
    Path("shops").mkdir()
    texts = {
        "shop": SHOP, "shops/__init__": "", "shops/corner": "", "empty": "", "typo": "\nx", "crooked": "f(",
        "lacks": "import no_such_package", "leaves": "import sys\nsys.exit(3)",
        "taken": "from turngate import register\nregister('turngate/Lock-v1', 'taken:Lock')",
    }  # fmt: skip
    for name, text in texts.items():
        Path(f"{name}.py").write_text(text)
    with pytest.raises(UserError) as caught:
        make(id)
    assert said.format(here=tmp_path) in str(caught.value)


@pytest.mark.usefixtures("_folder")
def test_a_module_that_needs_an_extra_says_what_to_install():
    Path("playful.py").write_text("from turngate.errors import MissingExtra\nraise MissingExtra('playwright', 'web')\n")
    with pytest.raises(MissingExtra, match=r'pip install "turngate\[web\]"'):
        make("playful:test/Web-v0")


@pytest.mark.parametrize(
    "bad", ["Lock-v1", "test/Lock", "test/Lock-v", "test/Lock-v01", "test/Lock-v-1", "a/b/Lock-v1", "test/Lo ck-v1", ""]
)
def test_an_id_needs_namespace_and_version(bad):
    with pytest.raises(ConfigError, match="must look like 'namespace/Name-vN', for instance 'acme/Shop-v0'"):
        register(bad, "module:Env")


@pytest.mark.parametrize("bad", ["module", "module:", ":Env", "mod ule:Env", "module:Env()", LockEnv])
def test_an_entry_point_is_a_string(bad):
    with pytest.raises(ConfigError, match=r"must look like 'package\.module:ClassName'"):
        register("test/Bad-v0", bad)
    assert "test/Bad-v0" not in gymnasium.registry


def test_an_unknown_id_names_the_closest():
    with pytest.raises(UnknownName) as caught:
        make("turngate/Lok-v1")
    assert caught.value.close[0] == "turngate/Lock-v1"
    assert str(caught.value).startswith("unknown environment 'turngate/Lok-v1'; did you mean 'turngate/Lock-v1'")


@pytest.mark.usefixtures("_clean")
@pytest.mark.parametrize("wanted", ["test/Lock-v7", "test/Lock", "test/Lock-v"])
def test_an_unknown_version_names_those_that_exist(wanted):
    for version in (10, 2):
        register(f"test/Lock-v{version}", "turngate.envs.lock:LockEnv")
    with pytest.raises(UnknownName, match=r"existing versions of 'test/Lock': v2, v10$"):
        make(wanted)


def test_an_unknown_argument_names_the_closest():
    with pytest.raises(ConfigError, match=r"unknown argument of 'turngate/Lock-v1' 'spilt'; did you mean 'split'\?"):
        make("turngate/Lock-v1", spilt="train")


@pytest.mark.usefixtures("_clean")
def test_a_missing_argument_is_named():
    register("test/Needy-v0", "turngate.envs.pool.pool:EnvPool")
    with pytest.raises(ConfigError, match="'test/Needy-v0': missing a required argument: 'make_env'"):
        make("test/Needy-v0")


@pytest.mark.usefixtures("_clean")
@pytest.mark.parametrize("entry_point", ["no_such_module:Env", "turngate.envs.lock:NoSuchEnv"])
def test_an_entry_point_that_cannot_be_imported_is_named(entry_point):
    register("test/Gone-v0", entry_point)
    with pytest.raises(ConfigError, match=f"entry point '{entry_point}' of 'test/Gone-v0' cannot be loaded"):
        make("test/Gone-v0")


@pytest.mark.usefixtures("_clean")
def test_something_else_than_an_environment_is_refused():
    register("test/Cart-v0", "gymnasium.envs.classic_control.cartpole:CartPoleEnv")
    with pytest.raises(ConfigError, match="built a CartPoleEnv, not a TurnEnv"):
        make("test/Cart-v0")


@pytest.mark.usefixtures("_clean")
def test_a_missing_extra_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "needs_extra.py").write_text(
        "from turngate.errors import MissingExtra\nraise MissingExtra('playwright', 'web')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    register("test/Web-v0", "needs_extra:Env")
    with pytest.raises(MissingExtra, match=r'pip install "turngate\[web\]"'):
        make("test/Web-v0")


# --- plugins ----------------------------------------------------------------------------------------------------------

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{name}"
version = "0.1"
[project.entry-points."turngate.envs"]
{name} = "{name}:register_all"
[tool.hatch.build.targets.wheel]
only-include = ["{name}.py"]
"""
ECHO = """
import numpy as np
import turngate
from turngate import Observation, Outcome, Task, TaskList, TurnEnv, TurnSpec
from turngate.types import Score

class Nothing:
    def score(self, record):
        return Score(ledger=(), reward_T=np.zeros(record.n_turns, np.float32), outcome=0.0, usable=True)
    def certain(self, record):
        return 0.0

class EchoEnv(TurnEnv):
    turn_spec = TurnSpec(tools=(), rubric=Nothing(), max_turns=2)
    def __init__(self):
        super().__init__(tasks=TaskList([Task(id="echo/0", env_id="acme/Echo-v0", prompt="Say it.")]))
    def start(self, task, rng):
        return Observation(text=task.prompt, state_key="start")
    def act(self, action):
        return Outcome(observation=Observation(text=action.text, state_key="on"))
    def verify(self):
        return ()

def register_all():
    turngate.register("acme/Echo-v0", "acme_echo:EchoEnv", description="Says what you say.")
"""
BROKEN = "def register_all():\n    raise RuntimeError('no licence found')\n"
USE = """
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
import turngate
assert "acme_echo" not in sys.modules  # plugins load late
env = turngate.make("acme/Echo-v0")
env.reset(seed=0)
print("reply:", env.step("hello")[0].text)
print("listed:", turngate.registered()["acme/Echo-v0"].description)
try:
    turngate.make("acme/Ecko-v0")
except turngate.UnknownName as error:
    print("error:", error)
"""


def test_an_entry_point_that_names_a_module_is_told_to_name_a_function(tmp_path):
    (tmp_path / "acme_cards.py").write_text("")
    (tmp_path / "acme_cards-1.dist-info").mkdir()
    (tmp_path / "acme_cards-1.dist-info" / "entry_points.txt").write_text("[turngate.envs]\ncards = acme_cards\n")
    program = f"import sys; sys.path[:0] = {[str(tmp_path), *sys.path]!r}\nimport turngate; turngate.registered()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "it names a module; name a function in it that registers: acme_cards:NAME" in done.stderr


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    """A folder into which two plugins were installed from wheels: a good one and one that fails."""
    root = tmp_path_factory.mktemp("plugins")
    for name, source in {"acme_echo": ECHO, "acme_broken": BROKEN}.items():
        (root / name).mkdir()
        (root / name / "pyproject.toml").write_text(PYPROJECT.format(name=name))
        (root / name / f"{name}.py").write_text(source)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    sources = [str(root / "acme_echo"), str(root / "acme_broken")]
    wheels = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(root / "wheels"), *sources]
    subprocess.run([*pip, *wheels], check=True, cwd=root)
    built = sorted((root / "wheels").glob("*.whl"))
    assert len(built) == 2
    install = ["install", "--no-deps", "--no-index", "--target", str(root / "site"), *map(str, built)]
    subprocess.run([*pip, *install], check=True, cwd=root)
    return root / "site"


@pytest.mark.component
def test_a_plugin_from_a_wheel_works_beside_one_that_fails(plugins):
    program = f"import sys; sys.path[:0] = {[str(plugins), *sys.path]!r}\n{USE}"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    problem = "RuntimeError: no licence found"
    assert lines == [
        f"WARNING plugin 'acme_broken' (acme_broken:register_all) failed to load: {problem}",
        "reply: hello",
        "listed: Says what you say.",
        lines[-1],
    ]
    assert lines[-1].startswith("error: unknown environment 'acme/Ecko-v0'; did you mean 'acme/Echo-v0'")
    assert lines[-1].endswith(f"plugin 'acme_broken' failed to load: {problem}")
