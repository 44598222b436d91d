"""Requests to a model, with an end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from kaosmem.arguments import check_count, check_instance, check_ttl
from kaosmem.clients import LLMClient
from kaosmem.errors import InvalidArgumentError, SummaryError
from kaosmem.types import JSONObject
from kaosmem.types.items import ChatMessage

T = TypeVar("T")

MAX_PAUSE_S = 600.0
_MAX_FAULT_CHARS = 150


class ModelRequests:
    """Asks a model until an answer can be read, and not at all for a while after the model failed.

    Raises InvalidArgumentError.

    Give it where you would give a model, with other limits.

    Args:
        llm: The model.
        attempts: Number of times that one request is made, at least 1.
        timeout_s: Seconds to wait for each answer.
        pause_s: Seconds without a request after the model failed by an error, or gave no answer
            that can be taken. Each further failure doubles the pause, up to ten minutes. The first
            request after a pause is made once. 0 is no pause.
        clock: Gives seconds; only differences count.
    """

    def __init__(
        self,
        llm: LLMClient,
        *,
        attempts: int = 3,
        timeout_s: float = 60.0,
        pause_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._llm = check_instance(llm, LLMClient, "llm")
        self._attempts = check_count(attempts, "attempts", least=1)
        self._timeout_s = check_ttl(timeout_s, "timeout_s")
        if pause_s:
            self._pause_s = check_ttl(pause_s, "pause_s")
        else:
            self._pause_s = 0.0
        self._clock = clock
        self._failures = 0  # in a row
        self._resumes_at = 0.0
        self._error_name = ""  # of the newest failure

    async def ask(
        self,
        request: Callable[[str], Sequence[ChatMessage]],
        read: Callable[[ChatMessage], T],
        *,
        tools: Sequence[JSONObject] = (),
    ) -> T:
        """Return an answer of the model as `read` returns it.

        Raises SummaryError after the last attempt, and at once during a pause.

        Args:
            request: Makes the messages. Its argument is the fault of the answer before, "" for the
                first request.
            read: Raises InvalidArgumentError, which states the fault, for an answer that cannot be
                taken.
        """
        self._check_pause()
        fault = ""
        error: Exception | None = None
        made = 0
        attempts = 1 if self._failures else self._attempts
        while made < attempts:
            made += 1
            try:
                taken = read(await self._answer(request(fault), tools))
            except InvalidArgumentError as unusable:
                fault = str(unusable)[:_MAX_FAULT_CHARS]
                error = unusable
            except Exception as raised:  # any error of a provider
                error = raised
                if isinstance(raised, TimeoutError):
                    break  # the caller has waited long enough
            else:
                self._failures = 0
                return taken
        raise self._failure(made, error, fault) from error

    def _check_pause(self) -> None:
        """Raise SummaryError during a pause."""
        left_s = self._resumes_at - self._clock()
        if self._failures and left_s > 0:
            raise SummaryError(
                f"the model failed by {self._error_name}, and is not asked for {left_s:.0f} s "
                "more; wait, or ask another model",
                reason=self._error_name,
            )

    def _failure(
        self,
        made: int,
        error: Exception | None,
        fault: str,
    ) -> SummaryError:
        """Begin a pause, and return the error of a request that was made so often."""
        if isinstance(error, InvalidArgumentError):
            why = fault
            reason = f"no usable answer: {fault.partition(';')[0]}"
        else:
            reason = type(error).__name__
            why = f"the model failed by {reason}"
        pause_s = min(MAX_PAUSE_S, self._pause_s * 2 ** min(self._failures, 16))
        self._error_name = reason
        self._resumes_at = self._clock() + pause_s
        self._failures += 1
        return SummaryError(
            f"no answer was taken in {made} attempts: {why}; allow more attempts, tokens or time, "
            "or ask another model",
            reason=reason,
        )

    async def _answer(
        self, messages: Sequence[ChatMessage], tools: Sequence[JSONObject]
    ) -> ChatMessage:
        async with asyncio.timeout(self._timeout_s):
            if tools:
                return await self._llm.chat(messages, tools=tools)
            return await self._llm.chat(messages)
