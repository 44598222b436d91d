"""What answers for us outside the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from kaosmem.types import ChatMessage, JSONValue


@runtime_checkable
class EmbeddingClient(Protocol):
    """Turns texts into vectors."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return an embedding for each text, in their order, all of the same number of dimensions."""
        ...


@runtime_checkable
class LLMClient(Protocol):
    """A language model."""

    async def chat(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[Mapping[str, JSONValue]] = ()
    ) -> ChatMessage:
        """Return the model's answer to messages.

        tools: what it may call, each a mapping with `name`, `description` and `parameters` (a JSON schema). Of several
        none, of one alone that one, has to be called.
        Raises whatever its provider raises; a refusal is raised too, or an answer without text and calls.
        """
        ...
