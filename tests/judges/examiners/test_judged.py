"""Judges as examiners, behind a real server: from episodes to facts to scores. The numbers are the papers'."""

import asyncio
import re
import threading

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from tests.helpers.chat_server import serving_prompts
from tests.helpers.scripted_judge import NO, by_points, said, yes
from tests.judges.examiners.episodes import context, episode, examined, group, run, task, values
from turngate.judges.asking import JudgePart, OpenAITextModel, ServerJudge
from turngate.judges.examiners.base import Examiner
from turngate.judges.examiners.examining import Examining
from turngate.judges.examiners.pairwise import Pairwise
from turngate.judges.examiners.pointwise import Panel, Pointwise
from turngate.judges.examiners.steps import Steps
from turngate.judges.examiners.tournament import Tournament
from turngate.problems import one_line
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.store import Store
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.capo import flagged_rewards
from turngate.trainer.credit.ppr import renormed
from turngate.types import Evidence, Group

FAST = {"attempts": 2, "backoff_s": 0.0, "backoff_max_s": 0.0, "call_s": 10.0}
HONEST = [f"sibling {index} did this" for index in range(4)]


def judge(server, **settings):
    return ServerJudge(url=server.url, model="m", **{**FAST, **settings})


def rubric(name, **options):
    return Rubric(rewards=(FromEvidence(name=name, evidence=name, kind="outcome", **options),))


def paid(examined_group, name):
    return [score.total for score in rubric(name).score_group(examined_group).scores]


def z(rewards):
    return (np.array(rewards) - np.mean(rewards)) / np.std(rewards, ddof=1)


def place(text):
    """Which sibling wrote it; None for a canary."""
    found = re.search(r"sibling (\d)", text)
    return int(found[1]) if found else None


# --- pointwise -------------------------------------------------------------------------------------------------------


def likes(*places):
    def script(prompt, n):
        return yes(prompt) if place(said(prompt)[0]) in places else NO

    return script


def test_a_verdict_on_each_episode_becomes_its_outcome():
    with serving_prompts(likes(0, 2)) as server:
        (after,), metrics = examined([Pointwise(judge=judge(server))], [group(*HONEST)])
    assert values([after], "verdict") == [[[True], [False], [True], [False]]]
    assert paid(after, "verdict") == [1, 0, 1, 0]
    why = after.trajectories[0].evidence[-1]
    assert (why.name, why.value["judge"], why.value["quotes"][0]["text"]) == ("verdict_judge", "m", HONEST[0])
    assert (metrics["examine/verdict/judge_calls"], metrics["examine/verdict/judge_canaries"]) == (9, 5)
    assert metrics["examine/verdict/missing_share"] == 0


def test_a_score_instead_of_a_verdict():
    with serving_prompts(likes(0)) as server:
        (after,), _ = examined([Pointwise(judge=judge(server), use="score")], [group(*HONEST[:2])])
    assert values([after], "verdict") == [[[0.9], [0.1]]]


def test_several_criteria_are_one_number_and_one_fact_each():
    criteria = [
        {"name": "civil", "text": "It is civil.", "weight": 3},
        {"name": "short", "text": "It is short."},
        {"name": "rude", "text": "It is rude.", "weight": -2, "about_task": False},
    ]

    def script(prompt, n):
        at = place(said(prompt)[0])
        met = {"civil": (0, 1), "short": (0, 2), "rude": (1,)}
        name = re.search(r"Criterion '(\w+)'", prompt)[1]
        return yes(prompt) if name in met and at in met[name] else NO

    with serving_prompts(script) as server:
        examiner = Pointwise(name="good", judge=judge(server), criterion=criteria)
        (after,), _ = examined([examiner], [group(*HONEST[:3])])
    assert values([after], "good") == [[[1.0], [0.25], [0.25]]]
    assert values([after], "good_rude") == [[[False], [True], [False]]]
    assert {fact.name for fact in after.trajectories[0].evidence} == {"answer", *examiner.writes}


def test_an_episode_without_an_answer_is_a_no_without_asking():
    with serving_prompts(likes(0, 1)) as server:
        silent = Group(task=task(), trajectories=(episode(HONEST[0]), episode(HONEST[1], name="t#1", answer=None)))
        (after,), _ = examined([Pointwise(judge=judge(server))], [silent])
        assert values([after], "verdict") == [[[True], [False]]]
        assert after.trajectories[1].evidence[-1].value["rule"] == "no_answer"
        assert not any(HONEST[1] in prompt for prompt in server.seen)


def test_an_environment_that_records_no_answers_is_not_an_agent_that_gives_none(caplog):
    with serving_prompts(likes(0)) as server:
        (after,), metrics = examined([Pointwise(judge=judge(server))], [group(HONEST[0], answer=...)])
    assert values([after], "verdict") == [[[None]]]
    assert metrics["examine/verdict/failed"] == 1
    assert "(test/Env-v1) records no answers" in caplog.text


def test_the_reference_is_shown_and_must_exist():
    with serving_prompts(likes(0)) as server:
        examiner = Pointwise(judge=judge(server), reference="gold")
        examined([examiner], [group(HONEST[0], private={"gold": "the gold of it"})])
        assert all("the gold of it" in prompt for prompt in server.seen)
        (after,), _ = examined([examiner], [group(HONEST[0], private={"silver": 1})])
    assert values([after], "verdict") == [[[None]]]


def test_a_panel_says_yes_only_together():
    with serving_prompts(likes(0, 1)) as one, serving_prompts(likes(1, 2)) as two:
        panel = Panel(judges=(judge(one), ServerJudge(url=two.url, model="n", **FAST)), name="safe")
        (after,), _ = examined([panel], [group(*HONEST[:3])])
    assert values([after], "safe") == [[[False], [True], [False]]]
    assert [said["judge"] for said in after.trajectories[0].evidence[-1].value] == ["m", "n"]


# --- pairwise and tournament -----------------------------------------------------------------------------------------

WON = [[0.5, 1, 1, 1], [0, 0.5, 1, 0.5], [0, 0, 0.5, 1], [0, 0.5, 0, 0.5]]


def by_table(prompt, n):
    """Wins as in ``WON``; whoever is no sibling loses."""
    texts = said(prompt)
    first, second = map(place, texts)
    share = (first is not None) if None in (first, second) else WON[first][second]
    a, b = (9, 2) if share == 1 else (2, 9) if share == 0 else (5, 5)
    quote = [{"answer": "AB"[b > a], "turn": 0, "quote": texts[b > a]}] if a != b else []
    return {"evidence": quote, "a": a, "b": b}


def test_win_rates_of_the_worked_example():
    with serving_prompts(by_table) as server:
        (after,), metrics = examined([Pairwise(judge=judge(server))], [group(*HONEST)])
    rates = paid(after, "win_rate")
    assert rates == pytest.approx([1, 0.5, 1 / 3, 1 / 6])
    np.testing.assert_allclose(z(rates), [1.388730, 0, -0.462910, -0.925820], atol=1e-6)
    assert metrics["examine/win_rate/judge_calls"] == 2 * 6 + 2 * 5


def test_a_match_without_verdict_lifts_nobody():
    def script(prompt, n):
        places = set(map(place, said(prompt)))
        return "no idea" if places == {0, 2} else by_table(prompt, n)

    with serving_prompts(script) as server:
        (after,), _ = examined([Pairwise(judge=judge(server))], [group(*HONEST)])
    assert values([after], "win_rate") == [[[None], [0.5], [None], [pytest.approx(1 / 6)]]]
    usable = [score.usable for score in rubric("win_rate").score_group(after).scores]
    assert usable == [False, True, False, True]


def test_an_only_child_has_no_rate_and_no_standing():
    with serving_prompts(by_table) as server:
        some = [Pairwise(judge=judge(server)), Tournament(judge=judge(server))]
        (after,), _ = examined(some, [group(HONEST[0])])
    assert values([after], "win_rate") == [[[None]]]
    assert values([after], "standing") == [[[0.5]]]  # nobody to compare with: no advantage either


def test_a_tournament_of_the_worked_example():
    strength = [3, 9, 1, 6]

    def points(text):
        at = place(text)
        return 0 if at is None else strength[at]

    with serving_prompts(by_points(points)) as server:
        (after,), metrics = examined([Tournament(judge=judge(server))], [group(*HONEST)])
    standings = paid(after, "standing")
    assert standings == pytest.approx([1 / 3, 1, 0, 2 / 3])
    advantage = z(standings)[np.argsort(standings)[::-1]]
    np.testing.assert_allclose(advantage, [1.161895, 0.387298, -0.387298, -1.161895], atol=1e-6)
    assert metrics["examine/standing/judge_canaries"] == 5


@pytest.mark.parametrize(
    ("strength", "rewards"),
    [([9, 5, 5, 1], [1, 0.5, 0.5, 0]), ([5, 1, 9, 5], [0.5, 0, 1, 0.5]), ([5, 5, 5, 9], [1 / 3, 1 / 3, 1 / 3, 1])],
)
def test_siblings_that_a_judge_finds_equal_get_equal_rewards_wherever_they_stand(strength, rewards):
    def points(text):
        at = place(text)
        return 0 if at is None else strength[at]

    with serving_prompts(by_points(points)) as server:
        (after,), _ = examined([Tournament(judge=judge(server))], [group(*HONEST)])
    assert paid(after, "standing") == pytest.approx(rewards)


def test_a_tournament_of_the_bad_pays_nobody():
    def script(prompt, n):
        return NO if "one criterion." in prompt and "A and B" not in prompt else by_table(prompt, n)

    with serving_prompts(script) as server:
        examiner = Tournament(judge=judge(server), essential="It does anything at all.")
        (after,), _ = examined([examiner], [group(*HONEST)])
    assert paid(after, "standing") == [0, 0, 0, 0]


def test_groups_are_judged_beside_each_other_and_never_together():
    with serving_prompts(by_table) as server:
        groups = [group(*HONEST, name=name) for name in "abc"]
        after, _ = examined([Pairwise(judge=judge(server, canary_share=0))], groups)
    assert [paid(one, "win_rate") for one in after] == [pytest.approx([1, 0.5, 1 / 3, 1 / 6])] * 3


# --- steps -----------------------------------------------------------------------------------------------------------


def critics(*critiques):
    """The n-th critic calls the turns in ``critiques[n]`` wrong; every critic calls null work wrong."""

    def script(prompt, n):
        texts = said(prompt)
        real = place(texts[0]) is not None
        wrong = critiques[(n - 1) % len(critiques)] if real else range(len(texts))
        steps = [
            {"turn": turn, "verdict": "wrong", "quote": text} if turn in wrong else {"turn": turn, "verdict": "ok"}
            for turn, text in enumerate(texts)
        ]
        return {"steps": steps}

    return script


THREE = [[f"sibling 0 step {turn} of it" for turn in range(3)]]


def step_verdicts(script, turns=THREE, *, opened=True, **settings):
    """A table with the verdicts "step", as they come out of a rubric's ledger."""
    evidence = [Evidence(name="opened", value=opened)]
    with serving_prompts(script) as server:
        (after,), metrics = examined([Steps(judge=judge(server), **settings)], [group(*turns, evidence=evidence)])
    assert metrics["examine/step/failed"] == 0
    outcome = FromEvidence(name="opened", evidence="opened", kind="outcome")
    step = FromEvidence(name="step", evidence="step", per_turn=True, weight=0.2)
    return tabulate([Rubric(rewards=(outcome, step)).score_group(after)])


@pytest.mark.parametrize(
    ("mode", "right"), [("majority", [1, 0, 1]), ("intersection", [1, 0, 1]), ("average", [2 / 3, 0, 2 / 3])]
)
def test_capo_votes_of_three_critiques(mode, right):
    table = step_verdicts(critics({1}, {1, 2}, {0, 1}), mode=mode)
    np.testing.assert_allclose(table.process_N, right, atol=1e-6)


@pytest.mark.parametrize(("opened", "rewards"), [(True, [2, 1, 2]), (False, [0, -1, 0])])
def test_capo_flags_a_wrong_step(opened, rewards):
    table = step_verdicts(critics({1}, {1, 2}, {0, 1}), opened=opened)
    np.testing.assert_allclose(flagged_rewards(table, table.outcome_B, 2.0, 1.0), rewards, atol=1e-6)


@pytest.mark.parametrize(("opened", "rewards"), [(True, [0.8, 0.2]), (False, [-0.2, -0.8])])
def test_ppr_is_paid_shares_of_critiques(opened, rewards):
    five = critics({1}, {1}, {1}, {1}, {0})
    table = step_verdicts(five, [THREE[0][:2]], opened=opened, votes=5, mode="average")
    np.testing.assert_allclose(renormed(table, table.outcome_B), rewards, atol=1e-6)


def known(table):
    """Verdicts by turn."""
    return {turn: value for turn, value in enumerate(table.process_N.tolist()) if not np.isnan(value)}


def test_neighbouring_turns_with_equal_verdicts_are_one_thought():
    six = [[f"sibling 0 step {turn} of it" for turn in range(6)]]
    script = critics({2, 3, 4})
    assert known(step_verdicts(script, six)) == {0: 1, 1: 1, 2: 0, 3: 0, 4: 0, 5: 1}
    merged = known(step_verdicts(script, six, thoughts_merged=True))
    assert merged == {1: 1, 4: 0, 5: 1}
    longer = [[f"sibling 0 step {turn} of it" for turn in range(8)]]
    stretched = known(step_verdicts(critics({2, 3, 4, 5, 6}), longer, thoughts_merged=True))
    assert list(stretched.values()) == list(merged.values())  # saying a thought in more turns changes nothing


def test_a_turn_on_which_nobody_says_anything_is_missing_and_no_part_of_a_thought():
    def silent(prompt, n):
        reply = critics(())(prompt, n)
        return {"steps": [one for one in reply["steps"] if one["turn"] != 1 or one["verdict"] == "wrong"]}

    with serving_prompts(silent) as server:
        (after,), _ = examined([Steps(judge=judge(server), thoughts_merged=True)], [group(*THREE)])
    facts = [(fact.turn, fact.value) for fact in after.trajectories[0].evidence if fact.name == "step"]
    assert facts == [(0, 1.0), (1, None), (2, 1.0)]


def test_an_episode_without_turns_has_no_steps_and_asks_nothing():
    with serving_prompts(critics(())) as server:
        (after,), metrics = examined([Steps(judge=judge(server))], [group([], answer=None)])
    assert values([after], "step") == [[[None]]]
    assert (metrics["examine/step/failed"], metrics["examine/step/judge_calls"]) == (0, 0)


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", [lambda prompt, n: 500, lambda prompt, n: 401, lambda prompt, n: "yes, sir"])
def test_a_server_that_is_of_no_use_makes_facts_missing(script):
    with serving_prompts(script) as server:
        part = judge(server)
        some = [Pointwise(judge=part), Pairwise(judge=part), Steps(judge=part), Tournament(judge=part)]
        (after,), metrics = examined(some, [group(*HONEST[:2])])
    for name in ("verdict", "win_rate", "step", "standing"):
        assert values([after], name) == [[[None], [None]]]
        assert metrics[f"examine/{name}/missing_share"] == 1


def test_a_judge_that_accepts_nothing_at_all_is_void():
    with serving_prompts(lambda prompt, n: yes(prompt) if said(prompt)[0] else NO) as server:
        (after,), metrics = examined([Pointwise(judge=judge(server))], [group(*HONEST[:2])])
    assert values([after], "verdict") == [[[None], [None]]]
    assert (metrics["examine/verdict/judge_void"], metrics["examine/verdict/failed"]) == (1, 0)


def test_verdicts_are_remembered_for_a_step_that_is_played_again(tmp_path):
    with serving_prompts(by_table) as server:
        path = tmp_path / "run" / "verdicts.sqlite"
        some = [Pairwise(judge=judge(server)), Tournament(judge=judge(server), criterion="Another question.")]
        first, asked = examined(some, [group(*HONEST)], verdicts=path)
        assert path.exists()
        again, nothing = examined(some, [group(*HONEST)], verdicts=path)
    assert again == first
    assert asked["examine/win_rate/judge_calls"] == 22
    assert asked["examine/standing/judge_calls"] == 18  # who met in the seeding is not asked about again
    assert nothing["examine/win_rate/judge_calls"] == nothing["examine/standing/judge_calls"] == 0


def test_one_server_is_opened_once_and_closed_whatever_happens(monkeypatch):
    opened, hold = [], threading.Event()
    enter = OpenAITextModel.__aenter__

    async def count(self):
        opened.append(self)
        return await enter(self)

    monkeypatch.setattr(OpenAITextModel, "__aenter__", count)

    async def go(server):
        before = asyncio.all_tasks()
        part = judge(server)
        some = [Pointwise(judge=part), Pairwise(judge=judge(server, max_tokens=9)), Tournament(judge=part)]
        async with Examining(some, context()) as examining:
            work = asyncio.ensure_future(examining.examined([group(*HONEST)], 1))
            while not server.open:
                await asyncio.sleep(0.01)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            assert len(opened) == 1
        assert opened[0]._server._client is None
        assert asyncio.all_tasks() == before
        hold.set()
        while server.open:  # every connection ends
            await asyncio.sleep(0.01)

    with serving_prompts(lambda prompt, n: hold.wait(30) and NO) as server:
        run(go(server))


def test_a_judge_that_does_not_open_leaves_none_open(monkeypatch):
    class Closed(OpenAITextModel):
        left = 0

        async def __aexit__(self, *error):
            Closed.left += 1
            await super().__aexit__(*error)

    with serving_prompts(by_table) as server:
        good, bad = judge(server), ServerJudge(url=server.url, model="bad", **FAST)
        monkeypatch.setattr(
            ServerJudge, "text_model", lambda self, player: Closed(self.url, self.model) if self == good else 1 / 0
        )

        async def go():
            async with Examining([Pairwise(judge=good), Pointwise(judge=bad)], context()):
                raise AssertionError("opened")

        with pytest.raises(ZeroDivisionError):
            run(go())
    assert Closed.left == 1


# --- as a config writes them -----------------------------------------------------------------------------------------


def test_examiners_are_read_from_tables_and_written_back():
    table = {
        "type": "tournament",
        "name": "rank",
        "judge": {"type": "server", "url": "http://localhost:1/v1", "model": "m", "attempts": 2},
        "essential": {"text": "It ran.", "name": "ran"},
        "criterion": "It is better.",
    }
    examiner = Examiner.load(table)
    assert isinstance(examiner, Tournament)
    assert (examiner.essential.criterion.name, examiner.criterion.criterion.text) == ("ran", "It is better.")
    assert (examiner.asks_policy, examiner.label, examiner.writes) == (False, "rank", ("rank", "rank_judge"))
    assert Examiner.load(TypeAdapter(Examiner).dump_python(examiner, mode="json")) == examiner
    assert Examiner.load({"type": "steps", "judge": "policy"}).asks_policy
    assert {"policy", "server", "model"} <= JudgePart.names()


SERVER = {"type": "server", "url": "http://localhost:1/v1", "model": "m"}


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({"type": "pointwise"}, "key 'judge' is missing"),
        ({"type": "pointwise", "judge": "polcy"}, "judge: unknown judge type 'polcy'; did you mean 'policy'"),
        ({"type": "pointwise", "judge": SERVER | {"mdl": 1}}, "unknown key 'judge.mdl'"),
        ({"type": "pointwise", "judge": SERVER | {"attempts": 0}}, "judge.attempts: Input should be greater than"),
        ({"type": "pointwise", "judge": SERVER | {"url": "localhost"}}, "judge: 'localhost' is not the address"),
        ({"type": "pointwise", "judge": SERVER, "criterion": {"txt": "x"}}, "unknown key 'criterion.txt'"),
        ({"type": "steps", "judge": SERVER, "votes": 0}, "votes: Input should be greater than or equal to 1"),
    ],
)
def test_a_mistake_is_one_line_with_its_key(table, line):
    kind = Examiner.find(table["type"])
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(table)
    assert line in one_line(caught.value, kind, table)


@pytest.mark.parametrize(
    "table",
    [
        {"type": "pointwise", "judge": SERVER, "criterion": [{"text": "a"}, {"text": "b"}]},
        {"type": "pointwise", "judge": SERVER, "criterion": [{"text": "a", "weight": -1}, {"text": "b", "weight": 0}]},
        {"type": "pointwise", "judge": SERVER, "use": "score", "criterion": ["a", {"text": "b", "name": "b"}]},
        {"type": "steps", "judge": SERVER, "mode": "average", "thoughts_merged": True},
        {"type": "panel", "judges": [SERVER, SERVER]},
        {"type": "panel", "judges": [SERVER]},
    ],
)
def test_settings_without_effect_are_refused(table):
    with pytest.raises(ValidationError):
        TypeAdapter(Examiner).validate_python(table)


def test_facts_are_recorded_so_scoring_again_needs_no_judge(tmp_path):
    opened = Evidence(name="opened", value=True)
    outcome = FromEvidence(name="win_rate", evidence="win_rate", kind="outcome")
    both = Rubric(rewards=(outcome, FromEvidence(name="step", evidence="step", per_turn=True, weight=0.1)))

    def script(prompt, n):
        return by_table(prompt, n) if "A and B" in prompt else critics({0}, {0}, ())(prompt, n)

    with serving_prompts(script) as server:
        some = [Pairwise(judge=judge(server)), Steps(judge=judge(server))]
        (after,), _ = examined(some, [group(*HONEST, evidence=[opened])])
    scored = both.score_group(after)
    Store(tmp_path).write(1, [scored])
    (back,) = Store(tmp_path).read()
    again = both.score_group(Group(task=back.task, trajectories=back.trajectories))
    assert [score.ledger for score in again.scores] == [score.ledger for score in scored.scores]
    assert [score.total for score in again.scores] == pytest.approx([1, 0.5, 1 / 3, 1 / 6])
    assert [one.evidence for one in back.trajectories] == [one.evidence for one in after.trajectories]
