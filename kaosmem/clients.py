"""Protocols of the models that answer outside the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from kaosmem.types import ChatMessage, JSONValue


@runtime_checkable
class EmbeddingClient(Protocol):
    """Turns texts into vectors."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return an embedding for each text, in their order, all of the same number of dimensions."""


@runtime_checkable
class LLMClient(Protocol):
    """A language model."""

    async def chat(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[Mapping[str, JSONValue]] = ()
    ) -> ChatMessage:
        """Return the model's answer to messages.

        tools: mappings with `name`, `description` and `parameters` (a JSON schema). The model must call a single tool;
            of several tools, it may call any or none.
        Raises the provider's errors. A refusal, and an answer without text and calls, are errors too.
        """
