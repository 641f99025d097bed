"""The settings of a policy, as a config names them. Importing this module does not import torch."""

from __future__ import annotations

import os
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from turngate.agents.architecture import cache_refusal
from turngate.agents.chat import Chat, TextChat, ends_of
from turngate.agents.conversation import TOOL_FORMAT
from turngate.agents.policies.base import Policy
from turngate.agents.policies.openai import OpenAIPolicy
from turngate.agents.protocols import LanguageModel, Precision, Tokenizer
from turngate.agents.rollout import Player, TokenLimits
from turngate.agents.server import ChatServer
from turngate.agents.tiny import is_own
from turngate.errors import ConfigError
from turngate.part_calls import call_part, instance_of
from turngate.parts import Part
from turngate.types import Sampling

if TYPE_CHECKING:
    from turngate.config import Config


class PolicyPart(Part):
    """Settings of a policy: how episodes are sampled. A subclass defines ``open``, which returns a ``Policy``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "policy"
    fallback: ClassVar[str] = "local"
    trainable: ClassVar[bool] = True
    """Whether the policy samples from the model of the run and reports the sampled tokens. If not, it can only be
    evaluated."""
    temperature: float = Field(1.0, gt=0)
    """Sampling temperature in training and in the main evaluation; raise it where siblings are too much alike."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Sample only from the likeliest tokens that together have this probability; 1 = from all. The learner uses the
    same distribution."""
    top_k: int = Field(0, ge=0)
    """Sample only from this many likeliest tokens; 0 = from all. The learner uses the same distribution."""
    turn_tokens: int = Field(64, ge=1, le=100_000_000)
    """Most tokens that the model may write in one turn, its end-of-turn token included. A turn without that token by
    then is cut off: nothing of it is carried out, and the model is told that it was too long."""
    context: int = Field(1024, ge=16, le=100_000_000)
    """Most tokens of an episode, all turns together; an episode that would need more is ended."""
    episode_s: float = Field(600.0, gt=0)
    """Most seconds of an episode; one that takes longer is ended."""
    concurrency: int = Field(64, ge=1, le=100_000)
    """Number of episodes played at once; more are faster and need more memory."""
    system: str = ""
    """Text of a system message before everything that the model is asked; empty: none but the chat template's own."""
    examples: Annotated[int, Field(ge=0, le=1000)] | Path = 0
    """Solved episodes that every episode is shown first, as earlier turns of the chat, which a model that does not know
    the environment needs in order to write calls. A number: so many of the oracle, on the first training tasks of each
    environment; a file: all of it, JSON lines as for warm_start.demonstrations. They count in policy.context."""

    @model_validator(mode="after")
    def _leaves_a_choice(self) -> Self:
        if self.top_k == 1:
            raise ValueError(
                "top_k = 1 leaves one token, whose probability is 1, so nothing can be learned; set 0 for all tokens, "
                "or at least 2"
            )
        return self

    @property
    def sampling(self) -> Sampling:
        """The distribution that tokens are sampled from in training."""
        return Sampling(temperature=self.temperature, top_p=self.top_p, top_k=self.top_k)

    def limits(self) -> TokenLimits:
        """The limits of an episode, in tokens and seconds."""
        return TokenLimits(turn_tokens=self.turn_tokens, context=self.context, episode_s=self.episode_s)

    def chat(self, model: LanguageModel, tokenizer: Tokenizer) -> Chat:
        """How messages become tokens: what every run and evaluation of this policy uses. Raises as ``Chat`` does."""
        return Chat(tokenizer, system=self.system, ends=ends_of(model), shows_examples=bool(self.examples))

    def check(self, model: LanguageModel) -> None:
        """Raise ConfigError for a model that ``open`` would refuse; ``model`` may be without weights."""

    @abstractmethod
    def open(self, model: LanguageModel, chat: Chat) -> Policy:
        """The policy that these settings describe. ``model`` is a copy that only the policy uses."""

    def check_installed(self) -> None:
        """Raise ConfigError for a program or package that the policy needs and that is not here."""
        return

    def served(self) -> Player:
        """The player of a policy that has its own model. Raises ConfigError for one that needs the model of the run."""
        raise ConfigError(f'policy.type "{self.type}" samples from a model; name one, for instance RUN/model')

    def player(self, model: LanguageModel, chat: Chat) -> Player:
        """The opened policy, with the distribution and the limits of training."""
        policy = call_part("policy", self.open, model, chat, take=instance_of(Policy), must="a Policy")
        n_tokens = int(model.get_output_embeddings().weight.shape[0])
        return Player(policy, chat, self.limits(), sampling=self.sampling, n_tokens=n_tokens)


def _chat(part: LocalPolicyPart | VLLMPolicyPart, model: LanguageModel, tokenizer: Tokenizer) -> Chat:
    """The chat of a model whose tokens are known. Raises ConfigError as ``Chat`` does, and for ``tools`` where the
    template lists them."""
    describes = part.tools == "described" or (part.tools == "auto" and not is_own(tokenizer))
    ends = ends_of(model)
    chat = Chat(
        tokenizer,
        system=part.system,
        template=part.template,
        ends=ends,
        describes=describes,
        shows_examples=bool(part.examples),
    )
    if chat.tool_format and part.tools != "auto":
        raise ConfigError(
            f'policy.tools = "{part.tools}" has no effect, because the chat template lists the tools; leave it out'
        )
    if part.tools == "described" and not chat.describes:
        raise ConfigError(
            'policy.tools = "described" has no effect, because the chat template takes no system message; leave it out'
        )
    return chat


def check_top_k(top_k: int, model: LanguageModel) -> None:
    """Raise ConfigError for a number that keeps the whole vocabulary."""
    n_tokens = model.get_output_embeddings().weight.shape[0]
    if top_k >= n_tokens:
        raise ConfigError(f"policy.top_k {top_k} has no effect on a vocabulary of {n_tokens}; leave it out")


class LocalPolicyPart(PolicyPart):
    """The model itself, decoded in this process on a CPU or one GPU."""

    type: Literal["local"] = "local"
    order: Literal["fixed", "ready"] = "fixed"
    """When an episode goes on after a call of its environment. fixed: after a fixed number of decoded tokens, so that a
    run on a CPU repeats bit for bit; ready: as soon as the environment has answered, which is faster where environments
    are slow."""
    dtype: Literal["learner"] | Precision = "learner"
    """Precision in which tokens are decoded; learner: that of the learner's forward pass. Where the two differ, so do
    their log-probabilities, as far as learner.tolerance allows."""
    template: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments of the chat template, such as {enable_thinking = false}; one that it never mentions is refused."""
    tools: Literal["auto", "described", "named"] = "auto"
    """How the model is told of its tools where its chat template has no place for them. described: a system message
    says how a call is written, and lists each tool with its description and arguments; named: the environment's own
    prompt names them in one line, which is enough for a model that learns here; auto: named for a model that was made
    by turngate, else described."""

    def chat(self, model: LanguageModel, tokenizer: Tokenizer) -> Chat:
        """See ``PolicyPart``; with the arguments of the template."""
        return _chat(self, model, tokenizer)

    def check(self, model: LanguageModel) -> None:
        """Raise ConfigError for a ``top_k`` that keeps the whole vocabulary, and for layers that are not known."""
        if problem := cache_refusal(model.config):
            raise ConfigError(f'policy.type "{self.type}": {problem}')
        check_top_k(self.top_k, model)

    def open(self, model: LanguageModel, chat: Chat) -> Policy:
        """A ``LocalPolicy``, which rounds the weights of ``model`` to ``dtype``; "learner" takes them as they are.

        Raises as ``check`` does.
        """
        from turngate.agents.policies.forward import cast, precision_of
        from turngate.agents.policies.local import LocalPolicy

        self.check(model)
        if self.dtype != "learner":
            cast(model, precision_of(self.dtype, next(model.parameters()).device))
        return LocalPolicy(model, chat, concurrency=self.concurrency, order=self.order)


class VLLMPolicyPart(PolicyPart):
    """The model decoded by vLLM in a process of its own, on a GPU or a CPU; its weights follow those of the learner."""

    type: Literal["vllm"] = "vllm"
    python: str = ""
    """Python interpreter that has vllm installed, for instance .venv-vllm/bin/python. Empty: the variable
    TURNGATE_VLLM_PYTHON, this interpreter if it has vllm, or .venv-vllm/bin/python in the current folder."""
    order: Literal["fixed", "ready"] = "fixed"
    """When an episode goes on after a call of its environment. fixed: after a fixed number of decoded tokens, so that a
    run on a CPU repeats bit for bit; ready: as soon as the environment has answered, which is faster where environments
    are slow."""
    dtype: Literal["learner"] | Precision = "learner"
    """Precision in which tokens are decoded; learner: that of the learner's forward pass. Where the two differ, so do
    their log-probabilities, as far as learner.tolerance allows."""
    adapters: Literal["merged", "apart"] = "merged"
    """With learner.lora, what the engine is sent after each update. merged: the weights of the whole model, with the
    adapters added and rounded; apart: the adapters alone, which it adds as it computes, so that a push is small and
    bfloat16 loses nothing of a small change. On a CPU apart decodes slower."""
    gpu_memory: float = Field(0.45, gt=0, le=1)
    """Share of the GPU's memory that the engine may use for weights and cache; the learner needs the rest. It has no
    effect on a CPU."""
    cache_gib: float | None = Field(None, gt=0)
    """GiB of memory for the keys and values of the cache. Leave it out for what gpu_memory leaves on a GPU, and for as
    much as all slots need on a CPU."""
    enforce_eager: bool | None = None
    """Whether to run without compilation and CUDA graphs: the engine starts sooner and decodes slower. Leave it out to
    compile on a GPU and not on a CPU."""
    sleep: Literal[0, 1, 2] = 0
    """What the engine frees of the GPU's memory while no tokens are sampled. 1: its cache, and its weights move to the
    machine's memory; 2: both are dropped, and the weights are loaded anew; 0: nothing. It has no effect on a CPU."""
    start_s: float = Field(600.0, gt=0)
    """Most seconds of the engine's start."""
    stall_s: float = Field(600.0, gt=0)
    """Most seconds of one step of the engine or of one push of weights; an engine that takes longer is started
    again."""
    restarts: int = Field(2, ge=0)
    """How often a turn is sent again because the engine died in it; after that its episode is unusable."""
    template: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments of the chat template, such as {enable_thinking = false}; one that it never mentions is refused."""
    tools: Literal["auto", "described", "named"] = "auto"
    """How the model is told of its tools where its chat template has no place for them. described: a system message
    says how a call is written, and lists each tool with its description and arguments; named: the environment's own
    prompt names them in one line, which is enough for a model that learns here; auto: named for a model that was made
    by turngate, else described."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """Further engine arguments of vLLM, for instance {block_size = 64} or {max_num_batched_tokens = 16384}."""

    @model_validator(mode="after")
    def _sets_nothing_twice(self) -> Self:
        from turngate.agents.policies.vllm_setup import OWN_ARGUMENTS

        if taken := sorted(OWN_ARGUMENTS & self.extra.keys()):
            raise ValueError(f"extra.{taken[0]} is set by turngate itself, from the other settings of the policy")
        return self

    def chat(self, model: LanguageModel, tokenizer: Tokenizer) -> Chat:
        """See ``PolicyPart``; with the arguments of the template."""
        return _chat(self, model, tokenizer)

    def check_config(self, config: Config) -> None:
        """Raise ConfigError for adapters of a rank that vLLM cannot add, and for ``adapters`` without any."""
        from turngate.agents.policies.vllm_setup import NO_ADAPTERS, check_rank

        if self.adapters == "apart":
            if config.adapter_rank is None:
                raise ConfigError(NO_ADAPTERS)
            check_rank(config.adapter_rank)

    def check_installed(self) -> None:
        """Raise ConfigError if no interpreter with vllm is found."""
        from turngate.agents.policies.vllm_setup import interpreter

        interpreter(self.python)

    def check(self, model: LanguageModel) -> None:
        """Raise ConfigError for a ``top_k`` that keeps the whole vocabulary."""
        check_top_k(self.top_k, model)

    def open(self, model: LanguageModel, chat: Chat) -> Policy:
        """A ``VLLMPolicy``, whose engine starts with ``running``; it keeps a copy of the weights, not ``model``.

        Raises ConfigError for settings without effect on the model's device, and if vllm is not found.
        """
        from turngate.agents.engines.shared_weights import SharedWeights
        from turngate.agents.policies.forward import cast, precision_of
        from turngate.agents.policies.vllm import EngineSettings, VLLMPolicy
        from turngate.agents.policies.vllm_setup import arguments, interpreter, longest_request, model_config

        self.check(model)
        device = next(model.parameters()).device
        if self.dtype != "learner":
            cast(model, precision_of(self.dtype, device))
        if device.type == "cpu":
            for name in ("gpu_memory", "sleep"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ConfigError(f"policy.{name} has no effect without a GPU; leave it out")
        dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
        longest = longest_request(model, self.context)
        settings = EngineSettings(
            python=interpreter(self.python),
            config=model_config(model),
            arguments=arguments(
                model,
                dtype=dtype,
                longest=longest,
                concurrency=self.concurrency,
                on_gpu=device.type != "cpu",
                gpu_memory=self.gpu_memory,
                cache_gib=self.cache_gib,
                enforce_eager=self.enforce_eager,
                sleep=self.sleep > 0,
                extra=self.extra,
            ),
            context=longest,
            start_s=self.start_s,
            stall_s=self.stall_s,
            restarts=self.restarts,
            sleep=self.sleep,
        )
        weights = SharedWeights(dict(model.named_parameters()), dtype)
        return VLLMPolicy(
            settings, weights, chat, concurrency=self.concurrency, order=self.order, apart=self.adapters == "apart"
        )


class OpenAIPolicyPart(PolicyPart):
    """A model behind any server with OpenAI's chat-completions API. It can be evaluated but not trained."""

    type: Literal["openai"] = "openai"
    trainable: ClassVar[bool] = False
    url: str
    """Address of the server, for instance http://localhost:8000/v1."""
    model: str = Field(min_length=1)
    """Name of the model on the server."""
    key_variable: str = "OPENAI_API_KEY"
    """Environment variable that holds the server's key; the key itself is never stored."""
    concurrency: int = Field(16, ge=1, le=100_000)
    """Number of episodes played at once, and so the most requests at once; lower it where the server limits them."""
    call_s: float = Field(120.0, gt=0)
    """Most seconds of one request; raise it for a slow server."""
    attempts: int = Field(5, ge=1)
    """Most requests for one turn to a busy or failing server; if none is answered the episode is unusable."""
    tokens_field: str = "max_tokens"
    """Name of the request's field that limits the tokens of a turn; some servers want max_completion_tokens."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """Further fields of every request, for instance {reasoning_effort = "low"}, or {chat_template_kwargs =
    {enable_thinking = false}} where the server fills in a chat template."""
    tools: Literal["native", "text"] = "native"
    """native: the server is given the tools as schemas, and its calls are kept as text in Hermes tool format; if it
    takes no tools, the prompt lists them, which is said once. text: it is given none; the environment's text names
    them."""

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        self._server()
        return self

    def open(self, model: LanguageModel, chat: Chat) -> Policy:
        """Raises ConfigError: a server returns text without tokens and accepts no weights."""
        raise ConfigError(f'policy.type "{self.type}" cannot be trained and takes no model; open it with served()')

    def served(self) -> Player:
        """The server's model as a player, with the key that the environment variable holds now."""
        policy = OpenAIPolicy(
            self._server(),
            concurrency=self.concurrency,
            context=self.context,
            attempts=self.attempts,
            call_s=self.call_s,
        )
        chat = TextChat(system=self.system, tool_format=TOOL_FORMAT if self.tools == "native" else "")
        return Player(policy, chat, self.limits(), sampling=self.sampling)

    def _server(self) -> ChatServer:
        key = os.environ.get(self.key_variable)
        return ChatServer(
            self.url,
            self.model,
            api_key=key,
            concurrency=self.concurrency,
            tokens_field=self.tokens_field,
            extra=self.extra,
        )
