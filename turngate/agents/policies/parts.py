"""The parts of a config that open a policy. No torch."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from turngate.agents.chat import Chat, TextChat
from turngate.agents.conversation import NOTATION
from turngate.agents.policies.base import Policy
from turngate.agents.policies.openai import OpenAIPolicy
from turngate.agents.protocols import LanguageModel, Precision, Tokenizer
from turngate.agents.rollout import Player, TokenLimits
from turngate.agents.server import ChatServer
from turngate.errors import ConfigError
from turngate.parts import Part
from turngate.types import Sampling


class PolicyPart(Part):
    """How episodes are sampled: opens a ``Policy``. A subclass writes ``open``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "policy"
    fallback: ClassVar[str] = "local"
    trainable: ClassVar[bool] = True
    """Whether it samples from the model of the run and says by which tokens; else it can only be evaluated."""
    temperature: float = Field(1.0, gt=0)
    """Sampling temperature of training and of the main evaluation."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Only the likeliest tokens that together hold this much probability are sampled; the learner uses the same
    distribution."""
    top_k: int = Field(0, ge=0)
    """Only so many likeliest tokens are sampled, and the learner uses the same distribution; 0 = all."""
    turn_tokens: int = Field(64, ge=1)
    """Most tokens that the model may write in one turn; a longer turn is cut off."""
    context: int = Field(1024, ge=16)
    """Most tokens of an episode, all turns together; one that would need more ends there."""
    episode_s: float = Field(600.0, gt=0)
    """Most seconds of an episode; one that takes longer ends there."""
    lanes: int = Field(64, ge=1)
    """Episodes played at once; more are faster and need more memory."""
    system: str = ""
    """Text of a system message before everything that the model is asked; empty: none but the chat template's own."""

    @model_validator(mode="after")
    def _leaves_a_choice(self) -> Self:
        if self.top_k == 1:
            raise ValueError("top_k = 1 leaves one token, whose probability is 1, so nothing could be learned")
        return self

    @property
    def sampling(self) -> Sampling:
        """The distribution of training."""
        return Sampling(temperature=self.temperature, top_p=self.top_p, top_k=self.top_k)

    def limits(self) -> TokenLimits:
        """What an episode may use."""
        return TokenLimits(turn_tokens=self.turn_tokens, context=self.context, episode_s=self.episode_s)

    def chat(self, tokenizer: Tokenizer) -> Chat:
        """How messages become tokens: what every run and evaluation of this policy uses. Raises as ``Chat`` does."""
        return Chat(tokenizer, system=self.system)

    @abstractmethod
    def open(self, model: LanguageModel, chat: Chat) -> Policy:
        """The policy. ``model`` is the sampler's own copy."""

    def served(self) -> Player:
        """The player of a policy that brings its own model. Raises ConfigError for one that samples from the run's."""
        raise ConfigError(f'policy.type "{self.type}" samples from a model; name one')

    def player(self, model: LanguageModel, chat: Chat) -> Player:
        """The opened policy, with the distribution and the limits of training."""
        return Player(self.open(model, chat), chat, self.limits(), sampling=self.sampling)


class LocalPolicyPart(PolicyPart):
    """The model itself, decoded in this process on a CPU or one GPU."""

    type: Literal["local"] = "local"
    order: Literal["fixed", "ready"] = "fixed"
    """fixed: a run repeats bit for bit, and episodes wait a fixed number of tokens for their environment; ready: they
    go on as soon as it has answered, which is faster where environments are slow."""
    dtype: Literal["learner"] | Precision = "learner"
    """Precision in which it decodes; learner: that of the learner's forward pass. Where the two differ, so do their
    log-probabilities, and learner.tolerance has to allow it."""
    template: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments of the chat template, such as {enable_thinking = false}; one that it never mentions is refused."""

    def chat(self, tokenizer: Tokenizer) -> Chat:
        """See ``PolicyPart``; with the arguments of the template."""
        return Chat(tokenizer, system=self.system, template=self.template)

    def open(self, model: LanguageModel, chat: Chat) -> Policy:
        """A ``LocalPolicy``, which rounds the weights of ``model`` to ``dtype``; "learner" takes them as they are.

        Raises ConfigError for a ``top_k`` that keeps the whole vocabulary.
        """
        from turngate.agents.policies.forward import cast, precision_of
        from turngate.agents.policies.local import LocalPolicy

        n_tokens = model.get_output_embeddings().weight.shape[0]
        if self.top_k >= n_tokens:
            raise ConfigError(f"policy.top_k {self.top_k} has no effect on a vocabulary of {n_tokens}; leave it out")
        if self.dtype != "learner":
            cast(model, precision_of(self.dtype, next(model.parameters()).device))
        return LocalPolicy(model, chat, lanes=self.lanes, order=self.order)


class OpenAIPolicyPart(PolicyPart):
    """A model behind any server that speaks OpenAI's chat completions. It can be evaluated, and not trained."""

    type: Literal["openai"] = "openai"
    trainable: ClassVar[bool] = False
    url: str
    """Address of the server, for instance http://localhost:8000/v1."""
    model: str = Field(min_length=1)
    """Name of the model on the server."""
    key_variable: str = "OPENAI_API_KEY"
    """Environment variable that holds the server's key; the key itself is never stored."""
    lanes: int = Field(16, ge=1)
    """Episodes played at once, and so most requests at once."""
    call_s: float = Field(120.0, gt=0)
    """Most seconds of one request."""
    attempts: int = Field(5, ge=1)
    """Requests for one turn, until a busy or failing server has answered; after that the episode is unusable."""
    tokens_field: str = "max_tokens"
    """Under which name the server takes the limit of a turn, for instance max_completion_tokens."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """Added to every request, for instance {reasoning_effort = "low"}, or {chat_template_kwargs = {enable_thinking =
    false}} where the server fills in a chat template."""
    tools: Literal["native", "text"] = "native"
    """native: the server is given the tools as schemas, and its calls are kept as text in Hermes notation; if it takes
    no tools, the prompt lists them, which is said once. text: it is given none; the environment's text names them."""

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        self._server()
        return self

    def open(self, model: LanguageModel, chat: Chat) -> Policy:
        """Raises ConfigError: a server gives text without tokens and takes no weights."""
        raise ConfigError(f'policy.type "{self.type}" cannot be trained or take a model; open it with served()')

    def served(self) -> Player:
        """The server's model as a player, with the key that the environment holds now."""
        policy = OpenAIPolicy(
            self._server(), lanes=self.lanes, context=self.context, attempts=self.attempts, call_s=self.call_s
        )
        chat = TextChat(system=self.system, notation=NOTATION if self.tools == "native" else "")
        return Player(policy, chat, self.limits(), sampling=self.sampling)

    def _server(self) -> ChatServer:
        key = os.environ.get(self.key_variable)
        return ChatServer(
            self.url, self.model, api_key=key, lanes=self.lanes, tokens_field=self.tokens_field, extra=self.extra
        )
