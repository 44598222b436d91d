"""Draw the pictures of turns in `docs/` from a real session: `python -m benchmarks.draw_turns`.

The page needs Debian's Chromium, or the one that KAOSMEM_CHROMIUM names. The other pictures need
no browser.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

from rich.console import Console
from rich.text import Text

from kaosmem import SessionMemory
from kaosmem.assembly.context import Context
from kaosmem.assembly.explanation import COLUMNS
from kaosmem.view.page import html_page, page_data

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FILES = {
    "msa.pdf": [
        "Either party may terminate this agreement on 30 days' written notice.",
        "Liability is limited to the fees of the last twelve months.",
        "The customer pays within 14 days of the invoice.",
        "Confidential information stays confidential for five years after the end.",
    ],
    "sow-3.docx": [
        "The migration ends on 31 March 2026.",
        "Acceptance needs a signed protocol of both project managers.",
        "Travel is paid at cost, up to 2,000 euros a month.",
    ],
    "mail-0412.eml": [
        "Could we end the contract by the end of March, please?",
        "We are unhappy with the response times of support.",
    ],
}
QUESTIONS = [
    "Can either side terminate for convenience?",
    "Who owns the deal?",
    "When does the migration end?",
    "How high is the liability?",
    "What are the service credits of month 3?",
    "Is travel paid?",
    "When must the invoice be paid?",
    "What did the customer complain about?",
    "Summarise the risks for the board.",
    "Which notice must we send, and when?",
]
OWNERS = {1: "Ann", 5: "Bob", 8: "Cleo"}
COLORS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"]


async def talk() -> tuple[SessionMemory, Context]:
    """Return a session of ten turns over a contract, and its last context."""
    memory = SessionMemory.test_mode(session_id="deal-42", trace=True)
    memory.add("role", "You are a careful contracts analyst. Cite the clause for every claim.")
    for source, texts in FILES.items():
        for text in texts:
            metadata = {"source": source, "timestamp": "2026-01-12"}
            memory.add("documents", text, metadata=metadata)
    for number in range(60):
        level = 90 + number % 7
        text = f"Annex {number}: service level {level} percent in month {number % 12 + 1}."
        memory.add("documents", text, metadata={"source": "annexes.xlsx"})
    for number, question in enumerate(QUESTIONS):
        if number in OWNERS:
            memory.add("findings", f"{OWNERS[number]} owns the deal.", key="owner")
        memory.add("messages", question)
        context = await memory.assemble_context(budget=600, window="main", format="openai")
        memory.add("messages", f"Answer {number + 1}, with the clause.", role="assistant")
    return memory, context


def draw_page(memory: SessionMemory, chromium: str) -> None:
    """Take pictures of the page: the window with an item, and all turns."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "turns.html"
        file.write_text("".join(html_page(page_data(memory._session))), encoding="utf-8")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for name, tab, scheme in (
                ("page", "window", "light"),
                ("page-turns", "session", "dark"),
            ):
                size = {"width": 1200, "height": 760}
                page = browser.new_page(viewport=size, color_scheme=scheme)
                page.goto(file.as_uri())
                page.click(f"#tab-{tab}")
                if tab == "window":
                    page.click("[role=option] >> text=msa.pdf")
                    page.wait_for_selector("aside")
                page.screenshot(path=DOCS / f"{name}.png")
            browser.close()


def draw_terminal(context: Context) -> None:
    """Draw the report of a context as a terminal shows it."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere)
        console.print(Text.from_ansi(context.explain(misses=5, color=True)))
        svg = console.export_svg(title="print(context.explain(color=True))", unique_id="explain")
    svg = re.sub(r"@font-face \{.*?\}|<!--.*?-->", "", svg, flags=re.S)
    (DOCS / "explain.svg").write_text(svg, encoding="utf-8")


def draw_turn(context: Context) -> None:
    """Draw one turn: what each section offered, what is in, and how that fills the budget."""
    uses = [(name, use) for name, use in context.by_section.items() if use.used]
    cutoffs = context.cutoffs
    scale = 720 / context.budget
    lines = []
    left = 20.0
    for place, (name, use) in enumerate(uses):
        top = 50 + 44 * place
        color = COLORS[place % len(COLORS)]
        offered = max(use.items, cutoffs[name].offered if name in cutoffs else 0)
        said = f"{name}: {offered} offered, {use.items} in, {use.used} tokens"
        lines.append(_text(20, top, said))
        lines.append(_box(320, top - 13, 5 * offered, 16, color, opacity=0.25))
        lines.append(_box(320, top - 13, 5 * use.items, 16, color))
        lines.append(_box(left, 50 + 44 * len(uses), scale * use.used, 34, color))
        left += scale * use.used
    bottom = 50 + 44 * len(uses)
    frame = scale * context.frame
    lines.append(_box(left, bottom, frame, 34, "#8a929b"))
    rest = 20 + 720 - left - frame
    lines.append(_box(left + frame, bottom, rest, 34, "#d5dae0"))
    title = f"{context.query} {context.used} of {context.budget} tokens"
    said = f"{context.prefix_tokens} tokens as sent before, {context.appended} appended"
    cached = scale * context.prefix_tokens
    lines.append(_box(20, bottom + 38, cached, 6, "#0b5cad"))
    lines += [_text(20, 22, title, bold=True), _text(20, bottom + 64, said)]
    _write(DOCS / "one-turn.svg", lines, 760, bottom + 80)


def draw_house() -> None:
    """Draw the package as a house: a floor imports only from floors below its own."""
    layers = _layers()
    lines = []
    for floor, rooms in enumerate(layers):
        wide = 720 / len(rooms)
        top = 16 + 36 * floor
        for place, room in enumerate(rooms):
            left = 20 + wide * place
            color = COLORS[floor % len(COLORS)]
            lines.append(_box(left + 2, top, wide - 4, 30, color, opacity=0.22))
            lines.append(_text(left + wide / 2, top + 20, room, anchor="middle"))
    _write(DOCS / "house.svg", lines, 760, 28 + 36 * len(layers))


def _layers() -> list[list[str]]:
    """Return the packages of each floor, as the contract of imports has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    return [layer.split(" | ") for layer in contract["layers"]]


def _text(x: float, y: float, text: str, *, bold: bool = False, anchor: str = "start") -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'


def _box(x: float, y: float, w: float, h: float, color: str, *, opacity: float = 1.0) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"'
    return f'<rect {place} rx="3" fill="{color}" fill-opacity="{opacity}"/>'


def _write(path: Path, lines: list[str], width: int, height: int) -> None:
    def parts() -> Iterator[str]:
        yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        yield 'font-family="sans-serif" font-size="14" fill="#1b1f24">\n'
        yield f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
        yield from (f"{line}\n" for line in lines)
        yield "</svg>\n"

    path.write_text("".join(parts()), encoding="utf-8")


def main() -> None:
    """Draw all pictures."""
    memory, context = asyncio.run(talk())
    draw_terminal(context)
    draw_turn(context)
    draw_house()
    chromium = os.environ.get("KAOSMEM_CHROMIUM") or shutil.which("chromium")
    if chromium:
        draw_page(memory, chromium)


if __name__ == "__main__":
    main()
