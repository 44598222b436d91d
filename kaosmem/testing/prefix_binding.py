"""A provider that binds thinking to the request that produced it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from kaosmem.testing.messages import MessageRuleError
from kaosmem.types import JSONValue, json_text

_Block = dict[str, JSONValue]


class PrefixBinding:
    """Signs the thinking of each reply with its request, and refuses thinking that comes back under another one.

    The request is the system prompt, the tools and all messages before the reply. Thinking blocks may neither be moved
    nor left out between others. Cache markers are not compared. Source: Anthropic, "Preserved thinking".
    requests: number of accepted requests.

    >>> provider = PrefixBinding()
    >>> asked = [{"role": "user", "content": "Who owns the deal?"}]
    >>> reply = provider.reply(asked, content=[{"type": "text", "text": "Ann."}])
    >>> asked += [{"role": "assistant", "content": reply}, {"role": "user", "content": "Since when?"}]
    >>> provider.check(asked)
    1
    >>> provider.check([{"role": "user", "content": "Who owns it?"}, *asked[1:]])
    Traceback (most recent call last):
    kaosmem.testing.messages.MessageRuleError: message 1 has thinking that is bound to a different conversation (rule \
'prefix_binding')
    """

    def __init__(self) -> None:
        self.requests = 0
        self._issued: dict[str, tuple[str, int, str]] = {}  # signature -> prefix, place in the reply, thinking

    def check(
        self,
        messages: Sequence[Mapping[str, JSONValue]],
        system: JSONValue = "",
        *,
        tools: Sequence[Mapping[str, JSONValue]] = (),
    ) -> int:
        """Return the number of thinking blocks in a request. Raises MessageRuleError if one is bound to another one."""
        found = 0
        prefixes = _prefixes(messages, system, tools)
        for position, message in enumerate(messages):
            thinking = [block for block in _blocks(message) if block.get("type") == "thinking"]
            prefix = prefixes[position]
            for place, block in enumerate(thinking):
                bound = prefix, place, block["thinking"]
                if self._issued.get(str(block.get("signature"))) != bound:
                    raise MessageRuleError(
                        f"message {position} has thinking that is bound to a different conversation "
                        "(rule 'prefix_binding')",
                        rule="prefix_binding",
                        position=position,
                    )
                found += 1
        return found

    def reply(
        self,
        messages: Sequence[Mapping[str, JSONValue]],
        system: JSONValue = "",
        *,
        tools: Sequence[Mapping[str, JSONValue]] = (),
        content: Iterable[Mapping[str, JSONValue]] = (),
        thinking: Iterable[str] = ("I look at the request.",),
    ) -> list[_Block]:
        """Return the content of a reply: signed thinking, then the given blocks. Raises as `check`."""
        self.check(messages, system, tools=tools)
        self.requests += 1
        prefix = _prefixes(messages, system, tools)[-1]
        signed: list[_Block] = []
        for place, thought in enumerate(thinking):
            signature = sha256(f"{self.requests} {place} {prefix}".encode()).hexdigest()
            self._issued[signature] = prefix, place, thought
            signed.append({"type": "thinking", "thinking": thought, "signature": signature})
        return signed + [dict(block) for block in content]


def _prefixes(messages: Sequence[Mapping[str, JSONValue]], system: JSONValue, tools: Sequence[JSONValue]) -> list[str]:
    """Return digests of what stands before each message, and of the whole request, without cache markers."""
    said = sha256(json_text(_unmarked([system, list(tools)])).encode())
    digests = [said.hexdigest()]
    for message in messages:
        said.update(json_text(_unmarked([message["role"], list(_blocks(message))])).encode())
        digests.append(said.hexdigest())
    return digests


def _blocks(message: Mapping[str, JSONValue]) -> Iterator[Mapping[str, JSONValue]]:
    content = message["content"] or ()
    yield from [{"type": "text", "text": content}] if isinstance(content, str) else content


def _unmarked(value: JSONValue) -> JSONValue:
    if isinstance(value, Mapping):
        return {name: _unmarked(each) for name, each in value.items() if name != "cache_control"}
    return list(map(_unmarked, value)) if isinstance(value, list | tuple) else value
