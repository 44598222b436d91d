"""The pieces of a streamed reply, put together as one message of its provider.

An event of a provider holds pieces. Each has a place in the reply, and the pieces of one place are
joined. The parts of all places, in their order, are the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.fields import json_value, mapping_of
from kaosmem.names import name_hint, shown
from kaosmem.types import JSONDict, JSONObject
from kaosmem.types.items import Item

INTERRUPTED: JSONDict = {"interrupted": True}
"""The metadata of a message whose stream ended early."""

_APPENDED = frozenset(
    ("arguments", "content", "input", "reasoning_content", "refusal", "text", "thinking")
)
"""Fields whose texts come in pieces. Other fields, such as ids and names, come once."""
_CHAT_FIELDS = ("content", "refusal", "reasoning_content")
_DELTA_FIELDS = ("text", "thinking", "signature", "reasoningContent")


class _Piece(NamedTuple):
    """A piece of a reply.

    Attributes:
        fields: The fields of a part that came.
        place: The place of the part. None: the next one, or the last if its text goes on.
        begins: Whether the fields replace those that came before.
    """

    fields: JSONObject
    place: int | None = None
    begins: bool = False


_END = _Piece({})
"""Says that the reply has ended by itself."""


class _Reader(NamedTuple):
    """The reading of one provider's streams.

    Attributes:
        pieces: Yields the pieces of an event.
        finish: Returns the message of the parts so far, without calls that are cut. It gets whether
            the reply has ended by itself.
    """

    pieces: Callable[[JSONObject], Iterator[_Piece]]
    finish: Callable[[Sequence[JSONDict], bool], object]


class Stream:
    """The events of one reply.

    Attributes:
        is_complete: Whether the reply has ended by itself.
        item: The stored message, None before it is stored, or if nothing came.
    """

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self._parts: dict[int, JSONDict] = {}
        self.is_complete = False
        self.item: Item | None = None

    def add(self, event: object) -> None:
        """Take the next event, a dict or an object of the SDK.

        Raises:
            InvalidArgumentError: If the event is no such object, or is of another format.
        """
        given = mapping_of(event, "an event of a stream")
        pieces = list(self._reader.pieces(given))
        if not pieces:
            _check_no_other(given)
        for piece in pieces:
            if piece is _END:
                self.is_complete = True
                continue
            place = piece.place
            begins = piece.begins
            if place is None:
                place = self._next_place(piece.fields)
                begins = place not in self._parts
            if begins:
                self._parts[place] = dict(piece.fields)
            else:
                _join(self._parts.setdefault(place, {}), piece.fields)

    def message(self) -> object:
        """Return the message so far, as its format reads it; None if nothing came."""
        parts = [self._parts[place] for place in sorted(self._parts)]
        if parts:
            return self._reader.finish(parts, self.is_complete)
        return None

    def _next_place(self, fields: JSONObject) -> int:
        """Return the place of a part that states none: the last one if its text goes on."""
        following = len(self._parts)
        last = self._parts.get(following - 1, {})
        # A part with further fields, such as a signature, goes back as it came.
        is_plain = "text" in fields and fields.keys() <= {"text", "thought"}
        if is_plain and fields.keys() == last.keys():
            return following - 1
        return following


def _join(held: JSONDict, piece: JSONObject) -> None:
    """Add a piece to the fields that came."""
    for name, value in piece.items():
        if value is None:
            continue
        if isinstance(value, Mapping):
            _join(held.setdefault(name, {}), value)
        elif name in _APPENDED:
            held[name] = held.get(name, "") + value
        else:
            held[name] = value


def _only(event: JSONObject, name: str) -> Iterator[JSONObject]:
    """Yield the only choice of an event, if it has one. Raises InvalidArgumentError for others."""
    for choice in event.get(name) or ():
        if choice.get("index"):
            raise InvalidArgumentError(f"the stream has several {name}; ask the provider for one")
        yield choice


def _chat_pieces(event: JSONObject) -> Iterator[_Piece]:
    """Yield the pieces of a chunk of chat completions: the texts are one part, each call is one."""
    for choice in _only(event, "choices"):
        delta = choice.get("delta") or {}
        if choice.get("message") and not delta:
            raise InvalidArgumentError("the reply is whole and no stream; give it to add_message")
        yield _Piece({name: delta.get(name) for name in _CHAT_FIELDS}, place=0)
        for call in delta.get("tool_calls") or ():
            yield _Piece(call, call["index"] + 1)
        if choice.get("finish_reason"):
            yield _END


def _chat_message(parts: Sequence[JSONDict], is_complete: bool) -> object:
    """Return a message of chat completions, None if nothing came."""
    texts, *calls = parts
    message: JSONDict = {name: text for name, text in texts.items() if text}
    whole = []
    for call in calls:
        function = call.get("function") or {}
        arguments = json_value(function.get("arguments") or "")
        if is_complete or (call.get("id") and isinstance(arguments, dict)):
            whole.append(call)
    if whole:
        message["tool_calls"] = whole
    if message:
        return {"role": "assistant", "content": None, **message}
    return None


def _responses_pieces(event: JSONObject) -> Iterator[_Piece]:
    """Yield items of the Responses API, and pieces of the text of one that is not whole yet."""
    match event:
        case {"type": "response.output_item.done", "output_index": index, "item": item}:
            yield _Piece(item, index, begins=True)
        case {"type": "response.output_text.delta", "output_index": index, "delta": text}:
            yield _Piece({"role": "assistant", "content": text}, index)
        case {"type": "response.completed", "response": response}:
            for index, item in enumerate(response.get("output") or ()):
                yield _Piece(item, index, begins=True)
            yield _END


def _anthropic_pieces(event: JSONObject) -> Iterator[_Piece]:
    """Yield the beginnings of blocks, and pieces of their texts and arguments."""
    match event:
        case {"type": "content_block_start", "index": index, "content_block": block}:
            if block.get("type") == "tool_use":
                block = {**block, "arguments": ""}
            yield _Piece(block, index, begins=True)
        case {"type": "content_block_delta", "index": index, "delta": delta}:
            fields = {name: delta.get(name) for name in _DELTA_FIELDS}
            yield _Piece({**fields, "arguments": delta.get("partial_json")}, index)
        case {"type": "message_stop"}:
            yield _END


def _anthropic_block(block: JSONDict, arguments: JSONDict) -> JSONDict:
    """Return a block as Anthropic sends it whole."""
    if "input" in block:
        return {**block, "input": arguments}
    return block


def _bedrock_pieces(event: JSONObject) -> Iterator[_Piece]:
    """Yield the beginnings of calls, and pieces of texts and arguments."""
    match event:
        case {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": call}}}:
            yield _Piece({"toolUse": call, "arguments": ""}, index, begins=True)
        case {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}:
            called = delta.get("toolUse") or {}
            fields = {name: delta.get(name) for name in _DELTA_FIELDS}
            yield _Piece({**fields, "arguments": called.get("input")}, index)
        case {"messageStop": _}:
            yield _END


def _bedrock_block(block: JSONDict, arguments: JSONDict) -> JSONDict:
    """Return a block as Bedrock sends it whole."""
    match block:
        case {"toolUse": call}:
            return {"toolUse": {**call, "input": arguments}}
        case {"reasoningContent": reasoning} if "redactedContent" not in reasoning:
            return {"reasoningContent": {"reasoningText": {"text": "", **reasoning}}}
    return block


def _gemini_pieces(event: JSONObject) -> Iterator[_Piece]:
    """Yield the parts of a chunk of generateContent, of which texts go on in the next chunk."""
    for candidate in _only(event, "candidates"):
        content = candidate.get("content") or {}
        for part in content.get("parts") or ():
            yield _Piece(part)
        if candidate.get("finishReason") or candidate.get("finish_reason"):
            yield _END


def _block_message(
    finish: Callable[[JSONDict, JSONDict], JSONDict],
    parts: Sequence[JSONDict],
    is_complete: bool,
) -> object:
    """Return a message with blocks.

    A call without arguments is whole if something follows it.

    Args:
        finish: Returns a block as the provider sends it whole, with the arguments of a call.
    """
    content = []
    for number, part in enumerate(parts, 1):
        block = dict(part)
        text = block.pop("arguments", "{}")
        is_ended = is_complete or number < len(parts)
        if not text and is_ended:
            text = "{}"
        arguments = json_value(text)
        if block and isinstance(arguments, dict):
            content.append(finish(block, arguments))
    if content:
        return {"role": "assistant", "content": content}
    return None


_READERS = {
    "anthropic": _Reader(_anthropic_pieces, partial(_block_message, _anthropic_block)),
    "bedrock": _Reader(_bedrock_pieces, partial(_block_message, _bedrock_block)),
    "gemini": _Reader(_gemini_pieces, lambda parts, _: {"role": "model", "parts": parts}),
    "openai": _Reader(_chat_pieces, _chat_message),
    "openai-responses": _Reader(_responses_pieces, lambda parts, _: parts),
}


def _check_no_other(event: JSONObject) -> None:
    """Raise InvalidArgumentError for an event that is a part of a reply in another format."""
    for name, reader in _READERS.items():
        if list(reader.pieces(event)):
            raise InvalidArgumentError(
                f"the event is of a stream in format {name!r}; collect it in this format"
            )


def new_stream(format: str) -> Stream:
    """Return an empty stream of a provider. Raises InvalidArgumentError."""
    if format not in _READERS:
        raise InvalidArgumentError(
            f"no streams in format {shown(format)}; {name_hint(format, _READERS)}"
        )
    return Stream(_READERS[format])
