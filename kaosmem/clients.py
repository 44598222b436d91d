"""Protocols of the models that answer outside the process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from kaosmem.types import JSONObject
from kaosmem.types.items import ChatMessage


@runtime_checkable
class EmbeddingClient(Protocol):
    """Turns texts into vectors."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return an embedding for each text, in their order, all of the same number of dimensions."""


@dataclass(frozen=True, slots=True, repr=False)
class ModelAnswer(ChatMessage):
    """A model's answer that says why the model stopped.

    Attributes:
        stop_reason: As the provider calls it, such as "stop", "length" or "refusal"; "" if it is
            not known.

    >>> ModelAnswer("assistant", "They met and", stop_reason="length").stop_reason
    'length'
    """

    stop_reason: str = field(default="", kw_only=True)


@runtime_checkable
class LLMClient(Protocol):
    """A language model."""

    async def chat(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[JSONObject] = ()
    ) -> ChatMessage:
        """Return the model's answer to messages.

        A ModelAnswer may say why the model stopped. An answer that was cut off is then known as
        such. Raises the provider's errors. A refusal, and an answer without text and calls, are
        errors too.

        Args:
            tools: Mappings with `name`, `description` and `parameters` (a JSON schema). The model
                must call a single tool; of several tools, it may call any or none.
        """
