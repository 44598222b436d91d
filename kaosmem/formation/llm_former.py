"""LLMFormer: a model proposes changes by one call with a strict schema."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, SkipValidation, ValidationError

from kaosmem.arguments import check_count, check_text, json_text
from kaosmem.clients import LLMClient
from kaosmem.compaction.model_requests import ModelRequests
from kaosmem.errors import InvalidArgumentError, SummaryError
from kaosmem.formation.changes import UNUSABLE, Action, Draft, Kind, ProposedChange, text_of
from kaosmem.tokens import get_counter
from kaosmem.types import JSONDict, JSONObject
from kaosmem.types.content import ToolUseBlock
from kaosmem.types.items import ChatMessage, Item

TOOL_NAME = "record_changes"
_KNOWN_SHARE = 4
"""Known facts take at most this fraction of a batch."""


class _Change(BaseModel):
    """A change as the model has to write it."""

    # A strict schema has no optional field.
    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        json_schema_extra=lambda schema: schema.update(required=[*_Change.model_fields]),
    )

    action: Action
    kind: Kind
    key: str | None
    text: str
    quote: str
    sources: list[int]
    valid_from: str | None
    worked: bool | None = None


class _Answer(BaseModel):
    """The arguments of the model's call. Each change is validated by itself later."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False})

    changes: list[SkipValidation[_Change]]


CHANGES_TOOL: JSONObject = {
    "name": TOOL_NAME,
    "description": "Record the changes of the memory. Give an empty list if there are none.",
    "parameters": _Answer.model_json_schema(),
}


class LLMFormer:
    """Forms what a model proposes. Each proposal is checked against its sources afterwards.

    Messages go to the model in batches, as JSON, so that no text can pass for another message. The
    answer is validated item by item: an item that is not as the schema says is refused, and the
    others stay. If no answer to a batch can be read, the batch is counted as refused and passed
    over. If the model fails by an error, the formation stops, and the next one goes on from there.
    Between two batches, the session checks the budget.

    Args:
        llm: The model, or `ModelRequests` with limits of their own.
        prompt: A file with the instructions. The default is
            `kaosmem/formation/prompts/form.txt`.
        budget: Tokens that one session may spend for requests. None: no limit.
        batch: Tokens of the messages in one request.
        name: The name of the former's mark in the session's log.

    Raises:
        InvalidArgumentError: If an argument is not valid.
        MissingFileError: If there is no such file.

    >>> import json
    >>> from kaosmem import SessionMemory
    >>> from kaosmem.testing import ScriptedLLM
    >>> change = {
    ...     "action": "add", "kind": "semantic", "key": "ann/home", "text": "Ann lives in Oslo.",
    ...     "quote": "I live in Oslo", "sources": [1], "valid_from": None, "worked": None,
    ... }
    >>> model = ScriptedLLM([json.dumps({"changes": [change]})])
    >>> memory = SessionMemory.test_mode()
    >>> said = memory.add("messages", "By the way, I live in Oslo now.", role="Ann")
    >>> print(*await memory.form(LLMFormer(model)))
    Ann lives in Oslo.
    """

    def __init__(
        self,
        llm: LLMClient | ModelRequests,
        *,
        prompt: str | Path | None = None,
        budget: int | None = 200_000,
        batch: int = 4_000,
        name: str = "llm",
    ) -> None:
        self.name = check_text(name, "name")
        if budget is not None:
            check_count(budget, "budget", least=1)
        self.budget = budget
        self._batch = check_count(batch, "batch", least=64)
        self._counter = get_counter()
        self._prompt = check_text(text_of(prompt, "prompts", "form.txt"), "prompt")
        self._requests = llm if isinstance(llm, ModelRequests) else ModelRequests(llm, attempts=2)

    def __repr__(self) -> str:
        return f"<LLMFormer {self.name!r}>"

    async def propose(self, said: Sequence[Item], known: Sequence[Item]) -> Draft:
        """Return the changes that the model proposes for the first batch of messages."""
        batch = self._fitting(said, self._batch) or said[:1]  # a larger message stands alone
        material = self._material(batch, known)
        spent: list[int] = []

        def request(fault: str) -> Sequence[ChatMessage]:
            note = f"\nAn earlier answer could not be taken: {fault}." if fault else ""
            spent.append(self._counter(self._prompt) + self._counter(material))
            return ChatMessage("system", self._prompt), ChatMessage("user", material + note)

        try:
            entries = await self._requests.ask(request, _entries, tools=[CHANGES_TOOL])
        except SummaryError as error:
            if not isinstance(error.__cause__, InvalidArgumentError):
                # The model failed, or is left alone for a while.
                failure = f"the model failed by {error.reason}"
                return Draft(covered=0, spent=sum(spent), failure=failure)
            entries = [None]
        changes = []
        faults = []
        for entry in entries:
            try:
                changes.append(_change_of(entry, batch))
            except (ValidationError, KeyError):
                faults.append(UNUSABLE)
        return Draft(changes, len(batch), faults, spent=sum(spent))

    def _material(self, batch: Sequence[Item], known: Sequence[Item]) -> str:
        """Return a batch and the newest known facts as the model sees them."""
        keyed = [item for item in reversed(known) if item.key is not None]
        newest = self._fitting(keyed, self._batch // _KNOWN_SHARE)
        return json_text(
            {
                "known": [{"key": item.key, "text": item.text} for item in newest],
                "messages": [_message(number, item) for number, item in enumerate(batch, 1)],
            }
        )

    def _fitting(self, items: Sequence[Item], tokens: int) -> Sequence[Item]:
        """Return the first items whose texts have so many tokens together."""
        for place, item in enumerate(items):
            tokens -= self._counter(item.text)
            if tokens < 0:
                return items[:place]
        return items


def _message(number: int, item: Item) -> JSONDict:
    """Return a message as the model sees it."""
    speaker = item.role or "document"
    said = {"number": number, "speaker": speaker, "time": item.metadata.get("timestamp")}
    return {**said, "text": item.text}


def _entries(reply: ChatMessage) -> list[Any]:
    """Return the list in the call of an answer, or in its text. Raises InvalidArgumentError."""
    calls = [block for block in reply.blocks if isinstance(block, ToolUseBlock)]
    for text in (*(call.arguments for call in calls if call.name == TOOL_NAME), reply.text):
        with suppress(ValidationError):
            return list(_Answer.model_validate_json(text).changes)
    raise InvalidArgumentError(
        f"the answer has no call of {TOOL_NAME} with a list of changes; answer by calling it"
    )


def _change_of(entry: object, batch: Sequence[Item]) -> ProposedChange:
    """Return a change as the schema describes it. Raises ValidationError and KeyError."""
    given = _Change.model_validate(entry)
    numbered = dict(enumerate(batch, 1))
    sources = tuple(numbered[number].id for number in given.sources)
    return ProposedChange(**{**given.model_dump(), "sources": sources})
