"""Draw the table of recall in `docs/retrieval.md`: `python -m benchmarks.draw_recall`."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PICTURE = DOCS / "recall.svg"
SHOWN = ("the newest items", "the best 50 by BM25", "rank-bm25", "kaosmem, `BM25Ranker`", "**kaosmem**")
OURS, OTHERS = "#0072B2", "#777777"


def recalls() -> tuple[list[int], dict[str, list[float]]]:
    """Return the budgets in tokens, and the recall at each budget for each drawn line of the table."""
    table = re.search(r"(?m)^\| tokens \|.*\n(?:\|.*\n)+", (DOCS / "retrieval.md").read_text())
    assert table
    head, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines())
    found = {name: next(line for line in lines if line[0].startswith(name)) for name in SHOWN}
    return [int(each.replace(",", "")) for each in head[1:]], {
        re.sub(r"[*`]", "", line[0]): [float(each.strip("*")) for each in line[1:]] for line in found.values()
    }


def draw(path: Path = PICTURE) -> None:
    """Draw a line for each way of packing, with its name at its end."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    budgets, lines = recalls()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "kaosmem", "font.size": 10}):
        figure = Figure(figsize=(8, 3.6), layout="constrained")
        axes = figure.subplots()
        for name, values in lines.items():
            colour = OURS if name.startswith("kaosmem") else OTHERS
            axes.plot(budgets, values, color=colour, marker="o", markersize=4, linewidth=2)
            end = budgets[-1], values[-1]
            axes.annotate(
                f"{name}: {values[-1]:.3f}", end, (8, 0), textcoords="offset points", color=colour, va="center"
            )
        axes.set_xscale("log", base=2)
        axes.set_xticks(budgets, [f"{each:,}" for each in budgets])
        axes.set_xlim(right=budgets[-1] * 9)
        axes.set_ylim(0, 1)
        axes.set_xlabel("budget in tokens", loc="left")
        axes.set_ylabel("evidence in the context")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    draw()
