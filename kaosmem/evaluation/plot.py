"""A report as a picture: recall, fill and time against the budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kaosmem.errors import InvalidArgumentError, MissingExtraError
from kaosmem.names import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kaosmem.evaluation.evidence import PathLike
    from kaosmem.evaluation.report import Figures, Report

SUFFIXES = (".png", ".svg", ".pdf")

# Okabe & Ito's colours, told apart by people of any colour vision; the markers tell lines apart in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = "osD^vP"

# A coarse clock may see no time pass, and zero has no place on a logarithmic axis.
_LEAST_MS = 0.001


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    label: str
    value: Callable[[Figures], float | None]
    scale: Literal["share", "log"] = "share"


_PANELS = (
    _Panel("Recall", "share of the evidence in the context", lambda figures: figures.recall),
    _Panel("Fill", "share of the budget used", lambda figures: figures.fill),
    _Panel("Time", "median ms of an assembly", lambda figures: max(_LEAST_MS, figures.median_ms or 0), "log"),
)


def check_plot(path: PathLike) -> Path:
    """Return the path of a picture that can be drawn. Raises InvalidArgumentError or MissingExtraError."""
    checked = Path(path)
    if checked.suffix.lower() not in SUFFIXES:
        raise InvalidArgumentError(f"no picture format {shown(checked.suffix)}; end the name in {', '.join(SUFFIXES)}")
    try:
        import matplotlib.figure  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtraError("a plot needs the extra 'plot': pip install 'kaosmem[plot]'") from None
    return checked


def save_plot(report: Report, path: PathLike) -> None:
    """Draw a report's recall, fill and time against the budget, a line for each assembler, to a PNG, SVG or PDF.

    Raises InvalidArgumentError, MissingExtraError, and OSError where the file can't be written.
    """
    checked = check_plot(path)
    from matplotlib import rc_context

    # Without a date or random ids, so that the same report gives the same file.
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with rc_context({"svg.hashsalt": "kaosmem"}):
        draw(report).savefig(checked, dpi=160, metadata=undated.get(checked.suffix.lower(), {}))


def draw(report: Report) -> Figure:
    """Return the picture as a figure that belongs to no window."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.6), layout="constrained")
    axes = figure.subplots(1, len(_PANELS), width_ratios=(1.5, 1, 1))
    for panel, panel_axes in zip(_PANELS, axes, strict=True):
        _draw_panel(panel, panel_axes, report)
    asked = f"{report.questions:,} questions on {sum(report.corpora.values()):,} items"
    over = f", mean of {len(report.datasets):,} data sets" if len(report.datasets) > 1 else ""
    figure.suptitle(asked + over, fontsize="medium")
    lines, names = axes[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=min(6, len(names)), frameon=False)
    return figure


def _draw_panel(panel: _Panel, axes: Axes, report: Report) -> None:
    for assembler, colour, marker in zip(report.assemblers, cycle(_COLOURS), cycle(_MARKERS), strict=False):
        values = [panel.value(report.figures(assembler, budget)) for budget in report.budgets]
        drawn = [nan if value is None else value for value in values]
        axes.plot(report.budgets, drawn, label=assembler.replace("$", r"\$"), color=colour, marker=marker)
    axes.set_title(panel.title, loc="left", fontweight="bold")
    axes.set_xlabel("budget, tokens (logarithmic)")
    axes.set_ylabel(panel.label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(report.budgets, [f"{budget:,}" for budget in report.budgets], minor=False)
    axes.tick_params("x", rotation=45 if len(report.budgets) > 5 else 0)
    axes.minorticks_off()
    if panel.scale == "share":
        axes.set_ylim(-0.02, 1.05)
    else:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
