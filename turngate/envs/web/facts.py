"""What ``turngate/Web-v1`` records of every task. Each kind of task adds its own (``WebScenario``)."""

from turngate.envs.glossary import meanings
from turngate.envs.web.generated.shop import facts as shop

OF_TURNS = {
    "page_changed": "whether the page, or its address, is another one after the turn",
    "no_op": "whether the action was carried out and nothing came of it",
    "revisited": "whether the turn led to a state in which the episode had been before",
    "url": "the address of the page after the turn",
    "pointed_at": "where in the window the action was aimed, [x, y] in pixels: the place that it names, or the middle "
    "of its element before it began; only of actions that name one",
}
OF_CANDIDATES = meanings("candidates", "candidate_hit")
"""Recorded only of clicks that name several candidates."""
OF_EPISODES = {
    "solved": "whether the task was done as it asks, and nothing else was",
    "goal_share": "share of what the task asks for that is right, 0 to 1",
    "raw_reward": "the number that the page itself gave, −1 to 1; only of pages that do",
    "result_lost": "whether the page that counts was left or loaded anew; only of pages that count themselves",
}
EVIDENCE = {**shop.EVIDENCE, **OF_TURNS, **OF_EPISODES}
