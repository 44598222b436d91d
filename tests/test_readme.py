"""The examples of README and docs run as they stand, their links lead somewhere, and the glossary is complete."""

import asyncio
import doctest
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from opentelemetry.util._once import Once

from benchmarks.draw_pictures import RECALL, TURN, recalls, turns
from kaosmem import DEFAULT_SECTIONS, Reason, SessionMemory, SyncSessionMemory
from kaosmem.assembly.context import SourceStatus
from kaosmem.retrieval.candidate_signals import HAND_SET_WEIGHTS
from kaosmem.retrieval.rankers import default_weights
from kaosmem.session.directory import list_sessions
from tests.console import Console

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = {
    path.relative_to(ROOT): path.read_text()
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))
}
# An example, and the output in a block below it.
EXAMPLE = re.compile(
    r"```python\n(.*?)```(?:\n\n(?:It prints[^\n]*:\n\n)?```(?:text)?\n(.*?)```)?", re.DOTALL
)
# Such an example runs in `tests/backends`, which has the servers.
WITH_A_SERVER = re.compile(rf"<!-- example with a server: \w+ -->\n{EXAMPLE.pattern}", re.DOTALL)
EXAMPLES = [
    pytest.param(text, printed, id=f"{path.stem}-{number}")
    for path, page in PAGES.items()
    for number, (text, printed) in enumerate(EXAMPLE.findall(WITH_A_SERVER.sub("", page)), start=1)
]
RANDOM_ID = re.compile(r"\b[0-9a-f]{16}\b")


class Client:
    """Answers as an `openai.AsyncOpenAI` does, without a network."""

    def __init__(self):
        self.chat = SimpleNamespace(completions=self)

    async def create(self, *, model, messages, **options):
        assert model
        assert messages
        from openai.types.chat import ChatCompletionMessage

        message = ChatCompletionMessage(
            role="assistant", content="Yes, on 30 days' written notice."
        )
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])


def is_program(text):
    """Return whether an example is a whole program. In others, `await` stands outside of functions."""
    return any(mark in text for mark in ("asyncio.run(", "asyncio.Runner(", "SyncSessionMemory"))


def run_example(text):
    """Run a program as `python` does, any other example as `python -m asyncio` does."""
    if is_program(text):
        exec(compile(text, "example.py", "exec"), {"__name__": "__main__"})
        return
    with Console() as console:
        console.run(text)


def is_output(printed, output):
    """Return whether an example's output is the text below it, "" where there is none."""
    expected = RANDOM_ID.sub("-" * 16, printed)
    output = RANDOM_ID.sub("-" * 16, output)
    checker = doctest.OutputChecker()
    return not expected or checker.check_output(expected, output, doctest.ELLIPSIS)


@pytest.mark.parametrize(("text", "printed"), EXAMPLES)
def test_examples_run_as_they_stand(
    text,
    printed,
    tmp_path,
    monkeypatch,
    capsys,
):
    """Each example prints the text below it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("openai.AsyncOpenAI", Client)
    monkeypatch.setattr(sys, "displayhook", lambda _: None)
    # A process takes a provider of spans once. The one of an example is gone after it.
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", None)
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER_SET_ONCE", Once())
    run_example(text)
    output = capsys.readouterr().out
    assert is_output(printed, output), output


# Anthropic's tool refuses to create a file twice.
STORED = [
    each
    for each in EXAMPLES
    if '.open("./.kaosmem", "' in str(each.values[0]) and each.id != "anthropic-memory-tool-1"
]


@pytest.mark.parametrize(("text", "_printed"), STORED)
def test_examples_may_run_again(text, _printed, tmp_path, monkeypatch, capsys):
    """An example of a stored session stores a fact once, however often it runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("openai.AsyncOpenAI", Client)
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", None)
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER_SET_ONCE", Once())
    run_example(text)
    run_example(text)
    for session_id in asyncio.run(list_sessions("./.kaosmem")):
        with SyncSessionMemory.open("./.kaosmem", session_id, sections=None) as memory:
            for section in memory:
                texts = [item.text for item in section if not section.spec.is_history]
                assert len(texts) == len({*texts})


def test_programs_are_typed(tmp_path):
    """Every program of the pages passes `mypy --strict` as a reader would paste it.

    So do those that give requests to the providers' SDKs.
    """
    programs = [ROOT / "tests" / "typed_program.py"]
    if find_spec("mypy_boto3_bedrock_runtime") is not None:
        programs.append(ROOT / "tests" / "typed_bedrock_program.py")
    for number, example in enumerate(EXAMPLES):
        text = str(example.values[0])
        if is_program(text):
            programs.append(tmp_path / f"program_{number}.py")
            programs[-1].write_text(text)
    assert len(programs) > 5
    options = f"--config-file={ROOT / 'tests' / 'typed_programs.toml'}"
    command = [sys.executable, "-m", "mypy", options, *map(str, programs)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_the_two_commands_are_marked():
    """One command installs and runs the main job, one installs and passes the tests, and CI runs the latter."""
    for mark, part in (("main", "kaosmem assemble"), ("test", "pytest")):
        (command,) = re.findall(rf"<!-- {mark} command -->\n```sh\n(.*)\n```", README)
        assert "pip install" in command
        assert part in command


def test_links_lead_somewhere():
    """Every page, heading and file that a page names is there."""
    pages = {**PAGES, Path("CONTRIBUTING.md"): (ROOT / "CONTRIBUTING.md").read_text()}
    for path, page in pages.items():
        for target, heading in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page):
            place = (ROOT / path.parent / target).resolve() if target else ROOT / path
            assert place.is_file(), (path, target)
            if not heading:
                continue
            headings = re.findall(r"(?m)^#+ (.*)$", place.read_text())
            assert heading in [
                re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings
            ]
        for named in re.findall(r"`((?:kaosmem|tests|benchmarks|examples|docs)/[\w/.]+?)/?`", page):
            assert (ROOT / named).exists(), (path, named)
        of_code = path.stem in ("CONTRIBUTING", "a-turn", "a-section")
        for named in re.findall(r"\b([a-z_]+/[a-z_/]+\.py)\b", page if of_code else ""):
            assert (ROOT / named).exists() or [*(ROOT / "kaosmem").rglob(named)], (path, named)
    assert {str(path) for path in PAGES} - {"README.md"} <= set(
        re.findall(r"\]\((docs/[\w-]+\.md)\)", README)
    )


def test_the_rooms_of_the_house_quote_the_readme():
    """A newcomer finds a sentence of the README in the table of rooms by its words."""
    rows = re.findall(r'(?m)^\| (".*) \| .* \|$', (ROOT / "CONTRIBUTING.md").read_text())
    quotes = [quote for row in rows for quote in re.findall(r'"([^"]+)"', row)]
    assert len(quotes) > 40
    readme = " ".join(README.split())
    assert [quote for quote in quotes if quote not in readme] == []


def test_pictures_show_their_tables():
    """A figure that is measured again is drawn again."""
    bars = TURN.read_text()
    assert all(
        f">{name}<" in bars and f">{milliseconds:g} ms<" in bars
        for name, milliseconds in turns().items()
    )
    budgets, lines = recalls()
    drawn = RECALL.read_text()
    assert len(lines) == 5
    assert all(f">{budget:,}<" in drawn for budget in budgets)
    assert all(f"{name}: {recall[-1]:.3f}<" in drawn for name, recall in lines.items())


def test_the_table_of_sections_is_theirs():
    """Each default section, with its placement, budget, priority and floor."""
    table = re.findall(
        r"(?m)^\| `(\w+)` \| [^|]+ \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$",
        PAGES[Path("docs/sections.md")],
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


def test_the_glossary_names_every_reason():
    """Each member of `Reason` and of `SourceStatus` has one row, and no row names anything else."""
    assert glossary("Reasons") == [reason.value for reason in Reason]
    assert glossary("Status of a source") == [status.value for status in SourceStatus]


async def test_the_glossary_names_every_signal():
    """Each signal of the rankers has one row, and no row names anything else."""
    signals = {*HAND_SET_WEIGHTS}
    for file in ("weights.json", "weights_dense.json"):
        weights = default_weights(file)
        signals |= {*weights.conversation, *weights.documents, *weights.named_documents}
    memory = SessionMemory.test_mode()
    memory.add_many("documents", [f"Clause {number} was discussed." for number in range(99)])
    memory.add_many("documents", [f"{number}: Tell me about clause 7?" for number in range(9)])
    for question in ("Tell me about clause 7.", "Which one was discussed today?"):
        memory.add("messages", question)
        context = await memory.assemble_context(budget=1_000, sections=["documents"])
        for decision in context.decisions:
            signals |= {*decision.signals}
    assert sorted(glossary("Signals")) == sorted(signals)


def glossary(heading):
    """Return the terms of one table of the glossary, in order."""
    page = PAGES[Path("docs/glossary.md")]
    (part,) = re.findall(rf"(?ms)^## {heading}\n(.*?)(?=^## |\Z)", page)
    return re.findall(r"(?m)^\| `(\w+)` \|", part)
