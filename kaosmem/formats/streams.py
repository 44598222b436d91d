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


class Stream(ABC):
    """The events of one reply.

    Attributes:
        is_complete: Whether the reply has ended by itself.
    """

    def __init__(self) -> None:
        self.is_complete = False

    def add(self, event: object) -> None:
        """Take the next event, a dict or an object of the SDK. Raises InvalidArgumentError."""
        dump = getattr(event, "model_dump", None)
        if dump is None or isinstance(event, type):
            self._take(mapping_of(event, "an event of a stream"))
        else:
            self._take(dump(mode="json", exclude_none=True, by_alias=True, warnings=False))

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
        self._texts: dict[str, str] = {}
        self._calls: dict[int, _Dict] = {}

    def _take(self, event: _Event) -> None:
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            for name in ("content", "refusal", "reasoning_content"):
                if delta.get(name):
                    self._texts[name] = self._texts.get(name, "") + delta[name]
            for call in delta.get("tool_calls") or ():
                _join(self._calls.setdefault(call["index"], {}), call)
            self.is_complete = self.is_complete or bool(choice.get("finish_reason"))

    def message(self) -> object:
        calls = [self._calls[index] for index in sorted(self._calls)]
        whole = [call for call in calls if self.is_complete or _is_whole_call(call)]
        if not self._texts and not whole:
            return None
        message: _Dict = {"role": "assistant", "content": None, **self._texts}
        return message | ({"tool_calls": whole} if whole else {})


def _join(held: _Dict, piece: _Event) -> None:
    """Add a piece of a call: ids and names come once, texts of arguments are appended."""
    for name, value in piece.items():
        if name in ("function", "custom") and isinstance(value, Mapping):
            _join(held.setdefault(name, {}), value)
        elif name in ("arguments", "input"):
            held[name] = held.get(name, "") + value
        elif name != "index":
            held[name] = value


def _is_whole_call(call: _Event) -> bool:
    called = call.get("function") or {}
    return bool(call.get("id")) and isinstance(json_value(called.get("arguments") or ""), dict)


class ResponsesStream(Stream):
    """Events of the Responses API: whole items, and the text of the item that is not whole yet."""

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[int, _Dict] = {}
        self._texts: dict[int, str] = {}
        self._whole: list[_Dict] | None = None

    def _take(self, event: _Event) -> None:
        match event:
            case {"type": "response.output_item.done", "output_index": index, "item": item}:
                self._items[index] = item
            case {"type": "response.output_text.delta", "output_index": index, "delta": text}:
                self._texts[index] = self._texts.get(index, "") + text
            case {"type": "response.completed", "response": response}:
                self._whole = response.get("output") or None
                self.is_complete = True

    def message(self) -> object:
        if self._whole is not None:
            return self._whole
        items = dict(self._items)
        for index, text in self._texts.items():
            items.setdefault(index, {"role": "assistant", "content": text})
        return [items[index] for index in sorted(items)] or None


class _BlockStream(Stream):
    """Events about the blocks of a message, each with the number of its block."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, _Dict] = {}
        self._arguments: dict[int, str] = {}

    def _content(self) -> list[_Dict]:
        """Return the blocks that came, without calls whose arguments are cut."""
        content = []
        for index in sorted(self._blocks):
            block = self._blocks[index]
            arguments = self._arguments.get(index)
            if arguments is not None:
                parsed = json_value(arguments)
                if not isinstance(parsed, dict):
                    continue
                block = self._called(block, parsed)
            if block:
                content.append(block)
        return content

    @abstractmethod
    def _called(self, block: _Dict, arguments: _Dict) -> _Dict:
        """Return a call with its arguments."""

    def message(self) -> object:
        content = self._content()
        return {"role": "assistant", "content": content} if content else None


class AnthropicStream(_BlockStream):
    """Events of the Messages API."""

    def _take(self, event: _Event) -> None:
        match event:
            case {"type": "content_block_start", "index": index, "content_block": block}:
                self._blocks[index] = dict(block)
                if str(block.get("type")).endswith("tool_use"):
                    self._arguments[index] = "" if block.get("type") == "tool_use" else "{}"
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                self._add(index, delta)
            case {"type": "content_block_stop", "index": index} if index in self._arguments:
                self._arguments[index] = self._arguments[index] or "{}"
            case {"type": "message_stop"}:
                self.is_complete = True

    def _add(self, index: int, delta: _Event) -> None:
        match delta:
            case {"type": "input_json_delta", "partial_json": text}:
                held = self._arguments.get(index, "")
                self._arguments[index] = ("" if held == "{}" else held) + text
            case {"type": "signature_delta", "signature": text}:
                self._blocks[index]["signature"] = text
            case {"type": "text_delta", "text": text}:
                self._blocks[index]["text"] += text
            case {"type": "thinking_delta", "thinking": text}:
                self._blocks[index]["thinking"] += text

    def _called(self, block: _Dict, arguments: _Dict) -> _Dict:
        return {**block, "input": arguments}


class BedrockStream(_BlockStream):
    """Events of ConverseStream."""

    def _take(self, event: _Event) -> None:
        match event:
            case {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": call}}}:
                self._blocks[index] = {"toolUse": dict(call)}
                self._arguments[index] = ""
            case {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}:
                self._add(index, delta)
            case {"contentBlockStop": {"contentBlockIndex": index}} if index in self._arguments:
                self._arguments[index] = self._arguments[index] or "{}"
            case {"messageStop": _}:
                self.is_complete = True

    def _add(self, index: int, delta: _Event) -> None:
        block = self._blocks.setdefault(index, {})
        match delta:
            case {"toolUse": {"input": text}}:
                self._arguments[index] = self._arguments.get(index, "") + text
            case {"text": text}:
                block["text"] = block.get("text", "") + text
            case {"reasoningContent": {"redactedContent": data}}:
                block["reasoningContent"] = {"redactedContent": data}
            case {"reasoningContent": reasoning}:
                held = block.setdefault("reasoningContent", {"reasoningText": {"text": ""}})
                held["reasoningText"]["text"] += reasoning.get("text", "")
                if reasoning.get("signature"):
                    held["reasoningText"]["signature"] = reasoning["signature"]

    def _called(self, block: _Dict, arguments: _Dict) -> _Dict:
        return {"toolUse": {**block["toolUse"], "input": arguments}}


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
        last = self._parts[-1] if self._parts else {}
        is_text = "text" in part and "text" in last
        is_same = bool(part.get("thought")) is bool(last.get("thought"))
        # A part with a signature goes back as it came: it is joined with no other.
        if is_text and is_same and not _is_signed(last) and not _is_signed(part):
            self._parts[-1] = {**last, **part, "text": last["text"] + part["text"]}
        else:
            self._parts.append(dict(part))

    def message(self) -> object:
        return {"role": "model", "parts": self._parts} if self._parts else None


def _is_signed(part: _Event) -> bool:
    return "thoughtSignature" in part or "thought_signature" in part


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
