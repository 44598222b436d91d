"""The README's example runs as it stands, and its commands are where .ci/run looks for them."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.corpus import text_item
from kaosmem import Action, Observation, ToolUseBlock, count_messages, list_sessions
from kaosmem.testing import ScriptedLLM

README = (Path(__file__).parent.parent / "README.md").read_text()


def example(holding: str) -> str:
    """Return the one example that holds a text."""
    (found,) = (each for each in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if holding in each)
    return found


async def ran(text: str, **names: Any) -> dict[str, Any]:
    """Return the names that an example leaves when it has run."""
    running = eval(compile(text, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    assert inspect.isawaitable(running)
    await running
    return names


class Client:
    """Answers as a provider's client does, and keeps what it was asked."""

    def __init__(self) -> None:
        self.chat = SimpleNamespace(completions=self)
        self.asked: list[dict[str, Any]] = []

    async def create(self, *, model: str, messages: list[dict[str, Any]]) -> SimpleNamespace:
        self.asked = messages
        message = {"role": "assistant", "content": "Yes, on 30 days' written notice."}
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])


async def test_the_ten_lines_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example packs, asks, keeps the answer and is saved."""
    monkeypatch.chdir(tmp_path)
    names = await ran(example("deal-42"), client=Client(), model="scripted")
    assert count_messages(names["client"].asked, "openai") == names["context"].used
    assert "30 days" in str(names["client"].asked)
    assert [item.role for item in names["memory"]["messages"]] == ["user", "assistant"]
    assert "tokens used" in capsys.readouterr().out
    assert await list_sessions("./.kaosmem") == ["deal-42"]


async def test_a_conversation_is_condensed_as_it_says() -> None:
    """The example shows the instruction in every context, and a summary in the last."""
    model = ScriptedLLM(lambda _: "The agent looked into the client.")
    events = [
        event
        for number in range(150)
        for event in (
            Action("file_read", "", ToolUseBlock(f"{number}", "read", '{"path":"client.py"}')),
            Observation("result", f"line {number} " + "of the client " * 40, f"{number}"),
        )
    ]
    names = await ran(example("ConversationSource"), llm=model, events=events)
    shown = [item.text for item in names["context"].items]
    assert shown[0].startswith("TASK-17")
    assert shown[1].startswith("The agent looked into the client.")
    assert names["context"].used <= 8_000
    assert len(model.requests) > 1


async def test_a_history_is_summed_up_as_it_says() -> None:
    """The example ends with one summary, whose originals are the questions and answers that it stands for."""
    questions = [
        f"What does clause {number} say? " + "It may be about the notice period. " * 20 for number in range(50)
    ]
    names = await ran(example("AgentContext"), llm=ScriptedLLM(lambda _: "They went on."), questions=questions)
    assert len(names["summaries"]) == 1
    texts = [message.text for message in names["originals"][0]]
    assert texts[:2] == ["They went on.", questions[1]]


def test_weights_are_learned_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example takes files of items and questions, and makes a ranker."""
    monkeypatch.chdir(tmp_path)
    items = [{"id": f"i{number}", "session": "lease", "text": f"Clause {number}: rent."} for number in range(9)]
    Path("items.jsonl").write_text("\n".join(map(json.dumps, items)), encoding="utf-8")
    Path("questions.jsonl").write_text(json.dumps({"id": "q", "query": "clause 3", "evidence_ids": ["i3"]}), "utf-8")
    names: dict[str, Any] = {}
    exec(compile(example("items.jsonl"), "README.md", "exec"), names)
    index = names["ranker"].index()
    index.add((number, text_item(each["text"])) for number, each in enumerate(items))
    assert index.rank("clause 3", 1)[0][0] == 3


def test_the_two_commands_are_marked() -> None:
    """One command installs and runs the main job, one installs and passes the tests, and CI runs the latter."""
    for mark, part in (("main", "kaosmem assemble"), ("test", "pytest")):
        (command,) = re.findall(rf"<!-- {mark} command -->\n```sh\n(.*)\n```", README)
        assert "pip install" in command
        assert part in command
