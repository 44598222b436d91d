"""Checkers of messages: requests by their provider's rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kaosmem.errors import KaosmemError
from kaosmem.testing import anthropic_rules, openai_rules
from kaosmem.testing.rules import Rule
from kaosmem.types import JSONObject, JSONValue


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
