"""Checkers of messages: requests by their provider's rules, and windows by their prefix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from kaosmem.arguments import json_text
from kaosmem.errors import KaosmemError
from kaosmem.testing import anthropic_rules, openai_rules
from kaosmem.testing.rules import Rule
from kaosmem.types import JSONDict, JSONObject, JSONValue


class MessageRuleError(KaosmemError, AssertionError):
    """Messages break a rule of the provider.

    Args:
        rule: Its name.
        position: Index of the message, from 0; None for the system prompt beside the messages.
    """

    def __init__(
        self,
        message: str,
        *,
        rule: str = "",
        position: int | None = None,
    ) -> None:
        super().__init__(message)
        self.rule = rule
        self.position = position


def check_openai_messages(messages: Iterable[JSONObject]) -> None:
    """Check messages for OpenAI's chat completions API.

    Raises MessageRuleError for the first broken rule.

    Each rule, with its source, is a function of `kaosmem.testing.openai_rules`.

    >>> check_openai_messages([{"role": "user", "content": "How long is the notice?"}])
    """
    _check(list(messages), openai_rules.RULES)


def check_anthropic_messages(
    messages: Iterable[JSONObject],
    system: JSONValue = "",
    *,
    thinking: bool = False,
    replies: Iterable[Sequence[JSONObject]] = (),
) -> None:
    """Check messages, and the system prompt beside them, for Anthropic's messages API.

    Each rule, with its source, is a function or a class of `kaosmem.testing.anthropic_rules`. A
    request without any message passes, since a context of static sections alone has none.
    Raises MessageRuleError for the first rule that they break.

    Args:
        thinking: Whether the request asks for thinking. The latest message of the assistant, if it
            calls, then begins with thinking.
        replies: Contents of the assistant's messages, as the API gave them. The thinking of the
            latest one is unchanged.

    >>> check_anthropic_messages([{"role": "user", "content": "Who owns the deal?"}])
    """
    if fault := anthropic_rules.fault_of_system(system):
        raise MessageRuleError(f"the system prompt {fault} (rule 'system')", rule="system")
    rules: list[Rule] = [*anthropic_rules.RULES, anthropic_rules.TheLatestReplyIsUnchanged(replies)]
    if thinking:
        rules.append(anthropic_rules.the_last_call_begins_with_thinking)
    _check(list(messages), rules)


def _check(messages: Sequence[JSONObject], rules: Iterable[Rule]) -> None:
    for rule in rules:
        for position, fault in rule(messages):
            name = rule.__name__
            raise MessageRuleError(
                f"message {position} {fault} (rule {name!r})", rule=name, position=position
            )


_Block = JSONDict


class PrefixBinding:
    """Signs the thinking of each reply with its request, and refuses it under another one.

    The request is the system prompt, the tools and all messages before the reply. Thinking blocks
    may neither be moved nor left out between others. Cache markers are not compared.
    Source: Anthropic, "Preserved thinking".

    Attributes:
        requests: Number of accepted requests.

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
        self._issued: dict[
            str, tuple[str, int, str]
        ] = {}  # signature -> prefix, place in the reply, thinking

    def check(
        self,
        messages: Sequence[JSONObject],
        system: JSONValue = "",
        *,
        tools: Sequence[JSONObject] = (),
    ) -> int:
        """Return the number of thinking blocks in a request.

        Raises MessageRuleError if one is bound to another one.
        """
        found = 0
        prefixes = _prefixes(messages, system, tools)
        for position, message in enumerate(messages):
            thinking = [block for block in _blocks(message) if block.get("type") == "thinking"]
            prefix = prefixes[position]
            for place, block in enumerate(thinking):
                bound = prefix, place, block["thinking"]
                if self._issued.get(str(block.get("signature"))) != bound:
                    raise MessageRuleError(
                        f"message {position} has thinking that is bound to a different "
                        "conversation "
                        "(rule 'prefix_binding')",
                        rule="prefix_binding",
                        position=position,
                    )
                found += 1
        return found

    def reply(
        self,
        messages: Sequence[JSONObject],
        system: JSONValue = "",
        *,
        tools: Sequence[JSONObject] = (),
        content: Iterable[JSONObject] = (),
        thinking: Iterable[str] = ("I look at the request.",),
    ) -> list[_Block]:
        """Return the content of a reply: signed thinking, then the given blocks.

        Raises as `check`.
        """
        self.check(messages, system, tools=tools)
        self.requests += 1
        prefix = _prefixes(messages, system, tools)[-1]
        signed: list[_Block] = []
        for place, thought in enumerate(thinking):
            signature = sha256(f"{self.requests} {place} {prefix}".encode()).hexdigest()
            self._issued[signature] = prefix, place, thought
            signed.append({"type": "thinking", "thinking": thought, "signature": signature})
        return signed + [dict(block) for block in content]


def _prefixes(
    messages: Sequence[JSONObject],
    system: JSONValue,
    tools: Sequence[JSONValue],
) -> list[str]:
    """Return digests of the request before each message, and of all of it, without markers."""
    said = sha256(json_text(_unmarked([system, list(tools)])).encode())
    digests = [said.hexdigest()]
    for message in messages:
        said.update(json_text(_unmarked([message["role"], list(_blocks(message))])).encode())
        digests.append(said.hexdigest())
    return digests


def _blocks(message: JSONObject) -> Iterator[JSONObject]:
    content = message["content"] or ()
    yield from [{"type": "text", "text": content}] if isinstance(content, str) else content


def _unmarked(value: JSONValue) -> JSONValue:
    if isinstance(value, Mapping):
        return {name: _unmarked(each) for name, each in value.items() if name != "cache_control"}
    return list(map(_unmarked, value)) if isinstance(value, list | tuple) else value
