"""An answer of OpenHands by the tool `finish` is an answer like one in words."""

import json

import pytest
from openhands.sdk import Agent, Conversation
from openhands.sdk.llm import Message, MessageToolCall, TextContent
from openhands.sdk.testing import TestLLM

from kaosmem import SyncSessionMemory
from kaosmem.integrations.openhands import KaosmemCondenser

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]


def finish(answer):
    arguments = json.dumps({"message": answer, "summary": "answer", "security_risk": "LOW"})
    call = MessageToolCall(
        id=f"call-{answer}", name="finish", arguments=arguments, origin="completion"
    )
    return Message(role="assistant", content=[TextContent(text="")], tool_calls=[call])


@pytest.mark.parametrize("is_new_conversation", [False, True])
def test_an_answer_by_finish_is_kept_once(tmp_path, is_new_conversation):
    """It is stored at once, also for a conversation that does not go on."""
    llm = TestLLM.from_messages([finish("Thirty days."), finish("In writing."), finish("Yes.")])
    kept = KaosmemCondenser(location=str(tmp_path), conversation="talk", budget=20_000)
    agent = Agent(llm=llm, condenser=kept)
    talk = None
    expected = []
    for question, answer in (
        ("How long?", "Thirty days."),
        ("How?", "In writing."),
        ("Sure?", "Yes."),
    ):
        if talk is None or is_new_conversation:
            talk = Conversation(
                agent, workspace=str(tmp_path), callbacks=[kept.keep], visualizer=None
            )
        talk.send_message(question)
        talk.run()
        expected += [question, answer]
        with SyncSessionMemory.open(tmp_path, "talk") as memory:
            assert [item.text for item in memory["messages"]] == expected
            assert len(memory.archive) == 0
