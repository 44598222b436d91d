"""LLMFormer: a model proposes changes by one call with a strict schema."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from kaosmem.arguments import check_count, check_text, json_text
from kaosmem.clients import LLMClient
from kaosmem.compaction.model_requests import PAUSE_S, TIMEOUT_S, ModelRequests
from kaosmem.errors import InvalidArgumentError, SummaryError
from kaosmem.formation.changes import ACTIONS, KINDS, Draft, ProposedChange
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import JSONValue
from kaosmem.types.content import TextBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage, Item

TOOL_NAME = "record_changes"
_TEXT = {"type": "string"}
_OPTIONAL_TEXT = {"type": ["string", "null"]}
_FIELDS: Mapping[str, JSONValue] = {
    "action": {"type": "string", "enum": list(ACTIONS)},
    "kind": {"type": "string", "enum": list(KINDS)},
    "key": _OPTIONAL_TEXT,
    "text": _TEXT,
    "quote": _TEXT,
    "sources": {"type": "array", "items": {"type": "integer"}},
    "valid_from": _OPTIONAL_TEXT,
    "worked": {"type": ["boolean", "null"]},
}
CHANGES_TOOL: Mapping[str, JSONValue] = {
    "name": TOOL_NAME,
    "description": "Record the changes of the memory. Give an empty list if there are none.",
    "parameters": {
        "type": "object",
        "properties": {
            "changes": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": dict(_FIELDS),
                    "required": list(_FIELDS),
                    "additionalProperties": False,
                },
            }
        },
        "required": ["changes"],
        "additionalProperties": False,
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
        timeout_s: Seconds to wait for each answer.
        pause_s: Seconds without a request after the model failed. Each further failure doubles
            them, up to ten minutes.
        counter: The counter of tokens. The default is o200k_base.
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
        timeout_s: float = TIMEOUT_S,
        pause_s: float = PAUSE_S,
        counter: TokenCounter | Callable[[str], int] | str | None = None,
        name: str = "llm",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = check_text(name, "name")
        self.budget = None if budget is None else check_count(budget, "budget", least=1)
        self._batch = check_count(batch, "batch", least=64)
        self._counter = get_counter(counter)
        self._prompt = _prompt_text(prompt)
        self._llm = _CountingClient(llm, self._counter)
        self._requests = ModelRequests(
            self._llm, attempts=attempts, timeout_s=timeout_s, pause_s=pause_s, clock=clock
        )

    def __repr__(self) -> str:
        return f"<LLMFormer {self.name!r}, {self._llm.spent:,} tokens spent>"

    async def propose(self, said: Sequence[Item], known: Sequence[Item]) -> Draft:
        """Return the changes that the model proposes for each batch of messages."""
        spent = self._llm.spent
        changes: list[ProposedChange] = []
        faults: list[str] = []
        covered = 0
        for batch in self._batches(said):
            if self.budget is not None and self._llm.spent - spent >= self.budget:
                break
            asked = self._llm.asked
            try:
                found, unreadable = await self._ask(batch, known)
            except SummaryError as error:
                is_unusable = error.reason.startswith(_UNUSABLE) and self._llm.asked > asked
                if not is_unusable:
                    break  # the model failed, or is left alone for a while
                found, unreadable = [], [_UNUSABLE]
            changes += found
            faults += unreadable
            covered += len(batch)
        return Draft(changes, covered, faults, spent=self._llm.spent - spent)

    async def _ask(
        self, batch: Sequence[Item], known: Sequence[Item]
    ) -> tuple[list[ProposedChange], list[str]]:
        """Return the changes of a batch, and a fault for each item that is no change."""
        material = json_text({"known": self._known(known), "messages": _messages(batch)})

        def request(fault: str) -> Sequence[ChatMessage]:
            told = f"\nAn earlier answer could not be taken: {fault}." if fault else ""
            return ChatMessage("system", self._prompt), ChatMessage("user", f"{material}{told}")

        def read(reply: ChatMessage) -> tuple[list[ProposedChange], list[str]]:
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


class _CountingClient:
    """A model whose requests and tokens are counted."""

    def __init__(self, llm: LLMClient, counter: TokenCounter) -> None:
        self._llm = llm
        self._counter = counter
        self.asked = 0
        self.spent = 0

    async def chat(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[Mapping[str, JSONValue]] = ()
    ) -> ChatMessage:
        self.asked += 1
        self.spent += sum(self._counter(message.text) for message in messages)
        answer = await self._llm.chat(messages, tools=tools)
        self.spent += self._counter(answer.text)
        return answer


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
    if not isinstance(entry, dict) or not entry.keys() <= _FIELDS.keys():
        return None
    texts = [entry.get(name) for name in ("action", "kind", "text", "quote")]
    optional = [entry.get(name) for name in ("key", "valid_from")]
    numbers = entry.get("sources")
    worked = entry.get("worked")
    if worked is not None and not isinstance(worked, bool):
        return None
    if not all(isinstance(text, str) for text in texts) or not isinstance(numbers, list):
        return None
    if not all(text is None or isinstance(text, str) for text in optional):
        return None
    sources = []
    for number in numbers:
        if type(number) is not int or not 1 <= number <= len(batch):
            return None
        sources.append(batch[number - 1].id)
    try:
        for text in (*texts, *optional):
            check_text(text or "", "a field")
    except InvalidArgumentError:
        return None
    return ProposedChange(
        entry["text"],
        entry["quote"],
        tuple(dict.fromkeys(sources)),
        action=entry["action"],
        kind=entry["kind"],
        key=entry.get("key") or None,
        valid_from=entry.get("valid_from") or None,
        worked=worked,
    )
