"""``ToolEnv``: methods as tools, what every call leaves behind, and what is refused when the class is defined."""

from typing import Literal

import pytest

from turngate.envs.base import TurnEnv, TurnSpec
from turngate.envs.check.check_env import check_env
from turngate.envs.tasks import TaskList
from turngate.envs.tool_env import ToolEnv, ToolError
from turngate.errors import ConfigError, EnvError
from turngate.rewards import FromEvidence, Rubric
from turngate.tools.read import parse
from turngate.tools.tool import tool
from turngate.types import Action, Ending, Evidence, Task, ToolCall

RUBRIC = Rubric(rewards=(FromEvidence(name="won", evidence="won", kind="outcome", levels=(0, 1)),))
TASKS = TaskList([Task(id="t", env_id="test/Shop-v0", prompt="Buy.", private={"goal": {"apple": 2}})])


class Shop(ToolEnv):
    """Put the right things into a basket."""

    turn_spec = TurnSpec(rubric=RUBRIC, max_turns=6)

    def __init__(self, **options):
        super().__init__(tasks=TASKS, **options)

    def begin(self, task):
        self.basket = {}
        return task.prompt

    @tool
    def put(self, what: Literal["apple", "pear"], count: int = 1) -> str:
        """Put something in."""
        if count < 1:
            raise ToolError(f"{count} cannot be put in; take at least 1")
        self.basket[what] = self.basket.get(what, 0) + count
        self.record("size", sum(self.basket.values()))
        return f"{self.basket}"

    @tool
    def look(self) -> str:
        """Look into the basket."""
        if not self.basket:
            self.fail()
            return "nothing"
        return f"{self.basket}"

    @tool
    def pay(self) -> str:
        """End."""
        self.end()
        return "thanks"

    def state(self):
        return f"{self.task.id} {sorted(self.basket.items())}"

    def verify(self):
        yield Evidence(name="won", value=self.basket == self.task.private["goal"])


class Express(Shop):
    """Several calls in one turn."""

    calls_per_turn = 3
    common_facts = ("call_ok",)


@pytest.fixture
def shop():
    env = Shop()
    env.reset(seed=0)
    yield env
    env.close()


def facts(info):
    return [(fact.name, fact.value) for fact in info["evidence"] if fact.by == "env" and fact.turn is not None]


def test_a_call_reaches_the_method_with_typed_arguments(shop):
    observation, _, _, _, info = shop.step("put apple 2")
    assert observation.text == "{'apple': 2}"
    assert facts(info) == [("parsed", True), ("tool", "put"), ("repeated", False), ("call_ok", True), ("size", 2)]
    call = '<tool_call>{"name": "put", "arguments": {"what": "pear", "count": 3}}</tool_call>'
    assert shop.step(call)[0].text == "{'apple': 2, 'pear': 3}"


def test_the_tools_are_declared_from_the_methods_in_their_order():
    assert [one.usage for one in Shop.turn_spec.tools] == ["put WHAT [COUNT]", "look", "pay"]
    assert Express.turn_spec.tools == Shop.turn_spec.tools


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("put plum", "error: argument 'what' of put should be 'apple' or 'pear', not 'plum'; write: put WHAT [COUNT]"),
        ("put apple many", "error: argument 'count' of put should be a valid integer"),
        ("take apple", "error: unknown tool 'take'"),
        ('put("apple", 2)', "error: unknown tool 'put(\"apple\",'; write: put WHAT [COUNT]"),
        ("", "error: empty; tools: put WHAT [COUNT] | look | pay"),
        (
            '<tool_call>{"name": "look"}</tool_call>' * 2,
            "error: 2 tool calls in one turn, none was carried out; write exactly one",
        ),
    ],
)
def test_what_is_no_call_is_told_and_changes_nothing(shop, text, told):
    observation, _, terminated, truncated, info = shop.step(text)
    assert observation.text.startswith(told)
    assert facts(info) == [("parsed", False)]
    assert (shop.basket, terminated, truncated) == ({}, False, False)


def test_a_call_of_a_recorded_action_may_not_fit(shop):
    gone = Action(text="x", calls=(ToolCall(name="gone", arguments={}),))
    observation, _, _, _, info = shop.step(gone)
    assert observation.text.startswith("error: unknown tool 'gone'")
    assert facts(info) == [("parsed", False)]
    odd = Action(text="x", calls=(ToolCall(name="put", arguments={"what": 3}),))
    assert shop.step(odd)[0].text.startswith("error: argument 'what' of put")


def test_a_call_that_cannot_be_done_is_an_observation(shop):
    observation, _, _, _, info = shop.step("put apple -1")
    assert observation.text == "error: -1 cannot be put in; take at least 1"
    assert facts(info) == [("parsed", True), ("tool", "put"), ("repeated", False), ("call_ok", False)]
    observation, _, _, _, info = shop.step("look")
    assert (observation.text, dict(facts(info))["call_ok"]) == ("nothing", False)


def test_a_call_with_a_flaw_is_carried_out_and_not_paid_for_its_form(shop):
    observation, _, _, _, info = shop.step('<tool_call>{"name": "put", "arguments": {"what": "pear", "count": "3"}}')
    assert observation.text == "{'pear': 3}"
    assert facts(info)[0] == ("parsed", False)
    assert info["action"].flaw == "<tool_call> is not closed by </tool_call>"


def test_the_same_call_in_the_same_state_is_repeated(shop):
    told = [dict(facts(shop.step(text)[-1]))["repeated"] for text in ("look", "look", "put pear", "look", "look")]
    assert told == [False, True, False, False, True]


def test_states_have_keys(shop):
    keys = [shop.step(text)[0].state_key for text in ("put apple", "look", "put pear", "look")]
    assert keys[0] == keys[1] != keys[2] == keys[3]
    assert all(len(key) == 16 for key in keys)


def test_several_calls_in_one_turn_are_carried_out_in_order_up_to_the_end():
    env = Express()
    env.reset(seed=0)

    def calls(*texts):
        return Action(text="x", calls=sum((parse(text, Express.turn_spec.tools).calls for text in texts), ()))

    observation, _, _, _, info = env.step(calls("put apple", "look", "put apple 0"))
    assert observation.text == "{'apple': 1}\n\n{'apple': 1}\n\nerror: 0 cannot be put in; take at least 1"
    assert facts(info) == [("parsed", True), ("call_ok", True), ("size", 1), ("call_ok", True), ("call_ok", False)]
    four = env.step(calls("look", "look", "look", "look"))[0].text
    assert four == "error: 4 tool calls in one turn, none was carried out; write 1 to 3"
    observation, reward, terminated, _, info = env.step(calls("put apple", "pay", "put pear"))
    assert observation.text == "{'apple': 2}\n\nthanks"
    assert (terminated, info["ending"], reward) == (True, Ending.FINISHED, 1.0)


class Mute(ToolEnv):
    turn_spec = TurnSpec(rubric=RUBRIC, max_turns=2)

    def __init__(self):
        super().__init__(tasks=TASKS)

    def begin(self, task):
        return task.prompt

    @tool
    def hum(self) -> str:
        """Hum."""
        return 3


def test_a_tool_that_returns_no_text_breaks_the_episode_by_name():
    env = Mute()
    observation, _ = env.reset(seed=0)
    assert observation.state_key == ""
    with pytest.raises(EnvError, match="tool 'hum' of Mute returned 3; it must be text"):
        env.step("hum")


def test_what_is_refused_at_the_definition():
    with pytest.raises(ConfigError, match="Twice has two tools named 'look'; give one of them another name"):

        class Twice(Shop):
            @tool(name="look")
            def look_again(self) -> str:
                """Look again."""
                return ""

    with pytest.raises(ConfigError, match="the tool 'answer' of Clash takes the place of a method"):

        class Clash(Shop):
            @tool
            def answer(self, text: str) -> str:
                """Answer."""
                return ""

    with pytest.raises(ConfigError, match=r"'\*words: str' takes any number of arguments"):

        class Loose(Shop):
            @tool
            def talk(self, *words: str) -> str:
                """Talk."""
                return ""

    with pytest.raises(ConfigError, match=r"Odd\.common_facts has 'parsed'; there are tool, repeated, call_ok"):

        class Odd(Shop):
            common_facts = ("parsed",)


def test_a_tool_that_is_overridden_by_none_is_none():
    class Silent(Shop):
        look = None

    assert [one.name for one in Silent.turn_spec.tools] == ["put", "pay"]
    assert issubclass(Silent, TurnEnv)


def test_the_check_finds_nothing():
    assert [finding for finding in check_env(Shop()) if finding.level == "error"] == []
