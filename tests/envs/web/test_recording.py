"""What a person does in a browser becomes a demonstration that does the same in ``turngate/Web-v1``.

The person is a script here: it moves the mouse and presses the keys of a real Chromium, so that what it does comes to
the same listeners as that of a person.
"""

import json
import signal

import pytest
from rich.console import Console

import turngate
from tests.helpers.command_line import turngate as command
from turngate.cli.record import RecordedSite, record
from turngate.config.run_config import load
from turngate.envs.web.engine.listening import Heard, merge_actions
from turngate.errors import ConfigError
from turngate.run.environments import Environments
from turngate.run.process.signals import Stopped
from turngate.run.start.demonstrations import demonstrations

INDEX = """<!doctype html><title>Order</title>
<form onsubmit="event.preventDefault(); location.href = '/two.html?' + new URLSearchParams(new FormData(this))">
<p><input name="who" id="who" aria-label="Name"></p>
<p><label><input type="checkbox" name="gift"> As a <b>gift</b></label></p>
<p><select name="size" id="size"><option>small</option><option>large</option></select></p>
</form><p><a id="away" href="/away.html">Away</a></p><div style="height:2000px"></div>"""
AWAY = "<!doctype html><title>Away</title><p>Nothing here"
TWO = """<!doctype html><title>Sure?</title><p id="asked"></p><button id="sure" disabled><i>Buy</i> it</button>
<script>asked.textContent = location.search; setTimeout(() => { sure.disabled = false; }, 1500);
sure.onclick = () => { document.body.dataset.bought = location.search; };</script>"""
VERIFIER = """
def bought(end):
    return end.evaluate("document.body.dataset.bought || ''") == "?who=Ann+Lee&gift=on&size=large"
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    for name, text in (("index", INDEX), ("two", TWO), ("away", AWAY)):
        (tmp_path / "site" / f"{name}.html").write_text(text)
    (tmp_path / "order_checks.py").write_text(VERIFIER)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return RecordedSite(folder=tmp_path / "site", verifier="order_checks:bought")


class Person:
    """Mouse and keyboard of the window that is recorded."""

    def __init__(self, recorder):
        self.recorder = recorder

    def does(self, work):
        async def go(episode):
            await work((await episode.tab()).page)

        self.recorder.session._do(go)
        assert self.recorder.goes_on()

    def clicks(self, selector):
        self.does(lambda page: page.click(selector))

    def types(self, text):
        self.does(lambda page: page.keyboard.type(text))

    def presses(self, key):
        self.does(lambda page: page.keyboard.press(key))

    def waits(self, ticks):
        for _ in range(ticks):
            self.recorder.goes_on()


def orders(recorder):
    ann = Person(recorder)
    ann.clicks("#away")
    ann.does(lambda page: page.go_back())
    ann.recorder._listening._last_s = 0.0
    ann.clicks("#who")
    ann.types("Ann Lee")
    ann.clicks("label b")  # of the label: its box is what an agent would name
    ann.does(lambda page: page.focus("#size"))
    ann.presses("ArrowDown")
    ann.clicks("#who")
    ann.presses("Enter")
    ann.waits(16)  # till the button may be pressed
    ann.clicks("#sure i")


@pytest.mark.component
def test_what_a_person_did_solves_the_task_in_the_environment_and_is_a_warm_start(site, tmp_path, capsys):
    record(Console(), site, out=tmp_path / "mine", prompt="Buy a large one.", visible=False, person=orders)
    told = capsys.readouterr().out
    assert "played again in turngate/Web-v1: outcome 1" in told
    (row,) = map(json.loads, (tmp_path / "mine" / "demonstrations.jsonl").read_text().splitlines())
    assert row["task"] == "site/recorded-1"
    kinds = [action.split()[0] for action in row["actions"]]
    assert kinds == ["click", "back", "fill", "click", "select", "click", "press", "wait", "click", "answer"], told
    config = tmp_path / "web.toml"
    config.write_text(
        """name = "x"
warm_start = {demonstrations = "mine/demonstrations.jsonl"}
env.id = "turngate/Web-v1"
env.tasks = {type = "web_site", file = "mine/tasks.jsonl", folder = "site", verifier = "order_checks:bought"}
"""
    )
    settings = load(config, [])
    with Environments(settings.env) as environments:
        read = demonstrations(environments, settings.warm_start)
    (task,) = read.tasks
    with turngate.make("turngate/Web-v1", tasks=dict(site.table(tmp_path / "mine" / "tasks.jsonl"))) as env:
        env.reset(options={"task": env.tasks.find(task.id)})
        for action in read.lines[task.id]:
            *_, info = env.step(action)
    assert info["score"].outcome == 1.0


def stopped(signal_number):
    def person(recorder):
        Person(recorder).clicks("#away")
        raise Stopped(signal_number)

    return person


def closes_the_window(recorder):
    ann = Person(recorder)
    ann.clicks("#away")

    async def close(episode):
        await (await episode.tab()).page.close()

    recorder.session._do(close)
    assert not recorder.goes_on()
    assert not recorder.goes_on()


@pytest.mark.component
@pytest.mark.parametrize("person", [stopped(signal.SIGINT), closes_the_window], ids=["Ctrl-C", "window"])
def test_what_was_done_till_the_end_is_kept(site, tmp_path, person):
    for number in (1, 2):
        record(Console(), site, out=tmp_path / "mine", prompt="Go away.", visible=False, person=person)
        rows = [json.loads(line) for line in (tmp_path / "mine" / "demonstrations.jsonl").read_text().splitlines()]
        assert [row["task"] for row in rows] == [f"site/recorded-{n + 1}" for n in range(number)]
        assert rows[-1]["actions"][-1] == "answer done"
        assert [action.split()[0] for action in rows[-1]["actions"]] == ["click", "answer"]


@pytest.mark.component
def test_nothing_done_is_nothing_kept(site, tmp_path):
    with pytest.raises(ConfigError, match="nothing was done"):
        record(Console(), site, out=tmp_path / "mine", prompt="x", visible=False, person=lambda recorder: None)
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name the site: turngate record URL"),
        (("ftp://x/",), "'ftp://x/' is not an address"),
        (("--folder", "/nowhere"), "'/nowhere' is no folder"),
        (("--folder", "site"), "there is no display to show a browser on"),
    ],
)
def test_a_site_that_cannot_be_recorded_is_one_clear_line(site, monkeypatch, capsys, arguments, said):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert command("record", *arguments, "--prompt", "x") == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.component
def test_an_address_where_nobody_answers_is_said(site, tmp_path):
    nowhere = RecordedSite(url="http://127.0.0.1:9/")
    with pytest.raises(ConfigError, match=r"first page could not be opened: 'http://127.0.0.1:9/'"):
        record(Console(), nowhere, out=tmp_path / "mine", prompt="x", visible=False, person=lambda recorder: None)


# --- what is superfluous ----------------------------------------------------------------------------------------------


def test_what_the_next_thing_makes_superfluous_is_left_out():
    field, other = ((0, 1),), ((0, 2),)
    heard = [
        Heard(kind="click", path=field, field=True),
        Heard(kind="fill", path=field, text="a", at_ms=1),
        Heard(kind="fill", path=field, text="ab", at_ms=2),
        Heard(kind="press", text="Tab"),
        Heard(kind="fill", path=other, text="c"),
        Heard(kind="press", text="Tab"),
        Heard(kind="press", text="Enter"),
        Heard(kind="click", path=field, field=True),
        Heard(kind="press", text="Enter"),
        Heard(kind="scroll", text="100"),
        Heard(kind="scroll", text="-30"),
        Heard(kind="scroll", path=other, text="5"),
        Heard(kind="scroll", path=other, text="-5"),
        Heard(kind="click", path=other),
        Heard(kind="click", path=other),
    ]
    assert merge_actions(heard) == [
        Heard(kind="fill", path=field, text="ab", at_ms=1),
        *heard[4:9],
        Heard(kind="scroll", text="70"),
        *heard[13:],
    ]
