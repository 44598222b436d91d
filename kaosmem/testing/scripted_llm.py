"""A language model that answers from a test's script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from kaosmem.errors import KaosmemError
from kaosmem.types import JSONObject
from kaosmem.types.items import ChatMessage

Answer: TypeAlias = ChatMessage | str | Exception
"""A reply, as a message or as the assistant's text, or an error that it raises."""


class ScriptExhaustedError(KaosmemError, AssertionError):
    """A scripted model was asked more often than it has answers."""


class ScriptedLLM:
    """An LLMClient that gives answers in turn, or calls a function with the messages for each answer.

    An answer is a ChatMessage, the assistant's text, or an error to raise.
    Raises ScriptExhaustedError if no answer is left.

    Attributes:
        requests: The messages of each request, in order.
        tools: The tools of each request.

    >>> model = ScriptedLLM(["Thirty days."])
    >>> (await model.chat([ChatMessage("user", "How long is the notice?")])).text
    'Thirty days.'
    """

    def __init__(
        self, answers: Callable[[Sequence[ChatMessage]], Answer] | Iterable[Answer]
    ) -> None:
        self._answer = answers if callable(answers) else _next_of(iter(answers))
        self.requests: list[tuple[ChatMessage, ...]] = []
        self.tools: list[tuple[JSONObject, ...]] = []

    def __repr__(self) -> str:
        return f"<ScriptedLLM, asked {len(self.requests):,} times>"

    async def chat(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[JSONObject] = ()
    ) -> ChatMessage:
        """Return, or raise, the next answer."""
        self.requests.append(tuple(messages))
        self.tools.append(tuple(tools))
        answer = self._answer(messages)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            return ChatMessage("assistant", answer)
        return answer


def _next_of(answers: Iterator[Answer]) -> Callable[[Sequence[ChatMessage]], Answer]:
    def answer(messages: Sequence[ChatMessage]) -> Answer:
        for each in answers:
            return each
        raise ScriptExhaustedError(
            "the script has no answer left; give one for each request, or a function"
        )

    return answer
