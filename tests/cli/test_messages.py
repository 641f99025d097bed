"""Messages end to end, through ``turngate eval`` and ``turngate train``: system text, template, tools and images."""

import base64
import json
import logging
import re
from pathlib import Path

import pytest
import tomli_w

from tests.helpers import chat_server, galleries, models, templates
from tests.helpers.chat_server import completion
from tests.helpers.command_line import turngate
from turngate.agents import tiny
from turngate.agents.chat import Chat
from turngate.envs.lock import LockEnv, key_of
from turngate.store import Store

LOCK = {"id": "turngate/Lock-v1"}
(PRESS,) = (tool.schema for tool in LockEnv.turn_spec.tools)
TEXT = "no tools in the template: the environment names them, any tool format is read"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("turngate.agents.policies.openai.BACKOFF_S", 0.01)
    return tmp_path


def run(command, table, *options):
    """The exit code of ``turngate eval`` or ``train`` with this config."""
    Path("config.toml").write_text(tomli_w.dumps(table))
    return turngate(command, *(("--config", "config.toml") if command == "eval" else ("config.toml",)), *options)


def served(script, *options, env=LOCK, tasks=1, **policy):
    """Exit code and requests of an evaluation of a scripted server, greedy only where the config says so."""
    with chat_server.serving(script) as server:
        section = {"type": "openai", "url": server.url, "model": "big", "turn_tokens": 8, "concurrency": 1, **policy}
        table = {"name": "served", "env": env, "policy": section, "eval": {"tasks": tasks, "samples": 1}}
        code = run("eval", table, *options)
    return code, [body for _, _, body in server.heard]


def played(folder, phase, step=0):
    return [one for group in Store(Path(folder)).read(step, phase) for one in group.trajectories]


# --- the system text and the template ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def thinking(tmp_path_factory):
    """A model whose chat template lists tools and knows ``enable_thinking``."""
    folder = tmp_path_factory.mktemp("thinking") / "model"
    tokenizer = templates.tokenizer("hermes")
    tiny.save(tiny.random_model(tokenizer, layers=1, width=32, heads=2, context=1024, seed=0), tokenizer, folder)
    return folder


def local(model, **policy):
    return {
        "name": "spoken",
        "model": str(model),
        "env": LOCK,
        "policy": {"turn_tokens": 4, "context": 1024, "concurrency": 4, **policy},
        "eval": {"tasks": 1, "samples": 1},
        "train": {"steps": 1, "tasks_per_step": 1, "group_size": 2},
    }


SPOKEN = {"system": "Be brief.", "template": {"enable_thinking": False}}


def contexts(folder, phase, step=0):
    """What the model was shown first in each episode."""
    chat = Chat(templates.tokenizer("hermes"))
    return [chat.decode(one.turns[0].context_ids) for one in played(folder, phase, step)]


def test_an_evaluation_shows_the_system_text_and_fills_in_the_template(here, thinking, capsys):
    assert run("eval", local(thinking, **SPOKEN)) == 0
    told, *_ = capsys.readouterr().out.splitlines()
    assert told == "tools are listed by the chat template, called in hermes tool format"
    (context,) = contexts("evaluations/spoken", "eval-heldout-sampled")
    assert context.startswith("<|im_start|>system\nBe brief.\n<tools>")
    assert context.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_a_run_shows_them_too_says_how_tools_are_called_once_and_refuses_to_go_on_with_others(here, thinking, capsys):
    table = {**local(thinking, **SPOKEN), "controls": ["shuffled_credit"], "folder": "runs"}
    assert run("train", table) == 0
    out = capsys.readouterr().out
    assert out.count("tools are listed by the chat template, called in hermes tool format") == 1
    assert re.search(r"trained: all [\d,]+ weights, lr [\de.-]+; learner\.lora = \{\} trains adapters", out)
    shown = contexts("runs/spoken", "train", 1)
    assert len(shown) == 2
    assert all("Be brief." in one and "<think>\n\n</think>" in one for one in shown)
    for other in ({**SPOKEN, "system": "Be long."}, {**SPOKEN, "template": {"enable_thinking": True}}):
        assert run("train", {**table, "policy": {**table["policy"], **other}}) == 2
        assert "holds a run with other settings" in capsys.readouterr().err


def test_demonstrations_are_shown_with_the_system_text(here, capsys):
    table = {
        "name": "shown",
        "folder": "runs",
        "env": LOCK,
        "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
        "warm_start": {"episodes": 4, "epochs": 1, "episodes_per_batch": 4, "lr": 5e-3},
        "policy": {"turn_tokens": 8, "context": 256, "concurrency": 4, "system": "Be brief."},
        "train": {"steps": 0},
        "eval": {"tasks": 1, "samples": 1},
    }
    assert run("train", table) == 0
    assert capsys.readouterr().out.count(TEXT) == 1
    tokenizer = tiny.load("runs/shown/model")[1]
    (first,) = played("runs/shown", "before-heldout-sampled")
    assert tokenizer.decode(first.turns[0].context_ids).startswith("<|system|>Be brief.<|end|><|user|>Open the lock")


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"template": {"enable_thinkng": False}}, "policy.template.enable_thinkng has no effect: the chat template"),
        ({"template": {"enable_thinkng": False}}, "never mentions 'enable_thinkng'; did you mean 'enable_thinking'?"),
        ({"template": {"tools": []}}, "policy.template.tools is given by turngate each time"),
        ({"sytem": "Be brief."}, "unknown key 'policy.sytem'; did you mean 'system'?"),
    ],
)
@pytest.mark.parametrize("command", ["eval", "train"])
def test_a_setting_without_effect_is_a_line(command, policy, said, here, thinking, capsys):
    assert run(command, {**local(thinking, **policy), "folder": "runs"}) == 2
    error = capsys.readouterr().err
    assert (error.count("\n"), said in error) == (1, True), error


def test_a_template_that_leaves_the_system_text_out_is_named(here, capsys):
    tokenizer = templates.tokenizer("hermes")
    tokenizer.chat_template = (
        "{% for message in messages if message.role != 'system' %}<|im_start|>{{ message.role }}\n{{ message.content }}"
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    tiny.save(tiny.random_model(tokenizer, layers=1, width=32, heads=2, context=1024, seed=0), tokenizer, here / "deaf")
    assert run("eval", local("deaf", system="Be brief.")) == 2
    said = f"policy.system has no effect: the chat template of '{here / 'deaf'}' leaves system messages out"
    assert said in capsys.readouterr().err
    assert run("eval", local("deaf")) == 0


def test_a_server_has_no_template_of_ours(here, capsys):
    code, _ = served(lambda body, n: "press a", template={"enable_thinking": False})
    error = capsys.readouterr().err
    assert (code, error.count("\n"), "policy.template" in error) == (2, 1, True), error


@pytest.mark.parametrize("key", ["policy.system", "policy.local.template", "policy.openai.tools"])
def test_the_keys_are_explained(key, here, capsys):
    assert turngate("explain", key) == 0
    assert key.rpartition(".")[2] in capsys.readouterr().out


# --- tools of a server ------------------------------------------------------------------------------------------------


def pressing(body, n):
    """Presses the right key by a call."""
    content = body["messages"][-1]["content"]
    arguments = json.dumps({"key": key_of(content.split()[-1])})
    call = {"id": f"server-{n}", "type": "function", "function": {"name": "press", "arguments": arguments}}
    return completion("So:" if n == 1 else None, finish="tool_calls", tool_calls=[call])


def test_a_server_is_given_the_tools_and_answers_go_back_to_its_calls(here, capsys):
    code, bodies = served(pressing, "--eval.samples=1", system="Be brief.")
    assert code == 0
    told, sampled, *_ = capsys.readouterr().out.splitlines()
    assert told == "tools are given to the server, and its calls are kept in hermes tool format"
    assert "1 of 1 solved unaided" in sampled
    first, second, third = bodies[:3]
    (one,) = played("evaluations/served", "eval-heldout-sampled")
    shown = [turn.observation.text for turn in one.turns]
    keys = [key_of(text.split()[-1]) for text in shown]
    assert first == {
        "model": "big",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": shown[0]}],
        "seed": first["seed"],
        "temperature": 1.0,
        "max_tokens": 8,
        "tools": [PRESS],
    }

    def asked(place, key, content=None):
        function = {"name": "press", "arguments": f'{{"key": "{key}"}}'}
        call = {"id": f"call{place:03d}00", "type": "function", "function": function}
        return {"role": "assistant", "content": content, "tool_calls": [call]}

    assert second["messages"] == [
        *first["messages"],
        asked(2, keys[0], "So:"),
        {"role": "tool", "tool_call_id": "call00200", "content": shown[1]},
    ]
    assert third["messages"] == [
        *second["messages"],
        asked(4, keys[1]),
        {"role": "tool", "tool_call_id": "call00400", "content": shown[2]},
    ]
    assert one.turns[0].completion.text == (
        f'So:\n<tool_call>\n{{"name": "press", "arguments": {{"key": "{keys[0]}"}}}}\n</tool_call>'
    )
    assert [(turn.action.calls[0].arguments["key"], turn.action.flaw) for turn in one.turns] == [(k, "") for k in keys]


REFUSALS = [
    (
        400,
        b'{"message": "\\"auto\\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"}',
        {},
    ),
    (500, b'{"error": {"message": "tools param requires --jinja flag"}}', {}),
    (404, b'{"error": {"message": "No endpoints found that support tool use"}}', {}),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=["vllm", "llama.cpp", "a router"])
def test_a_server_that_refuses_tools_is_told_of_them_in_the_prompt_which_is_said_once(refusal, here, capsys, caplog):
    def script(body, n):
        if "tools" in body:
            return refusal
        key = key_of(body["messages"][-1]["content"].split()[-1])
        return f'<tool_call>\n{{"name": "press", "arguments": {{"key": "{key}"}}}}\n</tool_call>'

    with caplog.at_level(logging.WARNING):
        code, bodies = served(script, tasks=2)
    assert code == 0
    assert "2 of 2 solved unaided" in capsys.readouterr().out
    assert ["tools" in body for body in bodies] == [True] + [False] * (len(bodies) - 1)
    (said,) = [record.getMessage() for record in caplog.records if "takes no tools" in record.getMessage()]
    assert "the prompt lists them instead" in said
    prompt, *rest = bodies[3]["messages"]
    assert prompt["content"].startswith('You have these tools:\n{"name": "press"')
    assert [message["role"] for message in rest] == ["assistant", "user", "assistant", "user"]
    assert not any(
        turn.action.flaw for one in played("evaluations/served", "eval-heldout-sampled") for turn in one.turns
    )


def test_trouble_with_one_call_of_a_server_that_takes_tools_costs_no_tools(here, capsys, caplog):
    broken = (500, b"Failed to parse tool call arguments as JSON", {})
    code, bodies = served(lambda body, n: broken if n == 2 else pressing(body, n))
    assert code == 0
    assert all(body["tools"] == [PRESS] for body in bodies)
    assert "takes no tools" not in caplog.text


def test_a_server_may_be_given_none(here, capsys):
    code, bodies = served(lambda body, n: f"press {key_of(body['messages'][-1]['content'].split()[-1])}", tools="text")
    told, sampled, *_ = capsys.readouterr().out.splitlines()
    assert (code, "1 of 1 solved" in sampled) == (0, True)
    assert told == "the server is given no tools; the prompt names them and any tool format is read"
    assert not any("tools" in body for body in bodies)
    assert {message["role"] for body in bodies for message in body["messages"]} == {"user", "assistant"}


@pytest.mark.parametrize(
    "calls",
    [
        [{"function": {"arguments": "{}"}}],
        ["press"],
        [{"id": "x"}],
    ],
)
def test_a_reply_with_calls_that_are_none_counts_as_a_server_that_failed(calls, here, capsys):
    code, bodies = served(lambda body, n: completion(None, tool_calls=calls) if n == 1 else pressing(body, n))
    assert code == 0
    assert bodies[0] == bodies[1]


# --- images -----------------------------------------------------------------------------------------------------------

GALLERY = {"id": galleries.ID, "split": "heldout"}


def part(*colour):
    data = base64.b64encode(galleries.png(*colour)).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def test_a_server_sees_the_pictures_of_an_environment_and_they_are_kept(here, capsys):
    def script(body, n):
        call = {"function": {"name": "name", "arguments": '{"colour": "blue"}' if n % 2 else '{"colour": "red"}'}}
        return completion(None, tool_calls=[call])

    code, bodies = served(script, env=GALLERY)
    assert code == 0
    assert "1 of 1 solved unaided" in capsys.readouterr().out
    question = {"role": "user", "content": [{"type": "text", "text": "Which colour?"}, part(255, 0, 0)]}
    function = {"name": "name", "arguments": '{"colour": "blue"}'}
    assert bodies[0]["messages"] == [question]
    assert bodies[1]["messages"] == [
        question,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call00100", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call00100", "content": "no; look again"},
        {"role": "user", "content": [part(9, 9, 9), part(8, 8, 8)]},
    ]
    (one,) = played("evaluations/served", "eval-heldout-sampled")
    assert [turn.observation.images for turn in one.turns] == [
        (galleries.png(255, 0, 0),),
        (galleries.png(9, 9, 9), galleries.png(8, 8, 8)),
    ]


@pytest.mark.parametrize("command", ["eval", "train"])
def test_a_policy_of_text_refuses_them_by_name_at_the_first_one(command, here, capsys):
    tiny.save(models.plain_model(), models.tokenizer(), here / "model")
    table = {**local("model"), "folder": "runs", "env": GALLERY, "eval": {"tasks": 2, "samples": 3}}
    assert run(command, table) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert (
        "policy 'local' takes no images; the observation of turn 0 of task 'gallery/red' has 1. Use a policy" in error
    )
    assert not Path("evaluations/spoken").exists()


def test_a_server_that_refuses_images_ends_it_at_the_first_one(here, capsys):
    code, bodies = served(lambda body, n: (400, b"this model does not support image input", {}), env=GALLERY, tasks=2)
    error = capsys.readouterr().err
    assert (code, len(bodies), error.count("\n")) == (2, 1, 1)
    assert "refuses the images of task 'gallery/red': status 400" in error
