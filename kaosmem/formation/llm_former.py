"""LLMFormer: a model proposes changes by one call with a strict schema."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from kaosmem.arguments import check_count, check_text, json_text
from kaosmem.clients import LLMClient
from kaosmem.compaction.model_requests import PAUSE_S, ModelRequests
from kaosmem.errors import InvalidArgumentError, SummaryError
from kaosmem.formation.changes import Action, Draft, Kind, ProposedChange
from kaosmem.tokens import get_counter
from kaosmem.types import JSONValue
from kaosmem.types.content import TextBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage, Item

TOOL_NAME = "record_changes"
_Text = Annotated[str, AfterValidator(partial(check_text, what="a field"))]


class _Change(BaseModel):
    """A change as the model has to write it."""

    model_config = ConfigDict(strict=True, extra="forbid")

    action: Action
    kind: Kind
    key: _Text | None
    text: _Text
    quote: _Text
    sources: list[int]
    valid_from: _Text | None
    worked: bool | None = None


_CHANGE_SCHEMA = _Change.model_json_schema()
_CHANGE_SCHEMA["required"] = list(_Change.model_fields)  # a strict schema has no optional field
CHANGES_TOOL: Mapping[str, JSONValue] = {
    "name": TOOL_NAME,
    "description": "Record the changes of the memory. Give an empty list if there are none.",
    "parameters": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"changes": {"type": "array", "items": _CHANGE_SCHEMA}},
        "required": ["changes"],
    },
}
_MAX_CHANGES = 64
"""A batch that is said to hold more changes is not read further."""
_KNOWN_SHARE = 4
"""Known facts take at most this fraction of a batch."""
_UNUSABLE = "no usable answer"
"""The begin of the reason of an answer that could not be read."""


class LLMFormer:
    """Forms what a model proposes. Each proposal is checked against its sources afterwards.

    Messages go to the model in batches, as JSON, so that no text can pass for another message. The
    answer is validated item by item: an item that is not as the schema says is refused, and the
    others stay. If no answer to a batch can be read, the batch is counted as refused and passed
    over. If the model fails by an error, the formation stops, and the next one goes on from there.

    Args:
        llm: The model.
        prompt: The instructions: a text, or a file. The default is the file
            `kaosmem/formation/prompts/form.txt`.
        budget: Tokens that one session may spend for requests and answers. None: no limit.
        batch: Tokens of the messages in one request.
        attempts: The number of times that a batch is sent until its answer can be read.
        pause_s: Seconds without a request after the model failed. Each further failure doubles
            them, up to ten minutes.
        name: The name of the former's mark in the session's log.
        clock: Gives seconds, for pauses.

    Raises:
        InvalidArgumentError: If an argument is not valid.

    >>> from kaosmem import SessionMemory
    >>> from kaosmem.testing import ScriptedLLM
    >>> change = {
    ...     "action": "add", "kind": "semantic", "key": "ann.home", "text": "Ann lives in Oslo.",
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
        llm: LLMClient,
        *,
        prompt: str | Path | None = None,
        budget: int | None = 200_000,
        batch: int = 4_000,
        attempts: int = 2,
        pause_s: float = PAUSE_S,
        name: str = "llm",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = check_text(name, "name")
        self.budget = None if budget is None else check_count(budget, "budget", least=1)
        self._batch = check_count(batch, "batch", least=64)
        self._counter = get_counter()
        self._prompt = _prompt_text(prompt)
        self._spent = 0
        self._requests = ModelRequests(llm, attempts=attempts, pause_s=pause_s, clock=clock)

    def __repr__(self) -> str:
        return f"<LLMFormer {self.name!r}, {self._spent:,} tokens spent>"

    async def propose(self, said: Sequence[Item], known: Sequence[Item]) -> Draft:
        """Return the changes that the model proposes for each batch of messages."""
        begin = self._spent
        changes: list[ProposedChange] = []
        faults: list[str] = []
        covered = 0
        for batch in self._batches(said):
            before = self._spent
            if self.budget is not None and before - begin >= self.budget:
                break
            try:
                found, unreadable = await self._ask(batch, known)
            except SummaryError as error:
                was_asked = self._spent > before
                if not was_asked or not error.reason.startswith(_UNUSABLE):
                    break  # the model failed, or is left alone for a while
                found = []
                unreadable = [_UNUSABLE]
            changes += found
            faults += unreadable
            covered += len(batch)
        return Draft(changes, covered, faults, spent=self._spent - begin)

    async def _ask(
        self, batch: Sequence[Item], known: Sequence[Item]
    ) -> tuple[list[ProposedChange], list[str]]:
        """Return the changes of a batch, and a fault for each item that is no change."""
        material = json_text({"known": self._known(known), "messages": _messages(batch)})

        def request(fault: str) -> Sequence[ChatMessage]:
            told = f"\nAn earlier answer could not be taken: {fault}." if fault else ""
            self._spent += self._counter(self._prompt) + self._counter(f"{material}{told}")
            return ChatMessage("system", self._prompt), ChatMessage("user", f"{material}{told}")

        def read(reply: ChatMessage) -> tuple[list[ProposedChange], list[str]]:
            self._spent += self._counter(reply.text)
            return _read_changes(reply, batch)

        return await self._requests.ask(request, read, tools=[CHANGES_TOOL])

    def _batches(self, said: Sequence[Item]) -> Iterator[list[Item]]:
        """Yield messages in batches. A message that is too large stands alone."""
        batch: list[Item] = []
        left = self._batch
        for item in said:
            tokens = self._counter(item.text)
            if batch and tokens > left:
                yield batch
                batch = []
                left = self._batch
            batch.append(item)
            left -= tokens
        if batch:
            yield batch

    def _known(self, known: Sequence[Item]) -> list[JSONValue]:
        """Return the newest known facts that have a key, as many as fit."""
        left = self._batch // _KNOWN_SHARE
        found: list[JSONValue] = []
        for item in reversed(known):
            if item.key is None:
                continue
            left -= self._counter(item.text)
            if left < 0:
                break
            found.append({"key": item.key, "text": item.text})
        return found[::-1]


def _prompt_text(prompt: str | Path | None) -> str:
    if isinstance(prompt, Path):
        return check_text(prompt.read_text(encoding="utf-8"), "prompt")
    if prompt is not None:
        return check_text(prompt, "prompt")
    file = files("kaosmem.formation").joinpath("prompts", "form.txt")
    return file.read_text(encoding="utf-8")


def _messages(batch: Sequence[Item]) -> list[JSONValue]:
    """Return messages with their numbers, from 1."""
    found: list[JSONValue] = []
    for number, item in enumerate(batch, 1):
        message: dict[str, JSONValue] = {"number": number, "speaker": item.role or "document"}
        if "timestamp" in item.metadata:
            message["time"] = item.metadata["timestamp"]
        message["text"] = item.text
        found.append(message)
    return found


def _read_changes(
    reply: ChatMessage, batch: Sequence[Item]
) -> tuple[list[ProposedChange], list[str]]:
    """Return the changes of an answer, and a fault for each item that is none.

    Raises InvalidArgumentError for an answer that has no list of changes.
    """
    given = _given(reply)
    changes: list[ProposedChange] = []
    faults: list[str] = []
    for entry in given[:_MAX_CHANGES]:
        change = _change_of(entry, batch)
        if change is None:
            faults.append(_UNUSABLE)
        else:
            changes.append(change)
    faults += [_UNUSABLE for _ in given[_MAX_CHANGES:]]
    return changes, faults


def _given(reply: ChatMessage) -> list[Any]:
    """Return the list in the call of an answer, or in its text. Raises InvalidArgumentError."""
    calls = [block for block in reply.blocks if isinstance(block, ToolUseBlock)]
    texts = [call.arguments for call in calls if call.name == TOOL_NAME]
    if not texts:
        texts = [block.text for block in reply.blocks if isinstance(block, TextBlock)]
    for text in texts:
        try:
            given = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(given, dict) and isinstance(given.get("changes"), list):
            return list(given["changes"])
    raise InvalidArgumentError(
        f"the answer has no call of {TOOL_NAME} with a list of changes; answer by calling it"
    )


def _change_of(entry: Any, batch: Sequence[Item]) -> ProposedChange | None:
    """Return a change as the schema describes it, None for any other value."""
    try:
        given = _Change.model_validate(entry)
    except ValidationError:
        return None
    if not all(1 <= number <= len(batch) for number in given.sources):
        return None
    sources = [batch[number - 1].id for number in given.sources]
    return ProposedChange(
        given.text,
        given.quote,
        tuple(dict.fromkeys(sources)),
        action=given.action,
        kind=given.kind,
        key=given.key or None,
        valid_from=given.valid_from or None,
        worked=given.worked,
    )
