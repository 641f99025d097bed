"""A config with anything wrong in it is exit code 2 and one line, before any work; one that is right would begin.

Valid configs are changed at one to three places, as tables and as text, and given to ``turngate train``, of which only
the work itself is left out.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.test_bad_configs import CONFIG, KEYS, OPENED
from tests.fuzz.budget import examples
from tests.fuzz.texts import PLAIN_TEXTS
from tests.helpers.command_line import turngate
from turngate.run.job import Job

AGREES = {"type": "from_evidence", "name": "agrees", "evidence": "agrees", "weight": 0.1}
RICH = {
    **CONFIG,
    "env": {
        "id": "turngate/Lock-v1",
        "kwargs": {"max_turns": 4},
        "tasks": {"type": "lock"},
        "rubric": {"rewards": [OPENED, KEYS, AGREES], "gates": [{"type": "needs_outcome", "at_least": 0.5}]},
    },
    "credit": {"type": "gigpo", "gamma": 0.9},
    "guide": {"type": "none"},
    "curriculum": {"type": "band", "pool": 64},
    "loss": {
        "objective": {"type": "clipped", "clip_low": 0.2},
        "correction": [],
        "penalties": [{"type": "kl", "coef": 0.1}, {"type": "entropy", "coef": 0.01}],
        "aggregate": "token",
    },
    "learner": {"type": "torch", "lr": 1e-3},
    "examine": [{"type": "majority"}],
    "sink": ["console"],
}
RICH["train"] = {**CONFIG["train"], "filters": [{"type": "varied", "by": "total"}]}
TOOLS = {**CONFIG, "env": {"id": "turngate/ToolUse-v1", "tasks": {"type": "lending"}, "split": "train"}}
SEARCH = {**CONFIG, "env": {"id": "turngate/Search-v1", "tasks": {"type": "generated_search", "size": 12}}}
BASES: list[dict[str, Any]] = [CONFIG, RICH, TOOLS, SEARCH]
FIXED = ("name", "folder")  # say where a run goes, which the test decides
NUMBERS = [0, -1, 1, 2, 10**9, 10**12, 2**63 - 1, -(2**63), 0.0, -0.5, 1e308, 5e-324, float("nan"), float("inf")]
DEEP: Any = 1
for _ in range(60):
    DEEP = [DEEP]
VALUES = st.one_of(
    st.sampled_from(
        [*NUMBERS, True, False, "", " ", "x", "/dev/null", "../..", "own:thing", ":", "a" * 3000, DEEP, {}, []]
    ),
    st.sampled_from([[{}], [[]], {"type": "none"}, {"type": ""}, {"type": 3}, [1, "a", {}], {"a": {"b": {"c": 1}}}]),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    PLAIN_TEXTS,
    st.lists(st.one_of(st.integers(0, 9), PLAIN_TEXTS), max_size=2),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every value of a table, but for ``FIXED``."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if path or key not in FIXED:
            yield (*path, key)
            yield from places(inner, (*path, key))


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if isinstance(value, list) else value


@st.composite
def changed(draw: st.DrawFn) -> str:
    """A config in which values were replaced, removed, renamed, moved or added."""
    table = copied(draw(st.sampled_from(BASES)))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(table))))
        holder = table
        for step in path[:-1]:
            holder = holder[step]
        kind = draw(st.sampled_from(["replace", "replace", "replace", "remove", "rename", "add", "wrap", "move"]))
        if kind == "remove":
            del holder[path[-1]]
        elif kind == "wrap":
            holder[path[-1]] = draw(
                st.sampled_from([[holder[path[-1]]], {"type": holder[path[-1]]}, [holder[path[-1]]] * 2])
            )
        elif kind == "move":
            other = draw(st.sampled_from(list(places(table))))
            value: Any = table
            for step in other:
                value = value[step]
            holder[path[-1]] = copied(value)
        elif kind in ("rename", "add") and isinstance(holder, dict):
            value = holder.pop(path[-1]) if kind == "rename" else draw(VALUES)
            name = draw(
                st.one_of(PLAIN_TEXTS, st.just(f"{path[-1]}s"), st.sampled_from(["type", "id", "kwargs", "tasks"]))
            )
            holder[name] = copied(value)
        else:
            holder[path[-1]] = copied(draw(VALUES))
        for name in FIXED:
            table.pop(name, None)
        if not list(places(table)):
            break
    return tomli_w.dumps(table)


@st.composite
def torn(draw: st.DrawFn) -> bytes:
    """The bytes of a config of which pieces were cut, doubled or replaced."""
    data = tomli_w.dumps(draw(st.sampled_from(BASES))).encode()
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 30)))
        piece = draw(
            st.one_of(
                st.sampled_from(
                    [
                        b"",
                        b"[",
                        b"]",
                        b'"',
                        b"'''",
                        b"=",
                        b"\n",
                        b"\xff",
                        b"\0",
                        b"[[env]]\n",
                        b"9" * 5000,
                        b"a." * 2000,
                    ]
                ),
                st.binary(max_size=6),
            )
        )
        data = data[:start] + draw(st.sampled_from([piece, data[start:end] * 2])) + data[end:]
    return data


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Iterator[Path]:
    """An empty folder, the current one; ``train`` in it does all but the work."""
    folder = tmp_path_factory.mktemp("configs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(Job, "run", lambda job: job.environments.close())
        patch.setattr("turngate.report.summary.write_report", lambda path, console: None)
        (folder / "config.toml").write_text('model = "no/model"')
        turngate("train", folder / "config.toml")  # which imports what takes seconds to import
        yield folder


def assert_told(here: Path, capsys: pytest.CaptureFixture[str], data: bytes) -> int:
    """Give these bytes to ``train``; its exit code."""
    config = here / "config.toml"
    config.write_bytes(data)
    start = time.process_time()
    code = turngate("train", config)
    seconds = time.process_time() - start
    printed = capsys.readouterr()
    lines = printed.err.splitlines()
    assert (code, bool(lines)) in ((0, False), (2, True)), printed.err
    if code:
        assert len(lines) == 1
        assert lines[0].startswith("error: ")
        assert len(lines[0]) < 2000
        assert printed.out == ""
    assert "Traceback" not in printed.err
    assert [path.name for path in here.iterdir()] == ["config.toml"]
    assert seconds < 5, "a config is read before any work is done"
    return code


def test_the_configs_themselves_would_begin(here, capsys):
    for base in BASES:
        assert assert_told(here, capsys, tomli_w.dumps(base).encode()) == 0


@pytest.mark.timeout(900)
@examples(150)
@given(text=changed())
def test_a_changed_config_is_one_line_or_would_begin(here, capsys, text):
    assert_told(here, capsys, text.encode(errors="surrogatepass"))


@examples(60)
@given(data=torn())
def test_a_torn_config_is_one_line_or_would_begin(here, capsys, data):
    assert_told(here, capsys, data)
