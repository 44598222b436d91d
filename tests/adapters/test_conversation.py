"""A conversation beside a session's own sections keeps every promise, whatever its log and condenser."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from kaosmem import (
    Condenser,
    ConversationSource,
    EventLog,
    SessionMemory,
    WindowTooSmallError,
    count_messages,
)
from kaosmem.testing import check_anthropic_messages, check_openai_messages
from tests.conversation.condensers import condensers
from tests.conversation.logs import LOGS
from tests.worlds import budgets, queries


async def assembled(log: EventLog, condenser: Condenser | None, query: str | None, budget: int, format: str):
    memory = SessionMemory.test_mode()
    memory.add("role", "Be careful.")
    memory.add("findings", "The fee is due in 30 days.")
    await memory.attach(ConversationSource(log, condenser))
    try:
        return memory, await memory.assemble_context(query, budget=budget, format=format)
    except WindowTooSmallError:
        return memory, None


@given(LOGS, condensers(), queries, budgets, st.sampled_from(["openai", "anthropic"]))
def test_the_budget_holds_and_the_messages_are_the_providers(log, condenser, query, budget, format):
    """Counted again they are what the context says, and within the budget; every event shown is fetched in full."""

    async def scenario() -> None:
        memory, context = await assembled(log, condenser, query, budget, format)
        if context is None:
            return
        system_prompt = context.system if format == "anthropic" else ""
        assert count_messages(context.messages, format, system=system_prompt) == context.used <= budget
        if format == "openai":
            check_openai_messages(context.messages)
        else:
            check_anthropic_messages(context.messages, system_prompt)
        for item in context.items:
            if item.section == "conversation":
                fetched = await memory.fetch(item.id)
                assert fetched == item or "left out" in item.text

    asyncio.run(scenario())
