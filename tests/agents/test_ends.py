"""Models end a turn with more than one token: found in template, tool format and model, kept as sampled, never
doubled."""

import asyncio
import copy
from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.helpers import models, templates
from turngate.agents import tiny
from turngate.agents.chat import Chat, ends_of
from turngate.agents.policies.base import Policy
from turngate.agents.policies.local import LocalPolicy
from turngate.agents.rollout import Episode, Player, TokenLimits
from turngate.envs.lock import LockEnv
from turngate.envs.pool.pool import EnvPool
from turngate.envs.sql.env import SqlEnv
from turngate.errors import ConfigError
from turngate.tools.read import parse, rewritten
from turngate.types import Completion, EndedBy, Ending, Source

ENDS = [
    (name, end) for name, family in templates.FAMILIES.items() for end in sorted(family.ends or frozenset({family.eos}))
]
SCHEMAS = [tool.schema for tool in SqlEnv.turn_spec.tools]


def chat_of(family):
    return Chat(templates.tokenizer(family))


def text_of(chat, ids):
    return chat.tokenizer.decode(np.asarray(ids).tolist(), clean_up_tokenization_spaces=False)


def id_of(chat, token):
    return chat.tokenizer.get_added_vocab()[token]


class Ended(Policy):
    """Writes the lines of a script, each ended with the same token."""

    def __init__(self, lines, chat, end):
        self.lines, self.chat, self.end, self.concurrency, self.requests = lines, chat, id_of(chat, end), 1, []

    async def complete(self, request):
        self.requests.append(request)
        ids = np.append(self.chat.open(self.chat.encode_turn(self.lines[request.turn])), np.int32(self.end))
        return Completion(
            ids_K=ids,
            logprobs_K=np.zeros(len(ids), np.float32),
            ended_by=EndedBy.STOP,
            policy_version=0,
            text=self.chat.decode(ids),
        )


def play(policy, chat, make_env, task, limits):
    async def go():
        async with EnvPool(make_env, size=1) as pool:
            return await Player(policy, chat, limits).play(pool, [Episode(id="e", task=task, seed=0)])

    (played,) = asyncio.run(asyncio.wait_for(go(), 60))
    return played


@pytest.mark.parametrize("family", templates.FAMILIES)
def test_template_and_notation_tell_what_ends_a_turn(family):
    chat, about = chat_of(family), templates.FAMILIES[family]
    assert {text_of(chat, [one]) for one in chat.ends} == (about.ends or {about.eos})


def test_a_message_that_ends_inside_of_a_turn_does_not_end_the_turn():
    chat = chat_of("harmony")
    assert id_of(chat, "<|end|>") not in chat.ends
    text = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>a<|end|>"
    assert chat.decode(chat.encode_turn(text)) == text


@pytest.mark.parametrize(("family", "end"), ENDS)
def test_the_end_that_was_sampled_is_stripped_and_only_at_the_end(family, end):
    chat = chat_of(family)
    ids = np.append(chat.plain("press a"), id_of(chat, end)).astype(np.int32)
    assert chat.is_ended(ids)
    assert chat.decode(ids) == "press a"
    assert chat.decode(ids[:-1]) == "press a"
    assert chat.decode(np.concatenate([ids, ids])) == f"press a{end}press a"
    np.testing.assert_array_equal(chat.open(ids), ids[:-1])
    np.testing.assert_array_equal(chat.open(ids[:-1]), ids[:-1])


@pytest.mark.parametrize(("family", "end"), ENDS)
def test_an_episode_goes_on_after_each_of_its_ends(family, end):
    """What the policy is asked next is what it saw and wrote, and then what the template puts after that turn."""
    chat, env = chat_of(family), SqlEnv()
    task = env.tasks.task("train", 0)
    lines = [rewritten(line, env.turn_spec.tools, chat.tool_format) for line in env.oracle(task)]
    assert len(lines) > 1
    policy = Ended(lines, chat, end)
    played = play(policy, chat, SqlEnv, task, TokenLimits(turn_tokens=500, context=50_000))
    assert played.ending is Ending.FINISHED
    assert [fact.value for fact in played.evidence if fact.name == "parsed"] == [True] * len(lines)
    seen = np.zeros(0, np.int32)
    for turn, request, line in zip(played.turns, policy.requests, lines, strict=True):
        seen = np.concatenate([seen, turn.context_ids])
        np.testing.assert_array_equal(request.ids, seen)
        seen = np.concatenate([seen, turn.completion.ids_K])
        assert turn.completion.ids_K[-1] == id_of(chat, end)
        assert turn.action.text == line
        assert turn.context_ids[0] not in chat.ends
    np.testing.assert_array_equal(played.ids(), seen)
    for before, turn in pairwise(played.turns):
        called = before.action.calls[0].name
        answer = chat.frames(SCHEMAS).follow_up(turn.observation.text, EndedBy.STOP, answered=called)
        np.testing.assert_array_equal(turn.context_ids, answer)
        assert f"{before.action.text}{end}{text_of(chat, answer)}" in text_of(chat, seen)


@pytest.mark.parametrize("family", templates.CALLING)
def test_a_turn_that_was_cut_off_gets_the_end_of_the_template_once(family):
    chat = chat_of(family)
    frames, ended = chat.frames(SCHEMAS), {"harmony": ("<|end|>", "<|call|>")}
    said, called = ended.get(family, (templates.FAMILIES[family].eos,) * 2)
    for end, answered in ((said, ""), (called, "run_sql")):
        cut = frames.follow_up("a", EndedBy.LENGTH, answered=answered)
        assert text_of(chat, cut[:1]) == end
        np.testing.assert_array_equal(cut[1:], frames.follow_up("a", EndedBy.STOP, answered=answered))


@pytest.mark.parametrize("family", templates.CALLING)
def test_a_given_call_ends_as_the_model_would_end_it(family):
    chat, env = chat_of(family), SqlEnv()
    line = rewritten("run_sql SELECT 1", env.turn_spec.tools, chat.tool_format)
    for text, end in ((line, {"harmony": "<|call|>"}), ("Hm.", {"harmony": "<|return|>"})):
        ids = chat.encode_turn(text)
        assert text_of(chat, ids[-1:]) == end.get(family, templates.FAMILIES[family].eos)
        assert chat.decode(ids) == text
        assert sum(int(one) in chat.ends for one in ids) == 1


def test_a_given_call_that_spells_its_end_gets_no_second():
    chat = chat_of("harmony")
    line = rewritten("run_sql SELECT 1", SqlEnv.turn_spec.tools, "harmony")
    np.testing.assert_array_equal(chat.encode_turn(f"{line}<|call|>"), chat.encode_turn(line))


@pytest.mark.parametrize("family", ["hermes", "llama3", "harmony", "gemma"])
def test_what_is_sampled_is_what_is_trained_token_by_token(family):
    """The learner reads ``played.ids()``: one pass over them gives each sampled token the sampler's own probability."""
    chat = chat_of(family)
    source = tiny.random_model(chat.tokenizer, layers=2, width=32, heads=2, context=2048, seed=1)
    bias = torch.zeros(len(chat.tokenizer))
    bias[sorted(chat.ends)] = 4.0  # each ends a turn now and then, as often as the others
    source.lm_head.bias = torch.nn.Parameter(bias)
    with torch.no_grad():
        source.lm_head.weight[sorted(chat.ends)] = source.lm_head.weight[min(chat.ends)].clone()
    limits, sampled = TokenLimits(turn_tokens=8, context=2000), set()
    for number in range(6):
        task = LockEnv().tasks.task("train", number)
        played = play(LocalPolicy(source, chat, concurrency=1), chat, LockEnv, task, limits)
        expected = models.naive_logprobs(source, played.ids())
        is_policy = np.concatenate([turn.source for turn in played.turns]) == Source.POLICY
        said = np.concatenate([turn.completion.logprobs_K for turn in played.turns])
        np.testing.assert_allclose(expected[is_policy], said, atol=2e-4)
        for turn, following in zip(played.turns, [*played.turns[1:], None], strict=True):
            ids = turn.completion.ids_K
            assert not chat.ends & set(ids[:-1].tolist())
            assert (turn.completion.ended_by is EndedBy.STOP) == chat.is_ended(ids)
            assert chat.is_ended(ids) or len(ids) == 8
            if following is not None and chat.is_ended(ids):
                assert following.context_ids[0] not in chat.ends
        sampled |= {int(turn.completion.ids_K[-1]) for turn in played.turns}
    assert chat.ends <= sampled  # each of them was the end of some turn


def test_the_models_own_settings_name_more_ends():
    chat = models.chat()
    source = models.plain_model()
    assert set(ends_of(source)) == {chat.eos_id} == chat.ends
    more = chat.plain("a")[0]
    source.generation_config.eos_token_id = [chat.eos_id, more]
    told = Chat(models.tokenizer(), ends=ends_of(source))
    assert told.ends == {chat.eos_id, more}
    assert told.eos_id == chat.eos_id
    assert told.decode(np.array([more, more], np.int32)) == "a"
    source.generation_config.eos_token_id = None
    assert ends_of(source) == ends_of(object()) == ()


def test_ends_are_kept_with_a_saved_model(tmp_path):
    source, tokenizer = models.plain_model(), copy.deepcopy(models.tokenizer())
    source.generation_config.eos_token_id = [0, 5]
    tiny.save(source, tokenizer, tmp_path)
    again, _ = tiny.load(str(tmp_path))
    assert ends_of(again) == (0, 5)


def test_a_template_that_ends_a_turn_with_the_next_ones_beginning_is_refused():
    """Nothing could follow a turn that the model ended with its eos token."""
    tokenizer = templates.tokenizer("hermes")
    tokenizer.chat_template = (
        "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    with pytest.raises(ConfigError, match=r"does not end an assistant turn with '<\|im_end\|>' or another control"):
        Chat(tokenizer)


def test_a_sampled_call_of_harmony_is_read_with_its_thought():
    chat = chat_of("harmony")
    text = (
        "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant to=functions.run_sql<|channel|>commentary json"
        '<|message|>{"sql": "SELECT 1"}'
    )
    ids = np.append(chat.open(chat.encode_turn(text)), np.int32(id_of(chat, "<|call|>")))
    action = parse(chat.decode(ids), SqlEnv.turn_spec.tools, "harmony")
    assert (action.thought, [call.name for call in action.calls], action.flaw) == ("Look.", ["run_sql"], "")
