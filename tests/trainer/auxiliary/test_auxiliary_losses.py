"""Auxiliary losses by themselves: worked numbers of the sheets (capabilities 5, A13, B10, B11), and the gradients that
add up."""

import asyncio
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import models
from tests.helpers.rounding import GRADIENT, assert_alike
from tests.trainer.loss.flat import gradient, part, tokens
from turngate.envs.lock import LockEnv
from turngate.judges.asking import JudgePart
from turngate.judges.asking.text_model import Reply, TextModel
from turngate.judges.texts import Fault, FaultKind, JudgeId
from turngate.tools.read import parse
from turngate.trainer.auxiliary.base import AuxiliaryContext, AuxiliaryRow, AuxiliaryRows
from turngate.trainer.auxiliary.episode_pairs import EpisodePairs
from turngate.trainer.auxiliary.interventions import Interventions, corrected, first_failed
from turngate.trainer.auxiliary.kdrl import Kdrl
from turngate.trainer.auxiliary.learning import TowardsTeacher, add_beside, learn_apart, packed_auxiliary, towards_text
from turngate.trainer.auxiliary.pairing import crossed
from turngate.trainer.auxiliary.preference import Preference
from turngate.trainer.auxiliary.relift import Relift
from turngate.trainer.auxiliary.thoughts import Gtr, read_correction, thought_turns
from turngate.trainer.batch.pack import pack
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.loss.tokens import gather
from turngate.types import Guidance, Source


def test_policy_loss_and_cross_entropy_of_the_sheet():
    """A [.5, −.5, .5] at ratio 1: −.166667. Log-probabilities −1 and −3, λ .1: +.2. Together .033333."""
    policy = tokens([-1.0] * 3, sampled=[-1.0] * 3, advantage=[0.5, -0.5, 0.5], weight=[1 / 3] * 3)
    imitated = tokens([-1.0, -3.0], weight=[0, 0], ce=[0.1 / 2] * 2)
    losses = PolicyLoss()(policy)[0].item(), towards_text(imitated)[0].item()
    assert losses == (pytest.approx(-1 / 6), pytest.approx(0.2))
    assert sum(losses) == pytest.approx(1 / 30)


def test_a_lessons_three_tokens():
    """MEL: log-probabilities −1, −2, −3: 2 nats per token, times .1."""
    assert towards_text(tokens([-1.0, -2.0, -3.0], ce=[0.1 / 3] * 3))[0].item() == pytest.approx(0.2)


def test_a_teachers_pull_of_the_sheet():
    """KDRL: log π −1, log π_T −2: ½, and the gradient pushes down with 1."""
    made = tokens([-1.0], ce=[1.0], reference_logprob=[-2.0])
    assert TowardsTeacher()(made)[0].item() == pytest.approx(0.5)
    np.testing.assert_allclose(gradient(TowardsTeacher(), made), [1.0])
    assert TowardsTeacher().needs.reference


def test_the_weight_of_a_teacher_falls_along_a_line():
    part = Kdrl(teacher="start", anneal_steps=4)
    assert [part.weight_at(step) for step in (1, 3, 5, 99)] == pytest.approx([5e-3, 3e-3, 1e-3, 1e-3])


# --- rows -------------------------------------------------------------------------------------------------------------


PLAYER = models.player(models.local())


def read(task, text):
    return parse(text, LockEnv.turn_spec.tools)


def means(play, solutions=lambda task: [["press a"]]):
    class Helps:
        def hint(self, task, level):
            return None

        def hint_levels(self, task):
            return 0

        def solutions(self, task):
            return solutions(task)

    return AuxiliaryContext(helpers=Helps(), play=play, teacher=lambda name: None, read=read, player=PLAYER, seed=0)


def episode(texts, *, task="task", name="t", keys=None):
    chat, turns = models.chat(), []
    for number, text in enumerate(texts):
        context = chat.opening("red") if not number else chat.follow_up("clunk red", models.EndedBy.STOP)
        turn = models.turn(context, chat.encode_turn(text))
        key = keys[number] if keys else f"s{number}"
        said = replace(turn.completion, text=text)
        turns.append(
            replace(
                turn,
                completion=said,
                observation=replace(turn.observation, state_key=key),
                action=replace(turn.action, text=text),
            )
        )
    return models.trajectory(turns, task=task, name=name)


async def solved(tasks, entries, *, seed):
    """Plays every entry to a success, as it says."""
    return [
        models.scored([episode(one.turns, task=task.id) for one in own], [1.0] * len(own))
        for task, own in zip(tasks, entries, strict=True)
    ]


def failed_step(step, n):
    return [models.scored([episode(["press b"], task=f"{step}/{number}")], [0.0]) for number in range(n)]


def test_thirty_failures_a_step_are_imitated_after_step_five():
    """ReLIFT: 150 are waiting after step 5, 128 of them are imitated, 22 stay. They are in the state."""
    source = Relift(at_least=128).open(means(solved))
    found = [asyncio.run(source.rows(failed_step(step, 30), step)) for step in range(1, 6)]
    assert found[:4] == [None] * 4
    assert len(found[4].rows) == 128
    assert found[4].lr_factor == 1
    assert source.metrics() == {"waiting": 22}
    other = Relift(at_least=22).open(means(solved))
    other.load(source.state())
    rows = asyncio.run(other.rows([], 6)).rows
    assert len(rows) == 22
    said = models.chat().decode(rows[0].ids[rows[0].trained])
    assert said == "press a"


def test_a_task_waits_once_and_a_solved_one_never():
    source = Relift(at_least=9).open(means(solved))
    for _ in range(2):
        asyncio.run(source.rows(failed_step(1, 3), 1))
    won = models.scored([episode(["press a"], task="won"), episode(["press b"], task="won")], [1.0, 0.0])
    asyncio.run(source.rows([won], 2))
    assert source.metrics() == {"waiting": 3}


OWN = ["press a", "press b", "press c", "press d", "press d"]
RIGHT = ["press a", "press b", "press a", "press b", "press c"]


def test_the_first_error_is_found_against_the_solution_that_agrees_longest():
    """InT: turns [ok, ok, bad, x, x]: t* = 2, so turns 0, 1 and the corrected 2 are trained."""
    failed = models.scored([episode(OWN)], [0.0])
    solutions = [["press d", *RIGHT[1:]], RIGHT]
    shown = models.scored([episode(one, name=str(n)) for n, one in enumerate(solutions)], [1.0, 1.0])
    found = corrected(first_failed(failed), shown, solutions)
    assert (found.at, found.text) == (2, "press a")
    assert corrected(episode(RIGHT), shown, solutions) is None  # no error
    wrong = models.scored(shown.trajectories, [1.0, 0.0])
    assert corrected(first_failed(failed), wrong, solutions).at == 0  # only the other solution was right


@pytest.mark.parametrize(("prefix", "trained"), [(True, [0, 1, 2]), (False, [2])])
def test_a_row_is_the_prefix_and_the_correction_and_nothing_after(prefix, trained):
    failed, chat = episode(OWN), models.chat()
    source = Interventions(checks=0, train_prefix=prefix).open(means(solved, lambda task: [RIGHT]))
    found = asyncio.run(source.rows([models.scored([failed], [0.0])], 1))
    (row,) = found.rows
    spoken = [chat.encode_turn(text) for text in RIGHT[:3]]
    expected = np.concatenate(
        [part for turn, said in zip(failed.turns, spoken, strict=False) for part in (turn.context_ids, said)]
    )
    assert row.ids.tolist() == expected.tolist()
    assert chat.decode(row.ids[row.trained]).split("<|end|>") == [RIGHT[turn] for turn in trained]
    assert found.weight == 0.1


@pytest.mark.parametrize(("with_it", "without", "kept"), [(3, 0, 1), (1, 1, 0), (0, 2, 0)])
def test_a_correction_stays_only_if_it_helps(with_it, without, kept):
    """InT: 3 of 4 succeed after the correction and none after the error: it is kept."""
    calls = []

    async def play(tasks, entries, *, seed):
        calls.append(entries)
        if len(calls) == 1:
            return await solved(tasks, entries, seed=seed)
        won = [1.0] * with_it + [0.0] * (4 - with_it) + [1.0] * without + [0.0] * (4 - without)
        return [models.scored([episode(RIGHT, name=str(n)) for n in range(8)], won)]

    source = Interventions().open(means(play, lambda task: [RIGHT]))
    found = asyncio.run(source.rows([models.scored([episode(OWN)], [0.0])], 1))
    assert len(found.rows) == kept
    assert [one.turns for one in calls[1][0]] == [tuple(RIGHT[:3])] * 4 + [tuple(OWN[:3])] * 4
    assert source.metrics() == {"found": 1, "helped": kept}


def test_a_correction_that_tells_too_much_is_dropped_and_help_is_nobodys_error():
    long = [*RIGHT[:2], " ".join(["press a"] * 9)]
    source = Interventions(checks=0).open(means(solved, lambda task: [long]))
    assert not asyncio.run(source.rows([models.scored([episode(OWN)], [0.0])], 1)).rows
    helped = replace(episode(OWN), guidance=Guidance(kind="hint", level=1, text="a", source="env"))
    assert first_failed(models.scored([helped], [0.0])) is None


# --- thoughts ---------------------------------------------------------------------------------------------------------


CUT = "(cut off) "


class Corrector(JudgePart):
    """Answers as it is told."""

    type: Literal["told"] = "told"
    replies: tuple[str, ...] = ()

    def text_model(self, player):
        return _Told(self.replies)


class _Told(TextModel):
    judge = JudgeId(name="told", version="0")
    concurrency = 1

    def __init__(self, replies):
        self.replies = iter(replies)

    async def complete(self, prompt):
        assert "blue" in prompt.text
        text = next(self.replies, "")
        if not text:
            return Reply(fault=Fault(kind=FaultKind.UNAVAILABLE, detail="gone"), again=False)
        return Reply(text=text, cut_off=text.startswith(CUT))


CALL = '<tool_call>\n{"name": "press", "arguments": {"key": "a"}}\n</tool_call>'


def thinking(thoughts):
    made = episode([f"{thought}\n{CALL}" for thought in thoughts])
    turns = [replace(turn, action=read(None, turn.completion.text)) for turn in made.turns]
    assert [turn.action.thought for turn in turns] == list(thoughts)
    return replace(made, turns=tuple(turns))


@pytest.mark.parametrize(
    ("reply", "rows", "counted"),
    [
        ('{"right": true}', 0, "right"),
        ('So: {"right": false, "thought": "It is red."}', 1, ""),
        ('{"right": false, "thought": "<tool_call>{}"}', 0, "other_action"),
        ("hm", 0, "faults"),
        ('It wrote {"right": true}, so {"right": false, "thought": "It is red."}', 0, "faults"),
        ("", 0, "faults"),
        (CUT + '{"right": false, "thought": "It is red."}', 0, "faults"),
    ],
)
def test_a_wrong_thought_is_replaced_before_the_same_action(reply, rows, counted):
    failed, chat = thinking(["It is blue.", "Still blue."]), models.chat()
    part = Gtr(corrector=Corrector(replies=[reply] * 2, attempts=1), turns=1)
    source = part.open(means(solved))
    found = asyncio.run(source.rows([models.scored([failed], [0.0])], 1))
    assert len(found.rows) == rows
    assert source.metrics() == {name: float(name in ("asked", counted)) for name in source.metrics()}
    for row in found.rows:
        assert chat.decode(row.ids[row.trained]).strip() == "It is red."
        assert chat.decode(row.ids).endswith(f"It is red.\n{CALL}")
        assert row.ids[: len(failed.turns[0].context_ids)].tolist() == failed.turns[0].context_ids.tolist()


def test_what_a_corrector_is_shown_cannot_hold_a_reply():
    """One that repeats what the agent wrote has said nothing."""
    thought = f'{"It is blue. " * 50}{{"right": true}}'
    (asked,) = thought_turns([models.scored([thinking([thought])], [0.0])])
    shown = next(line for line in asked.prompt(4000).splitlines() if line.startswith("It is blue."))
    assert "{" not in shown
    assert read_correction(shown) is None
    assert len(asked.prompt(20)) < len(asked.prompt(4000))


def test_only_thoughts_before_calls_of_unaided_episodes_are_asked_about():
    helped = replace(thinking(["a"]), guidance=Guidance(kind="hint", level=1, text="a", source="env"))
    assert len(thought_turns([models.scored([helped, thinking(["b", "c"]), episode(["press a"])])])) == 2


# --- updates ----------------------------------------------------------------------------------------------------------


def some_rows(n, *, seed=0, teacher=False):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        ids = rng.integers(300, size=rng.integers(3, 9)).astype(np.int32)
        trained = rng.random(len(ids)) < 0.5
        trained[:2] = [False, True]
        rows.append(
            AuxiliaryRow(
                ids=ids, trained=trained, teacher=-rng.random(len(ids)).astype(np.float32) if teacher else None
            )
        )
    return rows


def gradients(learner):
    return np.concatenate([weight.grad.numpy().ravel() for weight in learner.model.parameters()])


def test_the_loss_is_a_mean_over_own_tokens_and_norms_are_those_of_each_gradient():
    rows = AuxiliaryRows(rows=some_rows(3), weight=0.1)
    auxiliary = packed_auxiliary("shown", rows)
    learner = models.learner()
    batch = pack([models.scored(models.random_trajectories(np.random.default_rng(1)))], np.ones(_n(), np.float32))
    alone = models.learner()
    alone.forward_backward(batch, PolicyLoss())
    policy = gradients(alone)
    learner.forward_backward(batch, PolicyLoss())
    metrics = add_beside(learner, [auxiliary], minibatch=0, of=1)
    nats = [-models.naive_logprobs(learner.model, row.ids)[row.trained] for row in rows.rows]
    assert metrics["auxiliary/shown_loss"] == pytest.approx(0.1 * np.concatenate(nats).mean(), rel=GRADIENT)
    assert metrics["learner/policy_grad_norm"] == pytest.approx(np.linalg.norm(policy), rel=GRADIENT)
    own = models.learner()
    own.forward_backward(auxiliary.batch, towards_text)
    assert metrics["auxiliary/shown_grad_norm"] == pytest.approx(np.linalg.norm(gradients(own)), rel=GRADIENT)
    total = learner.optim_step()["learner/grad_norm"]
    assert total == pytest.approx(np.linalg.norm(policy + gradients(own)), rel=GRADIENT)


def _n():
    return sum(len(one.turns) for one in models.random_trajectories(np.random.default_rng(1)))


@pytest.mark.parametrize("minibatches", [2, 4])
def test_minibatches_average_to_the_whole_aside(minibatches):
    auxiliary = packed_auxiliary("shown", AuxiliaryRows(rows=some_rows(4)))
    whole, parts = models.learner(), models.learner()
    add_beside(whole, [auxiliary], minibatch=0, of=1)
    for place in range(minibatches):
        add_beside(parts, [auxiliary], minibatch=place, of=minibatches)
    for learner in (whole, parts):
        learner._release()
    assert_alike(gradients(parts) / minibatches, gradients(whole), GRADIENT)


def test_an_aside_of_its_own_update_takes_its_own_learning_rate():
    beside = packed_auxiliary("shown", AuxiliaryRows(rows=some_rows(2)))
    apart = packed_auxiliary("relift", AuxiliaryRows(rows=some_rows(2, seed=1), lr_factor=0.5))
    learner = models.learner(lr=1e-3)
    assert add_beside(learner, [apart], minibatch=0, of=1) == {}
    before = {name: weight.clone() for name, weight in learner.weights().items()}
    metrics = learn_apart(learner, [apart], alone=False)
    assert set(metrics) == {"auxiliary/relift_loss", "auxiliary/relift_grad_norm"}
    assert learner._optimizer.param_groups[0]["lr"] == pytest.approx(5e-4)
    assert any(not torch.equal(before[name], weight) for name, weight in learner.weights().items())
    metrics = learn_apart(learner, [beside, apart], alone=True)
    assert {"auxiliary/shown_loss", "learner/grad_norm", "auxiliary/relift_loss"} <= set(metrics)


def test_a_teacher_is_approached():
    rows = some_rows(2, teacher=True)
    auxiliary = packed_auxiliary("kdrl", AuxiliaryRows(rows=rows))
    learner, losses = models.learner(lr=1e-2), []
    for _ in range(10):
        losses.append(add_beside(learner, [auxiliary], minibatch=0, of=1)["auxiliary/kdrl_loss"])
        learner.optim_step()
    logprobs = np.concatenate([models.naive_logprobs(models.model(), row.ids)[row.trained] for row in rows])
    teachers = np.concatenate([row.teacher[row.trained] for row in rows])
    assert losses[0] == pytest.approx(0.5 * np.mean((logprobs - teachers) ** 2), rel=1e-4)
    assert losses[-1] < losses[0]


# --- pairs ------------------------------------------------------------------------------------------------------------


def two_sides(preferred, rejected, *, ce=1.0):
    """One token each, whose log-ratios to the reference are given."""
    return tokens(
        [-1 + preferred, -1 + rejected],
        weight=[0, 0],
        ce=[ce, ce],
        segment=[0, 1],
        reference_logprob=[-1.0, -1.0],
    )


def test_a_preference_of_the_sheet():
    """Agent-RLVR: D ½ and −½, β .1: .644397, and the gradient has the weight σ(−.1) = .475021."""
    loss, made = Preference(beta=0.1), two_sides(0.5, -0.5)
    value, told = loss(made)
    assert value.item() == pytest.approx(0.644397, abs=1e-6)
    np.testing.assert_allclose(gradient(loss, made), [-0.0475021, 0.0475021], atol=1e-7)
    assert told == pytest.approx(
        {
            "margin": 0.1,
            "preferred_share": 1.0,
            "winner_logprob": -0.5,
            "loser_logprob": -1.5,
            "winner_gain": 0.5,
            "loser_gain": -0.5,
        }
    )
    assert loss.needs.reference
    assert loss.needs.survey


def test_scores_decay_as_mucode_has_it():
    """muCode of the sheet: s = 1.2 and .4: −log σ(.8) = .371101, and 1e-3 times the mean of s²."""
    value, _ = Preference(beta=1.0, score_decay=1e-3)(two_sides(1.2, 0.4))
    assert value.item() == pytest.approx(0.371101 + 0.0008, abs=1e-6)
    other, _ = Preference(beta=0.5, score_decay=1e-3)(two_sides(2.4, 0.8))  # the same scores
    assert other.item() == pytest.approx(value.item())


def test_a_preference_may_imitate_too_and_pairs_are_averaged():
    """Two preferred tokens, log-probabilities −.5 and −1.5: 1 nat per token, times ½, times the weight."""
    made = tokens(
        [-0.5, -1.5, -1.0],
        weight=[0] * 3,
        ce=[0.25] * 3,
        segment=[0, 0, 1],
        reference_logprob=[-0.5, -1.5, -1.0],
    )
    assert Preference(beta=0.1, imitated=0.5)(made)[0].item() == pytest.approx(0.25 * (np.log(2) + 0.5))


@given(st.integers(0, 10**6), st.integers(1, 4), st.floats(0.01, 2), st.floats(0, 1), st.floats(0, 1))
def test_a_preference_is_what_autograd_makes_of_its_formula(seed, n_pairs, beta, imitated, decay):
    """Value and gradient are those of the formula itself, and passes add up to them, however they are cut."""
    rng = np.random.default_rng(seed)
    segment = np.repeat(np.arange(2 * n_pairs), rng.integers(1, 4, size=2 * n_pairs))
    n = len(segment)
    weight = np.where(rng.random(n) < 0.2, 0.0, 0.5 / n_pairs)
    for own in range(2 * n_pairs):
        weight[np.flatnonzero(segment == own)[0]] = 0.5 / n_pairs
    made = tokens(
        -rng.random(n) * 3,
        weight=[0] * n,
        ce=weight,
        segment=segment,
        reference_logprob=-rng.random(n) * 3,
    )

    def formula(whole):
        total = 0.0
        for pair in range(n_pairs):
            sides = [(whole.segment == own) & (whole.ce_weight != 0) for own in (2 * pair, 2 * pair + 1)]
            gains = [(whole.logprob - whole.reference_logprob)[side].sum() for side in sides]
            text = whole.logprob[sides[0]].mean()
            value = -torch.nn.functional.logsigmoid(beta * (gains[0] - gains[1])) - imitated * text
            value = value + decay * ((beta * gains[0]) ** 2 + (beta * gains[1]) ** 2) / 2
            total = total + 0.5 / n_pairs * value
        return total, {}

    loss = Preference(beta=beta, imitated=imitated, score_decay=decay)
    assert loss(made)[0].item() == pytest.approx(formula(made)[0].item(), rel=1e-9)
    np.testing.assert_allclose(gradient(loss, made), gradient(formula, made), atol=1e-10)
    fixed, _ = loss.survey(gather([made]), {})
    cut = [np.flatnonzero(segment == own) for own in rng.permutation(2 * n_pairs)]
    passes = [part(made, at) for at in cut]
    assert sum(fixed(one)[0].item() for one in passes) == pytest.approx(loss(made)[0].item())
    for at, one in zip(cut, passes, strict=True):
        np.testing.assert_allclose(gradient(fixed, one), gradient(loss, made)[at], atol=1e-10)


HINT = Guidance(kind="hint", level=1, text="a", source="env")


def with_hint(made, *, strip=False):
    """The episode as it was sampled with two more tokens in its first context."""
    first = made.turns[0]
    ids = np.concatenate([first.context_ids, [7, 8]]).astype(np.int32)
    source = np.insert(first.source, len(first.context_ids), [Source.GUIDE] * 2)
    turns = (replace(first, context_ids=ids, source=source), *made.turns[1:])
    return replace(made, turns=turns, guidance=replace(HINT, strip_for_train=strip))


def paired(groups, **settings):
    asked = []

    def teacher(name):
        def likelihoods(ids, own):
            asked.extend(zip(ids, own, strict=True))
            return [np.full(int(one.sum()), -1.0, np.float32) for one in own]

        return likelihoods

    source = EpisodePairs(**settings).open(replace(means(solved), teacher=teacher))
    return asyncio.run(source.rows(groups, 1)), source.metrics()


def written(row):
    return models.chat().decode(row.ids[row.trained]).replace("<|end|>", "")


def test_guided_successes_are_preferred_to_unguided_failures_under_the_bare_context():
    right, wrong = episode(["press a"]), episode(["press b"])
    group = models.scored([wrong, right, with_hint(right), with_hint(wrong), wrong], [0.0, 1.0, 1.0, 0.0, 0.0])
    found, counted = paired([group])
    assert [written(row) for row in found.rows] == ["press a", "press b"] * 2
    assert counted == {"pairs": 2, "other_beginning": 0}
    for row in found.rows:
        assert row.ids.tolist() in (right.ids().tolist(), wrong.ids().tolist())
        assert (row.teacher == np.where(row.trained, -1, 0)).all()
    assert found.contrast == Preference(beta=0.1)
    assert len(paired([group], winners="all")[0].rows) == 2 * 4
    assert len(paired([group], winners="all", most=3)[0].rows) == 2 * 3
    assert not paired([models.scored([wrong, right], [0.0, 1.0])])[0].rows


def test_pairs_that_do_not_begin_alike_are_left_out_and_counted():
    wrong = episode(["press b"])
    other = episode(["press a"])
    first = replace(other.turns[0], context_ids=other.turns[0].context_ids + 1)
    other = with_hint(replace(other, turns=(first, *other.turns[1:])))
    found, counted = paired([models.scored([wrong, other], [0.0, 1.0])])
    assert not found.rows
    assert counted == {"pairs": 0, "other_beginning": 1}


@given(st.integers(0, 5), st.integers(0, 5))
def test_every_success_meets_every_failure_once_and_all_are_used_evenly(n_wins, n_losses):
    found = list(crossed(range(n_wins), range(n_losses)))
    assert len(found) == len(set(found)) == n_wins * n_losses
    for most in range(len(found) + 1):
        for side, n in ((0, n_wins), (1, n_losses)):
            used = np.bincount([pair[side] for pair in found[:most]], minlength=n)
            assert not most or used.max() - used.min() <= 1


@pytest.mark.parametrize("minibatches", [2, 4])
def test_minibatches_keep_pairs_together_and_average_to_the_whole(minibatches):
    rows = some_rows(8, teacher=True)
    auxiliary = packed_auxiliary("pairs", AuxiliaryRows(rows=rows, contrast=Preference(beta=0.5), weight=2.0))
    whole, parts = models.learner(tokens_per_pass=8), models.learner()
    told = add_beside(whole, [auxiliary], minibatch=0, of=1)
    for place in range(minibatches):
        add_beside(parts, [auxiliary], minibatch=place, of=minibatches)
    for learner in (whole, parts):
        learner._release()
    assert_alike(gradients(parts) / minibatches, gradients(whole), GRADIENT)
    ratios = [(models.naive_logprobs(models.model(), row.ids) - row.teacher)[row.trained].sum() for row in rows]
    margins = 0.5 * np.subtract(ratios[::2], ratios[1::2])
    assert told["auxiliary/pairs_margin"] == pytest.approx(margins.mean(), rel=1e-4)
    assert told["auxiliary/pairs_preferred_share"] == pytest.approx((margins > 0).mean())
    assert told["auxiliary/pairs_loss"] == pytest.approx(2 * np.logaddexp(0, -margins).mean(), rel=1e-4)


def test_what_is_preferred_is_preferred_more_and_more():
    auxiliary = packed_auxiliary("pairs", AuxiliaryRows(rows=some_rows(4, teacher=True), contrast=Preference(beta=0.5)))
    learner, margins = models.learner(lr=1e-2), []
    for _ in range(5):
        margins.append(add_beside(learner, [auxiliary], minibatch=0, of=1)["auxiliary/pairs_margin"])
        learner.optim_step()
    assert margins == sorted(margins)
