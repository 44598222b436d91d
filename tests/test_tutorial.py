"""The tutorial's program is the one that its steps show, and it survives `kill -9`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from kaosmem import SessionMemory
from kaosmem.testing import check_openai_messages

ROOT = Path(__file__).parent.parent
PROGRAM = ROOT / "examples" / "agent.py"
PAGE = (ROOT / "docs" / "tutorial.md").read_text()


def test_each_step_is_part_of_the_program():
    steps = re.findall(r"(?ms)^## \d+\. .*?(?=^## |\Z)", PAGE)
    assert len(steps) == 10
    parts = re.findall(r"(?s)```py\n(.*?)```", PAGE)
    assert len(parts) >= 7
    program = PROGRAM.read_text()
    for part in parts:
        assert part in program


def started(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM)],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def asked(agent: subprocess.Popen[str], question: str) -> str:
    """Return the line that the program prints next."""
    assert agent.stdin is not None
    assert agent.stdout is not None
    agent.stdin.write(f"{question}\n")
    agent.stdin.flush()
    return agent.stdout.readline().strip()


async def test_the_agent_survives_a_kill(tmp_path):
    """Killed within a tool, it goes on: as the last step of the page shows."""
    with started(tmp_path) as agent:
        assert asked(agent, "My name is Ann.") == "You began with: My name is Ann."
        assert asked(agent, "Run the tests.") == "running the tests"
        agent.kill()
    with started(tmp_path) as agent:
        assert asked(agent, "Who am I?") == "You began with: My name is Ann."
        agent.communicate(timeout=60)
        assert agent.returncode == 0
    async with SessionMemory.open(tmp_path / ".kaosmem", "tutorial") as memory:
        said = [item.text for item in memory["messages"] if item.role == "user"]
        assert said == ["My name is Ann.", "Run the tests.", "Who am I?"]
        context = await memory.assemble_context(budget=2_000, format="openai", window="main")
        check_openai_messages(context.messages)
