"""Draw the pictures of `docs/` from the tables beside them: `python -m benchmarks.draw_pictures`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
RECALL, TURN = DOCS / "recall.svg", DOCS / "turn.svg"
SHOWN = (
    "the newest items",
    "the best 50 by BM25",
    "rank-bm25",
    "kaosmem, `BM25Ranker`",
    "**kaosmem**",
)
OURS, OTHERS = "#0072B2", "#777777"


def recalls() -> tuple[list[int], dict[str, list[float]]]:
    """Return the budgets in tokens, and the recall at each budget for each drawn line of the table."""
    head, *lines = _table("retrieval.md", "tokens")
    found = {name: next(line for line in lines if line[0].startswith(name)) for name in SHOWN}
    return [int(each.replace(",", "")) for each in head[1:]], {
        re.sub(r"[*`]", "", line[0]): [float(each.strip("*")) for each in line[1:]]
        for line in found.values()
    }


def turns() -> dict[str, float]:
    """Return the milliseconds of a turn among 10,000 items by packer."""
    head, *lines = _table("performance.md", "items")
    line = next(line for line in lines if line[0] == "10,000")
    return {
        name.replace("`", ""): float(each.removesuffix(" ms"))
        for name, each in zip(head[1:], line[1:], strict=True)
    }


def draw_recall(path: Path = RECALL) -> None:
    """Draw a line for each way of packing, with its name at its end."""
    budgets, lines = recalls()
    with _axes(path, 3.6) as axes:
        for name, values in lines.items():
            colour = OURS if name.startswith("kaosmem") else OTHERS
            axes.plot(budgets, values, color=colour, marker="o", markersize=4, linewidth=2)
            end = budgets[-1], values[-1]
            axes.annotate(
                f"{name}: {values[-1]:.3f}",
                end,
                (8, 0),
                textcoords="offset points",
                color=colour,
                va="center",
            )
        axes.set_xscale("log", base=2)
        axes.set_xticks(budgets, [f"{each:,}" for each in budgets])
        axes.set_xlim(right=budgets[-1] * 9)
        axes.set_ylim(0, 1)
        axes.set_xlabel("budget in tokens", loc="left")
        axes.set_ylabel("evidence in the context")


def draw_turn(path: Path = TURN) -> None:
    """Draw a bar for each packer, with its time at its end."""
    times = turns()
    with _axes(path, 1.9) as axes:
        names = list(times)[::-1]
        colours = [OTHERS if "rebuilt" in name else OURS for name in names]
        bars = axes.barh(names, [times[name] for name in names], color=colours, height=0.6)
        axes.bar_label(bars, [f"{times[name]:g} ms" for name in names], padding=4)
        axes.set_xlim(right=1.15 * max(times.values()))
        axes.set_xlabel("CPU time of a turn among 10,000 items", loc="left")
        axes.tick_params(left=False)


def _table(page: str, first: str) -> list[list[str]]:
    """Return the cells of the table of a page whose first heading is given, without the line below its head."""
    table = re.search(
        rf"(?m)^\| {first} \|.*\n(?:\|.*\n)+", (DOCS / page).read_text(encoding="utf-8")
    )
    assert table
    head, _, *lines = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines()
    )
    return [head, *lines]


@contextmanager
def _axes(path: Path, inches: float) -> Iterator[Any]:
    """Give axes of a height, and save them as a picture that is legible on any page."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "kaosmem", "font.size": 10}):
        figure = Figure(figsize=(8, inches), layout="constrained")
        axes = figure.subplots()
        yield axes
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    draw_recall()
    draw_turn()
