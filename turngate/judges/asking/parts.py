"""Judges as a config names them: ``judge = {type = "server", url = …, model = …}``.

A part opens a ``TextModel``, and is itself the settings of how it is asked: the judge is
``Judge(part.text_model(player), settings=part)``.
"""

from __future__ import annotations

import hashlib
import os
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, JsonValue

from turngate.agents.chat import Chat, ends_of
from turngate.agents.rollout import Player
from turngate.errors import ConfigError
from turngate.judges.asking.openai import OpenAITextModel
from turngate.judges.asking.settings import JudgeSettings
from turngate.judges.asking.text_model import PolicyTextModel, TextModel
from turngate.judges.texts import JudgeId
from turngate.parts import Part, when_used

tiny = when_used("turngate.agents.tiny")
local = when_used("turngate.agents.policies.local")
torch = when_used("torch")

_WEIGHTS = ("*.safetensors", "*.bin", "*.json", "*.jinja", "*.model")


class JudgePart(Part, JudgeSettings):
    """A model that judges. A subclass sets ``type`` and writes ``text_model``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "judge"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.judges.asking.offline",)
    is_policy: ClassVar[bool] = False
    """Whether the policy that is being trained is asked; if so, it is asked only when no episode is being played."""
    asks_model: ClassVar[bool] = True
    """Whether a model answers, which may say something else the next time."""
    takes_images: ClassVar[bool] = False
    """Whether its model can be shown images."""

    @abstractmethod
    def text_model(self, player: Player | None) -> TextModel:
        """The model to ask; ``player`` holds the running policy, if there is one. Called once per run."""


class PolicyJudge(JudgePart):
    """The policy that is being trained, with its current weights. Verdicts are remembered for those weights only."""

    type: Literal["policy"] = "policy"
    is_policy: ClassVar[bool] = True
    context: int = Field(0, ge=0)
    """Most tokens of prompt and reply together; 0: as many as an episode may have."""

    def text_model(self, player: Player | None) -> PolicyTextModel:
        """The running policy as a text model. Raises ConfigError if there is none."""
        if player is None:
            raise ConfigError('a judge of type "policy" needs a running policy; use type "model" or "server"')
        return PolicyTextModel(player.policy, player.chat, context=self.context or player.limits.context)


class ServerJudge(JudgePart):
    """A model behind any server that speaks OpenAI's chat completions."""

    type: Literal["server"] = "server"
    takes_images: ClassVar[bool] = True
    url: str
    """Address of the server, for instance http://localhost:8000/v1."""
    model: str = Field(min_length=1)
    """Name of the model on the server."""
    version: str = "0"
    """Version of the weights and settings that the server has; change it when they change, or remembered verdicts of
    the old ones are used."""
    key_variable: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the server's key."""
    concurrency: int = Field(16, ge=1)
    """Most requests at once."""
    tokens_field: str = "max_tokens"
    """Name of the request field in which the server takes the length limit of a reply; some want
    max_completion_tokens."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """Further fields of every request, for instance {response_format = {type = "json_object"}}."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for an invalid address."""
        super().model_post_init(context)
        self.text_model(None)

    def text_model(self, player: Player | None) -> OpenAITextModel:
        """The server as a text model, with the key that the environment variable holds now."""
        return OpenAITextModel(
            self.url,
            self.model,
            version=self.version,
            api_key=os.environ.get(self.key_variable),
            concurrency=self.concurrency,
            tokens_field=self.tokens_field,
            extra=self.extra,
        )


class ModelJudge(JudgePart):
    """A model of its own in this process, on the accelerator if there is one."""

    type: Literal["model"] = "model"
    model: str = Field(min_length=1)
    """Folder of the model, or its name on the Hugging Face hub."""
    version: str = ""
    """Version of the judge, by which verdicts are remembered; empty: a hash of the folder's files, or the hub's
    commit."""
    concurrency: int = Field(16, ge=1)
    """Most questions at once."""
    context: int = Field(8192, ge=16)
    """Most tokens of prompt and reply together."""

    def text_model(self, player: Player | None) -> PolicyTextModel:
        """The loaded model as a text model. Raises ConfigError if it cannot be found, MissingExtra without torch."""
        model, tokenizer = tiny.load(self.model, device="cuda" if torch.cuda.is_available() else "cpu")
        chat = Chat(tokenizer, ends=ends_of(model))
        policy = local.LocalPolicy(model, chat, concurrency=self.concurrency, order="ready")
        folder = Path(self.model)
        known = folder_version(folder) if folder.is_dir() else getattr(model.config, "_commit_hash", None)
        name = folder.resolve().name if folder.is_dir() else self.model
        judge = JudgeId(name=name, version=self.version or str(known or "0"))
        return PolicyTextModel(policy, chat, judge, context=self.context)


def folder_version(folder: Path) -> str:
    """A hash of a model folder's weights, settings and tokenizer, so that copies of a model are the same judge."""
    digest = hashlib.blake2b(digest_size=6)
    for file in sorted({file for pattern in _WEIGHTS for file in folder.glob(pattern)}):
        digest.update(file.name.encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "blake2b").digest())
    return digest.hexdigest()
