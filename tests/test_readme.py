"""The examples of README and docs run as they stand, their links lead somewhere, and .ci/run finds its command."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.corpus import text_item
from benchmarks.draw_recall import PICTURE, recalls
from kaosmem import (
    DEFAULT_SECTIONS,
    Action,
    ChatMessage,
    Observation,
    SessionMemory,
    SummarizationCompaction,
    ToolUseBlock,
    count_messages,
    list_sessions,
)
from kaosmem.testing import ScriptedLLM

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = {path.relative_to(ROOT): path.read_text() for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))}
EXAMPLES = [each for page in PAGES.values() for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL)]


def example(holding: str) -> str:
    """Return the one example that holds a text."""
    (found,) = (each for each in EXAMPLES if holding in each)
    return found


def printed(holding: str) -> str:
    """Return what a page says that an example prints: the block after it."""
    (found,) = (
        after
        for page in PAGES.values()
        for text, after in re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL)
        if holding in text
    )
    return str(found)


async def ran(text: str, **names: Any) -> dict[str, Any]:
    """Return the names that an example leaves when it has run."""
    running = eval(compile(text, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    assert inspect.isawaitable(running)
    await running
    return names


class Client:
    """Answers as a provider's client does, and keeps what it was asked."""

    def __init__(self) -> None:
        self.chat = SimpleNamespace(completions=self)
        self.asked: list[dict[str, Any]] = []
        self.options: dict[str, Any] = {}

    async def create(self, *, model: str, messages: list[dict[str, Any]], **options: Any) -> SimpleNamespace:
        self.asked, self.options = messages, options
        message = {"role": "assistant", "content": "Yes, on 30 days' written notice."}
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])


def test_the_first_example_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It packs, explains and saves, and can be run again; ids are drawn anew."""
    monkeypatch.chdir(tmp_path)
    program = compile(example("asyncio.run(main())"), "README.md", "exec")
    exec(program, {})
    ids = re.compile(r"\b[0-9a-f]{16}\b")
    assert ids.sub("-", capsys.readouterr().out) == ids.sub("-", printed("asyncio.run(main())"))
    assert asyncio.run(list_sessions("./.kaosmem")) == ["deal-42"]
    exec(program, {})
    assert "documents      17 tokens" in capsys.readouterr().out


async def test_a_reply_goes_back_in() -> None:
    """A model is sent what was packed, and its answer is the newest message."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "Can either side terminate?")
    context = await memory.assemble_context(budget=100, format="openai")
    client = Client()
    await ran(example("reply = await client"), client=client, model="scripted", context=context, memory=memory)
    assert count_messages(client.asked, "openai") == context.used
    assert [item.role for item in memory["messages"]] == ["user", "assistant"]


async def test_a_session_shows_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """A section of one's own, a key and a filter leave what stands below the example."""
    await ran(example("decisions = SectionSpec"))
    assert capsys.readouterr().out == printed("decisions = SectionSpec")


async def test_facts_of_a_store_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """What a long-term memory finds is in the context."""
    await ran(example("FactSource"))
    assert "to be called, not written to" in capsys.readouterr().out


async def test_what_is_saved_is_there_and_what_is_forgotten_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example reads back its finding, and leaves no file that holds it."""
    monkeypatch.chdir(tmp_path)
    names = await ran(example("lease-7"))
    assert names["kept"].text == names["item"].text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not any(b"DE89" in path.read_bytes() for path in files)


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


async def test_a_model_of_a_provider_sums_up() -> None:
    """The class is an LLMClient: it is asked for a summary, and told which tool to call."""
    names: dict[str, Any] = {"client": Client()}
    exec(compile(example("class OpenAIModel"), "histories.md", "exec"), names)
    strategy = SummarizationCompaction(names["llm"], recent_token_budget=80, min_old_tokens=50)
    long = [
        ChatMessage(role, f"{role} {number} " + "says more " * 20)
        for number in range(4)
        for role in ("user", "assistant")
    ]
    left = await strategy.compact(long)
    assert [message.role for message in left].count("summary") == 1
    assert names["client"].asked[0]["role"] == "system"
    tool = {"name": "rank", "description": "", "parameters": {"type": "object"}}
    assert (await names["llm"].chat(long, tools=[tool])).text == "Yes, on 30 days' written notice."
    assert names["client"].options["tool_choice"]["function"] == {"name": "rank"}
    assert names["client"].options["tools"] == [{"type": "function", "function": tool}]


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


def test_links_lead_somewhere() -> None:
    """Every page, heading and file that a page names is there."""
    pages = {**PAGES, Path("CONTRIBUTING.md"): (ROOT / "CONTRIBUTING.md").read_text()}
    for path, page in pages.items():
        for target, heading in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page):
            place = (ROOT / path.parent / target).resolve() if target else ROOT / path
            assert place.is_file(), (path, target)
            headings = re.findall(r"(?m)^#+ (.*)$", place.read_text())
            assert not heading or heading in [
                re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings
            ]
        for named in re.findall(r"`((?:kaosmem|tests|benchmarks|examples|docs)/[\w/.]+?)/?`", page):
            assert (ROOT / named).exists(), (path, named)
    assert {str(path) for path in PAGES} - {"README.md"} <= set(re.findall(r"\]\((docs/\w+\.md)\)", README))


def test_every_example_is_run() -> None:
    """An example that no test here runs would soon not run any more."""
    tests = Path(__file__).read_text()
    run = re.findall(r'example\("([^"]+)"\)', tests)
    assert [text for text in EXAMPLES if not any(each in text for each in run)] == []


def test_the_picture_shows_the_table() -> None:
    """What is drawn is what the table says: a line that is measured anew is drawn anew."""
    budgets, lines = recalls()
    drawn = PICTURE.read_text()
    assert len(lines) == 5
    assert all(f">{budget:,}<" in drawn for budget in budgets)
    assert all(f"{name}: {recall[-1]:.3f}<" in drawn for name, recall in lines.items())


def test_the_table_of_sections_is_theirs() -> None:
    """Each default section, with its placement, budget, priority and floor."""
    table = re.findall(
        r"(?m)^\| `(\w+)` \| [^|]+ \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$", PAGES[Path("docs/sessions.md")]
    )
    assert table == [
        (
            spec.name,
            spec.placement if spec.in_context else "-",
            "-" if spec.budget is None else f"{spec.budget:,}",
            str(spec.priority),
            f"{spec.floor:g}" if spec.floor else "-",
        )
        for spec in DEFAULT_SECTIONS
    ]
