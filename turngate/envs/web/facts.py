"""The evidence of ``turngate/Web-v1`` for every task. Each kind of task adds its own (``WebScenario``)."""

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
OF_CONFIDENCE = meanings("click_confidence", "click_hit", "click_offset")
"""Recorded only of clicks that may state a confidence."""
OF_EPISODES = {
    "solved": "whether the task was done as it asks, and nothing else was",
    "goal_share": "share of what the task asks for that is right, 0 to 1",
    "raw_reward": "the number that the page itself gave, −1 to 1; only of pages that do",
    "result_lost": "whether the page that counts was left or loaded anew; only of pages that count themselves",
}
OF_SLIDES = {
    "slide_overflow_px": "by how many pixels a text leaves the slide, or content is larger than its box",
    "slide_overlap": "largest share of a word on which another one lies, 0 to 1",
    "slide_contrast": "lowest contrast of a word with what lies behind it, as WCAG counts it, that of large text times "
    "1.5; as it is drawn",
    "slide_smallest_px": "size of the smallest text that is seen, in pixels",
    "slide_layout": "share of the limits of layout that the slide keeps, 0 to 1",
    "slide_content": "share of the texts that are asked for that a reader sees on the slide, 0 to 1",
    "slide_invented": "number of words that are seen on the slide and are not asked for",
    "slide_wishes": "share of the colours and sizes that are asked for that are right, 0 to 1",
    "content_at_end": "slide_content of the last slide; 0 where none was written",
    "layout_at_end": "slide_layout of the last slide; 0 where none was written, or it holds what cannot be measured",
}
"""Recorded only of slides: of each that is written in its turn, and of the last at the end."""
EVIDENCE = {**shop.EVIDENCE, **OF_TURNS, **OF_EPISODES}
