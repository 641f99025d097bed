"""The shop's additions to the evidence of ``turngate/Web-v1``: facts from its database, never from what a page says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turngate.envs.glossary import meanings
from turngate.envs.web.generated.shop.grading import Grade
from turngate.envs.web.generated.shop.shop_site import Seen
from turngate.types import Evidence

OF_TURNS = {
    **meanings("distance"),
    "page_kind": "the kind of the shop's page that was answered last in the turn, such as cart or product",
    "new_page_kind": "whether the turn showed a kind of page that the episode had not shown before",
    "form_error": "why the shop did not accept a form of the turn; empty: it accepted all",
}
"""Facts about a turn; those about a page only of turns in which the shop answered one."""
OF_EPISODES = {
    "solved": "whether the goal was reached, the frame kept, and the agent did not say the contrary of what is so",
    "goal_reached": "whether all that the task asks for was changed; of an impossible one, whether the agent said so",
    "frame_kept": "whether nothing else was changed, row by row",
    "goal_share": "share of what the task asks for that is right, 0 to 1",
    "possible": "whether the task can be done",
    "said_impossible": "whether the agent answered that it cannot",
    "wrong_changes": "the kinds of changes that the task does not ask for, such as wrong_option, a list",
    "webshop_reward": "WebShop's partial reward, 0 to 1; only of tasks that buy one product",
}
"""Facts about the end."""
EVIDENCE = {**OF_TURNS, **OF_EPISODES}


def turn_facts(seen: Sequence[Seen], known: frozenset[str], distance: int) -> Iterator[Evidence]:
    """The facts about a turn. ``seen``: the pages that were answered in it; ``known``: the kinds of those before."""
    yield Evidence(name="distance", value=distance)
    if not seen:
        return
    yield Evidence(name="page_kind", value=seen[-1].kind)
    yield Evidence(name="new_page_kind", value=any(page.kind not in known for page in seen))
    yield Evidence(name="form_error", value=next((page.error for page in reversed(seen) if page.error), ""))


def end_facts(grade: Grade) -> Iterator[Evidence]:
    """The facts about how an episode ended."""
    yield Evidence(name="solved", value=grade.solved)
    yield Evidence(name="goal_reached", value=grade.goal_reached)
    yield Evidence(name="frame_kept", value=grade.frame_kept)
    yield Evidence(name="goal_share", value=grade.share)
    yield Evidence(name="possible", value=grade.possible)
    yield Evidence(name="said_impossible", value=grade.said_impossible)
    yield Evidence(name="wrong_changes", value=list(grade.wrong))
    if grade.webshop is not None:
        yield Evidence(name="webshop_reward", value=grade.webshop)
