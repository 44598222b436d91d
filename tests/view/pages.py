"""Pages for tests: a session with hostile texts, and a page of many turns."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from kaosmem import SessionMemory
from kaosmem.assembly.why import REASON_MEANINGS
from kaosmem.view.page import PageData, html_page, page_data

HOSTILE = [
    "</script><script>window.pwned=1</script>",
    "<script>window.pwned=1</script>",
    "<!--<script>window.pwned=1</script>",
    "--><svg/onload=window.pwned=1>",
    '"><img src=x onerror=window.pwned=1>',
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "<a href='javascript:window.pwned=1'>click</a>",
    "javascript:window.pwned=1",
    "{{constructor.constructor('window.pwned=1')()}}",
    "${window.pwned=1}",
    "<style>@import 'http://198.51.100.1/x.css';</style>",
    "<link rel=stylesheet href=http://198.51.100.1/x.css>",
    "<meta http-equiv=refresh content='0;url=http://198.51.100.1/'>",
    "<base href=http://198.51.100.1/>",
    "<form action=http://198.51.100.1/><input type=submit></form>",
    "&lt;script&gt;window.pwned=1&lt;/script&gt;",
    "\\u003cscript\\u003ewindow.pwned=1\\u003c/script\\u003e",
    "\u2028window.pwned=1\u2029",
    "]]><script>window.pwned=1</script>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=window.pwned=1>",
    "\0<script>window.pwned=1</script>",
    "\u202e\u2066<b>window.pwned=1</b>",
]
"""Texts that run a script, or ask another host, where a page takes them for markup."""


async def hostile_page():
    """Return the page of a session in which every field that a caller chooses is hostile."""
    memory = SessionMemory.test_mode(trace=True)
    for text in HOSTILE:
        memory.add("messages", text)
        metadata = {"source": text, "quotes": [text]}
        item = memory.add("findings", text, id=_id_of(text), key="fact", metadata=metadata)
        memory.add("documents", f"Made of: {text}", sources=[item.id], tags=[text])
        name = _id_of(text)
        parts = {"source": f"a {name}", "target": f"b {name}", "type": name}
        memory.graph.add(relationships=[parts])
        await memory.assemble_context(text, budget=2_000)
        await memory.assemble_context(budget=2_000, format="openai", window="main")
    return page_data(memory._session)


def _id_of(text):
    return "".join(char for char in text if char.isprintable())[:200]


def many_turns(turns, offered):
    """Return a page of many turns, each with so many decisions."""
    items = {}
    for number in range(5_000):
        items[f"item-{number:012d}"] = {
            "section": "documents",
            "state": "live",
            "text": f"Passage {number} of the manual says how to mend part {number % 97}. " * 4,
            "tokens": 60,
            "date": "2026-01-05T00:00:00",
            "from": "2026-01-05T00:00:00",
            "trust": "tool",
            "source": f"manual-{number % 40}.pdf",
        }
    names = list(items)
    lines = []
    data = {}
    for turn in range(1, turns + 1):
        chosen = [names[(turn * 7 + place) % len(names)] for place in range(offered)]
        rows = []
        for place, name in enumerate(chosen):
            reason = "relevant" if place < 20 else "no_room"
            lacking = None if place < 20 else place
            score = 100.0 / (place + 1)
            rows.append(
                [name, "documents", reason, place + 1, score, 60, lacking, None, [0.5, 0.1]]
            )
        lines.append(
            {
                "n": turn,
                "at": "2026-01-05T00:00:00+00:00",
                "seconds": 0.01,
                "query": f"How do I mend part {turn}?",
                "budget": 4_000,
                "used": 1_400,
                "frame": 20,
                "prefix_tokens": 700,
                "window": "main",
                "epoch": 1 + turn // 100,
                "rebased": "full" if turn % 100 == 0 else None,
                "appended": 700,
                "sections": {"documents": [1_380, 20]},
                "erased": False,
            }
        )
        data[turn] = {
            "shown": [[name, "0" * 16] for name in chosen[:20]],
            "signals": ["words", "phrases"],
            "decisions": rows,
            "request": {"form": "\00", "parts": [[[chosen[0], 0, 0, 40]]], "sha256": ""},
        }
    about = {
        "id": "many",
        "sections": ["documents"],
        "reasons": dict(REASON_MEANINGS),
        "live": False,
        "turns": lines,
    }
    return PageData(about, items, data)


def write(data, path):
    """Write a page to a file, and return its address."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(html_page(data))
    return path.as_uri()


def hostile_file(path):
    """Write the hostile page, and return its address. The browser's driver has the thread's loop."""
    with ThreadPoolExecutor(1) as thread:
        data = thread.submit(lambda: asyncio.run(hostile_page())).result()
    return write(data, path)
