"""LiteLLM: calls of one conversation, whose session outlives the process, within a budget."""

from pathlib import Path

import litellm
import pytest

from kaosmem import SyncSessionMemory
from kaosmem.integrations.litellm import KaosmemLogger

# LiteLLM warns of its own types.
pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]


async def test_calls_of_litellm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call gives the new message alone: the session has the earlier ones."""
    monkeypatch.setattr(litellm, "callbacks", [KaosmemLogger(tmp_path, budget=8_000)])
    for question, answer in (("How long is the notice?", "Thirty days."), ("How?", "In writing.")):
        await litellm.acompletion(
            "gpt-4o",
            messages=[{"role": "user", "content": question}],
            litellm_session_id="deal-42",
            mock_response=answer,
        )
    with SyncSessionMemory.open(tmp_path, "deal-42") as memory:
        said = [item.text for item in memory["messages"]]
    assert said == ["How long is the notice?", "Thirty days.", "How?", "In writing."]
