"""The README's example runs as it stands, and its commands are where .ci/run looks for them."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kaosmem import count_messages, list_sessions

README = (Path(__file__).parent.parent / "README.md").read_text()


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
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, Any] = {"client": Client(), "model": "scripted"}
    running = eval(compile(example, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    assert inspect.isawaitable(running)
    await running
    assert count_messages(names["client"].asked, "openai") == names["context"].used
    assert "30 days" in str(names["client"].asked)
    assert [item.role for item in names["memory"]["messages"]] == ["user", "assistant"]
    assert "tokens used" in capsys.readouterr().out
    assert await list_sessions("./.kaosmem") == ["deal-42"]


def test_the_two_commands_are_marked() -> None:
    """One command installs and runs the main job, one installs and passes the tests, and CI runs the latter."""
    for mark, part in (("main", "kaosmem assemble"), ("test", "pytest")):
        (command,) = re.findall(rf"<!-- {mark} command -->\n```sh\n(.*)\n```", README)
        assert "pip install" in command
        assert part in command
