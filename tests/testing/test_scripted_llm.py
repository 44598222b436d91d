"""A scripted model says what it is told to, and remembers what it was asked."""

from __future__ import annotations

import pytest

from kaosmem import ChatMessage
from kaosmem.clients import LLMClient
from kaosmem.testing import ScriptedLLM
from kaosmem.testing.scripted_llm import ScriptExhaustedError

ASKED = [ChatMessage("user", "Who goes?")]


async def test_it_gives_its_answers_in_turn():
    """As messages, texts of the assistant's, or errors; one more is an error of the test's."""
    failure = RuntimeError("overloaded")
    llm = ScriptedLLM(iter(["Friend.", ChatMessage("assistant", "Foe."), failure]))
    assert isinstance(llm, LLMClient)
    assert await llm.chat(ASKED) == ChatMessage("assistant", "Friend.")
    assert (await llm.chat(ASKED, tools=[{"name": "ask"}])).text == "Foe."
    with pytest.raises(RuntimeError) as raised:
        await llm.chat(ASKED)
    assert raised.value is failure
    with pytest.raises(ScriptExhaustedError, match="no answer left"):
        await llm.chat(ASKED)
    assert llm.requests == [tuple(ASKED)] * 4
    assert llm.tools == [(), ({"name": "ask"},), (), ()]
    assert repr(llm) == "<ScriptedLLM, asked 4 times>"


async def test_it_answers_what_a_function_makes_of_the_question():
    """Each time; what is asked is kept as it was, whatever the caller does with its list."""
    llm = ScriptedLLM(lambda messages: f"You said: {messages[-1].text}")
    asked = list(ASKED)
    assert (await llm.chat(asked)).text == "You said: Who goes?"
    asked.clear()
    assert llm.requests == [tuple(ASKED)]
