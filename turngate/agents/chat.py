"""From messages to tokens and back, without ever tokenising sampled text again.

The chat template is rendered once, around marks; what comes before and after each mark is kept as text. An episode is
then: opening, what the model wrote, follow-up, what the model wrote, … Only the new observation is tokenised each turn,
with the ordinary letters of its frame, and the ids of earlier turns are never touched. So the history holds exactly
what the model wrote, even where a template would rewrite it when rendering anew (Qwen3 drops the thoughts of earlier
turns).

Where the template can list tools, it does, in the tool format that the model was trained to call them in, and what a
tool answered is a message of the role ``tool``. Where it cannot, the environment's own text names them
(``Chat.tool_format``).

A model may end a turn with one of several tokens (``Chat.ends``). The history keeps the one that it wrote, and only a
turn that was cut off gets one, as context. docs/models.md shows the tokens of each family.

Observations are tokenised with control tokens switched off: a document that contains ``<|im_end|>`` stays a document.

Solved episodes that the policy is shown before its task (``Chat.with_examples``) are earlier turns of the same chat,
made of the same pieces: opening, what was said, follow-up, …, and the task is then a message of the user.
"""

from __future__ import annotations

import copy
import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from turngate.agents.few_shot import Example
from turngate.agents.protocols import LanguageModel, Tokenizer
from turngate.agents.tool_text import tool_text
from turngate.errors import ConfigError
from turngate.tools.formats import TOOL_FORMATS, of_template
from turngate.tools.formats.base import THOUGHT
from turngate.types import JSON, EndedBy, IntArray, storable

_NO_TOKENS = "this needs the tokens of a policy behind a server, which gives text alone; use a local model"
_OPENING, _SAID, _NEXT = "\ue000opening\ue000", "\ue000said\ue000", "\ue000next\ue000"
_PROBE = "turngate_probe"  # the name of a tool, or of an argument
_GIVEN = ("messages", "tools", "add_generation_prompt")  # arguments of a template that each rendering sets itself
_KEPT = (
    "the context keeps each turn as it was written, so a server that renders the chat anew shows the model another one"
)
_CALL_ID = "call00000"  # nine letters and digits, which Mistral's templates insist on

Schema: TypeAlias = Mapping[str, JSON]
"""A tool as templates take it (``Tool.schema``)."""
_Message: TypeAlias = dict[str, Any]


class _Frame(NamedTuple):
    """What stands around a text. Its ordinary letters are tokenised together with the text, as in the whole chat."""

    closing: list[int]
    """The end of the turn before it, where that turn was cut off."""
    before: list[int]
    lead: str
    trail: str
    after: list[int]
    spelt: bool = False
    """The text is spelt as JSON."""


class Chat:
    """Renders turns for one tokenizer, a transformers tokenizer with a chat template.

    ``system``: the text of a system message; "" = none but the template's own. ``template``: further arguments of the
    template, for instance ``{"enable_thinking": False}``. ``ends``: ids that end a turn beside those which template
    and tokenizer tell, as ``ends_of`` a model. ``describes``: a system message describes the tools where the template
    lists none and takes such a message. ``shows_examples``: ``with_examples`` is still to be called.

    Raises ConfigError for a template that is missing, that does not render each message once and in order, or that
    ends no turn with a token, or that does not say that it is the model's turn; also for a system text that the
    template leaves out and for an argument that it never mentions.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        system: str = "",
        template: Mapping[str, JSON] | None = None,
        ends: Iterable[int] = (),
        describes: bool = False,
        shows_examples: bool = False,
    ) -> None:
        if not tokenizer.chat_template:
            raise ConfigError(f"the tokenizer '{tokenizer.name_or_path}' has no chat template; give a chat model")
        if tokenizer.eos_token_id is None or tokenizer.eos_token is None:
            raise ConfigError(f"the tokenizer '{tokenizer.name_or_path}' has no eos_token, which ends a turn")
        self.tokenizer = tokenizer
        self.system, self._template = system, dict(template or {})
        self.examples: Mapping[str, tuple[Example, ...]] = {}
        """Solved episodes by the id of the environment whose episodes they are shown before."""
        for name in self._template:
            self._check_argument(name)
        self._frames: dict[str, Frames] = {}
        self._added = {**tokenizer.get_added_vocab(), tokenizer.eos_token: tokenizer.eos_token_id}
        self._whole = _any_of(token for token in self._added if token.strip())
        self.describes = False
        """Whether a system message describes the tools."""
        listed = _PROBE in self.rendered([*self._begun(), _user(_OPENING)], [_probe()])
        self.tool_format = of_template(str(tokenizer.chat_template)) if listed else ""
        """The tool format of the calls that the template asks for; "" = the template lists no tools, or in no tool
        format that is known, so the environment's own text names them and any tool format will do."""
        said = [{"role": "system", "content": _PROBE}, _user(_OPENING)]
        self.describes = describes and not self.tool_format and _PROBE in self.rendered(said, ())
        self.is_plain = not (self.tool_format or self.describes or shows_examples)
        """Whether the first context of each episode is that of ``opening``: without tools and examples."""
        self._end = self._end_of_turn()
        self.ends = self._all_ends() | frozenset(ends)
        """Ids of the tokens with which the model ends its turn: sampling stops at any of them."""
        self._ended = _any_of(token for token, number in self._added.items() if number in self.ends)
        self.eos_id = self._end_of("")
        """The id that ends a turn which was given as text and calls nothing."""
        control = TOOL_FORMATS[self.tool_format].control if self.tool_format else ()
        self._marks = _any_of(token for token in (*control, *THOUGHT) if token in self._added)
        shown = str(tokenizer.chat_template)
        used = [token for token in self._added if token.strip() and (token in shown or token in control)]
        self._control = _any_of(())
        self._control = _any_of(token for token in used if self._added[token] in self.plain(token))
        self.frames(())
        self._check_turn()

    @property
    def about_tools(self) -> str:
        """How the model is told of its tools and calls them: a line for the user who starts a run."""
        if self.tool_format:
            return f"tools are listed by the chat template, called in {self.tool_format} tool format"
        if self.describes:
            return "no tools in the template: a system message has them, any tool format is read"
        return "no tools in the template: the environment names them, any tool format is read"

    @property
    def about_history(self) -> str:
        """How the template changes earlier turns: a line for the user who starts a run; "" = it does not."""
        thoughtful = f"{THOUGHT[0]}\n{_PROBE}\n{THOUGHT[1]}\n\n{_SAID}"
        later = self._shown_later(thoughtful, _user(_NEXT))
        if _SAID in later and _PROBE not in later:
            call = {"id": _CALL_ID, "type": "function", "function": {"name": "look", "arguments": {}}}
            answer = {"role": "tool", "name": "look", "tool_call_id": _CALL_ID, "content": _NEXT}
            answered = self._shown_later(thoughtful, answer, tool_calls=[call])
            but = ", but for those before the answer of a tool" if _PROBE in answered else ""
            return f"the chat template drops the thoughts of earlier turns{but}; {_KEPT}"
        last = self.rendered([*self._begun(), _user(_OPENING), _assistant(_SAID)], (), prompt=False)
        later = self._shown_later(_SAID, _user(_NEXT))
        if _SAID in last and _SAID in later and last.partition(_SAID)[0] != later.partition(_SAID)[0]:
            return f"the chat template shows a turn otherwise once another one follows; {_KEPT}"
        return ""

    def _shown_later(self, said: str, following: _Message, **more: Any) -> str:
        """The chat of a turn and what follows it, as the template renders it."""
        return self.rendered([*self._begun(), _user(_OPENING), {**_assistant(said), **more}, following], ())

    def opening(self, text: str) -> IntArray:
        """See ``Frames``; without tools."""
        return self.frames(()).opening(text)

    def follow_up(self, text: str, ended_by: EndedBy) -> IntArray:
        """See ``Frames``; without tools."""
        return self.frames(()).follow_up(text, ended_by)

    def with_examples(self, examples: Mapping[str, tuple[Example, ...]]) -> Self:
        """The same chat in which these solved episodes, by environment, stand before each task."""
        other = copy.copy(self)
        other.examples, other._frames = examples, {}
        return other

    def frames(self, tools: Sequence[Schema], env_id: str = "") -> Frames:
        """What stands around the messages of an episode with these tools, in this environment."""
        shown = list(tools) if self.tool_format or self.describes else []
        key = json.dumps([shown, env_id if self.examples.get(env_id) else ""])
        if key not in self._frames:
            self._frames[key] = Frames(self, shown, self.examples.get(env_id, ()))
        return self._frames[key]

    def system_text(self, tools: Sequence[Schema]) -> str:
        """The system message of an episode with these tools; "" = none but the template's own."""
        described = tool_text(tools) if self.describes else ""
        return "\n\n".join(text for text in (self.system, described) if text)

    def encode_turn(self, text: str) -> IntArray:
        """An assistant's turn that was given as text, with its end-of-turn token.

        The marks of the template's tool format and of a thought become the tokens that the model would write for them;
        nothing else does.
        """
        pieces = enumerate(self._marks.split(text))
        ids = join(*(self.special(piece) if odd % 2 else self.plain(piece) for odd, piece in pieces))
        return ids if self.is_ended(ids) else np.append(ids, np.int32(self._end_of(text)))

    def is_ended(self, ids: IntArray) -> bool:
        """Whether the last token ends the turn."""
        return len(ids) > 0 and int(ids[-1]) in self.ends

    def open(self, ids: IntArray) -> IntArray:
        """A completion without its end-of-turn token."""
        return ids[:-1] if self.is_ended(ids) else ids

    def decode(self, ids: IntArray) -> str:
        """The text of a completion, without its end-of-turn token."""
        kept = self.open(ids).tolist()
        return str(self.tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def special(self, text: str) -> list[int]:
        """Ids of a text of the template."""
        return list(self.tokenizer(storable(text), add_special_tokens=False)["input_ids"])

    def plain(self, text: str) -> list[int]:
        """Ids of a text from outside the template, none a control token; half of a character is read as "?"."""
        text = storable(text)
        cuts = [found.start() + 1 for found in self._control.finditer(text)]
        ids: list[int] = []
        for start, end in pairwise([0, *cuts, len(text)]):
            ids += self.tokenizer(text[start:end], add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return ids

    def frame_opening(self, tools: Sequence[Schema]) -> _Frame:
        """What stands around the first observation."""
        before, after = self._around([_user(_OPENING)], tools)
        if self.system_text(tools).strip() not in before + after:
            raise ConfigError(
                f"policy.system has no effect: the chat template of '{self.tokenizer.name_or_path}' leaves system "
                "messages out; put the text into the environment's prompt instead"
            )
        return self._framed([], before, after)

    def frame_next(self, tools: Sequence[Schema]) -> _Frame:
        """What stands around an observation after a turn, without the token that ends the turn."""
        _, _, between, after = self._around(_DIALOGUE, tools)
        return self._framed([self._added[self._end]], between.removeprefix(self._end), after)

    def frame_answer(self, tools: Sequence[Schema], name: str) -> _Frame | None:
        """What stands around the answer of a tool; None if the template has no frame of its own for it."""
        for arguments in ({_PROBE: ""}, f'{{"{_PROBE}": ""}}'):  # some templates want the text of an object
            call = {"id": _CALL_ID, "type": "function", "function": {"name": name, "arguments": arguments}}
            asked = {"role": "assistant", "content": "", "tool_calls": [call]}
            answer = {"role": "tool", "name": name, "tool_call_id": _CALL_ID, "content": f'{_NEXT}"'}
            head, found, after = self.rendered([*self._begun(tools), _user(_OPENING), asked, answer], tools).partition(
                _NEXT
            )
            _, called, rest = head.rpartition(_PROBE)
            ended = self._ended.search(rest)
            if found and called and ended:
                spelt = after.startswith('\\"')
                return self._framed([self._added[ended.group()]], rest[ended.end() :], after[1 + spelt :], spelt=spelt)
        return None

    def _framed(self, closing: list[int], before: str, after: str, *, spelt: bool = False) -> _Frame:
        found = list(self._whole.finditer(before))
        start = found[-1].end() if found else 0
        first = self._whole.search(after)
        end = first.start() if first else len(after)
        return _Frame(
            closing, self.special(before[:start]), before[start:], after[:end], self.special(after[end:]), spelt
        )

    def _end_of_turn(self) -> str:
        """The token with which the template ends an assistant's turn: the tokenizer's eos token, or its own."""
        opening, _, between, _ = self._around(_DIALOGUE, ())
        eos = str(self.tokenizer.eos_token)
        if between.startswith(eos):
            return eos
        control = [token for token in self._added if token.strip()]
        begins_message = max(control, key=opening.rfind)  # as every message of a user begins, so it ends none
        ends = [token for token in control if between.startswith(token) and token != begins_message]
        if not ends:
            raise ConfigError(
                f"the chat template of '{self.tokenizer.name_or_path}' does not end an assistant turn with "
                f"'{eos}' or another control token; set the tokenizer's eos_token to the template's end-of-turn token"
            )
        return max(ends, key=len)

    def _all_ends(self) -> frozenset[int]:
        """The ends that template, tokenizer and tool format name; the model's own settings may name more."""
        eos = str(self.tokenizer.eos_token)
        if not self.tool_format:
            return frozenset({self._added[self._end], self._added[eos]})
        tool_format = TOOL_FORMATS[self.tool_format]
        ends = {self._end, eos, *tool_format.ends} - set(tool_format.goes_on)
        return frozenset(self._added[token] for token in ends if token in self._added)

    def _end_of(self, text: str) -> int:
        """The token with which the model would end a turn with this text."""
        token = TOOL_FORMATS[self.tool_format].end(text) if self.tool_format else ""
        return self._added.get(token, self._added[self._end])

    def _begun(self, tools: Sequence[Schema] = ()) -> list[_Message]:
        told = self.system_text(tools)
        return [{"role": "system", "content": told}] if told else []

    def _check_turn(self) -> None:
        """Raise ConfigError for a template that names the model before its words in a finished conversation, but not in
        a prompt. One whose user's frame ends with the sign for the model, such as ``[/INST]``, is fine."""
        messages = [*self._begun(), _user(_OPENING)]
        prompt, bare = self._render(messages, ()), self.rendered(messages, (), prompt=False)
        shown = self._around(_DIALOGUE, ())[1]
        end = prompt.partition(_OPENING)[2]
        missing = _any_of(THOUGHT).sub("", shown.removeprefix(end)).strip()
        if prompt == bare and shown.startswith(end) and missing:
            raise ConfigError(
                f"the chat template of '{self.tokenizer.name_or_path}' does not say that it is the model's turn: "
                f"{missing!r} stands before its words in a conversation and is missing in a prompt; add "
                "{% if add_generation_prompt %} with it to the template"
            )

    def _check_argument(self, name: str) -> None:
        where = f"policy.template.{name}"
        if name in _GIVEN:
            raise ConfigError(f"{where} is given by turngate each time that the template is rendered; leave it out")
        known = set(re.findall(r"[A-Za-z_]\w*", str(self.tokenizer.chat_template)))
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            advice = f"did you mean '{close[0]}'?" if close else "leave it out"
            raise ConfigError(
                f"{where} has no effect: the chat template of '{self.tokenizer.name_or_path}' never mentions "
                f"'{name}'; {advice}"
            )

    def _render(self, messages: Sequence[_Message], tools: Sequence[Schema], *, prompt: bool = True) -> str:
        extra = {**self._template, **({"tools": list(tools)} if tools and not self.describes else {})}
        chat = list(messages)
        return str(self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=prompt, **extra))

    def rendered(self, messages: Sequence[_Message], tools: Sequence[Schema], *, prompt: bool = True) -> str:
        """The messages as the template renders them; "" if it refuses them, because it does not know them all."""
        try:
            return self._render(messages, tools, prompt=prompt)
        except Exception:  # a template raises what it likes: an error of Jinja, or of the Python that it is given
            return ""

    def _around(self, messages: Sequence[_Message], tools: Sequence[Schema]) -> list[str]:
        """The template's texts before, between and after the contents, with the prompt for the next turn."""
        try:
            rest = self._render([*self._begun(tools), *messages], tools)
        except Exception as error:  # a template raises what it likes
            raise ConfigError(
                f"the chat template of '{self.tokenizer.name_or_path}' refuses the messages: {error}"
            ) from error
        parts = []
        for message in messages:
            role, mark = message["role"], message["content"]
            if rest.count(mark) != 1:
                raise ConfigError(
                    f"the chat template of '{self.tokenizer.name_or_path}' does not render each message once and in "
                    f"order (a '{role}' message appears {rest.count(mark)} times); give a tokenizer whose template does"
                )
            part, rest = rest.split(mark)
            parts.append(part)
        return [*parts, rest]


class Frames:
    """What stands around the messages of one episode's tools, and the ``examples`` before it."""

    def __init__(self, chat: Chat, tools: Sequence[Schema], examples: Sequence[Example] = ()) -> None:
        self._chat, self._tools = chat, tools
        self._opening, self._next = chat.frame_opening(tools), chat.frame_next(tools)
        self._answers: dict[str, _Frame] = {}
        self._shown = self._exchanged(examples)

    def opening(self, text: str, *, hint: str = "") -> IntArray:
        """The first context: the examples, and the template's frame around the first observation.

        ``hint`` is put behind the observation as tokens of its own: without them the ids are those of no hint.
        """
        if not self._shown:
            return self._around(self._opening, text, hint)
        return join(self._shown, self._around(self._next, text, hint).tolist())

    def _exchanged(self, examples: Sequence[Example]) -> list[int]:
        """The ids of the turns of some examples, as if one had been played after the other."""
        ids: list[int] = []
        for exchange in (one for example in examples for one in example):
            frame = self._frame(exchange.answered) if ids else self._opening
            ids += self._around(frame, exchange.observation, "").tolist()
            ids += self._chat.encode_turn(exchange.said).tolist()
        return ids

    def follow_up(self, text: str, ended_by: EndedBy, *, answered: str = "", hint: str = "") -> IntArray:
        """The ids after a completion: its end-of-turn token if it was cut off, then the next observation.

        ``answered``: the tool whose answer it is; "" = a message of the user. ``hint``: see ``opening``.
        """
        frame = self._frame(answered)
        closing = frame.closing if ended_by is EndedBy.LENGTH else []
        return join(closing, self._around(frame, text, hint).tolist())

    def _around(self, frame: _Frame, text: str, hint: str) -> IntArray:
        shown, hinted = (json.dumps(one, ensure_ascii=False)[1:-1] if frame.spelt else one for one in (text, hint))
        said = self._chat.plain(frame.lead + shown + frame.trail)
        if not hint:
            return join(frame.before, said, frame.after)
        # A token can span the end of the text and the trail after it; the hint then stands before that token.
        place = n_shared(said, self._chat.plain(frame.lead + shown))
        return join(frame.before, said[:place], self._chat.plain(hinted), said[place:], frame.after)

    def _frame(self, answered: str) -> _Frame:
        if not (answered and self._tools and self._chat.tool_format):
            return self._next
        if answered not in self._answers:
            self._answers[answered] = self._chat.frame_answer(self._tools, answered) or self._next
        return self._answers[answered]


class TextChat(Chat):
    """For a policy that takes messages as text: the tokens of its contexts are unknown, so they have no ids.

    ``tool_format``: the one in which the policy writes down the calls of its server; "" = the server is given no tools.
    """

    def __init__(self, *, system: str = "", tool_format: str = "") -> None:
        self.eos_id = -1  # no token has it
        self.ends = frozenset()
        self.system, self.tool_format = system, tool_format
        self.examples, self._frames, self.describes = {}, {}, False

    @property
    def about_tools(self) -> str:
        if self.tool_format:
            return f"tools are given to the server, and its calls are kept in {self.tool_format} tool format"
        return "the server is given no tools; the prompt names them and any tool format is read"

    @property
    def about_history(self) -> str:
        """See ``Chat``; the server renders the chat."""
        return ""

    def frames(self, tools: Sequence[Schema], env_id: str = "") -> Frames:
        """Frames without ids."""
        return _NoFrames()

    def encode_turn(self, text: str) -> IntArray:
        """Raises ConfigError: there is no tokenizer."""
        raise ConfigError(_NO_TOKENS)

    def decode(self, ids: IntArray) -> str:
        """Raises ConfigError: there is no tokenizer."""
        raise ConfigError(_NO_TOKENS)


class _NoFrames(Frames):
    def __init__(self) -> None:
        pass

    def opening(self, text: str, *, hint: str = "") -> IntArray:
        return join()

    def follow_up(self, text: str, ended_by: EndedBy, *, answered: str = "", hint: str = "") -> IntArray:
        return join()


def ends_of(model: LanguageModel) -> tuple[int, ...]:
    """The tokens at which the model's own generation settings stop; () = they name none."""
    named = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    return tuple(named) if isinstance(named, list | tuple) else () if named is None else (named,)


def n_shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids two lists share before they first differ."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def join(*parts: list[int]) -> IntArray:
    """Ids end to end."""
    return np.asarray([token for part in parts for token in part], np.int32)


def _user(text: str) -> _Message:
    return {"role": "user", "content": text}


def _assistant(text: str) -> _Message:
    return {"role": "assistant", "content": text}


def _probe() -> Schema:
    parameters: JSON = {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": _PROBE, "description": "", "parameters": parameters}}


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """A pattern that finds any of some texts, the longest one where several begin."""
    ordered = sorted(texts, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, ordered))})" if ordered else "(?!)")


_DIALOGUE = (_user(_OPENING), _assistant(_SAID), _user(_NEXT))
