"""What oracles do on pages that need more than a click at a reference, as ``turngate/Web-v1`` plays them."""

import pytest

import turngate
from turngate.envs.tool_env import ToolError
from turngate.envs.web.candidates import LONGEST_PATH, path_of

PLAYED = {
    "choose-date-easy": "wait",  # a calendar that fades away over the button
    "use-autocomplete": "wait",  # a list that opens after a pause
    "book-flight": "wait",
    "click-pie": "wait",  # pieces that move apart
    "copy-paste": "press Space",  # a text that ends with a blank
    "use-slider-2": "press Arrow",  # many keys in one action
    "use-colorwheel": "press Tab",  # a click into the field would open its picker again
    "click-shades": "click_at",  # boxes that have no reference
    "social-media-some": "click_at",
    "use-spinner": "click_at",
    "hot-cold": "hover_at",  # found in less than forty moves
    "drag-items": "drag_along",
    "draw-circle": "drag_along",
    "draw-line": "drag_along",
}
"""Page → how an action begins that its oracle needs there."""


@pytest.fixture(scope="module")
def web():
    tasks = {"type": "miniwob", "pages": list(PLAYED), "seeds": 1, "held_out": 0}
    with turngate.make("turngate/Web-v1", tasks=tasks, pointing="both") as env:
        env.reset()  # keeps the browser for the twins that play the oracles
        yield env


@pytest.mark.component
@pytest.mark.parametrize("number", range(len(PLAYED)), ids=PLAYED)
def test_the_oracle_solves_the_page_with_the_tools_of_the_agent(web, number):
    task = web.tasks.task("train", number)
    actions = web.oracle(task)  # raises EnvError where they do not solve it
    assert any(action.startswith(PLAYED[task.id.split("/")[1]]) for action in actions)


@pytest.mark.parametrize("text", ["3 4", "3 4, e5", "", "3 4,", ", ".join(["3 4"] * (LONGEST_PATH + 1))])
def test_a_way_that_is_none_is_refused(text):
    with pytest.raises(ToolError, match="is no way"):
        path_of(text)


def test_a_way_has_two_places_or_more():
    assert path_of("3 4, 50  60,7 8") == ((3, 4), (50, 60), (7, 8))
