"""Slides of ``turngate/Web-v1``: tasks, an episode with a revision, what is measured, and what the rubric pays."""

import itertools
import random
from dataclasses import replace

import pytest

import turngate
from turngate.envs.web.generated.slides.brief import PRIVATE_KEY, SlideBrief
from turngate.envs.web.generated.slides.contents import GROUNDS, NAMES, PLACES, SUBJECTS
from turngate.envs.web.generated.slides.measuring import Word
from turngate.envs.web.generated.slides.slide_grade import overlap_of, tokens
from turngate.envs.web.generated.slides.slide_source import SlideSource
from turngate.envs.web.rubric import SLIDES_RUBRIC
from turngate.errors import ConfigError, UnknownName
from turngate.rubrics import find_rubric

SLIDES = {"type": "slides"}


@pytest.fixture(scope="module")
def web():
    with turngate.make("turngate/Web-v1", tasks=SLIDES) as env:
        env.turn_spec = replace(env.turn_spec, rubric=SLIDES_RUBRIC)  # as a run with this rubric does
        yield env


def brief_of(task):
    return SlideBrief.model_validate_json(task.private[PRIVATE_KEY])


def facts_of(info):
    return {fact.name: fact.value for fact in info["evidence"]}


# --- tasks ------------------------------------------------------------------------------------------------------------


def test_slides_are_endless_repeatable_and_of_the_level_that_was_asked_for():
    source = SlideSource(levels=(2, 3)).open()
    assert source.size("train") is None
    tasks = [source.task("train", number) for number in range(40)]
    assert tasks == [source.task("train", number) for number in range(40)]
    assert len({task.prompt for task in tasks}) == 40
    assert [task.id.split("/")[2] for task in tasks[:4]] == ["2", "3", "2", "3"]
    assert all(source.find(task.id) == task for task in tasks)
    assert SlideSource(levels=(2,), seed=1).open().task("train", 0).prompt != tasks[0].prompt
    shapes = {(brief.background != "", len(brief.facts), len(brief.table)) for brief in map(brief_of, tasks)}
    assert shapes == {(False, 4, 3), (True, 5, 5)}
    for name in ("slides/train/1", "slides/train/4/0", "slides-1/train/1/0", "shop/train/0"):
        with pytest.raises(UnknownName):
            source.find(name)
    with pytest.raises(UnknownName):
        source.size("test")


def test_no_subject_name_or_place_is_in_both_splits():
    for parts in (NAMES, PLACES):
        assert not set(parts["train"]) & set(parts["heldout"])
    said = [
        {text for one in SUBJECTS[split] for text in (one.title, *one.facts, *one.rows, *one.heads)}
        for split in ("train", "heldout")
    ]
    assert not said[0] & said[1]


def test_the_colours_that_are_asked_for_can_be_read():
    def light(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for ground, title in GROUNDS:
        dark, bright = sorted((light(ground), light(title)))
        assert (bright + 0.05) / (dark + 0.05) >= 5


# --- an episode -------------------------------------------------------------------------------------------------------


@pytest.mark.component
@pytest.mark.parametrize(
    ("split", "number"), [("train", 0), ("train", 1), ("train", 2), ("heldout", 4), ("heldout", 5)]
)
def test_the_oracle_makes_a_slide_of_each_level_without_a_fault(web, split, number):
    task = web.tasks.task(split, number)
    seen, _ = web.reset(options={"task": task})
    assert brief_of(task).title in seen.text
    write, done = web.oracle(task)
    seen, *_, info = web.step(write)
    assert seen.text.startswith("layout: no faults\npage: http://slide.test/\nheading ")
    assert facts_of(info)["slide_content"] == 1.0
    assert web.step(done)[-1]["score"].total == pytest.approx(1.5)


@pytest.mark.component
def test_a_revision_repairs_what_the_agent_is_told(web):
    task = web.tasks.task("train", 1)
    write = web.oracle(task)[0]
    web.reset(options={"task": task})
    assert [tool.name for tool in web.turn_spec.tools] == ["write", "answer"]
    bad = write.replace("</style>", "h1 {width: 20px; white-space: nowrap} li {font-size: 13px; color: #999}</style>")
    seen, *_, info = web.step(bad)
    facts = facts_of(info)
    for said in ("px larger than the slide or its box", "the smallest text has 13 px", "the lowest contrast is 2."):
        assert said in seen.text
    assert facts["slide_overflow_px"] > 100
    assert facts["slide_smallest_px"] == 13
    assert facts["slide_layout"] == 0.5
    first = seen.state_key
    seen, *_, info = web.step(write)
    assert seen.state_key != first
    score = web.step("answer done")[-1]["score"]
    assert (score.outcome, score.total) == (1.0, pytest.approx(1.5))


@pytest.mark.component
def test_parts_of_a_slide_are_paid_by_the_text_that_is_there(web):
    task = web.tasks.task("train", 1)
    brief = brief_of(task)
    web.reset(options={"task": task})
    points = "".join(f"<li>{fact}</li>" for fact in brief.facts)
    facts = facts_of(web.step(f"write <h1>{brief.title}</h1><ul>{points}</ul>")[-1])
    assert facts["slide_content"] == pytest.approx(5 / 8, abs=1e-4)  # the table has three rows
    score = web.step("answer done")[-1]["score"]
    assert (score.outcome, score.total) == (0.0, pytest.approx(0.3 * 5 / 8, abs=1e-4))  # layout waits for the texts


@pytest.mark.component
def test_an_episode_without_a_slide_measures_nothing_and_pays_nothing(web):
    web.reset(options={"task": web.tasks.task("train", 0)})
    info = web.step("answer done")[-1]
    assert not {name for name in facts_of(info) if name.startswith("slide_")}
    assert info["score"].total == 0.0


@pytest.mark.component
@pytest.mark.parametrize(
    ("colour", "ground", "ratio"),
    [
        ("#000000", "#ffffff", 21.0),
        ("#767676", "#ffffff", 4.54),
        ("#ff0000", "#ffffff", 4.0),
        ("#777777", "#000000", 4.69),
    ],
)
def test_contrast_is_that_of_wcag(web, colour, ground, ratio):
    web.reset(options={"task": web.tasks.task("train", 0)})
    style = f"margin:0;background:{ground};color:{colour};font:bold 20px sans-serif"
    facts = facts_of(web.step(f'write <body style="{style}">HHH ILL</body>')[-1])
    assert facts["slide_contrast"] == pytest.approx(ratio, abs=0.05)


@pytest.mark.component
def test_colours_and_sizes_that_are_asked_for_are_looked_at(web):
    task = web.tasks.task("train", 2)
    brief = brief_of(task)
    write = web.oracle(task)[0]
    for have, met in (
        (write.replace(f"background:{brief.background}", "background:#334455"), 2 / 3),
        (write.replace(f"color:{brief.title_colour}", "color:#ff00ff"), 2 / 3),
        (write.replace("font-size:36px", "font-size:20px"), 2 / 3),
        (write, 1.0),
    ):
        web.reset(options={"task": task})
        assert facts_of(web.step(have)[-1])["slide_wishes"] == pytest.approx(met, abs=1e-3)


# --- rules ------------------------------------------------------------------------------------------------------------


def test_the_rubric_is_found_by_name_and_contradicts_nothing():
    assert find_rubric("slides") == SLIDES_RUBRIC
    SLIDES_RUBRIC.check()


@pytest.mark.parametrize("setting", [{"pointing": "both"}, {"candidates": 3}])
def test_settings_without_effect_are_refused(setting):
    with pytest.raises(ConfigError, match="no effect"):
        turngate.make("turngate/Web-v1", tasks=SLIDES, **setting)


def test_the_tool_is_there_only_where_pages_are_written():
    with turngate.make("turngate/Web-v1") as env:
        assert "write" not in {one.name for one in env.turn_spec.tools}
        assert "slide_content" not in env.turn_spec.evidence


def test_hints_say_more_and_more(web):
    task = web.tasks.task("train", 1)
    hints = [web.hint(task, level) for level in (1, 2, 3)]
    assert all(more.startswith(less) for less, more in itertools.pairwise(hints))
    assert web.hint(task, 4) is None
    assert brief_of(task).title not in hints[-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sales ROSE by 12%.", ["sales", "rose", "by", "12", "%"]),
        ("4,520 – don't", ["4,520", "don't"]),
        ("• Olive & Sons", ["olive", "sons"]),
        ("−3", ["−", "3"]),
    ],
)
def test_tokens_leave_marks_out_and_keep_numbers_whole(text, expected):
    assert tokens(text) == expected


def test_the_overlap_of_words_is_that_of_counted_pixels():
    draw = random.Random(3)

    def word(*rects):
        return Word(text="a", size=10, odd=False, rects=rects, ink=0.2, contrast=9.0, colour=(0, 0, 0))

    def cells(rect):
        x, y, width, height = rect
        return {(a, b) for a in range(x, x + width) for b in range(y + height // 5, y + height - height // 5)}

    for _ in range(50):
        words = [
            word(*((draw.randrange(60), draw.randrange(60), draw.randrange(5, 40), 5 * draw.randrange(2, 6))
                   for _ in range(draw.randrange(0, 3))))
            for _ in range(4)
        ]  # fmt: skip
        for at, one in enumerate(words):
            shares = [
                len(cells(a) & cells(b)) / min(len(cells(a)), len(cells(b)))
                for other in words if other is not one for a in one.rects for b in other.rects
            ]  # fmt: skip
            assert overlap_of(words)[at] == pytest.approx(max(shares, default=0.0))
