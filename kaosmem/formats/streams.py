"""The pieces of a streamed reply, put together as one message of its provider."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.fields import json_value, mapping_of
from kaosmem.names import shown
from kaosmem.types import JSONValue

_Dict = dict[str, JSONValue]
_Event = Mapping[str, JSONValue]

_APPENDED = frozenset(
    ("arguments", "content", "input", "reasoning_content", "refusal", "text", "thinking")
)
"""Fields whose texts come in pieces. Other fields, such as ids and names, come once."""


def _join(held: _Dict, piece: _Event) -> None:
    """Add a piece to the fields that came. The members of a list have an index."""
    for name, value in piece.items():
        if value is None:
            continue
        if isinstance(value, Mapping):
            _join(held.setdefault(name, {}), value)
        elif isinstance(value, list):
            members = held.setdefault(name, {})
            for member in value:
                _join(members.setdefault(member["index"], {}), member)
        elif name in _APPENDED:
            held[name] = held.get(name, "") + value
        else:
            held[name] = value


class Stream(ABC):
    """The events of one reply.

    Attributes:
        is_complete: Whether the reply has ended by itself.
    """

    def __init__(self) -> None:
        self.is_complete = False

    def add(self, event: object) -> None:
        """Take the next event, a dict or an object of the SDK. Raises InvalidArgumentError."""
        self._take(mapping_of(event, "an event of a stream"))

    @abstractmethod
    def _take(self, event: _Event) -> None:
        """Take an event as a mapping."""

    @abstractmethod
    def message(self) -> object:
        """Return the message so far, as its format reads it; None if nothing came.

        A call whose arguments are cut is left out.
        """


class ChatStream(Stream):
    """Chunks of chat completions."""

    def __init__(self) -> None:
        super().__init__()
        self._held: _Dict = {}

    def _take(self, event: _Event) -> None:
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            _join(self._held, {name: delta.get(name) for name in _CHAT_FIELDS})
            self.is_complete = self.is_complete or bool(choice.get("finish_reason"))

    def message(self) -> object:
        message = {name: text for name, text in self._held.items() if text}
        calls = message.pop("tool_calls", {})
        whole = [calls[index] for index in sorted(calls) if self._is_whole(calls[index])]
        if whole:
            message["tool_calls"] = whole
        return {"role": "assistant", "content": None, **message} if message else None

    def _is_whole(self, call: _Event) -> bool:
        if self.is_complete:
            return True
        called = call.get("function") or {}
        return bool(call.get("id")) and isinstance(json_value(called.get("arguments") or ""), dict)


_CHAT_FIELDS = ("content", "refusal", "reasoning_content", "tool_calls")


class ResponsesStream(Stream):
    """Events of the Responses API: whole items, and the text of the item that is not whole yet."""

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[int, _Dict] = {}
        self._cut: dict[int, _Dict] = {}

    def _take(self, event: _Event) -> None:
        match event:
            case {"type": "response.output_item.done", "output_index": index, "item": item}:
                self._items[index] = item
            case {"type": "response.output_text.delta", "output_index": index, "delta": text}:
                item = self._cut.setdefault(index, {"role": "assistant"})
                _join(item, {"content": text})
            case {"type": "response.completed", "response": response}:
                self._items = dict(enumerate(response.get("output") or ())) or self._items
                self.is_complete = True

    def message(self) -> object:
        items = self._cut | self._items
        return [items[index] for index in sorted(items)] or None


class _BlockStream(Stream):
    """Events about the blocks of a message, each with the number of its block."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, _Dict] = {}

    def _begin(self, index: int, block: _Event, *, is_call: bool) -> None:
        self._blocks[index] = dict(block)
        if is_call:
            self._blocks[index]["arguments"] = ""

    def _add(self, index: int, piece: _Event) -> None:
        _join(self._blocks.setdefault(index, {}), piece)

    def _end(self, index: int) -> None:
        block = self._blocks.get(index, {})
        if block.get("arguments") == "":
            block["arguments"] = "{}"

    def message(self) -> object:
        content = []
        for index in sorted(self._blocks):
            block = dict(self._blocks[index])
            arguments = json_value(block.pop("arguments", "{}"))
            if block and isinstance(arguments, dict):
                content.append(self._finished(block, arguments))
        return {"role": "assistant", "content": content} if content else None

    @abstractmethod
    def _finished(self, block: _Dict, arguments: _Dict) -> _Dict:
        """Return a block as the provider sends it whole.

        Args:
            arguments: Those of a call, if the block is one.
        """


class AnthropicStream(_BlockStream):
    """Events of the Messages API."""

    def _take(self, event: _Event) -> None:
        match event:
            case {"type": "content_block_start", "index": index, "content_block": block}:
                self._begin(index, block, is_call=block.get("type") == "tool_use")
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                piece = {name: delta.get(name) for name in ("text", "thinking", "signature")}
                self._add(index, {**piece, "arguments": delta.get("partial_json")})
            case {"type": "content_block_stop", "index": index}:
                self._end(index)
            case {"type": "message_stop"}:
                self.is_complete = True

    def _finished(self, block: _Dict, arguments: _Dict) -> _Dict:
        if "input" in block:
            block["input"] = arguments
        return block


class BedrockStream(_BlockStream):
    """Events of ConverseStream."""

    def _take(self, event: _Event) -> None:
        match event:
            case {
                "contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": _} as start}
            }:
                self._begin(index, start, is_call=True)
            case {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}:
                called = delta.get("toolUse") or {}
                piece = {name: delta.get(name) for name in ("text", "reasoningContent")}
                self._add(index, {**piece, "arguments": called.get("input")})
            case {"contentBlockStop": {"contentBlockIndex": index}}:
                self._end(index)
            case {"messageStop": _}:
                self.is_complete = True

    def _finished(self, block: _Dict, arguments: _Dict) -> _Dict:
        match block:
            case {"toolUse": call}:
                return {"toolUse": {**call, "input": arguments}}
            case {"reasoningContent": reasoning} if "redactedContent" not in reasoning:
                return {"reasoningContent": {"reasoningText": {"text": "", **reasoning}}}
        return block


class GeminiStream(Stream):
    """Chunks of generateContent: each has parts, and texts go on in the next one."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[_Dict] = []

    def _take(self, event: _Event) -> None:
        for candidate in event.get("candidates") or ():
            for part in (candidate.get("content") or {}).get("parts") or ():
                self._add(part)
            ended = candidate.get("finishReason") or candidate.get("finish_reason")
            self.is_complete = self.is_complete or bool(ended)

    def _add(self, part: _Event) -> None:
        # A part with further fields, such as a signature, goes back as it came.
        kind = part.keys() & {"text", "thought"}
        if self._parts and "text" in part and self._parts[-1].keys() == part.keys() == kind:
            _join(self._parts[-1], part)
        else:
            self._parts.append(dict(part))

    def message(self) -> object:
        return {"role": "model", "parts": self._parts} if self._parts else None


_STREAMS: dict[str, type[Stream]] = {
    "anthropic": AnthropicStream,
    "bedrock": BedrockStream,
    "gemini": GeminiStream,
    "openai": ChatStream,
    "openai-responses": ResponsesStream,
}


def new_stream(format: str) -> Stream:
    """Return an empty stream of a provider. Raises InvalidArgumentError."""
    if format not in _STREAMS:
        names = ", ".join(map(repr, _STREAMS))
        raise InvalidArgumentError(f"no streams in format {shown(format)}; use one of {names}")
    return _STREAMS[format]()
